"""`pods/proxy` and `services/proxy`: any request is passed on to a port of a pod, over HTTP or HTTPS.

The name may be `name`, `name:port`, or `scheme:name:port`. Links in HTML are left as they are.
Source: `pkg/registry/core/{pod,service}` and `apimachinery/pkg/util/proxy` of Kubernetes.
"""

from __future__ import annotations

import ssl

from trainshed.cluster.apiserver import callbacks
from trainshed.cluster.apiserver.admission.parts import connected
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.forwarding import Forwarded, escaped
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.backend import ByteStream
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import ApiError, bad_request
from trainshed.kube.meta.objects import Object, objects, spec_of
from trainshed.kube.meta.resources import PODS, SERVICES
from trainshed.kube.wire.asgi import Header

_SCHEMES = {"": 80, "http": 80, "https": 443}


def is_asked(call: Call) -> bool:
    """Return whether a request is one for a pod or for the pods of a Service."""
    return call.route.subresource == "proxy" and call.kind.resource in (PODS, SERVICES)


async def to(core: Core, call: Call) -> Forwarded | Answer:
    """Return where a request goes, or how it is answered without going anywhere. Raises `ApiError` 400, 404, 503."""
    found, request = call.route, call.request
    scheme, name, port = _split(call)
    path = request.path.partition("/".join((found.plural, found.name, found.subresource)))[2]
    if not path and request.method in ("GET", "HEAD"):
        # Links of a page at the root are relative to what ends in a slash.
        query = request.scope.get("query_string", b"")
        location = f"{escaped(request.path)}/".encode() + (b"?" + query if query else b"")
        return Answer(b"", status=301, content_type="text/plain", headers=((b"location", location),))
    asked = {"kind": f"{call.kind.resource.kind}ProxyOptions", "apiVersion": "v1", "path": path}
    await connected(core, call, asked)
    stored = core.store.get(keys.of(call.kind.resource, found.namespace, name))
    if stored is None:
        raise call.kind.missing(name)
    if call.kind.resource == PODS:
        pod, number = stored.obj, _pod_port(stored.obj, scheme, port)
    else:
        pod, number = _behind(core, stored.obj, port)

    async def connect() -> tuple[ByteStream, ssl.SSLContext | None]:
        from trainshed.cluster.apiserver.outgoing import context

        if core.nodes is None:
            raise OSError("no node runs")
        stream = await core.nodes.of(pod).port_forward(pod, number)
        # Nobody vouches for what a pod shows, as upstream.
        return stream, context(b"", insecure=True) if scheme == "https" else None

    told: list[Header] = [
        (b"x-forwarded-uri", escaped(request.path).encode()),
        (b"x-forwarded-host", request.headers.get("host", "").encode()),
        (b"x-forwarded-proto", b"https"),
    ]
    return Forwarded(request, f"{name}:{number}", path or "/", told, connect, as_status=True)


def _split(call: Call) -> tuple[str, str, str]:
    """Return scheme, name and port. Raises `ApiError` 400."""
    parts = call.route.name.split(":")
    if len(parts) == 1:
        return "", parts[0], ""
    scheme, name, port = parts if len(parts) == 3 else ("", *parts)[:3]
    if len(parts) > 3 or scheme not in _SCHEMES or not name:
        raise bad_request(f'invalid {call.kind.resource.kind.lower()} request "{call.route.name}"')
    return scheme, name, port


def _pod_port(pod: Object, scheme: str, port: str) -> int:
    if port:
        if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise bad_request(f"invalid port {port!r}")
        return int(port)
    declared = (number for c in objects(spec_of(pod), "containers") for number in objects(c, "ports"))
    first = next(declared, None)
    return int(first["containerPort"]) if first else _SCHEMES[scheme]


def _behind(core: Core, service: Object, port: str) -> tuple[Object, int]:
    """Return a pod that serves a port of a Service, given by its number or name, and the port there."""
    name, spec = service["metadata"]["name"], spec_of(service)
    ports = objects(spec, "ports")
    by_number = port.isascii() and port.isdigit()
    chosen = [p for p in ports if (str(p.get("port")) if by_number else p.get("name") or "") == port]
    if by_number and not chosen:
        raise bad_request(f'no service port {port} found for service "{name}"')
    pod = callbacks.pod_behind(core, service["metadata"]["namespace"], spec) if chosen else None
    number = callbacks.target_port(pod, chosen[0]) if pod is not None else None
    if pod is None or number is None:
        raise ApiError(503, "ServiceUnavailable", f'no endpoints available for service "{name}"')
    return pod, number
