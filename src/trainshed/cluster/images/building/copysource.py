"""What a COPY or an ADD brings, as an archive."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from typing import IO

from trainshed.cluster.images.building.download import Fetched
from trainshed.cluster.images.dockerfile.steps import (
    CopyStep,
)


def archive_of(target: IO[bytes]) -> tarfile.TarFile:
    """Return an archive that is written into `target`."""
    return tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape")


def write_others(step: CopyStep, fetched: Sequence[Fetched], archive: tarfile.TarFile) -> None:
    """Add here-documents of a COPY and what an ADD has fetched."""
    for name, content in step.documents:
        data = content.encode("utf-8", "surrogateescape")
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(data), 0o644
        archive.addfile(member, io.BytesIO(data))
    for each in fetched:
        member = tarfile.TarInfo(each.name)
        member.size, member.mode = each.path.stat().st_size, 0o600
        with each.path.open("rb") as file:
            archive.addfile(member, file)
