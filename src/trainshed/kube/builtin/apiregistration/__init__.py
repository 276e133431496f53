"""Kinds of apiregistration.k8s.io, one file each."""
