"""Fixtures of the in-process tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.api_world import World, open_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An API server with an empty cluster."""
    async with open_world(tmp_path) as world:
        yield world
