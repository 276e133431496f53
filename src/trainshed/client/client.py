"""Typed-enough access to any Kubernetes API: one method per verb, objects as decoded JSON.

    Error         what happened                      what to do
    ApiError      the server answered with a Status  look at `.code` and `.reason`
    TransportError nothing came back                 try again later

A namespaced resource without a namespace means all namespaces in `list` and `watch`, and the client's own
namespace in `get`, `patch` and `delete`. Writes take the namespace of the object first.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from trainshed.client.transport import Response, Transport
from trainshed.client.watching import decode_events, status_error
from trainshed.kube.meta.objects import Object, metadata_of
from trainshed.kube.meta.resources import PODS, SERVICEACCOUNTS, Resource
from trainshed.kube.patch.types import APPLY, MERGE
from trainshed.kube.wire.options import (
    CreateOptions,
    DeleteOptions,
    ListOptions,
    LogOptions,
    PatchOptions,
    UpdateOptions,
    WatchOptions,
    WriteOptions,
)
from trainshed.kube.wire.request import JSON, Request
from trainshed.kube.wire.watchframe import WatchEvent

log = logging.getLogger(__name__)

_WARNINGS_LOGGED = 100
"""How many different warnings of a server a client logs."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class ObjectList(msgspec.Struct, frozen=True):
    """A list at one `resource_version`. Items always carry apiVersion and kind.

    `continue_token` is not empty when the server holds more pages.
    """

    items: list[Object]
    resource_version: str
    continue_token: str = ""


