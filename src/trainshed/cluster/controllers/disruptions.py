"""PodDisruptionBudgets: the loop around `disruption.decide`."""

from __future__ import annotations

import time
from collections.abc import Callable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Informer, Key, key_of
from trainshed.cluster.controllers.disruption import Observed, decide
from trainshed.cluster.controllers.scales import scalable, scale_of
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, is_terminating, name_of, namespace_of, spec_of
from trainshed.kube.meta.ownership import controller_of
from trainshed.kube.meta.pods import is_finished, is_ready
from trainshed.kube.meta.resources import (
    DEPLOYMENTS,
    PODDISRUPTIONBUDGETS,
    PODS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    STATEFULSETS,
)
from trainshed.kube.meta.selectors import LabelSelector

_MIRRORED = (REPLICASETS, DEPLOYMENTS, STATEFULSETS, REPLICATIONCONTROLLERS)


class DisruptionController(Controller[Key]):
    """Keeps the status of each budget true to its pods, which is what evictions go by."""

    def __init__(
        self, client: Client, informers: SharedInformers, *, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__("poddisruptionbudgets", informers)
        self._client = client
        self._now = now
        self._budgets = self.watch(informers.of(PODDISRUPTIONBUDGETS), lambda budget: [key_of(budget)])
        self._pods = self.watch(informers.of(PODS), self._of_pod, regards=_regarded)
        self._owners: dict[tuple[str, str], Informer] = {}
        for resource in _MIRRORED:
            informer = self.watch(informers.of(resource), self._of_namespace, regards=_replicas)
            self._owners[(resource.api_version, resource.kind)] = informer
        recorder = EventRecorder(client, "controllermanager")
        self._executor = Executor(client, recorder, self.own, self._budgets, [])

    def _of_pod(self, pod: Object) -> list[Key]:
        return [
            key_of(budget)
            for budget in self._budgets.items()
            if namespace_of(budget) == namespace_of(pod) and _selects(budget, pod)
        ]

    def _of_namespace(self, obj: Object) -> list[Key]:
        return [
            key_of(budget) for budget in self._budgets.items() if namespace_of(budget) == namespace_of(obj)
        ]

    async def reconcile(self, key: Key) -> float | None:
        """Bring the status of one budget up to date."""
        budget = self._budgets.get(*key)
        if budget is None or is_terminating(budget):
            return None
        pods = [p for p in self._pods.items() if namespace_of(p) == key[0] and _selects(budget, p)]
        observed = Observed(budget, pods, await self._scales(key[0], pods), self._now())
        plan = decide(observed)
        await self._executor.execute(key, budget, plan)
        return plan.requeue_after

    async def _scales(self, namespace: str, pods: list[Object]) -> dict[str, int | str]:
        out: dict[str, int | str] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is not None and owner["uid"] not in out:
                out[owner["uid"]] = await self._scale(namespace, owner)
        return out

    async def _scale(self, namespace: str, reference: Object) -> int | str:
        """Return how many replicas a controller wants, through the one above it, or why nobody can tell."""
        informer = self._owners.get((reference["apiVersion"], reference["kind"]))
        if informer is None:
            return await self._scale_of_other(namespace, reference)
        owner = informer.get(namespace, reference["name"])
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            return f'{reference["kind"]} "{reference["name"]}" not found'
        above = controller_of(owner)
        if above is not None and above["kind"] == "Deployment":
            return await self._scale(namespace, above)
        return _replicas(owner)

    async def _scale_of_other(self, namespace: str, reference: Object) -> int | str:
        """Ask the `scale` subresource of a kind that is not mirrored here."""
        resource = await scalable(self._client, reference["apiVersion"], reference["kind"])
        if isinstance(resource, str):
            return resource
        try:
            scale = await scale_of(self._client, resource, namespace, reference["name"])
        except ApiError as error:
            return error.message
        return int(spec_of(scale).get("replicas") or 0)


def _selects(budget: Object, pod: Object) -> bool:
    selector = spec_of(budget).get("selector")
    return selector is not None and LabelSelector.from_object(selector).matches(pod["metadata"].get("labels"))


def _replicas(obj: Object) -> int:
    replicas = spec_of(obj).get("replicas")
    return 1 if replicas is None else int(replicas)


def _regarded(pod: Object) -> object:
    metadata = pod["metadata"]
    return is_ready(pod), is_finished(pod), metadata.get("labels"), is_terminating(pod), name_of(pod)
