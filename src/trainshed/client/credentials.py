"""Where a bearer token comes from: fixed, a file that rotates, or an exec plugin.

A kubelet replaces a pod's service account token about every 50 minutes, so a token read once dies.
Exec plugins follow `client.authentication.k8s.io/v1` (and v1beta1) as in the API reference
"Client authentication": the command gets `KUBERNETES_EXEC_INFO` and prints an ExecCredential.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from trainshed.client.transport import TransportError
from trainshed.kube.meta.times import parse_time

EXPIRY_MARGIN_SECONDS = 60.0


class Credentials(Protocol):
    """Gives the Authorization header."""

    async def authorization(self) -> str | None:
        """Return the value of the header, or None to send none."""
        ...

    async def renew(self) -> bool:
        """The server refused the last one: return whether there is a new one to try."""
        ...


class StaticToken:
    """A token that never changes."""

    def __init__(self, token: str, scheme: str = "Bearer") -> None:
        self._value = f"{scheme} {token}"

    async def authorization(self) -> str | None:
        return self._value

    async def renew(self) -> bool:
        return False


class TokenFile:
    """A token in a file, read again whenever the file changes.

    Asks the file system before every request: one `stat` is about 2 µs, and a rotation by symlink swap is
    then seen at once. While the file is missing (mid-rotation) the last token stays.
    """

    def __init__(self, path: str, *, initial: str | None = None) -> None:
        self._path = Path(path)
        self._token = (initial or "").strip()
        self._seen: tuple[int, int, int] | None = None

    async def authorization(self) -> str | None:
        self._refresh()
        return f"Bearer {self._token}" if self._token else None

    async def renew(self) -> bool:
        before = self._token
        self._seen = None
        self._refresh()
        return self._token != before

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
            if seen != self._seen:
                self._token = self._path.read_text().strip()
                self._seen = seen
        except OSError as error:
            if not self._token:
                raise TransportError(f"cannot read the token file {self._path}: {error}") from error


class ExecPlugin:
    """A token printed by a command, kept until it expires.

    `info` is sent in KUBERNETES_EXEC_INFO. Client certificates from plugins are refused: no provider of
    managed Kubernetes uses them, and they would have to be loaded into a live TLS context.
    """

    def __init__(
        self,
        command: str,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        *,
        api_version: str = "client.authentication.k8s.io/v1",
        install_hint: str = "",
        cluster: Mapping[str, Any] | None = None,
        interactive: bool = False,
    ) -> None:
        self._command = [command, *args]
        self._install_hint = install_hint
        spec: dict[str, Any] = {"interactive": interactive}
        if cluster is not None:
            spec["cluster"] = cluster
        info = {"apiVersion": api_version, "kind": "ExecCredential", "spec": spec}
        self._env = {**(env or {}), "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        self._token = ""
        self._expires: float | None = None
        self._lock = asyncio.Lock()

    async def authorization(self) -> str | None:
        async with self._lock:
            expired = self._expires is not None and time.time() > self._expires - EXPIRY_MARGIN_SECONDS
            if not self._token or expired:
                await self._run()
        return f"Bearer {self._token}"

    async def renew(self) -> bool:
        before = self._token
        async with self._lock:
            if self._token == before:  # nobody renewed it while this waited
                await self._run()
        return self._token != before

    async def _run(self) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env={**os.environ, **self._env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"\n{self._install_hint}" if self._install_hint else ""
            raise TransportError(
                f"cannot run the credential plugin {self._command[0]}: {error}{hint}"
            ) from error
        out, err = await process.communicate()
        if process.returncode != 0:
            text = err.decode("utf-8", "replace").strip()[-500:]
            raise TransportError(
                f"credential plugin {self._command[0]} exited with {process.returncode}: {text}"
            )
        self._token, self._expires = parse_exec_credential(out, self._command[0])


def parse_exec_credential(output: bytes, command: str) -> tuple[str, float | None]:
    """Return the token of an ExecCredential and its expiry in seconds since the epoch, if it has one.

    TransportError when there is no token to use.
    """
    try:
        status = msgspec.json.decode(output)["status"]
        token, expiry = status.get("token"), status.get("expirationTimestamp")
        expires = parse_time(expiry) if expiry else None
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise TransportError(f"credential plugin {command} printed no ExecCredential: {error}") from error
    if not token:
        raise TransportError(
            f"credential plugin {command} gave no token (client certificates are not supported)"
        )
    return token, expires
