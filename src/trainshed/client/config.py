"""Which server to talk to, and as whom: kubeconfig files or a pod's service account.

Merging follows the API reference "Organizing Cluster Access Using kubeconfig Files": `KUBECONFIG` may list
several files; the first file to define an entry (or the current context) wins; relative paths are
relative to the file that holds them.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from trainshed.client.client import Client
from trainshed.client.credentials import Credentials, ExecPlugin, StaticToken, TokenFile
from trainshed.kube.meta.objects import section

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ConfigError(Exception):
    """There is no usable configuration; the message says what is missing and where."""


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    """A credential plugin, as under `users[].user.exec`."""

    command: str
    api_version: str = "client.authentication.k8s.io/v1"
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One server and one user. Certificates and keys are PEM texts; `token_file` is a path."""

    server: str
    namespace: str = "default"
    context: str = ""
    ca: str | None = None
    insecure: bool = False
    server_name: str | None = None
    proxy: str | None = None
    token: str | None = None
    token_file: str | None = None
    username: str | None = None
    password: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    exec: ExecConfig | None = None


def load_kubeconfig(path: str | os.PathLike[str] | None = None, context: str | None = None) -> ClusterConfig:
    """Return the configuration of `context`, or of the current context.

    Without `path`: the files of `$KUBECONFIG`, else `~/.kube/config`. ConfigError when the file, the context
    or something it names is missing.
    """
    clusters, users, contexts, current = _merge(_files(path))
    chosen = context or current
    if not chosen:
        raise ConfigError("kubeconfig has no current-context; choose one with --context")
    if chosen not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise ConfigError(f"kubeconfig has no context {chosen!r}; it has: {known}")
    found = contexts[chosen]
    cluster, directory = _named(clusters, found.get("cluster"), "cluster", chosen)
    user: dict[str, Any] = {}
    user_directory = directory
    if found.get("user"):
        user, user_directory = _named(users, found["user"], "user", chosen)
    if provider := user.get("auth-provider"):
        raise ConfigError(
            f"user {found['user']!r} uses the auth-provider {provider.get('name')!r}, which Kubernetes has "
            "replaced by exec plugins; configure one (for OIDC: kubelogin) under users[].user.exec"
        )
    token_file = user.get("tokenFile")
    return ClusterConfig(
        server=cluster.get("server") or "",
        namespace=found.get("namespace") or "default",
        context=chosen,
        ca=_pem(cluster, "certificate-authority", directory),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url") or environment_proxy(cluster.get("server") or ""),
        token=user.get("token"),
        token_file=str(user_directory / token_file) if token_file else None,
        username=user.get("username"),
        password=user.get("password"),
        client_cert=_pem(user, "client-certificate", user_directory),
        client_key=_pem(user, "client-key", user_directory),
        exec=msgspec.convert(user["exec"], ExecConfig) if user.get("exec") else None,
    )


MOUNTS = "TRAINSHED_MOUNTS"
"""Where volumes are in a pod of plain processes, in which nothing is mounted: a JSON object, paths by mount paths."""


def _mounted(path: Path) -> Path:
    """Return where a volume's mount path leads in this pod."""
    try:
        return Path(
            msgspec.json.decode(os.environ.get(MOUNTS, "{}"), type=dict[str, str]).get(str(path), path)
        )
    except msgspec.DecodeError:
        return path


