"""Images and commands: what a container would run."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

from trainshed.kube.meta.objects import Object
from trainshed.sdk.foresight.findings import Noted
from trainshed.sdk.foresight.templates import PodTemplate
from trainshed.sdk.foresight.world import World

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
        if not template.runs_by_itself(container) and not (image and (image.entrypoint or image.cmd)):
            if _is_command_line(container):
                continue
            yield Noted(
                "TS201",
                f"{path}.image",
                f"nothing here knows what {name} runs, and the container has no command",
                f"set `command`, or: trainshed image add {name} --entrypoint '...'",
            )
        elif image is None and name not in said:
            said.add(name)
            yield Noted(
                "TS202",
                f"{path}.image",
                f"{name} is not pulled: the container has this machine's programs and files",
                f"if it needs others: trainshed image add {name} --layer DIRECTORY:PATH",
            )


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
