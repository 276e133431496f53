"""What the disk did to the store, kept beside it for `trainshed status` and `trainshed doctor`."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec


class Damage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What could not be read. `keys` are quarantined objects; `lost` is how many of the last writes are gone."""

    keys: tuple[str, ...] = ()
    lost: int = 0

    def __bool__(self) -> bool:
        return bool(self.keys or self.lost)


def file_of(store: Path) -> Path:
    """Return where the report of a store lies."""
    return store.with_name(f"{store.name}-damage.json")


def read_report(store: Path) -> Damage:
    """Return what was found when the store was last opened."""
    try:
        return msgspec.json.decode(file_of(store).read_bytes(), type=Damage)
    except (OSError, msgspec.DecodeError):
        return Damage()


def write_report(store: Path, damage: Damage) -> None:
    """Keep the report, or remove it when there is nothing to tell. A full disk is no reason to fail."""
    path = file_of(store)
    try:
        if damage:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(damage))
        else:
            path.unlink(missing_ok=True)
    except OSError:
        pass
