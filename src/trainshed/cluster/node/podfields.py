"""Values of a pod's own fields for env and downwardAPI files (pkg/fieldpath, pkg/api/v1/resource).

Raises `FieldError` for a path that the API does not offer.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from trainshed.kube.meta import quantity
from trainshed.kube.meta.objects import Object, section

_SUBSCRIPT = re.compile(r"^metadata\.(annotations|labels)\['(.*)'\]$")
_DEFAULT_DIVISOR = "1"


class FieldError(Exception):
    """A reference to a field that does not exist, or to a key that an object lacks."""


class NodeFacts(msgspec.Struct, frozen=True):
    """What fields may say about the node. `allocatable` stands in for limits that are not set."""

    name: str
    host_ip: str
    allocatable: Mapping[str, str] = {}


def field_value(pod: Object, path: str, node: NodeFacts, pod_ip: str) -> str:
    """Return the value at a `fieldRef` path."""
    metadata, spec = pod["metadata"], pod["spec"]
    subscript = _SUBSCRIPT.match(path)
    if subscript:
        return str(section(metadata, subscript[1]).get(subscript[2], ""))
    plain: dict[str, Any] = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata.get("uid", ""),
        "spec.nodeName": spec.get("nodeName") or node.name,
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.hostIP": node.host_ip,
        "status.hostIPs": node.host_ip,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
    }
    if path in plain:
        return str(plain[path])
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = section(metadata, path.partition(".")[2])
        return "\n".join(f"{key}={_quoted(str(value))}" for key, value in sorted(pairs.items()))
    raise FieldError(f"unsupported fieldPath: {path}")


def resource_value(container: Object, reference: Mapping[str, Any], node: NodeFacts) -> str:
    """Return a `resourceFieldRef`: the amount divided by the divisor, rounded up."""
    resource = str(reference["resource"])
    kind, _, name = resource.partition(".")
    if kind not in ("limits", "requests") or not name:
        raise FieldError(f"unsupported container resource : {resource}")
    resources = section(container, "resources")
    amount = section(resources, kind).get(name)
    if amount is None and kind == "limits":
        amount = node.allocatable.get(name)
    divisor = quantity.parse(reference.get("divisor") or _DEFAULT_DIVISOR) or Decimal(1)
    return str(math.ceil(quantity.parse(amount if amount is not None else "0") / divisor))


def configmap_bytes(obj: Object) -> dict[str, bytes]:
    """Return the keys of a ConfigMap: text as UTF-8, and binaryData."""
    out = {key: str(value).encode() for key, value in section(obj, "data").items()}
    out.update(_decoded(obj.get("binaryData")))
    return out


def secret_bytes(obj: Object) -> dict[str, bytes]:
    """Return the keys of a Secret, decoded."""
    return _decoded(obj.get("data"))


def _decoded(data: Mapping[str, str] | None) -> dict[str, bytes]:
    out = {}
    for key, value in (data or {}).items():
        try:
            out[key] = base64.b64decode(value or "")
        except binascii.Error as error:
            raise FieldError(f"key {key} is not base64") from error
    return out


def _quoted(text: str) -> str:
    """Return `text` in double quotes with Go's escapes, as downwardAPI files have label values."""
    return msgspec.json.encode(text).decode()
