"""ADD of an address: fetched once, bounded, and compared with its checksum."""

from __future__ import annotations

import hashlib
import posixpath
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import msgspec

from trainshed.cluster.images.building.errors import StepError

MAX_BYTES = 16 << 30
TIMEOUT_SECONDS = 60.0
_CHUNK = 1 << 20


class Fetched(msgspec.Struct, frozen=True):
    """A file that was fetched, the name that it gets, and the digest of its content."""

    name: str
    path: Path
    digest: str


def is_url(source: str) -> bool:
    """Return whether a source is fetched."""
    return source.startswith(("http://", "https://"))


def download(url: str, checksum: str, directory: Path, target: str) -> Fetched:
    """Return the content of an address in a file of the directory. Raises StepError.

    `checksum` is `sha256:<hex>`, or empty. Where the address has no name to end with the file has the one of `target`.
    Proxies are those of the environment.
    """
    if checksum and not checksum.startswith("sha256:"):
        raise StepError(f"--checksum={checksum}: must be sha256:<hex>")
    path = urllib.parse.urlsplit(url).path.rstrip("/") or target
    name = urllib.parse.unquote(posixpath.basename(path)).replace("/", "_")
    if not name or name in (".", ".."):
        raise StepError(f"{url}: names no file; the target has to end with a name")
    place = directory / f"fetched-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
    digest, size = hashlib.sha256(), 0
    try:
        answered = urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS)  # noqa: S310 - see `is_url`
        with answered as answer, place.open("wb") as file:
            while data := answer.read(_CHUNK):
                size += len(data)
                if size > MAX_BYTES:
                    raise StepError(f"{url}: more than {MAX_BYTES >> 30} GiB")
                digest.update(data)
                file.write(data)
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None)  # of URLError: in its own text it is in angle brackets
        raise StepError(f"{url}: {why if isinstance(why, OSError) else error}") from error
    if checksum and checksum != f"sha256:{digest.hexdigest()}":
        raise StepError(f"{url}: what came is sha256:{digest.hexdigest()}, not {checksum}")
    return Fetched(name, place, digest.hexdigest())
