"""Measurements. Not tests: they print a table of ratios and medians, and never fail a build."""
