"""State directories and namespaces that are a test's own, and that are gone after it."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainshed.sdk.blocking import Cluster


@contextmanager
def temporary_home() -> Iterator[Path]:
    """Yield a state directory for one cluster, not made yet; whatever is left of the cluster is purged at the end."""
    # A short path: socket names must fit into 107 bytes.
    root = Path(tempfile.mkdtemp(prefix="ts-"))
    home = root / "home"
    try:
        yield home
    finally:
        try:
            with Cluster(home=str(home)) as cluster:
                cluster.down(purge=True)
        finally:
            shutil.rmtree(root, ignore_errors=True)


def namespace_for(test: str) -> str:
    """Return a new name of a namespace that tells which test it is of."""
    words = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")
    return f"{words[:50].strip('-')}-{os.urandom(2).hex()}"
