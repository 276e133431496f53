"""What Kubernetes warns of in a pod or a pod template that it takes.

Source of rules, texts and their order: `pkg/api/pod/warnings.go` of Kubernetes 1.33; recorded as the sequence
`cautions` of the conformance tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import ROUND_CEILING

from trainshed.kube.builtin.parts import nodelabels
from trainshed.kube.builtin.parts.addresses import address_warnings
from trainshed.kube.meta import golang
from trainshed.kube.meta.objects import Object, metadata_of, objects, section, spec_of
from trainshed.kube.meta.quantity import canonical, parse

_NOTES = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR_OF_CONTAINER = "container.apparmor.security.beta.kubernetes.io/"
_USE_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_USE_APPARMOR = 'deprecated since v1.30; use the "appArmorProfile" field instead'
DEPRECATED = {
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "gitRepo": ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
"""Volume types that are no more: the field, as it is called in the text, and what is said."""
_IN_BYTES = ("memory", "ephemeral-storage")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_MATCH = "a null labelSelector results in matching no pod"


def pod_warnings(pod: Object, path: str = "") -> Iterator[str]:
    """Yield what is to be said of a pod, or of a template, whose path ends in a dot; defaults are filled in."""
    spec = spec_of(pod)
    get, at = spec.get, f"{path}spec"
    notes: Object = metadata_of(pod).get("annotations") or {}
    if get("nodeSelector") or get("affinity") or get("topologySpreadConstraints"):
        yield from _of_nodes(spec, at)
    for note, text in _NOTES.items() if notes else ():
        if note in notes:
            yield f"{path}metadata.annotations[{note}]: {text}"
    if get("volumes"):
        yield from _of_volumes(objects(spec, "volumes"), f"{at}.volumes")
    if get("dnsConfig"):
        for index, server in enumerate(section(spec, "dnsConfig").get("nameservers") or ()):
            yield from address_warnings(server, f"{at}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(get("hostAliases") or ()):
        yield from address_warnings(alias.get("ip"), f"{at}.hostAliases[{index}].ip")
    for field, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        if len(get(field) or ()) > 1:
            yield from _repeated(objects(spec, field), key, f"{at}.{field}")
    for index, secret in enumerate(get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{at}.imagePullSecrets[{index}].name: invalid empty name ""'
    if get("overhead"):
        yield from fraction_warnings(spec["overhead"], f"{at}.overhead", _IN_BYTES)
    if _SECCOMP in notes and not section(spec, "securityContext", "seccompProfile"):
        yield f"{path}metadata.annotations[{_SECCOMP}]: {_USE_SECCOMP}"
    containers = [
        (container, f"{at}.{field}[{index}]")
        for field in ("initContainers", "containers", "ephemeralContainers")
        for index, container in enumerate(get(field) or ())
    ]
    for container, place in containers:
        if notes:
            yield from _of_notes(spec, container, notes, f"{path}metadata.annotations")
        resources = container.get("resources") or {}
        for part in ("limits", "requests"):
            if amounts := resources.get(part):
                yield from fraction_warnings(amounts, f"{place}.resources.{part}", _IN_BYTES)
        if len(container.get("env") or ()) > 1:
            yield from _of_variables(objects(container, "env"), f"{place}.env")
    if any(container.get("ports") for container, _ in containers):
        yield from _of_ports(containers)
    if get("affinity"):
        yield from _of_pods(spec, at)


def fraction_warnings(amounts: Object, path: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the amounts of bytes that are no whole numbers; `Quantity.MilliValue` rounds up."""
    for name in names:
        amount = amounts.get(name)
        if amount is None or (
            type(amount) is str and amount.removesuffix("i")[:-1].isdigit() and amount[-1] == "i"
        ):
            continue  # as most are: so many KiB, MiB and so on
        if (parse(amount) * 1000).to_integral_value(ROUND_CEILING) % 1000:
            text = f"fractional byte value {golang.text(canonical(amount))} is invalid, must be an integer"
            yield f"{path}[{name}]: {text}"


