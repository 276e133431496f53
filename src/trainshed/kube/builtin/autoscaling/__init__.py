"""Kinds of autoscaling, one file each."""
