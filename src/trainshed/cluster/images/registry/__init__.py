"""Registries of images: the client's side of the distribution specification (OCI distribution-spec 1.1)."""
