"""`pods/log`: what containers wrote."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer, Result, Streaming
from trainshed.cluster.apiserver.subresources.containers import choose_container, find_pod
from trainshed.cluster.backend import LogRequest
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import ApiError, Cause, bad_request, invalid
from trainshed.kube.meta.objects import Object, spec_of
from trainshed.kube.meta.times import parse_time
from trainshed.kube.wire.options import LogOptions


async def get(core: Core, call: Call) -> Result:
    """Return or stream the log of one container. Raises `ApiError` 400, 404, 422."""
    pod = find_pod(core, call)
    request = _request(call, pod)
    if not spec_of(pod).get("nodeName"):
        return Answer(status=204, content_type="text/plain")
    if core.nodes is None:
        raise ApiError(503, "ServiceUnavailable", "this server has no node to read logs from")
    chunks = core.nodes.of(pod).logs(pod, request)
    if request.follow:
        return Streaming(chunks, content_type="text/plain")
    body = b"".join([chunk async for chunk in chunks])
    return Answer(body, content_type="text/plain")


def _request(call: Call, pod: Object) -> LogRequest:
    options = LogOptions.decode(call.request.query)
    tail, limit, seconds = options.tail_lines, options.limit_bytes, options.since_seconds
    found: list[Cause] = []
    if tail is not None and tail < 0:
        found.append(causes.invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        found.append(causes.invalid("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and options.since_time:
        found.append(
            causes.forbidden("sinceSeconds", "at most one of `sinceTime` or `sinceSeconds` may be specified")
        )
    elif seconds is not None and seconds < 1:
        found.append(causes.invalid("sinceSeconds", seconds, "must be greater than 0"))
    if found:
        raise invalid("PodLogOptions", "", call.route.name, found)
    return LogRequest(
        container=choose_container(pod, options.container),
        follow=options.follow,
        previous=options.previous,
        tail_lines=tail,
        since=_since(options, call.now),
        timestamps=options.timestamps,
        limit_bytes=limit,
    )


def _since(options: LogOptions, now: float) -> float | None:
    if options.since_seconds is not None:
        return now - options.since_seconds
    if not options.since_time:
        return None
    try:
        return parse_time(options.since_time)
    except ValueError:
        text = f'parsing time "{options.since_time}" as RFC 3339: cannot parse'
        raise bad_request(text) from None
