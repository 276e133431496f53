"""`pods/exec`, `attach` and `portforward`: requests that leave HTTP."""

from __future__ import annotations

from trainshed.cluster.apiserver.admission.parts import connected
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.subresources.containers import choose_container, find_pod
from trainshed.cluster.backend import ExecRequest
from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.meta.objects import spec_of, status_of
from trainshed.kube.wire.asgi import Handshake
from trainshed.kube.wire.options import ExecOptions

_KINDS = {
    "exec": {"kind": "PodExecOptions", "apiVersion": "v1"},
    "attach": {"kind": "PodAttachOptions", "apiVersion": "v1"},
    "portforward": {"kind": "PodPortForwardOptions", "apiVersion": "v1"},
}
SUBRESOURCES = frozenset({"exec", "attach", "portforward"})


async def serve(core: Core, call: Call, handshake: Handshake) -> None:
    """Answer the request completely. Raises `ApiError` only before anything was sent."""
    options = await _admitted(core, call)
    pod = find_pod(core, call)
    if not spec_of(pod).get("nodeName"):
        raise bad_request(f"pod {call.route.name} does not have a host assigned")
    from trainshed.cluster.apiserver.streams import pods  # protocols that few requests speak

    nodes = core.nodes
    if nodes is None:
        raise ApiError(503, "ServiceUnavailable", "this server has no node to connect to")
    if call.route.subresource == "portforward":
        await pods.serve_port_forward(handshake, nodes.of(pod), pod)
        return
    phase = status_of(pod).get("phase", "")
    if phase in ("Succeeded", "Failed"):
        raise bad_request(f"cannot exec into a container in a completed pod; current phase is {phase}")
    wanted = ExecRequest(
        container=choose_container(pod, options.container),
        command=options.command,
        stdin=options.stdin,
        stdout=options.stdout,
        stderr=options.stderr,
        tty=options.tty,
    )
    answer = pods.serve_attach if call.route.subresource == "attach" else pods.serve_exec
    await answer(handshake, nodes.of(pod), pod, wanted)


async def _admitted(core: Core, call: Call) -> ExecOptions:
    """Return the options as admission wants them. Raises `ApiError` as somebody refuses the request."""
    kind = _KINDS[call.route.subresource]
    if call.route.subresource == "portforward":
        ports = [
            int(port)
            for value in call.request.query.get("ports", ())
            for port in value.split(",")
            if port.isdigit()
        ]
        await connected(core, call, {**kind, **({"ports": ports} if ports else {})})
        return ExecOptions()
    options = ExecOptions.decode(call.request.query)
    names = ("stdin", "stdout", "stderr", "tty", "container", "command")
    said = {name: value for name in names if (value := getattr(options, name))}
    if "command" in said:
        said["command"] = list(options.command)
    wanted = await connected(core, call, {**kind, **said})
    if wanted == {**kind, **said}:
        return options
    flags = {name: bool(wanted.get(name)) for name in names[:4]}
    command = tuple(str(word) for word in wanted.get("command") or ())
    return ExecOptions(**flags, container=str(wanted.get("container") or ""), command=command)
