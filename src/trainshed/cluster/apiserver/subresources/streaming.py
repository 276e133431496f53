"""`pods/exec`, `attach` and `portforward`: requests that leave HTTP."""

from __future__ import annotations

from trainshed.cluster.apiserver import streams
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.subresources.containers import choose_container, find_pod
from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.wire.asgi import Receive, Scope, Send

SUBRESOURCES = frozenset({"exec", "attach", "portforward"})


async def serve(core: Core, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer the request completely. Raises `ApiError` only before anything was sent."""
    pod = find_pod(core, call)
    request, name = call.request, call.route.name
    if not (pod.get("spec") or {}).get("nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    backend = core.backend
    if backend is None:
        raise ApiError(503, "ServiceUnavailable", "this server has no node to connect to")
    if call.route.subresource == "portforward":
        await streams.serve_port_forward(scope, receive, send, backend, pod)
        return
    phase = (pod.get("status") or {}).get("phase", "")
    if phase in ("Succeeded", "Failed"):
        raise bad_request(f"cannot exec into a container in a completed pod; current phase is {phase}")
    container = choose_container(pod, request.first("container"))
    stdin, stdout, stderr, tty = (request.flag(flag) for flag in ("stdin", "stdout", "stderr", "tty"))
    if call.route.subresource == "attach":
        await streams.serve_attach(scope, receive, send, backend, pod, container, stdin, stdout, stderr, tty)
        return
    command = request.query.get("command", [])
    await streams.serve_exec(
        scope, receive, send, backend, pod, container, command, stdin, stdout, stderr, tty
    )
