"""Kinds of coordination.k8s.io, one file each."""
