"""Light typed views of the parts that every Kubernetes object has.

A view never owns data: it reads the raw document, and a part that is missing or null reads as empty.
Nothing here rejects a document; the API server has done that already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as decoded JSON; fields that we do not model stay in it."""


def section(obj: Mapping[str, Any], *path: str) -> Object:
    """Return the object at `path`, or an empty one where any step is missing, null or no object."""
    here: Any = obj
    for step in path:
        if type(here) is not dict and not isinstance(
            here, Mapping
        ):  # the second test takes ten times as long
            return {}
        here = here.get(step)
    return here if isinstance(here, dict) else {}


def objects(parent: Mapping[str, Any], field: str) -> list[Object]:
    """Return the list of objects in `parent[field]`; entries that are no objects are left out."""
    value = parent.get(field)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(parent: Mapping[str, Any], field: str) -> dict[str, str]:
    """Return a map of strings such as labels or annotations; other values are left out."""
    return {k: v for k, v in section(parent, field).items() if isinstance(v, str)}


def metadata_of(obj: Mapping[str, Any]) -> Object:
    """Return `metadata`, empty when unset."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def spec_of(obj: Mapping[str, Any]) -> Object:
    """Return `spec`, empty when unset."""
    found = obj.get("spec")
    return found if isinstance(found, dict) else {}


def status_of(obj: Mapping[str, Any]) -> Object:
    """Return `status`, empty when unset."""
    found = obj.get("status")
    return found if isinstance(found, dict) else {}


def name_of(obj: Mapping[str, Any]) -> str:
    """Return `metadata.name`, empty when unset."""
    return str(section(obj, "metadata").get("name") or "")


def namespace_of(obj: Mapping[str, Any]) -> str:
    """Return `metadata.namespace`, empty when unset."""
    return str(section(obj, "metadata").get("namespace") or "")


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return `metadata.uid`, empty when unset."""
    return str(section(obj, "metadata").get("uid") or "")


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return `metadata.labels`, empty when unset."""
    return texts(section(obj, "metadata"), "labels")


def condition(obj: Mapping[str, Any], kind: str) -> Object | None:
    """Return the status condition of a type, None when there is none."""
    return next((item for item in objects(status_of(obj), "conditions") if item.get("type") == kind), None)


def unchanged_since(previous: Mapping[str, Any] | None, status: str, now: str) -> str:
    """Return since when a condition has `status`: the time of the one before it, unless that had another."""
    if previous is None or previous.get("status") != status:
        return now
    return str(previous.get("lastTransitionTime", now))


def is_true(obj: Mapping[str, Any], kind: str) -> bool:
    """Return whether a status condition is True."""
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"


def is_terminating(obj: Mapping[str, Any]) -> bool:
    """Return whether a delete of the object was accepted and is still under way."""
    return bool(section(obj, "metadata").get("deletionTimestamp"))


def controller_uid(obj: Mapping[str, Any]) -> str:
    """Return the uid of the owner that controls the object, empty when there is none."""
    for owner in objects(section(obj, "metadata"), "ownerReferences"):
        if owner.get("controller") is True:
            return str(owner.get("uid") or "")
    return ""


def copy_tree(value: Any) -> Any:
    """Return a copy of a JSON value; several times faster than `copy.deepcopy`, which must expect cycles."""
    if type(value) is dict:
        return {key: copy_tree(item) if type(item) in (dict, list) else item for key, item in value.items()}
    if type(value) is list:
        return [copy_tree(item) if type(item) in (dict, list) else item for item in value]
    return value
