"""Kinds of authorization.k8s.io, one file each."""
