"""Kinds of policy, one file each."""
