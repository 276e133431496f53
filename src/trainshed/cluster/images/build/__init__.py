"""Builds images of Dockerfiles, without a daemon: what `images.dockerfile` has planned is done here."""
