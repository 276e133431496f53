"""Kinds of certificates.k8s.io, one file each."""
