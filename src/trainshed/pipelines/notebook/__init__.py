"""From the bytes of a notebook to its steps: cells, tags, settings, merging. Nothing here looks into the code."""
