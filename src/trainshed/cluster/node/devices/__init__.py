"""Devices of the machine that pods can ask for."""
