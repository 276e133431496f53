"""What the model of an API server answers, as functions of data: paths, selections, updates, patches, deletion."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from trainshed.kube.meta import causes, errors
from trainshed.kube.meta.fieldselectors import FieldSelector
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.meta.times import format_time
from trainshed.kube.patch.apply import apply
from trainshed.kube.patch.strategic import strategic_merge
from trainshed.kube.patch.types import APPLY, JSON, STRATEGIC, json_patch, merge_patch
from trainshed.kube.schema import nodes
from trainshed.kube.schema.nodes import SchemaNode

__all__ = ["APPLY"]

_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
)
_DEFAULT_GRACE = 30


class Place(NamedTuple):
    """A path: of a collection without `name`, of an object, or of its `subresource`."""

    root: str
    namespace: str
    plural: str
    name: str
    subresource: str

    @classmethod
    def of(cls, path: str) -> Self:
        """Return the parts of an absolute path below `/api` or `/apis`."""
        parts = path.strip("/").split("/")
        size = 2 if parts[0] == "api" else 3
        root, rest = "/" + "/".join(parts[:size]), parts[size:]
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = [*rest, "", ""][:3]
        return cls(root, namespace, plural, name, subresource)

    @property
    def group(self) -> str:
        """The API group, empty for the core."""
        parts = self.root.split("/")
        return parts[2] if parts[1] == "apis" else ""

    @property
    def api_version(self) -> str:
        """What objects here say of their group and version."""
        return self.root.removeprefix("/apis/").removeprefix("/api/")

    @property
    def collection(self) -> str:
        """The path of the collection, of its namespace if there is one."""
        inside = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{self.root}{inside}/{self.plural}"

    @property
    def path(self) -> str:
        """The path of the object without a subresource."""
        return f"{self.collection}/{self.name}"


@functools.lru_cache(maxsize=4096)
def is_under(path: str, collection: str) -> bool:
    """Whether the object at `path` belongs to `collection`, of a namespace or of all."""
    one, other = Place.of(path), Place.of(collection)
    return (one.root, one.plural) == (other.root, other.plural) and other.namespace in ("", one.namespace)


class Selection(NamedTuple):
    """The label and the field selector of a query."""

    labels: LabelSelector
    fields: FieldSelector

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Return what a query selects."""
        return cls(
            LabelSelector.parse(query.get("labelSelector", "")),
            FieldSelector.parse(query.get("fieldSelector", "")),
        )

    def matches(self, obj: Object) -> bool:
        """Whether the object is selected; any field can be named."""
        if self.labels.everything and not self.fields.requirements:
            return True
        names = {name for name, _, _ in self.fields.requirements}
        lookup = {name: lambda obj, name=name: _text_at(obj, name) for name in names}
        return self.labels.matches(obj["metadata"].get("labels")) and self.fields.matches(obj, lookup)

    def event(self, before: Object | None, kind: str, after: Object) -> str | None:
        """Return the type of the event that a watch of this selection shows for a change, None for none."""
        was = before is not None and self.matches(before)
        now = kind != "DELETED" and self.matches(after)
        return {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}.get((was, now))


def _text_at(obj: Object, field: str) -> str:
    value: Any = obj
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value)


def new(place: Place, sent: Object, now: str) -> Object:
    """Return what a POST stores but for the uid. Raises `ApiError` 400."""
    metadata = dict(sent.get("metadata") or {})
    if metadata.get("resourceVersion"):
        raise errors.bad_request("resourceVersion should not be set on objects to be created")
    if metadata.get("namespace", place.namespace) != place.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + "".join(random.choices("bcdfghjklmnp", k=5))
    for field in _SERVER_OWNED:
        metadata.pop(field, None)
    if place.namespace:
        metadata["namespace"] = place.namespace
    metadata["creationTimestamp"] = now
    kept = {key: value for key, value in sent.items() if key != "status"}
    return {"apiVersion": place.api_version, "kind": "Thing", **kept, "metadata": metadata}


