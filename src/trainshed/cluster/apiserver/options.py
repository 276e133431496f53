"""Options of the verbs as requests carry them: in the query, the body and the User-Agent."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from trainshed.cluster.apiserver.http import Incoming
from trainshed.kube.meta.errors import bad_request, conflict
from trainshed.kube.schema.decode import conform
from trainshed.kube.schema.nodes import definition
from trainshed.kube.wire.body import decode_body
from trainshed.kube.wire.negotiate import body_format
from trainshed.kube.wire.options import DeleteOptions, WriteOptions, manager_of
from trainshed.kube.wire.protobuf import decode as decode_protobuf

_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_Write = TypeVar("_Write", bound=WriteOptions)


def managed(options: _Write, request: Incoming) -> _Write:
    """Return `options` with a field manager: its own, or the one that the User-Agent names."""
    if options.field_manager:
        return options
    agent = request.headers.get("user-agent", "")
    return msgspec.structs.replace(options, field_manager=manager_of(agent))


async def delete_options(request: Incoming) -> DeleteOptions:
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
            if given.get("kind") not in (None, "", "DeleteOptions"):
                version = str(given.get("apiVersion") or "")
                raise bad_request(
                    f'no kind "{given["kind"]}" is registered for version "{version}" in scheme'
                    ' "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
                )
            given, _ = conform(
                given, definition(_DELETE_OPTIONS), mode="ignore", what="DeleteOptions", builtin=True
            )
    return DeleteOptions.decode(request.query, given)


_CHANGED = {"UID": "deleted and then recreated", "ResourceVersion": "modified"}


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
                f" The object might have been {_CHANGED[field]}",
            )
