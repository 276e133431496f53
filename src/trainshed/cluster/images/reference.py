"""Names of images: registry, repository, tag, digest. Pure.

The grammar and the defaults are those of github.com/distribution/reference, which every client of registries follows:
`busybox` is `docker.io/library/busybox:latest`.
"""

from __future__ import annotations

import re

import msgspec

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*"
_DOMAIN = rf"(?:{_HOST}|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
DEFAULT_DOMAIN = "docker.io"
_OLD_DOMAIN = "index.docker.io"
_OFFICIAL = "library/"
_PATH_LIMIT = 255
LATEST = "latest"


class InvalidReference(ValueError):
    """The text is no name of an image."""


class Reference(msgspec.Struct, frozen=True, order=True):
    """A name of an image in full. `tag` is empty where only a digest was given, `digest` mostly."""

    domain: str
    path: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        """Return the full name, as the store writes it."""
        return f"{self.repository}{self._suffix()}"

    @property
    def repository(self) -> str:
        return f"{self.domain}/{self.path}"

    @property
    def familiar(self) -> str:
        """The short form that people write: without the default registry."""
        return f"{self.familiar_repository}{self._suffix()}"

    @property
    def familiar_repository(self) -> str:
        if self.domain != DEFAULT_DOMAIN:
            return self.repository
        return self.path.removeprefix(_OFFICIAL) if self.path.count("/") == 1 else self.path

    def _suffix(self) -> str:
        return (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def parse(text: str) -> Reference:
    """Return the reference in full. Raises InvalidReference."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise InvalidReference(f'couldn\'t parse image name "{text}": invalid reference format')
    domain, slash, path = found["name"].partition("/")
    # `me/app`: the first part is a registry only if it cannot be a user.
    if not slash or not (set(".:") & set(domain) or domain == "localhost" or domain != domain.lower()):
        domain, path = DEFAULT_DOMAIN, found["name"]
    domain = DEFAULT_DOMAIN if domain == _OLD_DOMAIN else domain
    if domain == DEFAULT_DOMAIN and "/" not in path:
        path = f"{_OFFICIAL}{path}"
    if len(path) > _PATH_LIMIT:
        raise InvalidReference(f"repository name must not be more than {_PATH_LIMIT} characters")
    tag, digest = found["tag"] or "", found["digest"] or ""
    return Reference(domain, path, tag or ("" if digest else LATEST), digest)


def is_digest(text: str) -> bool:
    """Return whether the text is a digest that the store can hold."""
    return re.fullmatch(r"sha256:[0-9a-f]{64}", text) is not None
