"""What to do about a pod that fails, where that can be told."""

from __future__ import annotations

import re

from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, namespace_of, objects, section
from trainshed.kube.meta.resources import EVENTS

_NOT_FOUND = re.compile(r"no such file|can't open file|not found|no module named|cannot find", re.IGNORECASE)


async def image_of_nothing(client: Client, pod: Object, said: str, exit_code: object) -> str:
    """Return which image nothing stands for, when a program of it may be what is missing; else nothing.

    `said` is what the failed container said last, `exit_code` how it ended.
    """
    if exit_code not in (126, 127) and not _NOT_FOUND.search(said):
        return ""
    try:
        events = (await client.list(EVENTS, namespace_of(pod))).items
    except (ApiError, TransportError):
        return ""
    if not any(
        event.get("reason") == "ImageNotPulled"
        and section(event, "involvedObject").get("name") == name_of(pod)
        for event in events
    ):
        return ""
    images = [str(container.get("image")) for container in objects(section(pod, "spec"), "containers")]
    return (
        f"nothing stands for image {images[0]}, so the pod ran on this machine's own root; "
        f"trainshed image add {images[0]} --layer DIRECTORY:PATH shows it the files of the image"
    )