def in_cluster(directory: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """Return the configuration of the pod this runs in; ConfigError when it is not in a pod."""
    directory = _mounted(directory)
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError("not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    token_file = directory / "token"
    if not token_file.exists():
        raise ConfigError(f"this pod has no service account token at {token_file}")
    host = f"[{host}]" if ":" in host else host
    namespace = directory / "namespace"
    return ClusterConfig(
        server=f"https://{host}:{port}",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        ca=(directory / "ca.crt").read_text(),
        token_file=str(token_file),
    )


def load(kubeconfig: str = "", context: str | None = None) -> ClusterConfig:
    """Return the configuration a process should use: the given file, else the pod's, else kubectl's."""
    if kubeconfig or context:
        return load_kubeconfig(kubeconfig or None, context)
    try:
        return in_cluster()
    except ConfigError:
        return load_kubeconfig()


def connect(config: ClusterConfig, *, user_agent: str = "trainshed") -> Client:
    """Return a client for `config`. Nothing is sent yet."""
    from trainshed.client.http import HttpTransport, Tls

    tls = Tls(
        ca=config.ca,
        client_cert=config.client_cert,
        client_key=config.client_key,
        server_name=config.server_name,
        insecure=config.insecure,
    )
    transport = HttpTransport(
        config.server, credentials=_credentials(config), tls=tls, proxy=config.proxy, user_agent=user_agent
    )
    return Client(transport, user_agent=user_agent, namespace=config.namespace)


def _credentials(config: ClusterConfig) -> Credentials | None:
    """Return what the configuration authenticates with: a token before a plugin before a password, as kubectl."""
    if config.token_file is not None:
        return TokenFile(config.token_file, initial=config.token)
    if config.token is not None:
        return StaticToken(config.token)
    if config.exec is not None:
        return _plugin(config.exec, config)
    if config.username:
        pair = f"{config.username}:{config.password or ''}"
        return StaticToken(base64.b64encode(pair.encode()).decode(), scheme="Basic")
    return None


def environment_proxy(server: str) -> str | None:
    """Return the proxy that `HTTPS_PROXY` and `NO_PROXY` name for `server`; never one for this machine itself.

    For servers of a kubeconfig, as kubectl does. A pod reaches its own API server directly.
    """
    # A third of what this module would take to import, and pods do without.
    from urllib.request import getproxies_environment, proxy_bypass

    parts = urlsplit(server)
    host = parts.hostname or ""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return None
    if host == "localhost" or proxy_bypass(host):
        return None
    return getproxies_environment().get(parts.scheme)


def _plugin(plugin: ExecConfig, config: ClusterConfig) -> ExecPlugin:
    cluster: dict[str, Any] | None = None
    if plugin.provide_cluster_info:
        cluster = {"server": config.server, "insecure-skip-tls-verify": config.insecure}
        if config.ca:
            cluster["certificate-authority-data"] = base64.b64encode(config.ca.encode()).decode()
    return ExecPlugin(
        plugin.command,
        plugin.args or (),
        {entry["name"]: entry["value"] for entry in plugin.env or ()},
        api_version=plugin.api_version,
        install_hint=plugin.install_hint or "",
        cluster=cluster,
    )


def _users_file() -> Path:
    """Return where kubectl's configuration is by default; a user without a home directory has none there."""
    try:
        return Path("~/.kube/config").expanduser()
    except RuntimeError:
        return Path("~/.kube/config")


def _files(path: str | os.PathLike[str] | None) -> list[Path]:
    if path is not None:
        file = Path(path).expanduser()
        if not file.is_file():
            raise ConfigError(f"kubeconfig {file} does not exist")
        return [file]
    listed = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    files = [file for file in listed or [_users_file()] if file.is_file()]
    if not files:
        where = ", ".join(str(file) for file in listed) or "~/.kube/config"
        raise ConfigError(f"no kubeconfig at {where}; set KUBECONFIG or start a cluster")
    return files


_Entries = dict[str, tuple[dict[str, Any], Path]]


def _merge(files: list[Path]) -> tuple[_Entries, _Entries, dict[str, dict[str, Any]], str]:
    """Return clusters and users with the directory of their file, contexts, and the current context."""
    import yaml

    from trainshed.kube.wire.yamltext import load as load_yaml

    clusters: _Entries = {}
    users: _Entries = {}
    contexts: dict[str, dict[str, Any]] = {}
    current = ""
    for file in files:
        try:
            document = load_yaml(file.read_text()) or {}
            directory = file.absolute().parent
            for entry in document.get("clusters") or ():
                clusters.setdefault(entry["name"], (section(entry, "cluster"), directory))
            for entry in document.get("users") or ():
                users.setdefault(entry["name"], (section(entry, "user"), directory))
            for entry in document.get("contexts") or ():
                contexts.setdefault(entry["name"], section(entry, "context"))
            current = current or document.get("current-context") or ""
        except yaml.MarkedYAMLError as error:
            line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
            raise ConfigError(f"{file}{line}: not YAML: {error.problem or error.context}") from error
        except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"cannot read kubeconfig {file}: {error}") from error
    return clusters, users, contexts, current


def _named(entries: _Entries, name: str | None, what: str, context: str) -> tuple[dict[str, Any], Path]:
    if not name or name not in entries:
        raise ConfigError(f"kubeconfig context {context!r} names the {what} {name!r}, which is not defined")
    return entries[name]


def _pem(entry: Mapping[str, Any], field: str, directory: Path) -> str | None:
    """Return the PEM text of `<field>-data` (base64), else of the file at `<field>`."""
    try:
        if data := entry.get(f"{field}-data"):
            return base64.b64decode(data).decode()
        if path := entry.get(field):
            return (directory / str(path)).read_text()
    except (OSError, binascii.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"kubeconfig {field}: {error}") from error
    return None
