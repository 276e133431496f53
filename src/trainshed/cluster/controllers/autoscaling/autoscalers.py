"""HorizontalPodAutoscalers: the loop around `decision.decide`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.execution import Executor
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.events import EventRecorder
from trainshed.client.informer import Key, key_of
from trainshed.cluster.controllers.autoscaling.decision import (
    SYNC_SECONDS,
    Observed,
    ScalingPlan,
    SetReplicas,
    Target,
    decide,
    done,
    refused,
)
from trainshed.cluster.controllers.autoscaling.limits import Memory
from trainshed.cluster.controllers.autoscaling.metrics import Use
from trainshed.cluster.controllers.scales import scalable, scale_of
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import (
    Object,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    section,
    spec_of,
    status_of,
)
from trainshed.kube.meta.plan import Plan
from trainshed.kube.meta.quantity import parse
from trainshed.kube.meta.resources import HORIZONTALPODAUTOSCALERS, PODMETRICS, PODS, Resource
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.meta.times import time_or_none

_NOT_SERVED = "the server could not find the requested resource"

Metrics: TypeAlias = Callable[[str], Awaitable[Mapping[str, Use]]]
"""What the pods of a namespace use, by name."""


def served_metrics(client: Client) -> Metrics:
    """Return how to ask the API for what pods use."""

    async def measure(namespace: str) -> Mapping[str, Use]:
        found = await client.list(PODMETRICS, namespace)
        return {name_of(item): _use(item) for item in found.items}

    return measure


def _use(metrics: Object) -> Use:
    containers = {
        container["name"]: {name: parse(amount) for name, amount in section(container, "usage").items()}
        for container in metrics.get("containers") or ()
    }
    window = str(metrics.get("window") or "0s").rstrip("s")
    return Use(containers, time_or_none(metrics.get("timestamp")) or 0.0, float(window))


class AutoscalerController(Controller[Key]):
    """Sets the replicas of whatever has a `scale`, by what its pods use."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        *,
        metrics: Metrics | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("horizontalpodautoscalers", informers)
        self._client = client
        self._now = now
        self._measure = metrics or served_metrics(client)
        self._autoscalers = self.watch(
            informers.of(HORIZONTALPODAUTOSCALERS), lambda one: [key_of(one)], regards=_regarded
        )
        self._pods = informers.of(PODS)
        self._memories: dict[str, Memory] = {}
        recorder = EventRecorder(client, "horizontal-pod-autoscaler")
        self._executor = Executor(client, recorder, self.own, self._autoscalers, [])

    async def reconcile(self, key: Key) -> float | None:
        """Bring one autoscaler's target a step on."""
        autoscaler = self._autoscalers.get(*key)
        if autoscaler is None or is_terminating(autoscaler):
            self._forget()
            return None
        uid = autoscaler["metadata"]["uid"]
        resource, observed = await self._observe(autoscaler, self._memories.get(uid, Memory()))
        plan = decide(observed)
        for action in plan.actions:
            assert isinstance(resource, Resource), "what cannot be read is not scaled"
            plan = await self._scale(resource, observed, plan, action)
        self._memories[uid] = plan.memory
        await self._executor.execute(key, autoscaler, Plan(status=plan.status, events=plan.events))
        return SYNC_SECONDS

    def _forget(self) -> None:
        there = {one["metadata"]["uid"] for one in self._autoscalers.items()}
        self._memories = {uid: memory for uid, memory in self._memories.items() if uid in there}

    async def _observe(self, autoscaler: Object, memory: Memory) -> tuple[Resource | str, Observed]:
        namespace = namespace_of(autoscaler)
        reference = section(spec_of(autoscaler), "scaleTargetRef")
        resource = await scalable(self._client, reference.get("apiVersion") or "v1", reference["kind"])
        target: Target | str
        if isinstance(resource, str):
            target = resource
        else:
            try:
                target = _target(await scale_of(self._client, resource, namespace, reference["name"]))
            except ApiError as error:
                target = error.message
        pods: list[Object] = []
        uses: Mapping[str, Use] = {}
        refused = ""
        if isinstance(target, Target) and target.selector:
            selector = LabelSelector.parse(target.selector)
            pods = [
                pod
                for pod in self._pods.items()
                if namespace_of(pod) == namespace and selector.matches(labels_of(pod))
            ]
            names = {name_of(pod) for pod in pods}
            try:
                uses = {name: use for name, use in (await self._measure(namespace)).items() if name in names}
            except ApiError as error:
                gone = error.code == 404
                refused = f"{_NOT_SERVED} (get pods.metrics.k8s.io)" if gone else error.message
        return resource, Observed(autoscaler, target, pods, uses, memory, self._now(), refused)

    async def _scale(
        self, resource: Resource, observed: Observed, plan: ScalingPlan, action: SetReplicas
    ) -> ScalingPlan:
        name = section(spec_of(observed.autoscaler), "scaleTargetRef")["name"]
        namespace = namespace_of(observed.autoscaler)
        patch = {"spec": {"replicas": action.replicas}}
        try:
            await self._client.patch(resource, name, namespace, patch, subresource="scale")
        except ApiError as error:
            return refused(observed, plan, action, error.message)
        return done(observed, plan, action)


def _target(scale: Object) -> Target:
    status = status_of(scale)
    return Target(
        int(spec_of(scale).get("replicas") or 0),
        int(status.get("replicas") or 0),
        str(status.get("selector") or ""),
    )


def _regarded(autoscaler: Object) -> object:
    return spec_of(autoscaler), is_terminating(autoscaler)
