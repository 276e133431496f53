"""Kinds of events.k8s.io, one file each."""
