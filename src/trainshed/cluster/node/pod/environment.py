"""The environment of a container: a pure function of the pod and of the objects that it refers to.

From weakest to strongest, as the kubelet has it (pkg/kubelet/kubelet_pods.go `makeEnvironmentVariables`):

    what an image would set   PATH, HOME, HOSTNAME, OMP_NUM_THREADS; the egress proxy
    service variables         KUBERNETES_SERVICE_*, and those of the namespace's services
    envFrom                   in order, later wins
    env                       in order, `$(NAME)` refers to what stands above

Raises `ConfigError`, whose text becomes the message of CreateContainerConfigError.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from trainshed.cluster.node import podfields
from trainshed.cluster.node.podfields import FieldError, NodeFacts
from trainshed.cluster.node.references import Reference, References
from trainshed.cluster.sandbox.addresses import API_ADDRESS, API_PORT, DOMAIN, POD_NETWORK, SERVICE_NETWORK
from trainshed.kube.meta.expansion import LONGEST, LONGEST_TOGETHER, TooLong, expand
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.pods import (
    ephemeral_containers,
    find_container,
    init_containers,
    main_containers,
)

_ENV_NAME = re.compile(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")
SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class ConfigError(Exception):
    """The container refers to something that is not there (yet)."""


class Egress(msgspec.Struct, frozen=True):
    """The HTTP CONNECT proxy through which pods reach the outside; `url` is empty when none is needed."""

    url: str = ""
    no_proxy: tuple[str, ...] = (
        "localhost",
        "127.0.0.1",
        POD_NETWORK,
        SERVICE_NETWORK,
        # Not every client knows networks, or that `.svc` covers `a.svc`. Who looks past this list is served by
        # the proxy, so it has no names of Services: some clients would take `db` for the end of any host's name.
        API_ADDRESS,
        "kubernetes.default",
        "kubernetes.default.svc",
        ".svc",
        f".svc.{DOMAIN}",
        f".{DOMAIN}",
    )


class Surroundings(msgspec.Struct, frozen=True):
    """What the environment needs beside the pod itself. `services` are those of the pod's namespace."""

    node: NodeFacts
    pod_ip: str
    references: References
    services: Sequence[Object] = ()
    api_host: str = API_ADDRESS
    api_port: int = API_PORT
    egress: Egress = Egress()


def search_path(prefix: str, tools: str = "") -> str:
    """Return PATH: the node's own Python first, the usual system directories, our stand-in tools last."""
    own = f"{prefix.rstrip('/')}/bin"
    parts = [own, *(p for p in SYSTEM_PATH if p != own)]
    return ":".join([*parts, tools] if tools else parts)


def base_environment(hostname: str, path: str, *, tty: bool, home: str = "/root") -> dict[str, str]:
    """Return what a container runtime sets by itself; without `home` the sandbox asks the image for it."""
    base = {"PATH": path, "HOSTNAME": hostname}
    if home:
        base["HOME"] = home
    if tty:
        base["TERM"] = "xterm"
    return base


def proxy_environment(egress: Egress) -> dict[str, str]:
    """Return the proxy variables in both cases: libcurl reads the lower, Go and Python either."""
    if not egress.url:
        return {}
    out = {}
    for name, value in (
        ("HTTP_PROXY", egress.url),
        ("HTTPS_PROXY", egress.url),
        ("NO_PROXY", ",".join(egress.no_proxy)),
    ):
        out[name] = value
        out[name.lower()] = value
    return out


OPENMP_THREADS = "OMP_NUM_THREADS"
"""How many threads the numeric libraries of a process start.

On a cluster the ranks of a job mostly have a machine each. Here they share one, and OpenMP would start a thread
per core in every rank: with three ranks on two cores, training the example took five times as long (threads
that wait by spinning take the cores from those that work). torchrun sets it to 1 for the same reason when it
starts several processes.
"""


_COUNTS = ("WORLD_SIZE", "NUM_PROCESSES", "_NNODES")
"""How the names of the variables end in which frameworks are told how many they are."""


