"""Pipelines from functions."""
