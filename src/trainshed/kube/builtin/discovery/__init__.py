"""Kinds of discovery.k8s.io, one file each."""
