"""`pods/eviction`: a delete that respects PodDisruptionBudgets."""

from __future__ import annotations

import msgspec

from trainshed.cluster.apiserver.body import read_request
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.apiserver.subresources.binding import SUCCESS
from trainshed.cluster.apiserver.verbs.remove import remove
from trainshed.cluster.store import Stored, keys
from trainshed.kube.meta.errors import ApiError, Cause
from trainshed.kube.meta.objects import Object, section, spec_of, status_of
from trainshed.kube.meta.resources import PODDISRUPTIONBUDGETS
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.wire.options import CreateOptions, DeleteOptions


async def create(core: Core, call: Call) -> Answer:
    """Delete a pod unless a budget says no. Raises `ApiError` 404, 429."""
    options = CreateOptions.decode(call.request.query)
    eviction = await read_request(call, "io.k8s.api.policy.v1.Eviction")
    asked = DeleteOptions.decode({}, section(eviction, "deleteOptions"))
    name, namespace = call.route.name, call.route.namespace
    stored = core.store.get(call.kind.key(namespace, name))
    if stored is None:
        raise call.kind.missing(name)
    pod = stored.obj
    running = status_of(pod).get("phase") not in ("Succeeded", "Failed", "Pending")
    if running and not pod["metadata"].get("deletionTimestamp"):
        budgets = _budgets(core, namespace or "", pod)
        if budgets and not options.dry_run:
            await _spend(core, budgets)
        elif budgets:
            _check(budgets)
    delete = msgspec.structs.replace(asked, dry_run=options.dry_run or asked.dry_run)
    await remove(core, call.kind, namespace, name, delete, call.now)
    return Answer.json(SUCCESS, status=201)


def _budgets(core: Core, namespace: str, pod: Object) -> list[Stored]:
    out = []
    for stored in core.store.list(keys.under(PODDISRUPTIONBUDGETS, namespace))[0]:
        selector = LabelSelector.from_object(spec_of(stored.obj).get("selector"))
        if selector.matches(pod["metadata"].get("labels")):
            out.append(stored)
    return out


def _check(budgets: list[Stored]) -> None:
    for stored in budgets:
        status = status_of(stored.obj)
        if status.get("disruptionsAllowed", 0) > 0:
            continue
        name = stored.obj["metadata"]["name"]
        needs, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        text = f"The disruption budget {name} needs {needs} healthy pods and has {healthy} currently"
        raise ApiError(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            causes=[Cause("DisruptionBudget", text)],
            retry_after_seconds=10,
        )


async def _spend(core: Core, budgets: list[Stored]) -> None:
    """Take one disruption off each budget, so that two evictions do not share one."""
    _check(budgets)
    for stored in budgets:
        obj = stored.obj
        status = {**status_of(obj)}
        status["disruptionsAllowed"] -= 1
        await core.store.update(stored.key, {**obj, "status": status}, stored.revision)
