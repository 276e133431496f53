"""FlowSchemas say whether the priority level that they name exists.

Source of texts: `pkg/util/flowcontrol/apf_controller.go` of apiserver.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, section, spec_of, status_of, unchanged_since
from trainshed.kube.meta.resources import FLOWSCHEMAS, PRIORITYLEVELS
from trainshed.kube.meta.times import format_time

MANAGER = "api-priority-and-fairness-config-consumer-v1"
_DANGLING = "Dangling"


def dangling(schema: Object, *, exists: bool, now: str) -> Object | None:
    """Return the condition that a FlowSchema lacks, None where it has it."""
    level = section(spec_of(schema), "priorityLevelConfiguration").get("name") or ""
    found = "and it exists" if exists else "but there is no such object"
    told = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {found}'
    wanted = {
        "type": _DANGLING,
        "status": "False" if exists else "True",
        "reason": "Found" if exists else "NotFound",
        "message": told,
    }
    conditions = status_of(schema).get("conditions") or ()
    held = next((c for c in conditions if c.get("type") == _DANGLING), None)
    if held is not None and held.items() >= wanted.items():
        return None
    return {**wanted, "lastTransitionTime": unchanged_since(held, wanted["status"], now)}


class FlowSchemaController(Controller[str]):
    """Writes the condition `Dangling`."""

    def __init__(
        self, client: Client, informers: SharedInformers, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__("flow-schemas", informers)
        self._client = client
        self._now = now
        self._schemas = informers.of(FLOWSCHEMAS)
        self._levels = informers.of(PRIORITYLEVELS)
        self.watch(self._schemas, lambda schema: [name_of(schema)])
        self.watch(self._levels, lambda level: [name_of(schema) for schema in self._schemas.items()])

    async def reconcile(self, name: str) -> None:
        """Tell of one FlowSchema."""
        schema = self._schemas.get("", name)
        if schema is None:
            return
        level = section(spec_of(schema), "priorityLevelConfiguration").get("name") or ""
        exists = self._levels.get("", level) is not None
        condition = dangling(schema, exists=exists, now=format_time(self._now()))
        if condition is None:
            return
        wanted = {
            "apiVersion": FLOWSCHEMAS.api_version,
            "kind": FLOWSCHEMAS.kind,
            "metadata": {"name": name},
            "status": {"conditions": [condition]},
        }
        try:
            await self._client.apply(FLOWSCHEMAS, wanted, field_manager=MANAGER, subresource="status")
        except ApiError as error:
            if error.code != 404:
                raise
