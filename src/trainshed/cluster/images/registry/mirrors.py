"""From where an image is fetched: mirrors first, then its own registry, as podman's and docker's settings have it.

    $CONTAINERS_REGISTRIES_CONF, else ~/.config/containers/registries.conf, else /etc/containers/registries.conf
    /etc/docker/daemon.json, `registry-mirrors`, for Docker Hub

Source: containers-registries.conf(5), version 2 of the format; docs.docker.com, "Registry as a pull through cache".
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainshed.cluster.images.reference import DEFAULT_DOMAIN, InvalidReference, Reference, parse
from trainshed.cluster.images.registry.errors import RegistryError

_CONF = "containers/registries.conf"
_DOCKER = Path("/etc/docker/daemon.json")


class Endpoint(msgspec.Struct, frozen=True):
    """Where to ask, and under which name there. `insecure`: certificates are not looked at, plain HTTP will do."""

    name: Reference
    insecure: bool = False


def endpoints(
    name: Reference, settings: Mapping[str, Any], hub_mirrors: Sequence[str] = ()
) -> tuple[Endpoint, ...]:
    """Return where an image may be fetched, in order; the last is its registry's own location. Pure.

    `settings` is a `registries.conf`, `hub_mirrors` addresses of mirrors of Docker Hub. Raises RegistryError.
    """
    found: list[Endpoint] = []
    registry = _registry_of(name, settings)
    if registry.get("blocked"):
        raise RegistryError(f"{name.familiar}: its registry is blocked by registries.conf")
    prefix = str(registry.get("prefix") or registry.get("location") or "").removeprefix("*.")
    for mirror in registry.get("mirror") or ():
        only = mirror.get("pull-from-mirror", "all")
        if only == "all" or only == ("digest-only" if name.digest else "tag-only"):
            found.append(_endpoint(name, prefix, mirror))
    if name.domain == DEFAULT_DOMAIN:
        for address in hub_mirrors:
            scheme, _, host = address.rpartition("://")
            found.append(_at(name, f"{host.rstrip('/')}/{name.path}", insecure=scheme == "http"))
    return (*found, _endpoint(name, prefix, registry))


def of_machine(name: Reference, environ: Mapping[str, str] | None = None) -> tuple[Endpoint, ...]:
    """Return where this machine fetches an image. Raises RegistryError where the settings cannot be read."""
    settings = settings_of_machine(os.environ if environ is None else environ)
    text = _text(_DOCKER)
    docker = _decoded(_DOCKER, text, json.loads) if text is not None else {}
    try:
        return endpoints(name, settings, docker.get("registry-mirrors") or ())
    except (AttributeError, TypeError) as error:
        raise RegistryError(f"the settings of registries are malformed: {error}") from error


def settings_of_machine(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the `registries.conf` that counts, empty without one. Raises RegistryError where it cannot be read."""
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or "~").expanduser() / ".config")
    chosen = environ.get("CONTAINERS_REGISTRIES_CONF")
    for file in [Path(chosen)] if chosen else [home / _CONF, Path("/etc") / _CONF]:
        if (text := _text(file)) is not None:
            import tomllib  # few machines have such a file

            return _decoded(file, text, tomllib.loads)
    return {}


def _registry_of(name: Reference, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entry whose prefix is the longest that fits; an empty one where none does."""
    best: Mapping[str, Any] = {}
    length = -1
    for entry in settings.get("registry") or ():
        prefix = str(entry.get("prefix") or entry.get("location") or "")
        if prefix.startswith("*."):
            fits = name.domain.endswith(prefix[1:])
        else:
            fits = name.repository == prefix or name.repository.startswith(f"{prefix}/")
        if prefix and fits and len(prefix) > length:
            best, length = entry, len(prefix)
    return best


def _endpoint(name: Reference, prefix: str, entry: Mapping[str, Any]) -> Endpoint:
    location = str(entry.get("location") or "")
    if not location or location == prefix:
        return Endpoint(name, bool(entry.get("insecure")))
    rest = name.repository.removeprefix(prefix) if name.repository.startswith(prefix) else f"/{name.path}"
    return _at(name, location + rest, insecure=bool(entry.get("insecure")))


def _at(name: Reference, repository: str, *, insecure: bool) -> Endpoint:
    suffix = (f":{name.tag}" if name.tag else "") + (f"@{name.digest}" if name.digest else "")
    try:
        return Endpoint(parse(repository + suffix), insecure)
    except InvalidReference as error:
        raise RegistryError(f"a mirror of {name.familiar} is no place for it: {error}") from error


def _text(file: Path) -> str | None:
    try:
        return file.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise RegistryError(f"{file} cannot be read: {error}") from error


def _decoded(file: Path, text: str, decode: Any) -> dict[str, Any]:
    try:
        found = decode(text)
    except ValueError as error:
        raise RegistryError(f"{file} cannot be read: {error}") from error
    return found if isinstance(found, dict) else {}
