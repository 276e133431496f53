"""Images and commands: what a container would run."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

from trainshed.cluster.images.directories import Image
from trainshed.jobs.engine.constants import LABEL_REPLICA_TYPE
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, labels_of
from trainshed.kube.meta.pods import find_container
from trainshed.sdk.errors import UserError
from trainshed.sdk.foresight.findings import Noted
from trainshed.sdk.foresight.templates import PodTemplate
from trainshed.sdk.foresight.world import World
from trainshed.sdk.render import render

_INSTALL = re.compile(r"\b(?:pip3?|uv pip|conda|mamba|apt-get|apt)\s+(?:-\S+\s+)*install\b")


def words(container: Object) -> list[str]:
    """Return the words of the container's command and arguments."""
    found: list[str] = []
    for field in ("command", "args"):
        value = container.get(field)
        found += [str(word) for word in value] if isinstance(value, list) else []
    return found


def unknown_images(template: PodTemplate, world: World) -> Iterator[Noted]:
    """Yield the containers whose image nobody has registered, where images are directories of this machine."""
    if world.images is None:
        return
    said: set[str] = set()
    for path, container in template.containers():
        name = container.get("image")
        if not isinstance(name, str) or not name:
            continue
        image = world.image(name)
        if not container.get("command") and not (image and (image.entrypoint or image.cmd)):
            if _is_command_line(container):
                continue
            if template.replica and _gets_a_command(template, container):
                yield from _unregistered(name, path, image, said)
                continue
            yield Noted(
                "TS201",
                f"{path}.image",
                f"nothing here knows what {name} runs, and the container has no command",
                f"set `command`, or: trainshed image add {name} --entrypoint '...'",
            )
        else:
            yield from _unregistered(name, path, image, said)


def _unregistered(name: str, path: str, image: Image | None, said: set[str]) -> Iterator[Noted]:
    """Yield, once for each image, that nothing stands for it."""
    if image is None and name not in said:
        said.add(name)
        yield Noted(
            "TS202",
            f"{path}.image",
            f"{name} is not pulled: the container has this machine's programs and files",
            f"if it needs others: trainshed image add {name} --layer DIRECTORY:PATH",
        )


def _gets_a_command(template: PodTemplate, container: Object) -> bool:
    """Return whether the operator gives the container of a training job a command; false for a job that it refuses."""
    try:
        made = render(template.owner).objects
    except (ApiError, UserError):
        return False
    pods = (obj for obj in made if labels_of(obj).get(LABEL_REPLICA_TYPE) == template.replica.lower())
    pod = next((obj for obj in pods if obj["kind"] == "Pod"), None)
    found = pod and find_container(pod, str(container.get("name")))
    return bool(found and found.get("command"))


def _is_command_line(container: Object) -> bool:
    """Return whether the arguments begin with a program, which then stands for the unknown entrypoint."""
    args = container.get("args")
    first = str(args[0]) if isinstance(args, list) and args else "-"
    return not first.startswith("-") and shutil.which(first) is not None


def installs(template: PodTemplate, world: World) -> Iterator[Noted]:
    """Yield the containers that install packages when they start."""
    for path, container in template.containers():
        match = _INSTALL.search(" ".join(words(container)))
        if match is None:
            continue
        fix = (
            "install it into this environment once: pods see it"
            if world.is_local
            else "build it into the image: each replica needs the network and the time at each start"
        )
        field = "command" if container.get("command") else "args"
        yield Noted("TS203", f"{path}.{field}", f"`{match[0]}` runs at each start", fix)
