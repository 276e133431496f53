"""ADD of an address: fetched once, bounded, and compared with its checksum."""

from __future__ import annotations

import hashlib
import posixpath
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import msgspec

from trainshed.cluster.images.build.errors import StepError

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


def download(url: str, checksum: str, directory: Path) -> Fetched:
    """Return the content of an address in a file of the directory. Raises StepError.

    `checksum` is `sha256:<hex>`, or empty. Proxies are those of the environment.
    """
    if checksum and not checksum.startswith("sha256:"):
        raise StepError(f"--checksum={checksum}: must be sha256:<hex>")
    name = posixpath.basename(urllib.parse.urlsplit(url).path)
    if not name or name in (".", ".."):
        raise StepError(f"{url}: names no file")
    place = directory / f"fetched-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
    digest, size = hashlib.sha256(), 0
    try:
        opened = urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS)  # noqa: S310 - http and https, by is_url
        with opened as answer, place.open("wb") as file:
            while data := answer.read(_CHUNK):
                size += len(data)
                if size > MAX_BYTES:
                    raise StepError(f"{url}: more than {MAX_BYTES >> 30} GiB")
                digest.update(data)
                file.write(data)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise StepError(f"{url}: {error}") from error
    if checksum and checksum != f"sha256:{digest.hexdigest()}":
        raise StepError(f"{url}: what came is sha256:{digest.hexdigest()}, not {checksum}")
    return Fetched(urllib.parse.unquote(name).replace("/", "_"), place, digest.hexdigest())
