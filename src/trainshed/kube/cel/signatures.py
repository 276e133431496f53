"""Which types of expressions fit the functions that are called at run time."""

from __future__ import annotations

from trainshed.kube.cel.library.authorizer import Authorizer, Decision, GroupCheck, PathCheck, ResourceCheck
from trainshed.kube.cel.library.names import Format
from trainshed.kube.cel.library.networks import CIDR, IP
from trainshed.kube.cel.library.overloads import ANY, Overloads
from trainshed.kube.cel.library.quantities import Quantity
from trainshed.kube.cel.library.urls import URL
from trainshed.kube.cel.types import Type
from trainshed.kube.cel.values import Duration, Optional, Timestamp, TypeValue, Uint


class _Object:
    """What has declared fields: no function of maps takes it."""


_PYTHON_TYPES: dict[str, type] = {
    "string": str, "int": int, "uint": Uint, "double": float, "bool": bool, "bytes": bytes, "list": list,
    "map": dict, "object": _Object, "null_type": type(None), "type": TypeValue, "timestamp": Timestamp,
    "duration": Duration, "optional": Optional, "quantity": Quantity, "ip": IP, "cidr": CIDR, "url": URL,
    "format": Format, "authorizer": Authorizer, "pathcheck": PathCheck, "groupcheck": GroupCheck,
    "resourcecheck": ResourceCheck, "decision": Decision,
}  # fmt: skip


def accepts(overloads: Overloads, types: list[Type]) -> bool:
    """Return whether a function can be called with values of these types."""
    return overloads.takes([_PYTHON_TYPES.get(each.kind, ANY) for each in types])
