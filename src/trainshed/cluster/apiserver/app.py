"""The ASGI application: who asks, for what, may they, and then the verb."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from trainshed.cluster.apiserver.access import ADMIN, Authenticator, Authorizer, RbacAuthorizer
from trainshed.cluster.apiserver.aggregation import Aggregation, Credentials
from trainshed.cluster.apiserver.core import AdmissionCheck, Call, Core
from trainshed.cluster.apiserver.definitions import Definitions
from trainshed.cluster.apiserver.dispatch import Dispatcher
from trainshed.cluster.apiserver.eventttl import expire_events
from trainshed.cluster.apiserver.forwarding import (
    Forwarded,
    Unreachable,
    forward,
    forward_websocket,
    unavailable,
)
from trainshed.cluster.apiserver.http import (
    Answer,
    Disconnected,
    Incoming,
    PiecesAnswer,
    Result,
    Streaming,
)
from trainshed.cluster.apiserver.kinds import Kinds
from trainshed.cluster.apiserver.nonresource import HealthCheck, NonResource
from trainshed.cluster.apiserver.sending import LAST_CHUNK, send_answer, send_stream
from trainshed.cluster.apiserver.streams.rejection import reject
from trainshed.cluster.apiserver.subresources import streaming
from trainshed.cluster.apiserver.tokens import TokenIssuer
from trainshed.cluster.apiserver.verbs.remove import remove
from trainshed.cluster.backend import Nodes
from trainshed.cluster.pki import Pki
from trainshed.cluster.store import Damaged, Store, Stored, StoreError, StoreFull, StoreReadOnly, keys
from trainshed.kube.builtin.kind import View
from trainshed.kube.meta.errors import ApiError, internal
from trainshed.kube.served.registry import Registry
from trainshed.kube.wire import negotiate
from trainshed.kube.wire.asgi import Handshake, Message, Receive, Scope, Send
from trainshed.kube.wire.options import DeleteOptions

if TYPE_CHECKING:
    from trainshed.cluster.apiserver.audit import AuditLog

log = logging.getLogger(__name__)


class ApiServer:
    """A Kubernetes API over a store.

    `nodes` may be set later, before the first request that needs it: the node is itself a client of this
    server. `admission` maps a group resource (`pytorchjobs.kubeflow.org`) to a check of its writes, `conversions` a
    version of a custom resource to how it is stored.
    """

    def __init__(
        self,
        store: Store,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        nodes: Nodes | None = None,
        admission: Mapping[str, AdmissionCheck] | None = None,
        conversions: Mapping[tuple[str, str, str], View] | None = None,
        clock: Callable[[], float] = time.time,
        health_checks: Mapping[str, HealthCheck] | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.core = Core(
            store,
            Kinds(Registry(), conversions),
            authenticator=authenticator,
            authorizer=authorizer,
            nodes=nodes,
            admission=admission or {},
            clock=clock,
        )
        self.definitions = Definitions(self.core)
        self.aggregation = Aggregation(self.core, credentials, self.definitions.sync)
        nonresource = NonResource(self.core, dict(health_checks or {}))
        self._requests = nonresource.requests
        self._dispatcher = Dispatcher(self.core, nonresource, self.aggregation)
        self.bodies = self._dispatcher.bodies
        self.audit_log: AuditLog | None = None
        """Where requests are written down, if anywhere."""
        self._streams: set[asyncio.Future[None]] = set()

    @classmethod
    def secured(
        cls,
        store: Store,
        pki: Pki,
        *,
        nodes: Nodes | None = None,
        admission: Mapping[str, AdmissionCheck] | None = None,
        conversions: Mapping[tuple[str, str, str], View] | None = None,
        health_checks: Mapping[str, HealthCheck] | None = None,
    ) -> ApiServer:
        """Return a server with the cluster's own keys: its admin token, ServiceAccount tokens, and RBAC."""
        issuer = TokenIssuer.load(pki.service_account_key)
        return cls(
            store,
            authenticator=Authenticator(store, issuer, {pki.admin_token: ADMIN}),
            authorizer=RbacAuthorizer(store),
            nodes=nodes,
            admission=admission,
            conversions=conversions,
            health_checks=health_checks,
            credentials=Credentials(pki.front_proxy_certificate, pki.front_proxy_key),
        )

    def end_streams(self) -> None:
        """End every watch, log, exec, attach and port-forward: the server is about to stop."""
        for stream in self._streams:
            stream.cancel()

    async def _run_stream(self, stream: Coroutine[Any, Any, None]) -> bool:
        """Run a stream to its end; return False when `end_streams` came first."""
        task = asyncio.ensure_future(stream)
        self._streams.add(task)
        try:
            await asyncio.wait((task,))
        finally:
            self._streams.discard(task)
            task.cancel()
            await asyncio.wait((task,))
        if task.cancelled():
            return False
        task.result()
        return True

    async def run(self) -> None:
        """Do what has to be done between requests, until cancelled: expiry, deletion of custom resources."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(expire_events(self.core))
            tasks.create_task(self.definitions.clean_up(self._remove))
            tasks.create_task(self.aggregation.run())

    async def _remove(self, stored: Stored) -> None:
        """Delete a custom resource whose definition goes away."""
        place = keys.place(stored.key)
        version = stored.obj["apiVersion"].rpartition("/")[2]
        kind = self.core.kinds.get(place.group, version, place.plural)
        if kind is None:
            await self.core.store.delete(stored.key, stored.revision)
            return
        try:
            await remove(
                self.core,
                kind,
                place.namespace,
                place.name,
                DeleteOptions(propagation_policy="Background"),
                self.core.clock(),
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def _sync(self) -> None:
        """Take in which kinds are served now, and by whom."""
        self.definitions.sync()
        self.aggregation.sync()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Incoming(scope, receive)
        if self.audit_log is None:
            await self._serve(request, scope, receive, send)
            return
        from trainshed.cluster.apiserver.audit import Trail

        request.trail = trail = Trail(self.audit_log, scope, request.method, request.path)
        codes: list[int] = []

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                codes.append(message["status"])
                trail.started(message["status"])
            await send(message)

        try:
            await self._serve(request, scope, receive, noted)
        finally:
            # Who leaves HTTP was answered 101.
            trail.complete(codes[-1] if codes else 101)

    async def _serve(self, request: Incoming, scope: Scope, receive: Receive, send: Send) -> None:
        routed: Call | Answer | Forwarded | None = None
        try:
            self._sync()
            routed = await self._dispatcher.admit(request)
            if isinstance(routed, Forwarded):
                await self._run_stream(forward(routed, receive, send))
                return
            if isinstance(routed, Call) and _leaves_http(routed):
                await self._run_stream(streaming.serve(self.core, routed, Handshake(scope, receive, send)))
                return
            result: Result = await self._dispatcher.serve(routed) if isinstance(routed, Call) else routed
        except Disconnected:
            return
        except Unreachable as error:
            result = unavailable(error)
        except (ApiError, StoreError, Damaged) as error:
            result = _refusal(request, _as_api_error(error))
        except Exception as error:
            log.exception("request failed: %s %s", request.method, request.path)
            result = _refusal(request, internal(f"{type(error).__name__}: {error}"))
        finally:
            request.close()
        if isinstance(routed, Call):
            self._requests.count(routed, result.status)
        if isinstance(result, Streaming):
            if not await self._run_stream(send_stream(request, result, receive, send)):
                await send(LAST_CHUNK)
        else:
            if request.trail is not None:
                written = result.whole if isinstance(result, PiecesAnswer) else result.body
                request.trail.answered(result.status, written, result.content_type)
            with contextlib.suppress(OSError):  # the client went away
                await send_answer(request, result, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Incoming(scope, receive)
        if self.audit_log is None:
            await self._serve_websocket(request, scope, receive, send)
            return
        from trainshed.cluster.apiserver.audit import Trail

        request.trail = trail = Trail(self.audit_log, scope, request.method, request.path)

        async def noted(message: Message) -> None:
            if message["type"] == "websocket.accept":
                trail.started(101)
            await send(message)

        try:
            await self._serve_websocket(request, scope, receive, noted)
        finally:
            trail.complete(101)

    async def _serve_websocket(self, request: Incoming, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._sync()
            routed = await self._dispatcher.admit(request)
            if isinstance(routed, Forwarded):
                await self._run_stream(forward_websocket(routed, receive, send))
                return
            if not isinstance(routed, Call):
                raise ApiError(400, "BadRequest", "this path does not take a WebSocket")
            if _leaves_http(routed):
                await self._run_stream(streaming.serve(self.core, routed, Handshake(scope, receive, send)))
                return
            result = await self._dispatcher.serve(routed)
            if not isinstance(result, Streaming):
                raise ApiError(400, "BadRequest", "this request is not a stream: do not ask for a WebSocket")
            is_watch = routed.route.verb == "watch"
            chunks = _lines(result.chunks) if is_watch else result.chunks
            from trainshed.cluster.apiserver.streams.binary import serve_chunks  # browsers watch so

            await self._run_stream(serve_chunks(scope, receive, send, chunks, text=is_watch))
        except Disconnected:
            return
        except Unreachable as error:
            await _reject(request, send, ApiError(503, "ServiceUnavailable", str(error)))
        except (ApiError, StoreError, Damaged) as error:
            await _reject(request, send, _as_api_error(error))
        except Exception as error:
            log.exception("stream failed: %s", request.path)
            await _reject(request, send, internal(f"{type(error).__name__}: {error}"))


async def _reject(request: Incoming, send: Send, error: ApiError) -> None:
    if request.trail is not None:
        request.trail.failed(error)
    await reject(request.scope, send, error)


def _leaves_http(call: Call) -> bool:
    resource = call.kind.resource
    pod_stream = call.route.subresource in streaming.SUBRESOURCES
    return pod_stream and (resource.group, resource.plural) == ("", "pods")


def _as_api_error(error: ApiError | StoreError | Damaged) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, Damaged):
        return _unreadable(error)
    text = f"{error.message}; {error.hint}"
    if isinstance(error, (StoreFull, StoreReadOnly)):
        return ApiError(507, "InsufficientStorage", text)
    return internal(text)


def _refusal(request: Incoming, error: ApiError) -> Answer:
    """Return an error as an answer, as YAML for who would have got YAML."""
    answer, accepted = Answer.error(error), request.headers.get("accept", "")
    if "yaml" in accepted:
        with contextlib.suppress(ApiError):
            if negotiate.for_plain(accepted).form == "yaml":
                from trainshed.kube.wire import yamltext  # few ask for it

                status = msgspec.to_builtins(error.status(), order="sorted")
                answer.body, answer.content_type = yamltext.dump(status).encode(), "application/yaml"
    return answer


def _unreadable(error: Damaged) -> ApiError:
    """Return what upstream answers for an object that its storage cannot give back (`StatusReasonStoreReadError`)."""
    place = keys.place(error.key)
    return ApiError(
        500,
        "StorageReadError",
        f"{place.plural} {place.name!r} is damaged on the disk (written at revision {error.revision}): delete it and"
        " create it again, or go back to a backup with trainshed restore",
        name=place.name,
        group=place.group,
        kind=place.plural,
    )


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, one by one."""
    async for chunk in chunks:
        for line in chunk.splitlines(keepends=True):
            yield line


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
