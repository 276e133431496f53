"""Field selectors: which fields of a resource can be selected on, and matching them.

Source: API concepts, "Field Selectors"; the fields of each kind are those of the API reference.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from trainshed.kube.meta import jsonpath
from trainshed.kube.meta.errors import bad_request
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource

Getter: TypeAlias = Callable[[Object], str]
"""Returns a field's value as text; empty when it is absent."""


class FieldSelector(msgspec.Struct, frozen=True):
    """`(field, equal, value)` conditions that must all hold; without any it matches everything."""

    requirements: tuple[tuple[str, bool, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        r"""Return the selector of a `fieldSelector` query parameter; `\,`, `\=` and `\\` stand for themselves.

        Raises:
            ApiError: 400 for a term without an operator.
        """
        return _parse_fields(text)

    def check(self, fields: Mapping[str, Getter], resource: Resource) -> None:
        """Raise 400 when a field is not among those that `supported_fields(resource)` returned."""
        for name, _, _ in self.requirements:
            if name not in fields:
                raise _unsupported(name, resource)

    def matches(self, obj: Object, lookup: Mapping[str, Getter]) -> bool:
        """Return whether `obj` is selected; `lookup` is what `supported_fields` returned for its resource.

        Raises:
            KeyError: a field that `lookup` does not know; call `check` first.
        """
        return all((lookup[name](obj) == value) is equal for name, equal, value in self.requirements)

    def exact(self, field: str) -> str | None:
        """Return the value that `field` must equal, None when it is not required: lets callers use an index."""
        for name, equal, value in self.requirements:
            if equal and name == field:
                return value
        return None


_TERM = re.compile(r"(?P<name>[^=!]*?)\s*(?P<operator>!=|==|=)(?P<value>(?:\\.|[^\\])*)", re.DOTALL)
_FIELD_TERMS = re.compile(r"(?:\\.|[^,\\])+", re.DOTALL)
_FIELD_ESCAPE = re.compile(r"\\([,=\\])")


@functools.lru_cache(maxsize=1024)
def _parse_fields(text: str) -> FieldSelector:
    requirements: list[tuple[str, bool, str]] = []
    for term in _FIELD_TERMS.findall(text):
        match = _TERM.fullmatch(term.strip())
        if match is None or not match["name"]:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        value = match["value"]
        if re.search(r"\\(?![,=\\])", value.replace("\\\\", "")):
            raise bad_request(f"invalid field selector: invalid escape sequence in '{term}'")
        requirements.append((match["name"], match["operator"] != "!=", _FIELD_ESCAPE.sub(r"\1", value)))
    return FieldSelector(tuple(requirements))


def supported_fields(resource: Resource, selectable: Iterable[str] = ()) -> Mapping[str, Getter]:
    """Return the selectable fields of a resource, by name.

    `selectable` are the JSON paths of a custom resource's `selectableFields`, e.g. `.spec.color`.
    """
    return _fields(resource.group, resource.plural, tuple(selectable))


def _path(*names: str, absent: str = "") -> Getter:
    """Return a getter of nested maps; booleans read `true`/`false`, as Go prints them."""

    def get(obj: Object) -> str:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
            if value is None:
                return absent
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return get


def _paths(*fields: str) -> dict[str, Getter]:
    return {field: _path(*field.split(".")) for field in fields}


def _either(one: Getter, other: Getter) -> Getter:
    return lambda obj: one(obj) or other(obj)


def _selectable(path: str) -> Getter:
    names = jsonpath.field_names(path)
    return _path(*names)


def _pod_ips(obj: Object) -> str:
    addresses = (obj.get("status") or {}).get("podIPs") or ()
    return ",".join(str(address.get("ip", "")) for address in addresses)


_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

_METADATA_FIELDS = _paths("metadata.name", "metadata.namespace")

# Source: the field label conversion functions of each API group, as recorded in the API reference.
_EXTRA_FIELDS: dict[tuple[str, str], dict[str, Getter]] = {
    ("", "pods"): {
        **_paths(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
        "spec.hostNetwork": _path("spec", "hostNetwork", absent="false"),
        "status.podIPs": _pod_ips,
    },
    ("", "events"): {
        **{
            f"involvedObject.{name}": _either(_path("involvedObject", name), _path("regarding", name))
            for name in _REFERENCE
        },
        **_paths("reason", "type"),
        "reportingComponent": _either(_path("reportingComponent"), _path("reportingController")),
        "source": _either(
            _either(_path("source", "component"), _path("deprecatedSource", "component")),
            _either(_path("reportingComponent"), _path("reportingController")),
        ),
    },
    ("events.k8s.io", "events"): {
        **{
            f"regarding.{name}": _either(_path("regarding", name), _path("involvedObject", name))
            for name in _REFERENCE
        },
        **_paths("reason", "type"),
        "reportingController": _either(_path("reportingController"), _path("reportingComponent")),
    },
    ("", "nodes"): {"spec.unschedulable": _path("spec", "unschedulable", absent="false")},
    ("", "namespaces"): {"status.phase": _path("status", "phase"), "name": _path("metadata", "name")},
    ("", "secrets"): _paths("type"),
    ("", "services"): _paths("spec.clusterIP", "spec.type"),
    ("", "replicationcontrollers"): {"status.replicas": _path("status", "replicas", absent="0")},
    ("batch", "jobs"): {"status.successful": _path("status", "succeeded", absent="0")},
    ("certificates.k8s.io", "certificatesigningrequests"): _paths("spec.signerName"),
}


@functools.cache
def _fields(group: str, plural: str, selectable: tuple[str, ...]) -> dict[str, Getter]:
    extra = {path.removeprefix("."): _selectable(path) for path in selectable}
    return {**_METADATA_FIELDS, **_EXTRA_FIELDS.get((group, plural), {}), **extra}


_BUILTIN_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy", "extensions"})


def _unsupported(field: str, resource: Resource) -> Exception:
    group = resource.group
    builtin = group in _BUILTIN_GROUPS or group.endswith(".k8s.io")
    if builtin and (group, resource.plural) not in _EXTRA_FIELDS:
        known = ", ".join(f'"{name}"' for name in _METADATA_FIELDS)
        return bad_request(f'"{field}" is not a known field selector: only {known}')
    return bad_request(f"field label not supported: {field}")
