"""The kubeconfig of the embedded cluster, and its context in the user's own kubeconfig.

Only entries named `trainshed` are ever written or removed; everything else stays as it was.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainshed.cluster.paths import write_private
from trainshed.kube.meta.objects import Object

NAME = "trainshed"
_LISTS = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))


def document(server: str, ca_pem: str, token: str, *, namespace: str = "default") -> Object:
    """Return the kubeconfig of the cluster at `server` (an https URL)."""
    cluster = {
        "server": server,
        "certificate-authority-data": base64.b64encode(ca_pem.encode()).decode(),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
        "current-context": NAME,
    }


def write(path: Path, config: Object) -> None:
    """Write a kubeconfig with mode 0600."""
    write_private(path, _dump(config))


def user_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the kubeconfig that kubectl writes to: the first existing of `$KUBECONFIG`, else `~/.kube/config`.

    With several files in `$KUBECONFIG` and none of them there, the last one, as kubectl does.
    """
    environ = os.environ if environ is None else environ
    named = [Path(part).expanduser() for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    for path in named:
        if path.exists():
            return path
    return named[-1] if named else Path("~/.kube/config").expanduser()


def merge(path: Path, config: Object, *, make_current: bool) -> None:
    """Add the entries of `config` to the kubeconfig at `path`, replacing ours; others stay untouched.

    Args:
        make_current: also switch to our context; otherwise only when the file names no current context.

    Raises:
        ValueError: the file is not a kubeconfig; it is left as it is.
    """
    held = _without_ours(_load(path))
    for field, _ in _LISTS:
        held[field] = [*held[field], *config[field]]
    if make_current or not held.get("current-context"):
        held["current-context"] = NAME
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path.resolve(), _dump(held))


def unmerge(path: Path) -> bool:
    """Remove our entries from the kubeconfig at `path`; return whether there were any.

    Raises:
        ValueError: the file is not a kubeconfig; it is left as it is.
    """
    if not path.exists():
        return False
    before = _load(path)
    held = _without_ours(before)
    if held == before:
        return False
    if held.get("current-context") == NAME:
        held["current-context"] = ""
    write_private(path.resolve(), _dump(held))
    return True


def _without_ours(config: Object) -> Object:
    out = dict(config)
    for field, _ in _LISTS:
        out[field] = [entry for entry in out.get(field) or [] if entry.get("name") != NAME]
    return out


def _load(path: Path) -> Object:
    import yaml

    empty: Object = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    if not path.exists():
        return empty
    try:
        found: Any = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a kubeconfig: {error}") from error
    if found is None:
        return empty
    lists_are_lists = isinstance(found, dict) and all(
        isinstance(found.get(field) or [], list) for field, _ in _LISTS
    )
    if not lists_are_lists:
        raise ValueError(f"{path} is not a kubeconfig: it is not a mapping with lists of clusters and users")
    return {**empty, **{key: value for key, value in found.items() if value is not None}}


def _dump(config: Object) -> bytes:
    import yaml

    text: str = yaml.safe_dump(config, sort_keys=False, default_flow_style=False)
    return text.encode()
