"""The kubeconfig of the embedded cluster, and its context in the user's own kubeconfig.

Only entries named `trainshed` are ever written, and only those of the given state directory are removed; everything
else stays as it was. Our cluster entry says whose it is, and which context was current before ours, in an
extension, which kubectl keeps. The file that a cluster has in its own state directory is not a user's and is
never edited.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainshed.cluster.paths import StatePaths, write_private
from trainshed.kube.meta.objects import Object
from trainshed.kube.wire import yamlblock

NAME = "trainshed"
CREDENTIAL_FILE = "admin.token"
_SERVER = re.compile(rb"server: https://127\.0\.0\.1:([0-9]{1,5})\n")
_LISTS = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))


def document(server: str, ca_pem: str, token: str, *, home: Path, namespace: str = "default") -> Object:
    """Return the kubeconfig of the cluster at `server` (an https URL) with its state in `home`."""
    cluster = {
        "server": server,
        "certificate-authority-data": base64.b64encode(ca_pem.encode()).decode(),
        "extensions": [{"name": NAME, "extension": {"home": str(home)}}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
        "current-context": NAME,
    }


def of_cluster(paths: StatePaths, port: int) -> Object:
    """Return the kubeconfig of the cluster with this state that listens on this port of loopback.

    Raises:
        OSError: the cluster has no certificate or token yet.
    """
    # By file name: `cluster.pki` would bring a tenth of a second of cryptography into every command.
    ca, token = (paths.pki / name for name in ("ca.crt", CREDENTIAL_FILE))
    return document(f"https://127.0.0.1:{port}", ca.read_text(), token.read_text().strip(), home=paths.root)


def write(path: Path, config: Object) -> None:
    """Write the kubeconfig of a cluster with mode 0600."""
    write_private(path, yamlblock.dump(config).encode())


def port_of(path: Path) -> int:
    """Return the port that a cluster's kubeconfig leads to; 0 where there is none, or it is damaged."""
    try:
        found = _SERVER.search(path.read_bytes())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def leads_to(path: Path, config: Object) -> bool:
    """Return whether the kubeconfig at `path` still holds the server and credentials of `config`.

    Other entries, another current context and another namespace are the user's business.
    """
    try:
        held = _load(path)
    except ValueError:
        return False
    # A file from before the extension is written again, for it says not whose it is.
    same_home = _mark(held).get("home") == _mark(config).get("home")
    return (
        same_home
        and bool(held.get("current-context"))
        and all(
            _essence(_ours(held, field, key)) == _essence(_ours(config, field, key)) for field, key in _LISTS
        )
    )


def own(paths: StatePaths) -> Object | None:
    """Return the kubeconfig in the state directory; None when it is damaged or missing."""
    try:
        config = _load(paths.kubeconfig)
    except ValueError:
        return None
    return config if all(_ours(config, field, key) for field, key in _LISTS) else None


def is_of_a_cluster(path: Path) -> bool:
    """Return whether the file is the one in a cluster's state directory, be it damaged."""
    paths = StatePaths(path.resolve().parent)
    return path.resolve() == paths.kubeconfig and paths.pki.is_dir()


def user_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the kubeconfig that kubectl writes to: the first existing of `$KUBECONFIG`, else `~/.kube/config`.

    With several files in `$KUBECONFIG` and none of them there, the last one, as kubectl does. Files of clusters
    are passed over: `export KUBECONFIG=` with what `trainshed up` prints does not make its file the user's.
    """
    environ = os.environ if environ is None else environ
    named = [Path(part).expanduser() for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    named = [path for path in named if not is_of_a_cluster(path)]
    for path in named:
        if path.exists():
            return path
    return named[-1] if named else Path("~/.kube/config").expanduser()


def merge(path: Path, config: Object, *, make_current: bool) -> None:
    """Add the entries of `config` to the kubeconfig at `path`, replacing ours; others stay untouched.

    The token stays in the state directory, which no pod sees; pods may read everything else of the user's home.

    Args:
        make_current: also switch to our context; otherwise only when the file names no current context.

    Raises:
        ValueError: the file is not a kubeconfig, or is the one of a cluster; it is left as it is.
    """
    if is_of_a_cluster(path):
        raise ValueError(f"{path} belongs to a cluster of trainshed and is not edited")
    before = _load(path)
    held = _without_ours(before)
    for field, _ in _LISTS:
        held[field] = [*held[field], *config[field]]
    current = before.get("current-context") or ""
    if make_current or not current:
        held["current-context"] = NAME
    if current == NAME:
        current = _mark(before).get("previousContext", "")
    mark = {**_mark(config), "previousContext": current}
    cluster = {**_ours(config, "clusters", "cluster"), "extensions": [{"name": NAME, "extension": mark}]}
    held["clusters"][-1] = {"name": NAME, "cluster": cluster}
    token = StatePaths(Path(mark["home"])).pki / CREDENTIAL_FILE
    held["users"][-1] = {"name": NAME, "user": {"tokenFile": str(token)}}
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path.resolve(), _dump(held))


def unmerge(path: Path, home: Path) -> bool:
    """Remove the entries of the state directory `home` from the kubeconfig at `path`; return whether there were any.

    Where ours was the current context, the one before it is again.

    Raises:
        ValueError: the file is not a kubeconfig; it is left as it is.
    """
    if not path.exists() or is_of_a_cluster(path):
        return False
    before = _load(path)
    mark = _mark(before)
    if mark.get("home") != str(home):
        return False
    held = _without_ours(before)
    if held.get("current-context") == NAME:
        previous = mark.get("previousContext", "")
        known = any(_name(entry) == previous for entry in held["contexts"])
        held["current-context"] = previous if known else ""
    write_private(path.resolve(), _dump(held))
    return True


def _ours(config: Object, field: str, key: str) -> Object:
    """Return what our entry in this list holds; empty when there is none."""
    for entry in config.get(field) or []:
        if _name(entry) == NAME and isinstance(entry.get(key), dict):
            return dict(entry[key])
    return {}


def _mark(config: Object) -> Object:
    """Return what our cluster entry says about itself: `home`, `previousContext`."""
    for entry in _ours(config, "clusters", "cluster").get("extensions") or []:
        if _name(entry) == NAME and isinstance(entry.get("extension"), dict):
            return dict(entry["extension"])
    return {}


def _essence(entry: Object) -> Object:
    return {key: value for key, value in entry.items() if key not in ("extensions", "namespace")}


def _without_ours(config: Object) -> Object:
    out = dict(config)
    for field, _ in _LISTS:
        out[field] = [entry for entry in out.get(field) or [] if _name(entry) != NAME]
    return out


def _name(entry: Any) -> Any:
    return entry.get("name") if isinstance(entry, dict) else None


def _load(path: Path) -> Object:
    import yaml

    from trainshed.kube.wire import yamltext

    empty: Object = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    if not path.exists():
        return empty
    try:
        found: Any = yamltext.load(path.read_text())
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
    from trainshed.kube.wire import yamltext

    return yamltext.dump(config).encode()