def thread_environment(declared: Mapping[str, str], cores: int) -> dict[str, str]:
    """Return OMP_NUM_THREADS for a container that is one of several ranks on this machine; else nothing.

    The pod's own OMP_NUM_THREADS wins over this, as every declared variable does.
    """
    ranks = _ranks(declared)
    if ranks < 2 or OPENMP_THREADS in declared:
        return {}
    return {OPENMP_THREADS: str(max(cores // ranks, 1))}


def _ranks(declared: Mapping[str, str]) -> int:
    """Return how many pods train together, as the operator tells them; of elastic ones it says `min:max`."""
    found = [value.rpartition(":")[2] for name, value in declared.items() if name.endswith(_COUNTS)]
    return max((int(text) for text in found if text.isdigit()), default=1)


def service_environment(pod: Object, around: Surroundings) -> dict[str, str]:
    """Return Docker-links style variables (pkg/kubelet/envvars); without service links, the API's only."""
    out: dict[str, str] = {}
    if pod["spec"].get("enableServiceLinks", True):
        for service in sorted(around.services, key=lambda s: str(s["metadata"]["name"])):
            if (
                service["metadata"]["name"] != "kubernetes"
                or service["metadata"].get("namespace") != "default"
            ):
                out.update(_links(service))
    port = around.api_port
    api = {"name": "https", "port": port, "protocol": "TCP"}
    out.update(
        _links({"metadata": {"name": "kubernetes"}, "spec": {"clusterIP": around.api_host, "ports": [api]}})
    )
    return out


def container_environment(pod: Object, container: Object, around: Surroundings) -> dict[str, str]:
    """Return the variables that the manifest asks for, service variables included. Raises ConfigError."""
    services = service_environment(pod, around)
    declared: dict[str, str] = {}
    known = ChainMap(declared, services)
    left = LONGEST_TOGETHER
    for source in container.get("envFrom") or ():
        declared.update(_env_from(source, around))
    for variable in container.get("env") or ():
        name = variable["name"]
        if variable.get("value"):
            try:
                declared[name] = expand(str(variable["value"]), known, min(left, LONGEST))
            except TooLong as error:
                raise ConfigError(f"env {name}: {error}") from None
            left -= len(declared[name])
        elif variable.get("valueFrom"):
            value = _value_from(pod, container, name, variable["valueFrom"], around)
            if value is not None:
                declared[name] = value
        else:
            declared[name] = ""
    return {**services, **declared}


def referenced(pod: Object) -> set[Reference]:
    """Return every ConfigMap and Secret that the pod's variables name, optional ones included."""
    out: set[Reference] = set()
    for container in (*init_containers(pod), *main_containers(pod), *ephemeral_containers(pod)):
        for source in container.get("envFrom") or ():
            out.update(_named(source, "configMapRef", "secretRef"))
        for variable in container.get("env") or ():
            out.update(_named(section(variable, "valueFrom"), "configMapKeyRef", "secretKeyRef"))
    return out


def _named(holder: Object, configmap_key: str, secret_key: str) -> Iterator[Reference]:
    if holder.get(configmap_key):
        yield "configmaps", holder[configmap_key].get("name", "")
    if holder.get(secret_key):
        yield "secrets", holder[secret_key].get("name", "")


def _env_from(source: Object, around: Surroundings) -> dict[str, str]:
    values = _source_bytes(source, around.references)
    if values is None:
        reference = source.get("configMapRef") or source.get("secretRef") or {}
        if reference.get("optional"):
            return {}
        kind = "configmap" if source.get("configMapRef") else "secret"
        raise ConfigError(f'{kind} "{reference.get("name", "")}" not found')
    prefix = source.get("prefix") or ""
    return {
        prefix + key: value.decode(errors="replace")
        for key, value in sorted(values.items())
        if _ENV_NAME.match(prefix + key)
    }


def _source_bytes(source: Object, references: References) -> dict[str, bytes] | None:
    if source.get("configMapRef"):
        obj = references.get("configmaps", source["configMapRef"].get("name", ""))
        return None if obj is None else {k: str(v).encode() for k, v in section(obj, "data").items()}
    obj = references.get("secrets", section(source, "secretRef").get("name", ""))
    return None if obj is None else podfields.secret_bytes(obj)


def _value_from(
    pod: Object, container: Object, name: str, source: Object, around: Surroundings
) -> str | None:
    """Return the value, or None when an optional source lacks it."""
    try:
        if source.get("fieldRef"):
            return podfields.field_value(pod, source["fieldRef"]["fieldPath"], around.node, around.pod_ip)
        if source.get("resourceFieldRef"):
            reference = source["resourceFieldRef"]
            owner = container
            if reference.get("containerName"):
                owner = find_container(pod, reference["containerName"]) or container
            return podfields.resource_value(owner, reference, around.node)
        for field, kind, plural in (
            ("configMapKeyRef", "configmap", "configmaps"),
            ("secretKeyRef", "secret", "secrets"),
        ):
            reference = source.get(field)
            if reference:
                return _key_value(pod, reference, kind, plural, around.references)
    except FieldError as error:
        raise ConfigError(str(error)) from error
    raise ConfigError(f"env {name}: valueFrom names no source")


def _key_value(pod: Object, reference: Object, kind: str, plural: str, references: References) -> str | None:
    name, key = reference.get("name", ""), reference["key"]
    obj = references.get(plural, name)
    optional = bool(reference.get("optional"))
    if obj is None:
        if optional:
            return None
        raise ConfigError(f'{kind} "{name}" not found')
    if plural == "secrets":
        values = podfields.secret_bytes(obj)
    else:
        values = {k: str(v).encode() for k, v in section(obj, "data").items()}
    if key not in values:
        if optional:
            return None
        shown = "ConfigMap" if kind == "configmap" else "Secret"
        raise ConfigError(f"couldn't find key {key} in {shown} {pod['metadata'].get('namespace', '')}/{name}")
    return values[key].decode(errors="replace")


def _links(service: Mapping[str, object]) -> dict[str, str]:
    spec = service.get("spec")
    metadata = service.get("metadata")
    assert isinstance(spec, dict) and isinstance(metadata, dict)
    ip, ports = spec.get("clusterIP"), spec.get("ports") or []
    if not ip or ip == "None" or not ports:
        return {}
    prefix = str(metadata["name"]).upper().replace("-", "_")
    out = {f"{prefix}_SERVICE_HOST": str(ip), f"{prefix}_SERVICE_PORT": str(ports[0]["port"])}
    for port in ports:
        if port.get("name"):
            out[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
    first = f"{(ports[0].get('protocol') or 'TCP').lower()}://{ip}:{ports[0]['port']}"
    out[f"{prefix}_PORT"] = first
    for port in ports:
        protocol = port.get("protocol") or "TCP"
        stem = f"{prefix}_PORT_{port['port']}_{protocol}"
        out[stem] = f"{protocol.lower()}://{ip}:{port['port']}"
        out[f"{stem}_PROTO"] = protocol.lower()
        out[f"{stem}_PORT"] = str(port["port"])
        out[f"{stem}_ADDR"] = str(ip)
    return out
