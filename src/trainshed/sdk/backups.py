"""Backups of the local cluster's objects: taken while it runs or not, put back while it does not."""

from __future__ import annotations

import asyncio
import gzip
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from trainshed.client.config import connect, load_kubeconfig
from trainshed.client.transport import TransportError
from trainshed.cluster.apiserver.nonresource import BACKUP_PATH
from trainshed.cluster.control import launcher
from trainshed.cluster.paths import StatePaths
from trainshed.cluster.store import Store, StoreError
from trainshed.cluster.store import backup as backups
from trainshed.kube.meta.errors import ApiError
from trainshed.sdk.errors import UserError

_LEVEL = 6


def backup(paths: StatePaths, file: Path) -> int:
    """Write all objects to `file`, which only its owner may read; return how many. An older file is replaced.

    Raises:
        UserError: there is no cluster, or something cannot be read or written. The older file is then as it was.
    """
    if not paths.store.exists():
        raise UserError(f"there is no cluster in {paths.root}", "trainshed up makes one")
    lines = asyncio.run(_running_lines(paths) if launcher.running(paths) else _resting_lines(paths))
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        _write(temporary, lines)
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"cannot write {file}: {error.strerror}", "choose another place") from error
    return len(lines) - 1


def restore(paths: StatePaths, file: Path) -> tuple[int, Path | None]:
    """Put the objects of `file` in the place of the cluster's; return how many, and where the old store is now.

    Raises:
        UserError: the cluster runs, the file is no whole backup, or the state directory cannot be written.
    """
    if launcher.running(paths) is not None:
        raise UserError("the cluster runs", "trainshed down stops it")
    try:
        with gzip.open(file, "rb") as lines:
            found = backups.read(lines)
        paths.prepare()
        kept = backups.restore(paths.store, found)
    except backups.BackupError as error:
        raise UserError(f"{file} cannot be used: {error}", "take another backup") from error
    except StoreError as error:
        raise UserError(error.message, error.hint) from error
    except (OSError, EOFError, sqlite3.Error) as error:
        raise UserError(f"cannot restore {file}: {error}", "make room, or choose another file") from error
    return found.header.objects, kept


def _write(path: Path, lines: Iterable[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as raw:
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=_LEVEL) as out:
            for line in backups.sealed(lines):
                out.write(line)
        raw.flush()
        os.fsync(descriptor)


async def _running_lines(paths: StatePaths) -> list[bytes]:
    client = connect(load_kubeconfig(paths.kubeconfig))
    try:
        return (await client.raw_get(BACKUP_PATH)).splitlines(keepends=True)
    except (ApiError, TransportError) as error:
        raise UserError(f"the cluster gives no backup: {error}", "trainshed status") from error
    finally:
        await client.close()


async def _resting_lines(paths: StatePaths) -> list[bytes]:
    try:
        store = await Store.open(paths.store)
    except StoreError as error:
        raise UserError(error.message, error.hint) from error
    try:
        return list(backups.dump(*store.list("/")))
    finally:
        await store.close()
