"""The processes behind sandboxes: sandboxd, shims and netd. Standard library only."""