def updated(place: Place, old: Object, wanted: Object) -> Object:
    """Return `old` changed to `wanted` as far as the path may. Raises `ApiError` 400, 409, 422."""
    metadata = dict(wanted.get("metadata") or {})
    for field, expected in (("name", place.name), ("namespace", place.namespace)):
        if metadata.get(field, expected) != expected:
            raise errors.bad_request(
                f"the {field} of the object ({metadata[field]}) does not match the {field} on the URL ({expected})"
            )
    if metadata.get("resourceVersion") not in (None, "", old["metadata"]["resourceVersion"]):
        raise errors.conflict(place.plural, place.group, place.name)
    if (uid := metadata.get("uid")) not in (None, "", old["metadata"]["uid"]):
        cause = causes.invalid("metadata.uid", uid, "field is immutable")
        raise errors.invalid(old["kind"], place.group, place.name, [cause])
    for field in (*_SERVER_OWNED, "name", "namespace"):
        metadata.pop(field, None)
        if field in old["metadata"]:
            metadata[field] = old["metadata"][field]
    if place.subresource == "status":
        return _with_status({**old, "metadata": metadata}, wanted)
    kept = {key: old[key] for key in ("apiVersion", "kind") if key in old}
    return _with_status({**kept, **wanted, "metadata": metadata}, old)


def _with_status(obj: Object, source: Object) -> Object:
    out = {key: value for key, value in obj.items() if key != "status"}
    return {**out, "status": source["status"]} if "status" in source else out


def patched(old: Object, patch: Any, content_type: str) -> Object:
    """Return `old` patched. Raises `ApiError` as the patch does."""
    if content_type == JSON:
        return dict(json_patch(old, patch))
    if content_type == STRATEGIC:
        return strategic_merge(old, patch, _schema(old))
    return dict(merge_patch(old, patch))


def applied(place: Place, live: Object | None, sent: Object, query: Mapping[str, str], now: str) -> Object:
    """Return the object after a server-side apply; who owns fields is known of applies only. Raises `ApiError`."""
    metadata = {**sent["metadata"], "name": place.name}
    if place.namespace:
        metadata["namespace"] = place.namespace
    return apply(
        live,
        {**sent, "metadata": metadata},
        _schema(sent),
        manager=query["fieldManager"],
        force=query.get("force") == "true",
        subresource=place.subresource,
        now=now,
    )


def _schema(obj: Object) -> SchemaNode:
    group, _, version = obj["apiVersion"].rpartition("/")
    return nodes.builtin((group, version, obj["kind"]))


def check_preconditions(place: Place, old: Object, options: Object) -> None:
    """Raise 409 when a deletion was meant for another object, or another version of it."""
    for field, expected in (options.get("preconditions") or {}).items():
        found = old["metadata"][field]
        if found != expected:
            why = f"the precondition on {field} ({expected}) does not match the record ({found})"
            raise errors.conflict(place.plural, place.group, place.name, why)


def marked(place: Place, old: Object, options: Object, now: float) -> Object:
    """Return the object with its deletion begun; a second one can only shorten the grace of a pod."""
    grace = _grace(place, old, options)
    metadata = old["metadata"]
    if "deletionTimestamp" in metadata and (
        place.plural != "pods" or grace >= metadata.get("deletionGracePeriodSeconds", 0)
    ):
        return old
    stamp = {"deletionTimestamp": format_time(now + grace), "deletionGracePeriodSeconds": grace}
    return {**old, "metadata": {**metadata, **stamp}}


def _grace(place: Place, obj: Object, options: Object) -> int:
    """Return the seconds that a pod gets; one that no node has, or that has ended, gets none."""
    spec = obj.get("spec") or {}
    ended = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    if place.plural != "pods" or not spec.get("nodeName") or ended:
        return 0
    asked = options.get("gracePeriodSeconds")
    return int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE) if asked is None else asked)


def is_deletion_complete(obj: Object) -> bool:
    """Whether nothing holds an object that is being deleted any more."""
    metadata = obj["metadata"]
    held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return "deletionTimestamp" in metadata and not held


def answers_with_object(place: Place, marked: Object) -> bool:
    """Whether a DELETE answers with the object: it is still there, or its kind is one that always does."""
    return not is_deletion_complete(marked) or place.plural in ("pods", "services")


def success(place: Place, obj: Object) -> Object:
    """Return the Status of a deletion that is done."""
    details = {"name": place.name, "group": place.group, "kind": place.plural, "uid": obj["metadata"]["uid"]}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
