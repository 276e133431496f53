"""Query parameters and option bodies of the verbs, checked.

Source: `CreateOptions`, `UpdateOptions`, `PatchOptions`, `DeleteOptions`, `ListOptions` of meta.k8s.io/v1.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trainshed.cluster.apiserver.http import Request
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause, bad_request, conflict, invalid
from trainshed.kube.schema.decode import Mode, conform
from trainshed.kube.schema.nodes import definition
from trainshed.kube.wire.body import decode_body
from trainshed.kube.wire.negotiate import body_format
from trainshed.kube.wire.protobuf import decode as decode_protobuf

META = "meta.k8s.io"
MAX_MANAGER_CHARACTERS = 128
_MODES: dict[str, Mode] = {"": "warn", "Ignore": "ignore", "Warn": "warn", "Strict": "strict"}
_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
POLICIES = ("Orphan", "Background", "Foreground")


class WriteOptions(msgspec.Struct, frozen=True):
    """What create, update and patch share. `explicit_manager` is False when the User-Agent named it."""

    dry_run: bool
    manager: str
    mode: Mode
    explicit_manager: bool = True
    force: bool = False


def write_options(request: Request, kind: str) -> WriteOptions:
    """Return the options of a write; `kind` is `CreateOptions` and the like, for messages.

    Raises:
        ApiError: 422 for values that are not allowed.
    """
    found: list[Cause] = []
    dry_run = _dry_run(request, found)
    manager = request.first("fieldManager")
    if len(manager) > MAX_MANAGER_CHARACTERS:
        found.append(
            Cause(
                "FieldValueTooLong",
                f"Too long: may not be more than {MAX_MANAGER_CHARACTERS} bytes",
                "fieldManager",
            )
        )
    elif not manager.isprintable():
        found.append(causes.invalid("fieldManager", manager, "should only contain printable characters"))
    validation = request.first("fieldValidation")
    if validation not in _MODES:
        found.append(causes.unsupported("fieldValidation", validation, ("Ignore", "Strict", "Warn")))
    if found:
        raise invalid(kind, META, "", found)
    explicit = bool(manager)
    manager = manager or request.headers.get("user-agent", "").partition("/")[0][:MAX_MANAGER_CHARACTERS]
    return WriteOptions(dry_run, manager or "unknown", _MODES[validation], explicit, request.flag("force"))


def _dry_run(request: Request, found: list[Cause]) -> bool:
    values = request.query.get("dryRun", [])
    for value in values:
        if value not in ("All", ""):
            found.append(causes.unsupported("dryRun", value, ("All",)))
    return any(value == "All" for value in values)


class DeleteOptions(msgspec.Struct, frozen=True):
    """How to delete. `grace_period_seconds` and `propagation_policy` are None when the caller did not say."""

    dry_run: bool = False
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    uid: str = ""
    resource_version: str = ""


async def delete_options(request: Request) -> DeleteOptions:
    """Return the options from the body, completed from the query.

    Raises:
        ApiError: 400 for a malformed body, 422 for values that are not allowed.
    """
    data = await request.body()
    given: dict[str, Any] = {}
    if data.strip():
        content_type = request.headers.get("content-type", "")
        if data.startswith(b"k8s\x00"):
            given = decode_protobuf(data)
        elif body_format(content_type) == "protobuf":
            raise bad_request("the body is not a protobuf message")
        else:
            given, _ = decode_body(data, content_type, kind="DeleteOptions", find_duplicates=False)
            given, _ = conform(
                given, definition(_DELETE_OPTIONS), mode="ignore", what="DeleteOptions", builtin=True
            )
    found: list[Cause] = []
    dry_run = _dry_run(request, found)
    for value in given.get("dryRun") or ():
        if value != "All":
            found.append(causes.unsupported("dryRun", value, ("All",)))
        dry_run = True
    policy = given.get("propagationPolicy") or request.first("propagationPolicy") or None
    if policy is not None and policy not in POLICIES:
        found.append(causes.unsupported("propagationPolicy", policy, (*POLICIES, "nil")))
    orphan = given.get("orphanDependents")
    if orphan is None and "orphanDependents" in request.query:
        orphan = request.flag("orphanDependents")
    if orphan is not None and policy is not None:
        found.append(
            causes.invalid(
                "propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"
            )
        )
    if found:
        raise invalid("DeleteOptions", META, "", found)
    grace = given.get("gracePeriodSeconds")
    if grace is None:
        grace = request.integer("gracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
        raise bad_request("gracePeriodSeconds must be an integer")
    preconditions = given.get("preconditions") or {}
    return DeleteOptions(
        dry_run,
        grace,
        policy,
        orphan,
        preconditions.get("uid") or "",
        preconditions.get("resourceVersion") or "",
    )


def check_preconditions(
    options: DeleteOptions, kind: str, group: str, name: str, metadata: dict[str, Any]
) -> None:
    """Raise `ApiError` 409 unless the object is the one that the caller means."""
    for field, wanted, have in (
        ("UID", options.uid, metadata.get("uid", "")),
        ("ResourceVersion", options.resource_version, metadata.get("resourceVersion", "")),
    ):
        if wanted and wanted != have:
            raise conflict(
                kind,
                group,
                name,
                f"the {field} in the precondition ({wanted}) does not match the {field} in record ({have})."
                " The object might have been deleted and then recreated",
            )
