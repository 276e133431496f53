"""`pods/log`: what containers wrote."""

from __future__ import annotations

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer, Result, Streaming
from trainshed.cluster.apiserver.subresources.containers import choose_container, find_pod
from trainshed.cluster.backend import LogOptions
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import ApiError, Cause, bad_request, invalid
from trainshed.kube.meta.times import parse_time


async def get(core: Core, call: Call) -> Result:
    """Return or stream the log of one container. Raises `ApiError` 400, 404, 422."""
    pod = find_pod(core, call)
    options = _options(call, pod)
    if not (pod.get("spec") or {}).get("nodeName"):
        return Answer(status=204, content_type="text/plain")
    if core.backend is None:
        raise ApiError(503, "ServiceUnavailable", "this server has no node to read logs from")
    chunks = core.backend.logs(pod, options)
    if options.follow:
        return Streaming(chunks, content_type="text/plain")
    body = b"".join([chunk async for chunk in chunks])
    return Answer(body, content_type="text/plain")


def _options(call: Call, pod: dict[str, object]) -> LogOptions:
    request = call.request
    tail, limit, seconds = (request.integer(n) for n in ("tailLines", "limitBytes", "sinceSeconds"))
    since_text = request.first("sinceTime")
    found: list[Cause] = []
    if tail is not None and tail < 0:
        found.append(causes.invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        found.append(causes.invalid("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and since_text:
        found.append(
            causes.forbidden("sinceSeconds", "at most one of `sinceTime` or `sinceSeconds` may be specified")
        )
    elif seconds is not None and seconds < 1:
        found.append(causes.invalid("sinceSeconds", seconds, "must be greater than 0"))
    if found:
        raise invalid("PodLogOptions", "", call.route.name, found)
    since: float | None = None
    if seconds is not None:
        since = call.now - seconds
    elif since_text:
        try:
            since = parse_time(since_text)
        except ValueError:
            raise bad_request(f'parsing time "{since_text}" as RFC 3339: cannot parse') from None
    return LogOptions(
        container=choose_container(pod, request.first("container")),
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        tail_lines=tail,
        since=since,
        timestamps=request.flag("timestamps"),
        limit_bytes=limit,
    )
