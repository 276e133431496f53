"""Garbage collection while tests run: nothing of what collecting the tests has made is looked at again.

Thousands of tests and the modules under them are some millions of objects that live until the end. A full collection
walks them all, and was a third of the time of `tests/unit`.
"""

from __future__ import annotations

import gc

import pytest

THRESHOLD = 20_000
"""New objects between two collections; Python's own 700 suits small heaps."""


def pytest_configure(config: pytest.Config) -> None:
    """Collect nothing while modules are loaded."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Put what is there aside: only what the tests themselves leave is collected."""
    gc.freeze()
    gc.set_threshold(THRESHOLD, 10, 10)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Collect what tests have left, once: pytest does so twice, to hear what ends in an error, and finds it done."""
    gc.collect()
    gc.freeze()