def _of_nodes(spec: Object, path: str) -> Iterator[str]:
    """Yield the labels of nodes that are called otherwise today, and constraints that count no pod."""
    for label in section(spec, "nodeSelector"):
        if text := nodelabels.deprecation(label):
            yield f"{path}.nodeSelector[{label}]: {text}"
    if affinity := section(spec, "affinity", "nodeAffinity"):
        at = f"{path}.affinity.nodeAffinity"
        for index, term in enumerate(objects(section(affinity, _REQUIRED), "nodeSelectorTerms")):
            place = f"{at}.{_REQUIRED}.nodeSelectorTerms[{index}].matchExpressions"
            yield from nodelabels.key_warnings(term, "matchExpressions", place)
        for index, weighted in enumerate(objects(affinity, _PREFERRED)):
            place = f"{at}.{_PREFERRED}[{index}].preference.matchExpressions"
            yield from nodelabels.key_warnings(section(weighted, "preference"), "matchExpressions", place)
    for index, constraint in enumerate(objects(spec, "topologySpreadConstraints")):
        at, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey") or ""
        if text := nodelabels.deprecation(key):
            yield f"{at}.topologyKey: {key} is {text}"
        if constraint.get("labelSelector") is None:
            yield f"{at}.labelSelector: {_NO_MATCH}"


