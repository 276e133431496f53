"""What the cluster must have before the operator starts: the PodGroups of the gang scheduler that it was told of."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.registry import needed
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import objects
from trainshed.kube.meta.resources import Resource

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class Missing(Exception):
    """The cluster lacks what a flag of the operator needs."""


async def check_requirements(client: Client, options: OperatorOptions) -> None:
    """Return once the cluster is known to serve all that is needed; wait while the API is away.

    Raises:
        Missing: a resource is not served. Its informer would wait for it for ever, and no job would run.
    """
    for resource in needed(options):
        while True:
            try:
                found = msgspec.json.decode(await client.raw_get(f"/apis/{resource.api_version}"))
                if any(served.get("name") == resource.plural for served in objects(found, "resources")):
                    break
                raise _missing(options, resource)
            except ApiError as error:
                if error.code == 404:
                    raise _missing(options, resource) from error
                problem: Exception = error
            except TransportError as error:
                problem = error
            log.info("API unavailable", extra={"error": str(problem), "retry_in": RETRY_SECONDS})
            await asyncio.sleep(RETRY_SECONDS)


def _missing(options: OperatorOptions, resource: Resource) -> Missing:
    return Missing(
        f"--gang-scheduler-name={options.gang_scheduler} needs {resource.plural} of {resource.api_version}, which "
        "this cluster does not serve: install that scheduler, or leave the flag away"
    )
