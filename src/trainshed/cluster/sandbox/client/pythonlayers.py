"""The Python environment that containers share with the control plane, where their root would hide it."""

from __future__ import annotations

import sys

from trainshed.cluster.sandbox import bootstrap
from trainshed.cluster.sandbox.fresh import FRESH
from trainshed.cluster.sandbox.model import Layer


def python_layers() -> tuple[Layer, ...]:
    """Return this Python's directories that lie where a container has empty ones (/tmp, /run, /var/tmp).

    Layers, not read-only mounts: a pod may `pip install` into them as into any other.
    """
    source = bootstrap.source_directory()
    found: list[Layer] = []
    for path in dict.fromkeys((sys.prefix, sys.base_prefix, source)):
        inside = [path.startswith(fresh + "/") for fresh in FRESH]
        covered = any(path == layer.path or path.startswith(layer.path + "/") for layer in found)
        if any(inside) and not covered:
            found.append(Layer(source=path, path=path))
    return tuple(found)