def _of_pods(spec: Object, path: str) -> Iterator[str]:
    """Yield the terms of affinity to pods that select none."""
    affinity = section(spec, "affinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        at = f"{path}.affinity.{kind}"
        for index, term in enumerate(objects(section(affinity, kind), _REQUIRED)):
            if term.get("labelSelector") is None:
                yield f"{at}.{_REQUIRED}[{index}].labelSelector: {_NO_MATCH}"
        for index, weighted in enumerate(objects(section(affinity, kind), _PREFERRED)):
            if section(weighted, "podAffinityTerm").get("labelSelector") is None:
                yield f"{at}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_MATCH}"


def _of_notes(spec: Object, container: Object, notes: Object, path: str) -> Iterator[str]:
    """Yield the annotations of a container that a field has taken the place of, without which they mean nothing."""
    name = container.get("name") or ""
    own, of_pod = section(container, "securityContext"), section(spec, "securityContext")
    if (note := f"{_SECCOMP_OF_CONTAINER}{name}") in notes and not own.get("seccompProfile"):
        yield f"{path}[{note}]: {_USE_SECCOMP}"
    note, field = f"{_APPARMOR_OF_CONTAINER}{name}", "appArmorProfile"
    if note in notes and not own.get(field) and not of_pod.get(field):
        yield f"{path}[{note}]: {_USE_APPARMOR}"


def _repeated(items: list[Object], field: str, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(field) or ""
        if value in seen:
            yield f"{path}[{index}].{field}: duplicate {field} {golang.text(value)}"
        seen.add(value)


def _of_variables(variables: list[Object], path: str) -> Iterator[str]:
    """Yield the variables that hide one of their name, and do not say so by naming it."""
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        if name in seen:
            named = f"$({name})"
            if variable.get("valueFrom") is not None or value == named or named not in value:
                text = (
                    f"hides previous definition of {golang.text(name)}, which may be dropped when using apply"
                )
                yield f"{path}[{index}]: {text}"
        seen.add(name)


class _Ports:
    """Ports of one number and protocol, by their port and address of the node; what is found is always told, so that
    who reads the first few warnings waits for no more."""

    def __init__(self) -> None:
        self._found: dict[int, dict[str, list[tuple[int, str]]]] = {}
        self._count = 0

    def add(self, number: int, ip: str, at: str) -> Iterator[str]:
        """Yield what is to be said of a port beside those that were added before, in their order."""
        same = self._found.get(number, {})
        told = [(place, f"duplicate port definition with {first}") for place, first in same.get(ip, ())]
        if number:
            told += self._overlapping(self._found.get(0, {}))
            for other in same if not ip else ("",):
                if other != ip:
                    text = "dangerously ambiguous port definition with"
                    told += [(place, f"{text} {first}") for place, first in same.get(other, ())]
        else:
            told += self._overlapping({address: found for address, found in same.items() if address != ip})
            for port, others in self._found.items():
                told += self._overlapping(others) if port else []
        for _, text in sorted(told):
            yield f"{at}: {text}"
        self._found.setdefault(number, {}).setdefault(ip, []).append((self._count, at))
        self._count += 1

    @staticmethod
    def _overlapping(others: dict[str, list[tuple[int, str]]]) -> list[tuple[int, str]]:
        return [
            (place, f"overlapping port definition with {first}")
            for found in others.values()
            for place, first in found
        ]


def _of_ports(containers: list[tuple[Object, str]]) -> Iterator[str]:
    """Yield the ports that are one and the same, or may be."""
    found: dict[tuple[int, str], _Ports] = {}
    for container, place in containers:
        for index, port in enumerate(objects(container, "ports")):
            at, ip, number = f"{place}.ports[{index}]", port.get("hostIP") or "", port.get("hostPort") or 0
            if ip and not number:
                yield f"{at}: hostIP set without hostPort: {_printed(port)}"
            key = (port.get("containerPort") or 0, port.get("protocol") or "TCP")
            yield from found.setdefault(key, _Ports()).add(number, ip, at)


def _printed(port: Object) -> str:
    """Return a ContainerPort as Go prints it with `%+v`."""
    fields = (
        ("Name", port.get("name") or ""),
        ("HostPort", port.get("hostPort") or 0),
        ("ContainerPort", port.get("containerPort") or 0),
        ("Protocol", port.get("protocol") or "TCP"),
        ("HostIP", port.get("hostIP") or ""),
    )
    return "{" + " ".join(f"{name}:{value}" for name, value in fields) + "}"


def _of_volumes(volumes: list[Object], path: str) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        for field, source in volume.items():
            if field in DEPRECATED and source is not None:
                name, text = DEPRECATED[field]
                yield f"{path}[{index}].{name}: {text}"
        if volume.get("ephemeral"):
            claim = section(volume, "ephemeral", "volumeClaimTemplate")
            yield from claim_spec_warnings(
                spec_of(claim), f"{path}[{index}].ephemeral.volumeClaimTemplate.spec"
            )
    for volume in volumes:
        yield from _overlaps(volume)


def claim_spec_warnings(spec: Object, path: str) -> Iterator[str]:
    """Yield what is to be said of the spec of a claim at `path`."""
    for part in ("requests", "limits"):
        yield from fraction_warnings(
            section(spec, "resources", part), f"{path}.resources.{part}", ("storage",)
        )


_Placed = tuple[str, str]
"""A path of a file in a volume, and where it comes from; empty where the volume has one source."""
_FILES = (
    ("configMap", "ConfigMap", "name"),
    ("secret", "Secret", "secretName"),
    ("downwardAPI", "DownwardAPI", ""),
)
"""Sources that list files: the field, its kind, and where the object is named."""


def _overlaps(volume: Object) -> Iterator[str]:
    """Yield files of a volume that are one and the same, or of which one lies below the other."""
    projected = volume.get("projected")
    if projected is not None:
        placed: list[_Placed] = []
        for source in projected.get("sources") or ():
            if not source:
                yield f"volume {golang.text(volume.get('name'))} (Projected) has no sources provided"
            placed += _projected(source)
        yield from _overlapping(placed, volume, "Projected")
    for field, kind, called in _FILES:
        source = volume.get(field)
        if source is not None and source.get("items"):
            what = f"{kind} {golang.text(source.get(called))}" if called else kind
            yield from _overlapping(_paths(source, ""), volume, what)


def _projected(source: Object) -> list[_Placed]:
    for field, kind, called in _FILES:
        part = source.get(field)
        if part is not None and part.get("items"):
            return _paths(part, f"{kind} {golang.text(part.get('name'))}" if called else kind)
    for field, kind in (
        ("serviceAccountToken", "ServiceAccountToken"),
        ("clusterTrustBundle", "ClusterTrustBundle"),
    ):
        part = source.get(field)
        if part is not None:
            named = part.get("name") or part.get("signerName")
            return [(part.get("path") or "", f"{kind} {golang.text(named)}" if named else kind)]
    return []


def _paths(source: Object, what: str) -> list[_Placed]:
    return [(item.get("path") or "", what) for item in source["items"]]


class _Folder:
    """Files below a path: those that are called so themselves, and those of the folder."""

    def __init__(self) -> None:
        self.files: list[tuple[int, str, str]] = []
        self.folders: dict[str, _Folder] = {}

    def below(self) -> list[tuple[int, str, str]]:
        """Return the files of all folders, not those that are called like this one."""
        found: list[tuple[int, str, str]] = []
        folders = list(self.folders.values())
        while folders:
            folder = folders.pop()
            found += folder.files
            folders += folder.folders.values()
        return found


def _overlapping(files: list[_Placed], volume: Object, source: str) -> Iterator[str]:
    names = {path for path, _ in files}
    if len(names) == len(files) and "/" not in "".join(names):
        return  # as in the volume that every pod has
    where, root = f"volume {golang.text(volume.get('name'))} ({source})", _Folder()
    for place, (written, what) in enumerate(files):
        path = written.rstrip("/")
        if not path:
            continue
        folder, others = root, []
        for part in path.split("/"):
            folder = folder.folders.setdefault(part, _Folder())
            others += folder.files
        for _, other, of_other in sorted(others + folder.below()):
            yield f"{where}: overlapping paths: {_shown(path, what)} with {_shown(other, of_other)}"
        folder.files.append((place, path, what))


def _shown(path: str, what: str) -> str:
    return f"{golang.text(path)} ({what})" if what else golang.text(path)