class Client:
    """A Kubernetes API as one user sees it.

    `user_agent` also names the field manager of writes that do not name one (the part before the slash, as
    kubectl does). `on_warning` is given the text of each warning that the server sends along with an answer
    (a deprecated field, say); without it each is logged
    once. Must be closed.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "trainshed",
        namespace: str = "default",
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self.transport = transport
        self._on_warning = on_warning or _log_once()
        self.namespace = namespace
        self.field_manager = user_agent.partition("/")[0]

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """Return one object; ApiError 404 when absent."""
        return await self._object(Request("GET", self._path(resource, namespace, name)))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int | None = None,
        continue_token: str = "",
    ) -> ObjectList:
        """Return what matches now; with `limit`, one page of at most that many (see `continue_token`)."""
        options = ListOptions(
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
        )
        document = await self._object(Request("GET", resource.path(namespace), options.encode()))
        metadata = metadata_of(document)
        items: list[Object] = document.get("items") or []
        for item in items:
            # Built-in items come without their type: add it so that an object always says what it is.
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return ObjectList(items, str(metadata.get("resourceVersion", "")), metadata.get("continue") or "")

    async def create(
        self,
        resource: Resource,
        obj: Object,
        *,
        namespace: str | None = None,
        field_manager: str = "",
        dry_run: bool = False,
        field_validation: str = "",
    ) -> Object:
        """Return the created object; ApiError 409 AlreadyExists when the name is taken."""
        path = resource.path(self._write_namespace(resource, obj, namespace))
        options = CreateOptions(
            field_manager=field_manager or self.field_manager,
            dry_run=dry_run,
            field_validation=field_validation,
        )
        return await self._object(_with_body("POST", path, options, obj))

    async def update(
        self,
        resource: Resource,
        obj: Object,
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Replace the object, or its `subresource`; ApiError 409 Conflict when its resourceVersion is old."""
        namespace = self._write_namespace(resource, obj, None)
        path = resource.path(namespace, obj["metadata"]["name"], subresource)
        options = UpdateOptions(field_manager=field_manager or self.field_manager, dry_run=dry_run)
        return await self._object(_with_body("PUT", path, options, obj))

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        patch: Any,
        *,
        patch_type: str = MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Return the object after `patch` (a dict, or a list for a JSON patch)."""
        path = self._path(resource, namespace, name, subresource)
        options = PatchOptions(field_manager=self.field_manager, dry_run=dry_run)
        return await self._object(_with_body("PATCH", path, options, patch, patch_type))

    async def apply(
        self,
        resource: Resource,
        obj: Object,
        *,
        field_manager: str,
        force: bool = True,
        dry_run: bool = False,
        field_validation: str = "",
        subresource: str = "",
    ) -> Object:
        """Server-side apply `obj`, creating it if needed; ApiError 409 names the fields that others own."""
        namespace = self._write_namespace(resource, obj, None)
        path = resource.path(namespace, obj["metadata"]["name"], subresource)
        options = PatchOptions(
            field_manager=field_manager, dry_run=dry_run, field_validation=field_validation, force=force
        )
        typed = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self._object(_with_body("PATCH", path, options, typed, APPLY))  # JSON is YAML

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> Object:
        """Delete; return a Status, or the object when it stays until its finalizers or grace period end.

        `uid` and `resource_version` are preconditions: ApiError 409 when another object has the name now.
        """
        options = DeleteOptions(
            grace_period_seconds=grace_period_seconds,
            propagation_policy=propagation_policy,
            uid=uid or "",
            resource_version=resource_version or "",
        )
        path = self._path(resource, namespace, name)
        body = options.encode()
        if not body:
            return await self._object(Request("DELETE", path))
        return await self._object(Request("DELETE", path, body=_encode(body), content_type=JSON))

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int | None = None,
        bookmarks: bool = True,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield events after `resource_version` until the server closes the stream.

        BOOKMARK events are yielded too when asked for. ApiError 410: list again. Not resumed here: see
        `client.informer`. Whoever stops early closes the generator (`contextlib.aclosing`), or the
        connection stays until it is collected.
        """
        options = WatchOptions(
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
            allow_watch_bookmarks=bookmarks,
        )
        request = Request("GET", resource.path(namespace), options.encode())
        async with self.transport.stream(request) as stream:
            if stream.status != 200:
                raise status_error(stream.status, await stream.read())
            async with aclosing(decode_events(stream.chunks())) as events:
                async for event in events:
                    yield event

    async def logs(
        self, name: str, namespace: str | None = None, options: LogOptions | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield a container's log in chunks, not aligned to lines; with `follow`, until it ends."""
        path = self._path(PODS, namespace, name, "log")
        request = Request("GET", path, (options or LogOptions()).encode(), accept="*/*")
        async with self.transport.stream(request) as stream:
            if stream.status != 200:
                raise status_error(stream.status, await stream.read())
            async for chunk in stream.chunks():
                yield chunk

    async def bind(self, pod_name: str, namespace: str, node: str) -> None:
        """Assign a pod to a node; ApiError 409 when it has one already."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod_name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(namespace, pod_name, "binding")
        await self._object(Request("POST", path, body=_encode(binding), content_type=JSON))

    async def create_token(
        self,
        service_account: str,
        namespace: str,
        *,
        audiences: Sequence[str] = (),
        expiration_seconds: int = 3600,
        bound_pod: Mapping[str, str] | None = None,
    ) -> Object:
        """Return the TokenRequest: `status.token`, `status.expirationTimestamp`.

        `bound_pod` has the pod's `name` and `uid`; the token dies with it.
        """
        spec: dict[str, Any] = {"audiences": list(audiences), "expirationSeconds": expiration_seconds}
        if bound_pod is not None:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", **bound_pod}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = SERVICEACCOUNTS.path(namespace, service_account, "token")
        return await self._object(Request("POST", path, body=_encode(body), content_type=JSON))

    async def raw_get(self, path: str, *, accept: str = "*/*") -> bytes:
        """Return the body at an absolute path such as `/version`."""
        return (await self._send(Request("GET", path, accept=accept))).body

    async def close(self) -> None:
        await self.transport.close()

    def _path(self, resource: Resource, namespace: str | None, name: str, subresource: str = "") -> str:
        return resource.path(namespace or self.namespace, name, subresource)

    def _write_namespace(self, resource: Resource, obj: Object, namespace: str | None) -> str | None:
        if not resource.namespaced:
            return None
        return metadata_of(obj).get("namespace") or namespace or self.namespace

    async def _object(self, request: Request) -> Object:
        response = await self._send(request)
        document = _decode(response.body) if response.body else {}
        return document if isinstance(document, dict) else {}

    async def _send(self, request: Request) -> Response:
        response = await self.transport.request(request)
        for warning in response.warnings:
            self._on_warning(warning_text(warning))
        if response.status >= 400:
            raise status_error(response.status, response.body, response.headers)
        return response


def warning_text(header: str) -> str:
    """Return the text of a Warning header: `299 - "text"`, with quotes and backslashes escaped (RFC 7234)."""
    quoted = header.partition('"')[2].rpartition('"')[0]
    return re.sub(r"\\(.)", r"\1", quoted) if quoted else header


def _log_once() -> Callable[[str], None]:
    """Return what logs a warning the first time: Endpoints are deprecated with each write of one."""
    logged: set[str] = set()

    def log_warning(text: str) -> None:
        if text not in logged and len(logged) < _WARNINGS_LOGGED:
            logged.add(text)
            log.info("API warning", extra={"warning": text})

    return log_warning


def _with_body(method: str, path: str, options: WriteOptions, body: Any, content_type: str = JSON) -> Request:
    return Request(method, path, options.encode(), _encode(body), content_type)
