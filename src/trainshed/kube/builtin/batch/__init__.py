"""Kinds of batch, one file each."""
