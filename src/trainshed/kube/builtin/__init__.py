"""The built-in kinds: their rows, defaults, validation and printed columns."""
