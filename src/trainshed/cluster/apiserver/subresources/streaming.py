"""`pods/exec`, `attach` and `portforward`: requests that leave HTTP."""

from __future__ import annotations

from trainshed.cluster.apiserver import streams
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.subresources.containers import choose_container, find_pod
from trainshed.cluster.backend import ExecRequest
from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.meta.objects import spec_of, status_of
from trainshed.kube.wire.asgi import Receive, Scope, Send
from trainshed.kube.wire.options import ExecOptions

SUBRESOURCES = frozenset({"exec", "attach", "portforward"})


async def serve(core: Core, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer the request completely. Raises `ApiError` only before anything was sent."""
    pod = find_pod(core, call)
    if not spec_of(pod).get("nodeName"):
        raise bad_request(f"pod {call.route.name} does not have a host assigned")
    nodes = core.nodes
    if nodes is None:
        raise ApiError(503, "ServiceUnavailable", "this server has no node to connect to")
    if call.route.subresource == "portforward":
        await streams.serve_port_forward(scope, receive, send, nodes.of(pod), pod)
        return
    phase = status_of(pod).get("phase", "")
    if phase in ("Succeeded", "Failed"):
        raise bad_request(f"cannot exec into a container in a completed pod; current phase is {phase}")
    options = ExecOptions.decode(call.request.query)
    wanted = ExecRequest(
        container=choose_container(pod, options.container),
        command=options.command,
        stdin=options.stdin,
        stdout=options.stdout,
        stderr=options.stderr,
        tty=options.tty,
    )
    answer = streams.serve_attach if call.route.subresource == "attach" else streams.serve_exec
    await answer(scope, receive, send, nodes.of(pod), pod, wanted)
