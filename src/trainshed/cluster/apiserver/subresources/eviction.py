"""`pods/eviction`: a delete that respects PodDisruptionBudgets.

Source: "API-initiated Eviction" in the Kubernetes documentation, and the eviction handler of the API server for words.
"""

from __future__ import annotations

import msgspec

from trainshed.cluster.apiserver.admission.parts import admitted
from trainshed.cluster.apiserver.body import read_request
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.apiserver.subresources.binding import SUCCESS
from trainshed.cluster.apiserver.verbs.remove import remove
from trainshed.cluster.apiserver.writing import RETRIES
from trainshed.cluster.store import KeyMissing, RevisionMismatch, Stored, keys
from trainshed.kube.meta.errors import ApiError, Cause, bad_request, conflict
from trainshed.kube.meta.objects import Object, is_terminating, metadata_of, section, spec_of, status_of
from trainshed.kube.meta.pods import is_ready
from trainshed.kube.meta.resources import PODDISRUPTIONBUDGETS
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.wire.options import CreateOptions, DeleteOptions

_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_SECONDS = 10
_MOST_EVICTED = 2_000
"""Evictions that a budget remembers at once."""


async def create(core: Core, call: Call) -> Answer:
    """Delete a pod unless a budget says no. Raises `ApiError` 404, 429, 500 where two budgets select it."""
    options = CreateOptions.decode(call.request.query)
    eviction = await read_request(call, "io.k8s.api.policy.v1.Eviction")
    asked = DeleteOptions.decode({}, section(eviction, "deleteOptions"))
    name, namespace = call.route.name, call.route.namespace
    if metadata_of(eviction).get("name") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    dry_run = options.dry_run or asked.dry_run
    await admitted(core, call, eviction, ("policy", "v1", "Eviction"), dry_run=bool(dry_run))
    stored = core.store.get(call.kind.key(namespace, name))
    if stored is None:
        raise call.kind.missing(name)
    pod = stored.obj
    running = status_of(pod).get("phase") not in ("Succeeded", "Failed", "Pending")
    if running and not is_terminating(pod):
        await _spend(core, call, pod, dry_run=bool(dry_run))
    if not dry_run:
        await _mark(core, call, name)
    delete = msgspec.structs.replace(asked, dry_run=dry_run)
    await remove(core, call.kind, namespace, name, delete, call.now)
    return Answer.json(SUCCESS, status=201)


def _budgets(core: Core, namespace: str, pod: Object) -> list[Stored]:
    out = []
    for stored in core.store.list(keys.under(PODDISRUPTIONBUDGETS, namespace))[0]:
        selector = spec_of(stored.obj).get("selector")
        if selector is None:
            continue
        if LabelSelector.from_object(selector).matches(pod["metadata"].get("labels")):
            out.append(stored)
    return out


async def _spend(core: Core, call: Call, pod: Object, *, dry_run: bool) -> None:
    """Take one disruption off the budget of a pod, so that two evictions do not share one."""
    for _ in range(RETRIES):
        budgets = _budgets(core, call.route.namespace or "", pod)
        if not budgets:
            return
        if len(budgets) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise ApiError(500, "", text)
        stored = budgets[0]
        budget = stored.obj
        status = status_of(budget)
        if not is_ready(pod) and _lets_unready_go(budget):
            return
        _check(budget, status)
        if dry_run:
            return
        evicted = {**section(status, "disruptedPods"), pod["metadata"]["name"]: call.timestamp}
        spent = {
            **status,
            "disruptionsAllowed": status["disruptionsAllowed"] - 1,
            "disruptedPods": evicted,
        }
        try:
            await core.store.update(stored.key, {**budget, "status": spent}, stored.revision)
            return
        except (RevisionMismatch, KeyMissing):
            continue
    raise conflict("poddisruptionbudgets", "policy", budget["metadata"]["name"])


def _lets_unready_go(budget: Object) -> bool:
    """Return whether a pod that is not ready may go whatever is left: it is not what keeps the budget."""
    status = status_of(budget)
    if spec_of(budget).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, desired = int(status.get("currentHealthy") or 0), int(status.get("desiredHealthy") or 0)
    return healthy >= desired > 0


def _check(budget: Object, status: Object) -> None:
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        text = f"The disruption budget {name} is still being processed by the server."
        raise _too_many(text, _RETRY_SECONDS)
    if len(section(status, "disruptedPods")) > _MOST_EVICTED:
        raise ApiError(
            403,
            "Forbidden",
            f"{name}: DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        )
    if status.get("disruptionsAllowed", 0) <= 0:
        needs, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        text = f"The disruption budget {name} needs {needs} healthy pods and has {healthy} currently"
        # Without Retry-After: client-go would ask again by itself, and `kubectl drain` say nothing for minutes.
        raise _too_many(text)


def _too_many(text: str, retry_after_seconds: int | None = None) -> ApiError:
    cause = Cause("DisruptionBudget", text)
    return ApiError(429, "TooManyRequests", _REFUSED, causes=[cause], retry_after_seconds=retry_after_seconds)


async def _mark(core: Core, call: Call, name: str) -> None:
    """Write the condition `DisruptionTarget` into a pod that is evicted: job controllers go by it."""
    key = call.kind.key(call.route.namespace, name)
    for _ in range(RETRIES):
        stored = core.store.get(key)
        if stored is None:
            return
        pod = stored.obj
        mark = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": None,
            "lastTransitionTime": call.timestamp,
        }
        others = [c for c in status_of(pod).get("conditions") or () if c.get("type") != "DisruptionTarget"]
        status = {**status_of(pod), "conditions": [*others, mark]}
        try:
            await core.store.update(key, {**pod, "status": status}, stored.revision)
            return
        except RevisionMismatch:
            continue
        except KeyMissing:
            return
