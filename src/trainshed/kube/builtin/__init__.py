"""The built-in kinds: one file each by family, what they share in `parts`, the list of them in `registry`."""
