"""Errors of volumes."""

from __future__ import annotations


class MountError(Exception):
    """A volume cannot be set up (yet). The pod waits; its FailedMount event carries this text."""


class ClaimPending(MountError):
    """The claim is about to be bound: normal for a moment after a pod that is its first consumer."""
