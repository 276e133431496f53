"""Kinds of scheduling.k8s.io, one file each."""
