"""Kinds of admissionregistration.k8s.io, one file each."""
