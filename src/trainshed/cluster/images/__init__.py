"""Images: what stands behind the name that a container gives."""
