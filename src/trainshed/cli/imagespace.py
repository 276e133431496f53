"""How much of the disk images may take: read from options, kept, and told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trainshed.cluster.images.store.space import read_space
from trainshed.cluster.paths import StatePaths, write_private
from trainshed.kube.meta import quantity
from trainshed.sdk.errors import UserError

if TYPE_CHECKING:
    from trainshed.sdk.local import ImageUse

_UNITS = ("B", "KB", "MB", "GB", "TB")


def keep(space: str, high: int | None, low: int | None) -> None:
    """Keep what was said of the budget of images for this and later starts; nothing where nothing was said.

    It holds from the next look on, also where the cluster runs. Raises UserError or StateError.
    """
    if not space and high is None and low is None:
        return
    file = StatePaths.default().prepare().image_space
    before = read_space(file)
    said = msgspec.structs.replace(
        before,
        bytes=size(space, "--image-space") if space else before.bytes,
        high=before.high if high is None else high,
        low=before.low if low is None else low,
    )
    if said.low >= said.high:
        raise UserError(
            f"--image-gc-low-threshold {said.low} must be less than --image-gc-high-threshold {said.high}",
            "images go above the high one, until the low one is reached",
        )
    write_private(file, msgspec.json.encode(said))


def size(text: str, option: str) -> int:
    """Return the bytes of a quantity as Kubernetes has them. Raises UserError, naming the option."""
    try:
        found = int(quantity.parse(text))
    except ValueError as error:
        raise UserError(f"{option} {text}: {error}", "write it as 40Gi or 500M") from error
    if found <= 0:
        raise UserError(f"{option} {text} is no size", "write it as 40Gi or 500M")
    return found


def use_text(use: ImageUse) -> str:
    """Return in a few words what images take of the disk, and of what they may."""
    went = f", {size_text(use.reclaimable_bytes)} of it can go" if use.reclaimable_bytes else ""
    return f"{size_text(use.bytes)} on disk{went}; {size_text(use.budget_bytes)} are theirs"


def size_text(size: float) -> str:
    """Return a size as tables of images have it: 1.2MB, in powers of 1000."""
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.0f}{unit}" if unit == "B" else f"{size:.3g}{unit}"
        size /= 1000
    return ""
