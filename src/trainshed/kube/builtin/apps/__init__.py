"""Kinds of apps, one file each."""
