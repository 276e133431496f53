"""What a CustomResourceDefinition is served as: its conditions, and the resources of its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trainshed.kube.meta.objects import Object, copy_tree, is_true, metadata_of, section, status_of
from trainshed.kube.meta.resources import Resource
from trainshed.kube.schema.crd import crd_defaults

if TYPE_CHECKING:
    from trainshed.kube.meta.resourceinfo import ResourceInfo


def as_created(obj: Object) -> Object:
    """Return a CRD as the answer to its creation shows it: accepting its names is the next step, not part of it."""
    entries = [entry for entry in metadata_of(obj).get("managedFields") or () if "subresource" not in entry]
    stored = status_of(obj).get("storedVersions")
    return {
        **obj,
        "metadata": {**metadata_of(obj), "managedFields": entries},
        "status": {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored},
    }


def deleting_instances(obj: Object, now: str) -> Object:
    """Return a definition that is being deleted as it is while its objects are. Unchanged when it says so already."""
    status = status_of(obj)
    held = status.get("conditions") or []
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": next(
            (c["lastTransitionTime"] for c in held if c["type"] == "Terminating"), now
        ),
        "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress",
    }
    if condition in held:
        return obj
    others = [c for c in held if c["type"] != "Terminating"]
    return {**obj, "status": {**status, "conditions": [*others, condition]}}


def established(obj: Object, now: str, *, names_conflict: str = "") -> Object:
    """Return a valid CRD with defaults and the status of one that is served; the input is not changed.

    Args:
        now: RFC 3339 time of conditions that change.
        names_conflict: why its names cannot be accepted, e.g. `"wd" is already in use`; then it is not served.
    """
    out = _own_but_schemas(obj)
    crd_defaults(out)
    spec, status = out["spec"], out["status"]
    accepted = not names_conflict
    served_before = any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    conditions = [
        _condition("NamesAccepted", accepted, "NoConflicts", "no conflicts found")
        if accepted
        else _condition("NamesAccepted", False, "MultipleNamesNotAllowed", names_conflict),
    ]
    if accepted or served_before:  # established stays true: existing clients keep working
        text = "the initial names have been accepted"
        conditions.append(_condition("Established", True, "InitialNamesAccepted", text))
    else:
        text = "not all names are accepted"
        conditions.append(_condition("Established", False, "NotAccepted", text))
    held = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    for condition in conditions:
        before = held.pop(condition["type"], None)
        same = before is not None and before.get("status") == condition["status"]
        condition["lastTransitionTime"] = before.get("lastTransitionTime", now) if before and same else now
    status["conditions"] = [*conditions, *held.values()]
    if accepted:
        kinds = section(spec, "names")
        fields = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
        status["acceptedNames"] = {key: kinds[key] for key in fields if kinds.get(key)}
    else:
        status.setdefault("acceptedNames", {"kind": "", "plural": ""})
    stored = status.setdefault("storedVersions", [])
    for version in spec.get("versions") or ():
        if version.get("storage") and version["name"] not in stored:
            stored.append(version["name"])
    return out


def _own_but_schemas(obj: Object) -> Object:
    """Return a copy that shares only the versions' schemas and columns with `obj`: they are nearly all of it."""
    spec = obj["spec"]
    own = {
        key: [{**version} for version in value] if key == "versions" else copy_tree(value)
        for key, value in spec.items()
    }
    return {**obj, "metadata": {**obj["metadata"]}, "spec": own, "status": copy_tree(status_of(obj))}


def _schema_of(version: Object, encoded: bytes) -> bytes | memoryview:
    """Return the JSON of a version's schema: where it stands in that of the whole, if it does, not a copy."""
    schema = section(version, "schema").get("openAPIV3Schema")
    if not schema:
        return b""
    text = msgspec.json.encode(schema)
    begin = encoded.find(text)
    return text if begin < 0 else memoryview(encoded)[begin : begin + len(text)]


def _condition(kind: str, holds: bool, reason: str, message: str) -> Object:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def is_established(obj: Object) -> bool:
    """Return whether the resources of a CRD are served."""
    return is_true(obj, "Established")


def infos(obj: Object, encoded: bytes = b"") -> list[ResourceInfo]:
    """Return one `ResourceInfo` per served version of a defaulted CRD, in the order of its versions.

    `encoded` is the same as JSON, of which they keep parts.
    """
    from trainshed.kube.meta.resourceinfo import ResourceInfo, ScalePaths, SubresourceInfo

    spec = obj["spec"]
    kinds, versions = spec["names"], spec.get("versions") or []
    storage = next((version["name"] for version in versions if version.get("storage")), "")
    declared_conversion = section(spec, "conversion")
    conversion = b""
    if declared_conversion.get("strategy") == "Webhook":
        conversion = msgspec.json.encode(section(declared_conversion, "webhook"))
    out: list[ResourceInfo] = []
    for version in versions:
        if not version.get("served"):
            continue
        declared = section(version, "subresources")
        subresources: dict[str, SubresourceInfo] = {}
        verbs = ("get", "patch", "update")
        if declared.get("status") is not None:
            subresources["status"] = SubresourceInfo(verbs)
        paths = declared.get("scale")
        if paths is not None:
            subresources["scale"] = SubresourceInfo(verbs, "Scale", "autoscaling", "v1")
        warning = ""
        if version.get("deprecated"):
            name = f"{spec['group']}/{version['name']} {kinds['kind']}"
            warning = version.get("deprecationWarning") or f"{name} is deprecated"
        out.append(
            ResourceInfo(
                resource=Resource(
                    spec["group"],
                    version["name"],
                    kinds["plural"],
                    kinds["kind"],
                    spec["scope"] == "Namespaced",
                ),
                singular=kinds.get("singular") or kinds["kind"].lower(),
                list_kind=kinds.get("listKind") or f"{kinds['kind']}List",
                short_names=tuple(kinds.get("shortNames") or ()),
                categories=tuple(kinds.get("categories") or ()),
                verbs=("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"),
                subresources=subresources,
                unconditional_update=False,
                has_generation=True,
                scale=None
                if paths is None
                else ScalePaths(
                    paths.get("specReplicasPath", ""),
                    paths.get("statusReplicasPath", ""),
                    paths.get("labelSelectorPath", ""),
                ),
                crd_name=obj["metadata"]["name"],
                storage_version=storage,
                schema=_schema_of(version, encoded),
                conversion=conversion,
                printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
                selectable=tuple(field["jsonPath"] for field in version.get("selectableFields") or ()),
                deprecation_warning=warning,
            )
        )
    return out
