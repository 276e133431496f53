"""Errors that a Kubernetes API answers, as exceptions that carry the wire `Status`.

    ApiError                     any failed request; `.status()` is the wire object
    └─ made by the functions of this module, one per row of the API reference's table of reasons

One meaning, four faces: exception, HTTP `Status`, condition reason and CLI exit code all start from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

from trainshed.kube.meta.objects import section


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reason for a rejected object: `field` is a path such as `spec.containers[0].image`."""

    reason: str
    message: str
    field: str = ""


OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"

_ALWAYS_DETAILED = (404, 405)
"""Codes whose Status has `details` even when they are empty (apimachinery, `NewGenericServerResponse`)."""


class ApiError(Exception):
    """A request that the API refused.

    Attributes:
        code: HTTP status code.
        reason: machine-readable CamelCase reason, e.g. `NotFound`.
        message: what a user reads; kubectl prints `Error from server (<reason>): <message>`.
        details: the `details` object of the wire Status (name, group, kind, causes, retryAfterSeconds).
        headers: extra response headers, e.g. `Retry-After`.
        detailed: whether the wire Status has `details` although they are empty, as some of upstream's have.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        name: str = "",
        group: str = "",
        kind: str = "",
        uid: str = "",
        causes: Sequence[Cause] = (),
        retry_after_seconds: int | None = None,
        headers: Mapping[str, str] | None = None,
        detailed: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = tuple(causes)
        self.headers = dict(headers or {})
        details: dict[str, Any] = {}
        for key, value in (("name", name), ("group", group), ("kind", kind), ("uid", uid)):
            if value:
                details[key] = value
        if causes:
            details["causes"] = [msgspec.to_builtins(c) for c in causes]
        if retry_after_seconds is not None:
            details["retryAfterSeconds"] = retry_after_seconds
            self.headers.setdefault("Retry-After", str(retry_after_seconds))
        self.details = details
        self.detailed = detailed

    def status(self) -> dict[str, Any]:
        """Return the wire object: `kind: Status`, `apiVersion: v1`."""
        out: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            out["reason"] = self.reason
        if self.details or self.detailed or self.code in _ALWAYS_DETAILED:
            out["details"] = self.details
        out["code"] = self.code
        return out

    @classmethod
    def from_status(cls, code: int, status: Mapping[str, Any]) -> Self:
        """Return the error that a server's Status describes; tolerates missing parts."""
        details = section(status, "details")
        return cls(
            int(status.get("code") or code),
            str(status.get("reason") or ""),
            str(status.get("message") or f"HTTP {code}"),
            name=details.get("name", ""),
            group=details.get("group", ""),
            kind=details.get("kind", ""),
            uid=details.get("uid", ""),
            causes=[
                Cause(c.get("reason", ""), c.get("message", ""), c.get("field", ""))
                for c in details.get("causes") or ()
            ],
            retry_after_seconds=details.get("retryAfterSeconds"),
        )


def bad_request(message: str) -> ApiError:
    """400: the request itself is malformed."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """401: no user, or credentials that nobody issued."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: str, group: str, name: str, why: str) -> ApiError:
    """403 on a resource: `pods "x" is forbidden: <why>` (or without a name)."""
    qualified = f"{resource}.{group}" if group else resource
    subject = f'{qualified} "{name}"' if name else qualified
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", name=name, group=group, kind=resource)


def not_found(resource: str, group: str, name: str) -> ApiError:
    """404: `pods "x" not found`, `jobs.batch "x" not found`."""
    qualified = f"{resource}.{group}" if group else resource
    return ApiError(404, "NotFound", f'{qualified} "{name}" not found', name=name, group=group, kind=resource)


def no_such_resource() -> ApiError:
    """404 for a resource that no group serves."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> ApiError:
    """405: the resource exists, the verb does not."""
    return ApiError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def not_acceptable(*types: str) -> ApiError:
    """406: no representation that the client accepts; `types` are those that there are (JSON and YAML)."""
    named = ", ".join(types or ("application/json", "application/yaml"))
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {named}")


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415: a body in a format that this resource does not take."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def already_exists(resource: str, group: str, name: str) -> ApiError:
    """409: a create whose name is taken."""
    qualified = f"{resource}.{group}" if group else resource
    return ApiError(
        409, "AlreadyExists", f'{qualified} "{name}" already exists', name=name, group=group, kind=resource
    )


def conflict(resource: str, group: str, name: str, why: str = "") -> ApiError:
    """409: the object changed since it was read, or a precondition does not hold."""
    qualified = f"{resource}.{group}" if group else resource
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified} "{name}": {why}',
        name=name,
        group=group,
        kind=resource,
    )


def expired(message: str) -> ApiError:
    """410: a resourceVersion or continue token older than what is kept."""
    return ApiError(410, "Expired", message)


def too_large(limit_bytes: int) -> ApiError:
    """413: request body over the limit."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}")


def too_many_requests(message: str, retry_after_seconds: int) -> ApiError:
    """429: to be tried again after so many seconds, which clients do by themselves."""
    return ApiError(
        429,
        "TooManyRequests",
        message,
        retry_after_seconds=retry_after_seconds,
    )


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422: `Deployment.apps "x" is invalid: <field>: <message>`; several causes in brackets.

    A cause's `message` is what follows the field path, e.g. `Required value: must be set`.
    """
    qualified = f"{kind}.{group}" if group else kind
    texts = list(dict.fromkeys(f"{c.field}: {c.message}" if c.field else c.message for c in causes))
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    return ApiError(
        422,
        "Invalid",
        f'{qualified} "{name}" is invalid: {text}',
        name=name,
        group=group,
        kind=kind,
        causes=causes,
    )


def internal(message: str) -> ApiError:
    """500: our fault."""
    error = ApiError(500, "InternalError", f"Internal error occurred: {message}")
    error.details["causes"] = [{"message": message}]
    return error
