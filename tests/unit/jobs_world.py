"""A tiny model of a cluster that executes plans: objects by name, a node that the test plays, nothing else.

It answers as an API server does: AlreadyExists for a taken name, NotFound or Conflict for a delete whose uid is
gone. Deleting a pod marks it; it goes when the node reaps it. No pod may run again unless it failed, or someone
asked for its deletion.
"""

from __future__ import annotations

import copy
from itertools import count

from trainshed.jobs.engine.model import Observed
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.v1.decide import decide
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.kube.meta.objects import Object, controller_uid, name_of, uid_of
from trainshed.kube.meta.plan import Action, Apply, Create, Delete
from trainshed.kube.meta.resources import PODS, SERVICES, Resource
from trainshed.kube.meta.times import format_time


class World:
    """One job, its children, and the time."""

    def __init__(self, job: Object, now: float) -> None:
        self.kind = FRAMEWORKS[job["kind"]].kind
        self.job: Object | None = copy.deepcopy(job)
        self.pods: dict[str, Object] = {}
        self.services: dict[str, Object] = {}
        self.others: dict[tuple[Resource, str], Object] = {}
        """What the job owns beside pods and services, by resource and name."""
        self.now = now
        self.incarnations: dict[str, int] = {}
        self.excused: set[str] = set()
        self._uids = count(1)
        self._cache: tuple[list[Object], list[Object]] = ([], [])

    # The operator's side.

    def observe(self, *, stale: bool = False) -> Observed:
        """Return the view of a reconcile; a stale one has the children of the last fresh one."""
        assert self.job is not None
        if not stale:
            self._cache = copy.deepcopy((list(self.pods.values()), list(self.services.values())))
        pods, services = copy.deepcopy(self._cache)
        owned = {PODS: pods, SERVICES: services}
        for (resource, _), obj in self.others.items():
            owned.setdefault(resource, []).append(copy.deepcopy(obj))
        return Observed(job=copy.deepcopy(self.job), owned=owned, now=self.now)

    def reconcile(self, *, stale: bool = False, stop_after: int | None = None) -> Plan:
        """Decide and execute; with `stop_after` the operator dies after so many actions, before the status."""
        plan = decide(self.observe(stale=stale))
        for action in plan.actions[:stop_after]:
            self._execute(action)
        if stop_after is None and plan.status is not None and self.job is not None:
            self.job["status"] = copy.deepcopy(plan.status)
        return plan

    def settle(self, passes: int = 6) -> None:
        """Reconcile until there is nothing left to do; fail if that takes more passes than any policy needs."""
        for _ in range(passes):
            if self.job is None:
                return
            plan = self.reconcile()
            if not plan.actions and plan.status is None:
                return
        raise AssertionError(f"did not settle in {passes} passes: {plan}")

    def _execute(self, action: Action) -> None:
        match action:
            case Create(resource=resource, object=pod) if resource == PODS:
                name = name_of(pod)
                if name not in self.pods:
                    again = name in self.incarnations and name not in self.excused
                    assert not again, f"{name} runs again although nothing happened to it"
                    self.excused.discard(name)
                    self.pods[name] = self._stored(pod, {"phase": "Pending"})
                    self.incarnations[name] = self.incarnations.get(name, 0) + 1
            case Create(resource=resource, object=service) if resource == SERVICES:
                self.services.setdefault(name_of(service), self._stored(service))
            case Delete(resource=resource, name=name, uid=uid) if resource == PODS:
                pod = self.pods.get(name)
                if pod is not None and uid_of(pod) == uid:
                    pod["metadata"].setdefault("deletionTimestamp", format_time(self.now))
            case Delete(resource=resource, name=name, uid=uid) if resource == SERVICES:
                service = self.services.get(name)
                if service is not None and uid_of(service) == uid:
                    del self.services[name]
            case Delete(resource=resource) if resource == self.kind.resource:
                self.job = None
            case Create(resource=resource, object=other):
                self.others.setdefault((resource, name_of(other)), self._stored(other))
            case Apply(resource=resource, object=other):
                self.others[resource, name_of(other)] = self._stored(other)
            case Delete(resource=resource, name=name):
                self.others.pop((resource, name), None)
            case _:
                raise AssertionError(f"unknown action {action}")

    def _stored(self, manifest: Object, status: Object | None = None) -> Object:
        obj = copy.deepcopy(manifest)
        assert self.job is not None and controller_uid(obj) == uid_of(self.job), "a child without its owner"
        obj["metadata"]["uid"] = f"uid-{next(self._uids)}"
        if status is not None:
            obj["status"] = status
        return obj

    # The node's side.

    def start(self, name: str) -> None:
        """Run the containers of a pending pod."""
        pod = self.pods.get(name)
        if pod is not None and pod["status"]["phase"] == "Pending" and not self.is_terminating(name):
            pod["status"] = {
                "phase": "Running",
                "containerStatuses": [{"name": self.kind.container_name, "restartCount": 0}],
            }

    def end(self, name: str, exit_code: int | None) -> None:
        """End a running pod with an exit code, or as evicted without one."""
        pod = self.pods.get(name)
        if pod is None or pod["status"]["phase"] != "Running":
            return
        pod["status"]["phase"] = "Succeeded" if exit_code == 0 else "Failed"
        if exit_code != 0:
            self.excused.add(name)
        if exit_code is None:
            pod["status"].pop("containerStatuses")
        else:
            ended = {"exitCode": exit_code, "finishedAt": format_time(self.now)}
            pod["status"]["containerStatuses"][0]["state"] = {"terminated": ended}

    def restart_container(self, name: str) -> None:
        """Restart the container of a running pod in place, as the node does under OnFailure."""
        pod = self.pods.get(name)
        if pod is not None and pod["status"]["phase"] == "Running":
            pod["status"]["containerStatuses"][0]["restartCount"] += 1

    def drain(self, name: str) -> None:
        """Delete a pod as a user or a drain does."""
        if name in self.pods:
            self.pods[name]["metadata"].setdefault("deletionTimestamp", format_time(self.now))
            self.excused.add(name)

    def excuse_all(self) -> None:
        """Note that the user asked for something that deletes pods, so that they may run again."""
        self.excused.update(self.pods)

    def named(self, *, phase: str = "", terminating: bool | None = None) -> list[str]:
        """Return the names of the pods in this phase and state of deletion, in order."""
        return sorted(
            name
            for name, pod in self.pods.items()
            if phase in ("", pod["status"]["phase"]) and terminating in (None, self.is_terminating(name))
        )

    def reap(self, name: str) -> None:
        """Finish the deletion of a pod."""
        if name in self.pods and self.is_terminating(name):
            del self.pods[name]

    def is_terminating(self, name: str) -> bool:
        """Say whether the pod is being deleted."""
        return "deletionTimestamp" in self.pods[name]["metadata"]

    # What a test looks at.

    def conditions(self) -> dict[str, str]:
        """Return status by condition type."""
        conditions = (self.job or {}).get("status", {}).get("conditions", [])
        return {condition["type"]: condition["status"] for condition in conditions}

    def outcome(self) -> str | None:
        """Return `Succeeded`, `Failed` or None."""
        return next((t for t in ("Succeeded", "Failed") if self.conditions().get(t) == "True"), None)
