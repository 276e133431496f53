"""Tekton as one part of the control plane: it starts when its kinds are served, and nothing else waits for it."""

from __future__ import annotations

import asyncio
import logging
import sys
from importlib.util import cache_from_source
from pathlib import Path

import trainshed
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.transport import TransportError
from trainshed.cluster.controllers.tekton.pipelineruns import PipelineRunController
from trainshed.cluster.controllers.tekton.taskruns import TaskRunController
from trainshed.cluster.images.lookup import Lookup
from trainshed.kube.meta.errors import ApiError
from trainshed.tekton.resources import CUSTOMRUNS, PIPELINERUNS, PIPELINES, STEPACTIONS, TASKRUNS, TASKS

log = logging.getLogger(__name__)

_RUNNER = Path(trainshed.__file__).parent / "pipelines" / "runner"

_LOOK_AGAIN_SECONDS = 0.1
_LONGEST_SECONDS = 5.0


class Tekton:
    """The controllers of Tekton's kinds."""

    def __init__(self, client: Client, shared: SharedInformers, images: Lookup) -> None:
        """Args:
        shared: the informers of the control plane, not running yet.
        images: what is registered, for the commands of images.
        """
        self._client = client
        self._shared = shared
        self._informers = SharedInformers(client)
        self._controllers = (
            PipelineRunController(client, self._informers, shared),
            TaskRunController(client, self._informers, shared, images),
        )

    async def run(self) -> None:
        """Work until cancelled."""
        if not sys.dont_write_bytecode:
            await asyncio.to_thread(_compile, _RUNNER)
        await self._served()
        await self._shared.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run())
            for controller in self._controllers:
                group.create_task(controller.run())

    async def _served(self) -> None:
        """Return when all kinds are served: their definitions are installed once the server is up."""
        wait = _LOOK_AGAIN_SECONDS
        missing = [PIPELINES, PIPELINERUNS, TASKS, TASKRUNS, CUSTOMRUNS, STEPACTIONS]
        while missing:
            try:
                await self._client.list(missing[0], limit=1)
            except (ApiError, TransportError) as error:
                log.debug("not served yet", extra={"resource": missing[0].plural, "error": str(error)})
                await asyncio.sleep(wait)
                wait = min(wait * 1.5, _LONGEST_SECONDS)
                continue
            missing.pop(0)


def _compile(package: Path) -> None:
    """Write the byte code of a package's modules beside them where it is missing, as most installers do.

    Only steps import them, in pods whose writes are lost: each would compile them again. Where this user may not write
    there, that is what they do.
    """
    if all(map(_is_compiled, package.rglob("*.py"))):
        return
    import compileall

    compileall.compile_dir(package, quiet=2)


def _is_compiled(source: Path) -> bool:
    """Return whether byte code from after the last change of a module lies where it is looked for."""
    try:
        return Path(cache_from_source(source)).stat().st_mtime >= source.stat().st_mtime
    except OSError:
        return False
