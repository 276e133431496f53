"""A stage that was built: its layers on a base, and how containers of it run."""

from __future__ import annotations

import msgspec

from trainshed.cluster.images.building.base import Base
from trainshed.cluster.images.building.cache import Layer
from trainshed.cluster.images.oci import History, RunConfig


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that was built."""

    base: Base
    layers: tuple[Layer, ...]
    config: RunConfig
    history: tuple[History, ...]
    author: str = ""

    @property
    def machine(self) -> bool:
        return self.base.machine

    @property
    def identity(self) -> list[str]:
        """What tells its root from others."""
        return [self.base.key, *(layer.diff_id for layer in self.layers)]


def from_base(base: Base) -> Built:
    """Return a stage of nothing but its base."""
    return Built(base=base, layers=base.layers, config=base.config, history=base.history)
