"""Fixtures of the tests with sockets and processes."""

from __future__ import annotations

from tests.cluster.api_world import world

__all__ = ("world",)
