"""Who one is to a registry: the files and helpers that docker, podman and kubectl use.

    $DOCKER_CONFIG/config.json, ~/.docker/config.json                      docker login
    $REGISTRY_AUTH_FILE, $XDG_RUNTIME_DIR/containers/auth.json,
    ~/.config/containers/auth.json                                         podman login
    `credential-helpers` of registries.conf                                in that order; the files count as one
    Secrets of type kubernetes.io/dockerconfigjson and dockercfg           imagePullSecrets

The first that knows the registry counts. A file names a registry by host, by host and a beginning of the path (the
longest counts), or by an old address such as `https://index.docker.io/v1/`.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainshed.cluster.images.reference import DEFAULT_DOMAIN, Reference
from trainshed.cluster.images.registry.errors import RegistryError
from trainshed.cluster.images.registry.mirrors import settings_of_machine

_HELPER_SECONDS = 30
_FILES = "containers-auth.json"
"""The name by which registries.conf means files of credentials."""
_TOKEN_USER = "<token>"  # noqa: S105 - a word of the protocol
"""The user name by which a helper says that its secret is an identity token."""


class CredentialsError(Exception):
    """A file or helper of credentials cannot be used. One sentence."""


class Credentials(msgspec.Struct, frozen=True):
    """A user and password, or an identity token for the registry's token service."""

    username: str = ""
    password: str = ""
    identity_token: str = ""

    @property
    def basic(self) -> str:
        """The value of a header `Authorization`."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


def of_user(name: Reference, environ: Mapping[str, str] | None = None) -> Credentials | None:
    """Return the user's own credentials for an image. Raises CredentialsError."""
    environ = os.environ if environ is None else environ
    failed: CredentialsError | None = None
    for helper in _helpers(environ):
        try:
            found = _of_files(name, environ) if helper == _FILES else _ask(helper, name.domain)
        except CredentialsError as error:
            failed = failed or error  # another may know the registry
        else:
            if found is not None:
                return found
    if failed is not None:
        raise failed
    return None


def _helpers(environ: Mapping[str, str]) -> list[str]:
    """Return whom to ask, as containers-registries.conf(5) has it: the files alone where it names nobody."""
    try:
        named = settings_of_machine(environ).get("credential-helpers")
    except RegistryError as error:
        raise CredentialsError(str(error)) from error
    helpers = [each for each in named or () if isinstance(each, str) and re.fullmatch(r"[\w.-]+", each)]
    return helpers or [_FILES]


def _of_files(name: Reference, environ: Mapping[str, str]) -> Credentials | None:
    for file in files_of_user(environ):
        try:
            document = json.loads(file.read_text())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise CredentialsError(f"{file} cannot be read: {error}") from error
        if (found := _from_helper(document, name)) or (found := from_document(document, name)):
            return found
    return None


def files_of_user(environ: Mapping[str, str]) -> list[Path]:
    """Return the files in which credentials may be, in the order in which they are looked at."""
    home = Path(environ.get("HOME") or "~").expanduser()
    docker = Path(environ["DOCKER_CONFIG"]) if environ.get("DOCKER_CONFIG") else home / ".docker"
    files = [docker / "config.json"]
    if environ.get("REGISTRY_AUTH_FILE"):
        files.append(Path(environ["REGISTRY_AUTH_FILE"]))
    if environ.get("XDG_RUNTIME_DIR"):
        files.append(Path(environ["XDG_RUNTIME_DIR"]) / "containers/auth.json")
    files.append(Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "containers/auth.json")
    return files


def from_documents(documents: Sequence[Any], name: Reference) -> list[Credentials]:
    """Return what each of the documents has for an image, in their order."""
    return [found for document in documents if (found := from_document(document, name)) is not None]


def from_document(document: Any, name: Reference) -> Credentials | None:
    """Return what a `config.json` or an old `.dockercfg` has for an image. Pure. What is malformed is not there."""
    entries = document.get("auths", document) if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        return None
    best, length = None, -1
    for key, entry in entries.items():
        place = _place(str(key))
        if isinstance(entry, dict) and _covers(place, name) and len(place) > length:
            credentials = _credentials(entry)
            if credentials is not None:
                best, length = credentials, len(place)
    return best


def _credentials(entry: dict[str, Any]) -> Credentials | None:
    user, password = entry.get("username"), entry.get("password")
    token = entry.get("identitytoken")
    if isinstance(entry.get("auth"), str) and entry["auth"]:
        try:
            user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
    if isinstance(token, str) and token:
        return Credentials(identity_token=token)
    if isinstance(user, str) and isinstance(password, str) and user:
        return Credentials(user, password.rstrip("\0"))
    return None


def _place(key: str) -> str:
    """Return `host[/path]` of a key."""
    place = re.sub(r"^https?://", "", key).rstrip("/")
    host, _, path = place.partition("/")
    if host in ("index.docker.io", "registry-1.docker.io"):
        host = DEFAULT_DOMAIN
    path = "" if path in ("v1", "v2") else path
    return f"{host}/{path}" if path else host


def _covers(place: str, name: Reference) -> bool:
    return place == name.domain or f"{name.repository}/".startswith(f"{place}/")


def _from_helper(document: Any, name: Reference) -> Credentials | None:
    if not isinstance(document, dict):
        return None
    helpers = document.get("credHelpers")
    chosen = document.get("credsStore")
    if isinstance(helpers, dict):
        chosen = next((h for key, h in helpers.items() if _place(str(key)) == name.domain), chosen)
    if not isinstance(chosen, str) or not re.fullmatch(r"[\w.-]+", chosen):
        return None
    return _ask(chosen, "https://index.docker.io/v1/" if name.domain == DEFAULT_DOMAIN else name.domain)


def _ask(helper: str, server: str) -> Credentials | None:
    """Return what a credential helper has for a registry. Raises CredentialsError."""
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run(
            [program, "get"],
            input=server,
            capture_output=True,
            text=True,
            timeout=_HELPER_SECONDS,
            check=False,
        )
        if done.returncode:
            return None  # it has nothing for this registry
        answer = json.loads(done.stdout)
        user, secret = str(answer["Username"]), str(answer["Secret"])
    except FileNotFoundError:
        raise CredentialsError(
            f"{program}, which docker's config.json or registries.conf names, is not installed"
        ) from None
    except (subprocess.TimeoutExpired, OSError, ValueError, KeyError, TypeError) as error:
        raise CredentialsError(f"{program} does not answer as it should: {error}") from error
    return Credentials(identity_token=secret) if user == _TOKEN_USER else Credentials(user, secret)
