"""Kinds of storage.k8s.io, one file each."""
