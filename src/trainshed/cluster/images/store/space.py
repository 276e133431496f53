"""How much of the disk images may take, and what goes when they take more: the least recently used first.

Thresholds as of a kubelet (pkg/kubelet/images/image_gc_manager.go, v1.33), but of a budget instead of the whole disk: a
laptop's disk is full of other things. Only what can be had again goes: images that were pulled, and layers that builds
remember. The choice is pure.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec

MIN_AGE_SECONDS = 120.0
"""What was used that long ago at most stays (imageMinimumGCAge)."""
_SHARE = 2
"""Of its file system, one in so many parts is the budget of images where nobody stated one."""

Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]


class Space(msgspec.Struct, frozen=True):
    """A budget in bytes, 0 for half of the file system; above `high` percent of it, images go until `low` is left."""

    bytes: int = 0
    high: Percent = 85
    low: Percent = 80

    def budget(self, root: Path) -> int:
        """Return the bytes that images below this directory may take."""
        if self.bytes:
            return self.bytes
        while not root.exists():
            root = root.parent
        found = os.statvfs(root)
        return found.f_blocks * found.f_frsize // _SHARE

    def excess(self, used: int, budget: int) -> int:
        """Return how many bytes have to go, 0 while the budget's high threshold is not reached."""
        return used - budget * self.low // 100 if budget and used * 100 >= budget * self.high else 0


class Item(msgspec.Struct, frozen=True):
    """Something that goes as a whole: an image by its digest, or what a step of a build led to, by its file.

    `parts` are blobs and unpacked layers, which others may have, too; `kept` says why it stays, empty for what may go.
    """

    name: str
    parts: frozenset[str]
    used_at: float = 0.0
    kept: str = ""
    is_step: bool = False


class Chosen(msgspec.Struct, frozen=True):
    """What is to go, and how many bytes that frees."""

    items: tuple[Item, ...] = ()
    bytes: int = 0


def first_to_go(items: Iterable[Item], sizes: Mapping[str, int], excess: int, before: float) -> Chosen:
    """Return what frees at least `excess` bytes, or all that may go: the least recently used, none used since `before`.

    A part takes `sizes[part]` bytes until the last that has it is gone. What would free nothing stays.
    """
    known = list(items)
    holders = Counter(part for item in known for part in item.parts)
    chosen: list[Item] = []
    freed = 0
    for item in sorted((i for i in known if not i.kept and i.used_at < before), key=lambda i: i.used_at):
        if freed >= excess:
            break
        chosen.append(item)
        holders.subtract(item.parts)
        freed += sum(sizes.get(part, 0) for part in item.parts if not holders[part])
    return Chosen(tuple(i for i in chosen if any(not holders[part] for part in i.parts)), freed)


def read_space(file: Path) -> Space:
    """Return the budget that was kept, or the usual one where none was or it cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Space)
    except (OSError, msgspec.MsgspecError):
        return Space()
