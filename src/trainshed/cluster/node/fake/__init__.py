"""Nodes that are not there, for tests of scale: pods go through stages that are data, and run nothing."""
