"""What a container's root has empty, whatever the machine's or an image's has there."""

FRESH = ("/tmp", "/run", "/var/tmp")
