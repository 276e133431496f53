"""Kinds of networking.k8s.io, one file each."""
