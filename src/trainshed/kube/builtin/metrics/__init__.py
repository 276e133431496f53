"""Kinds of metrics.k8s.io, one file each."""
