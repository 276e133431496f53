"""What the code of a step defines, reads and changes: IPython's syntax → Python's → names, by scope and by flow."""
