"""The audit log: what a policy has written of each request, one JSON object a line.

A request that cannot be written down is served all the same; the control plane's log says so once.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from trainshed.cluster.apiserver.access import User
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.times import format_micro_time
from trainshed.kube.policy import audit
from trainshed.kube.policy.attributes import Attributes
from trainshed.kube.policy.audit import Policy, Wanted
from trainshed.kube.wire.asgi import Scope, headers_of
from trainshed.kube.wire.protobuf import decode as decode_protobuf
from trainshed.kube.wire.route import Route

log = logging.getLogger(__name__)

MAX_BYTES = 100 * 1024 * 1024
"""A log of this size becomes `<name>.1`, of which there is one."""
_ID_CHARACTERS = 64
_LONG_RUNNING = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_encode = msgspec.json.Encoder().encode


class AuditLog:
    """A policy and the file that it writes. `clock` returns seconds since the epoch."""

    def __init__(self, policy: Policy, path: Path, clock: Callable[[], float]) -> None:
        """Raises OSError: the file cannot be opened."""
        self.policy = policy
        self.clock = clock
        self._path = path
        self._failed = False
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        os.fchmod(self._descriptor, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def write(self, event: Object) -> None:
        """Append an event."""
        line = _encode(event) + b"\n"
        try:
            if self._size and self._size + len(line) > MAX_BYTES:
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
                os.close(self._descriptor)
                self._open()
            os.write(self._descriptor, line)
            self._size += len(line)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.error("cannot write the audit log %s: %s", self._path, error.strerror)
            self._failed = True


class Trail:
    """What is written of one request. Nothing is before `known` has told whose it is."""

    def __init__(self, audit_log: AuditLog, scope: Scope, method: str, path: str) -> None:
        self._log = audit_log
        self._received = audit_log.clock()
        sent = headers_of(scope, "audit-id")
        self.id = sent[0][:_ID_CHARACTERS] if sent and sent[0].isprintable() else str(uuid.uuid4())
        self._scope = scope
        self._method = method
        self._path = path
        self._wanted = Wanted(audit.NONE)
        self._event: Object = {}
        self._annotations: dict[str, str] = {}
        self._long_running = False
        self._ended = False

    @property
    def wants_request(self) -> bool:
        """Whether the object of the request is written."""
        return self._wanted.request

    @property
    def wants_response(self) -> bool:
        """Whether the object of the answer is written."""
        return self._wanted.response

    def known(self, user: User, route: Route | None) -> None:
        """Note who asks for what; the policy decides."""
        verb = route.verb if route is not None else self._method.lower()
        asked = Attributes(user=user.username, groups=user.groups, verb=verb, path=self._path)
        if route is not None:
            asked = Attributes(
                user=user.username,
                groups=user.groups,
                verb=verb,
                group=route.group,
                resource=route.plural,
                subresource=route.subresource,
                namespace=route.namespace or "",
                name=route.name,
            )
            self._long_running = verb == "watch" or route.subresource in _LONG_RUNNING
        self._wanted = audit.wanted(self._log.policy, asked)
        query = self._scope.get("query_string", b"").decode("latin-1")
        self._event = {
            "kind": "Event",
            "apiVersion": audit.API_VERSION,
            "level": self._wanted.level,
            "auditID": self.id,
            "stage": "",
            "requestURI": f"{self._path}?{query}" if query else self._path,
            "verb": verb,
            "user": user.as_object(),
            "sourceIPs": self._addresses(),
        }
        agents = [value for name, value in self._scope["headers"] if name == b"user-agent"]
        if agents:
            self._event["userAgent"] = agents[0].decode("latin-1")[:1024]
        if route is not None:
            self._event["objectRef"] = _reference(route)
        self._event["requestReceivedTimestamp"] = format_micro_time(self._received)
        self._write(audit.RECEIVED)

    def refused(self, attempted: str) -> None:
        """Note that nobody knows who asks."""
        self.known(User(""), None)
        self._event["user"] = {}
        text = f"Authentication failed, attempted: {attempted or 'none'}"
        self._event["responseStatus"] = {
            "metadata": {},
            "status": "Failure",
            "message": text,
            "reason": "Unauthorized",
            "code": 401,
        }
        self._write(audit.STARTED)
        self._ended = True

    def impersonated(self, user: User) -> None:
        """Note as whom the user acts."""
        self._event["impersonatedUser"] = user.as_object()

    def decided(self, allowed: bool, why: str) -> None:
        """Note what authorization says."""
        self.annotate("authorization.k8s.io/decision", "allow" if allowed else "forbid")
        self.annotate("authorization.k8s.io/reason", why)

    def annotate(self, key: str, value: str) -> None:
        """Note what somebody has to say of the request."""
        self._annotations.setdefault(key, value)

    def asked_for(self, body: bytes, content_type: str) -> None:
        """Note the object of the request."""
        if self.wants_request and (decoded := _decoded(body, content_type)) is not None:
            self._event["requestObject"] = self._shown(decoded)

    def started(self, code: int) -> None:
        """Note that a stream begins."""
        if self._long_running:
            self._event["responseStatus"] = {"metadata": {}, "code": code}
            self._write(audit.STARTED)

    def answered(self, code: int, body: bytes, content_type: str) -> None:
        """Note the answer."""
        decoded = _decoded(body, content_type) if code >= 400 or self.wants_response else None
        status: Object = {"metadata": {}, "code": code}
        if isinstance(decoded, dict) and decoded.get("kind") == "Status":
            kept = ("status", "message", "reason", "details")
            status = {"metadata": {}, **{key: decoded[key] for key in kept if key in decoded}, "code": code}
        self._event["responseStatus"] = status
        if self.wants_response and decoded is not None:
            self._event["responseObject"] = self._shown(decoded)

    def failed(self, error: ApiError) -> None:
        """Note an error that is the answer."""
        self.answered(error.code, _encode(error.status()), "application/json")

    def complete(self, code: int = 0) -> None:
        """Write that the answer is complete; `code` where it was not noted."""
        if self._ended or not self._event:
            return
        self._ended = True
        self._event.setdefault("responseStatus", {"metadata": {}, "code": code or 200})
        self._write(audit.COMPLETE)

    def _addresses(self) -> list[str]:
        client = self._scope.get("client")
        return [str(client[0])] if client else []

    def _shown(self, value: Any) -> Any:
        return audit.without_managed_fields(value) if self._wanted.omit_managed_fields else value

    def _write(self, stage: str) -> None:
        if not self._wanted.has(stage):
            return
        event = {**self._event, "stage": stage, "stageTimestamp": format_micro_time(self._log.clock())}
        if self._annotations:
            event["annotations"] = self._annotations
        self._log.write(event)


def _reference(route: Route) -> Object:
    out = {
        "resource": route.plural,
        "namespace": route.namespace or "",
        "name": route.name,
        "apiGroup": route.group,
        "apiVersion": route.version,
        "subresource": route.subresource,
    }
    return {key: value for key, value in out.items() if value}


def _decoded(body: bytes, content_type: str) -> Any:
    """Return what a body holds, None where it is empty or no object that is read here."""
    if not body:
        return None
    try:
        if "protobuf" in content_type:
            return decode_protobuf(body)
        if "yaml" in content_type:
            from trainshed.kube.wire.body import decode_value

            return decode_value(body)
        return msgspec.json.decode(body)
    except (ApiError, msgspec.DecodeError, RecursionError):
        return None
