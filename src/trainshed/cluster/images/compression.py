"""Layers as plain archives, however they are compressed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import IO, Protocol, cast

from trainshed.cluster.images.oci import InvalidImage

CHUNK = 1 << 20


class _Source(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


def decompressed(source: _Source, compression: str) -> Iterator[bytes]:
    """Yield the archive in pieces of at most a MiB. Raises InvalidImage."""
    if compression == "gzip":
        yield from _gunzip(source)
    elif compression == "zstd":
        yield from _unzstd(source)
    else:
        while data := source.read(CHUNK):
            yield data


def sniff(head: bytes) -> str:
    """Return the compression that the first bytes of a file tell: `gzip`, `zstd` or none."""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    return "zstd" if head.startswith(b"\x28\xb5\x2f\xfd") else ""


def _gunzip(source: _Source) -> Iterator[bytes]:
    """Yield what any number of gzip members hold (RFC 1952, 2.2)."""
    pending, began, finished = b"", False, True
    machine = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        while data := pending or source.read(CHUNK):
            if finished and began:
                if not data.strip(b"\0"):  # padding, as tapes have it
                    pending = b""
                    continue
                machine = zlib.decompressobj(16 + zlib.MAX_WBITS)
            began, finished = True, False
            if piece := machine.decompress(data, CHUNK):
                yield piece
            pending = machine.unconsumed_tail
            if machine.eof:
                finished, pending = True, machine.unused_data
        while not finished and (piece := machine.decompress(machine.unconsumed_tail, CHUNK)):
            yield piece
    except zlib.error as error:
        raise InvalidImage(f"a layer is not gzip that can be read: {error}") from error
    if not began or not (finished or machine.eof):
        raise InvalidImage("a layer ends before its gzip does")


def _unzstd(source: _Source) -> Iterator[bytes]:
    import zstandard

    # A window of more than 128 MiB is memory that a layer makes its reader take (RFC 8878, 3.1.1.1.2).
    machine = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    try:
        with machine.stream_reader(cast(IO[bytes], source), read_across_frames=True, closefd=False) as reader:
            while data := reader.read(CHUNK):
                yield data
    except zstandard.ZstdError as error:
        raise InvalidImage(f"a layer is not zstd that can be read: {error}") from error
