"""The one error of volumes."""

from __future__ import annotations


class MountError(Exception):
    """A volume cannot be set up (yet). The pod waits; its FailedMount event carries this text."""
