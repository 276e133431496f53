"""Tekton's runs on data alone: plans are applied to objects in memory, pods are played by the test."""

from __future__ import annotations

from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object, copy_tree, name_of, section, uid_of
from trainshed.kube.meta.plan import Create, Delete, Patch, Plan
from trainshed.kube.meta.times import parse_time
from trainshed.tekton import conditions, pipelinerun, taskrun

START = parse_time("2026-01-01T00:00:00Z")


def stored(obj: Object, uid: str = "uid") -> Object:
    """Return an object as the API server would have it."""
    return {**obj, "metadata": {"namespace": "default", "uid": uid, **obj["metadata"]}}


def pipeline_run(spec: Object, name: str = "run", **metadata: Any) -> Object:
    """Return a stored PipelineRun."""
    return stored(
        {
            "apiVersion": "tekton.dev/v1",
            "kind": "PipelineRun",
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
    )


def task_run(spec: Object, name: str = "run", **metadata: Any) -> Object:
    """Return a stored TaskRun."""
    return stored(
        {
            "apiVersion": "tekton.dev/v1",
            "kind": "TaskRun",
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
    )


def task(name: str, *after: str, **fields: Any) -> Object:
    """Return a task of a pipeline with one step."""
    spec = fields.pop("taskSpec", {"steps": [{"name": "main", "image": "busybox", "script": "true"}]})
    out: Object = {"name": name, "taskSpec": spec, **fields}
    if after:
        out["runAfter"] = list(after)
    return out


def reason(run: Object) -> tuple[str, str]:
    """Return status and reason of the run's condition."""
    return conditions.state(run), conditions.reason(run)


class PipelineWorld:
    """A PipelineRun and its children. `step` decides and applies the plan once."""

    def __init__(self, run: Object, **observed: Any) -> None:
        self.run = run
        self.now = START
        self.children: dict[str, Object] = {}
        self.claims: list[Object] = []
        self.observed = observed
        self.plans: list[Plan] = []

    def step(self) -> Plan:
        plan = pipelinerun.decide(
            pipelinerun.Observed(
                copy_tree(self.run),
                children=[copy_tree(c) for c in self.children.values()],
                claims=frozenset(name_of(c) for c in self.claims),
                now=self.now,
                **self.observed,
            )
        )
        self.plans.append(plan)
        if plan.status is not None:
            self.run = {**self.run, "status": plan.status}
        for action in plan.actions:
            if isinstance(action, Create):
                if action.object["kind"] == "PersistentVolumeClaim":
                    self.claims.append(action.object)
                else:
                    name = name_of(action.object)
                    assert name not in self.children, f"{name} is made twice"
                    self.children[name] = stored(action.object, f"uid-{name}")
            elif isinstance(action, Patch):
                child = self.children[name_of(action.object)]
                spec = {**child["spec"], **action.patch["spec"]}
                child["spec"] = {key: value for key, value in spec.items() if value is not None}
            elif isinstance(action, Delete):
                child = self.children[action.name]
                assert action.uid == uid_of(child)
                child["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return plan

    def settle(self) -> None:
        """Decide until nothing changes."""
        for _ in range(50):
            before = (copy_tree(self.run), copy_tree(self.children))
            self.step()
            if before == (self.run, self.children):
                return
        raise AssertionError("it never settles")

    def end(
        self, task: str, value: str = "True", *, why: str = "", results: Any = None, run: str = ""
    ) -> None:
        """End the runs of a task, or one of them."""
        for name, child in self.children.items():
            mine = child["metadata"]["labels"]["tekton.dev/pipelineTask"] == task
            if not mine or (run and name != run) or conditions.is_done(child):
                continue
            status: Object = dict(child.get("status") or {})
            conditions.mark(
                status, value, why or ("Succeeded" if value == "True" else "Failed"), "", self.now
            )  # type: ignore[arg-type]
            if results:
                status["results"] = [{"name": k, "value": v} for k, v in results.items()]
            child["status"] = status

    def started(self) -> list[str]:
        """Return the tasks that were started, in order."""
        return list(
            dict.fromkeys(c["metadata"]["labels"]["tekton.dev/pipelineTask"] for c in self.children.values())
        )

    @property
    def status(self) -> Object:
        return section(self.run, "status")

    def skipped(self) -> dict[str, str]:
        """Return why tasks were skipped."""
        return {s["name"]: s["reason"] for s in self.status.get("skippedTasks", [])}


class TaskWorld:
    """A TaskRun and its pods."""

    def __init__(self, run: Object, **observed: Any) -> None:
        self.run = run
        self.now = START
        self.pods: dict[str, Object] = {}
        self.claims: list[Object] = []
        self.observed = observed

    def step(self) -> Plan:
        plan = taskrun.decide(
            taskrun.Observed(
                copy_tree(self.run),
                pods=[copy_tree(p) for p in self.pods.values()],
                claims=frozenset(name_of(c) for c in self.claims),
                now=self.now,
                **self.observed,
            )
        )
        if plan.status is not None:
            self.run = {**self.run, "status": plan.status}
        for action in plan.actions:
            if isinstance(action, Create):
                obj = action.object
                if obj["kind"] == "Pod":
                    assert name_of(obj) not in self.pods, "a pod is made twice"
                    self.pods[name_of(obj)] = stored(obj, f"uid-{name_of(obj)}")
                else:
                    self.claims.append(obj)
            elif isinstance(action, Patch):
                metadata = self.pods[name_of(action.object)]["metadata"]
                metadata["annotations"] = {
                    **metadata["annotations"],
                    **action.patch["metadata"]["annotations"],
                }
            elif isinstance(action, Delete):
                assert action.uid == uid_of(self.pods[action.name])
                self.pods[action.name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return plan

    @property
    def pod(self) -> Object:
        """The newest pod."""
        return list(self.pods.values())[-1]

    @property
    def status(self) -> Object:
        return section(self.run, "status")

    def ended(self, *steps: tuple[str, int, list[Object]], phase: str = "") -> None:
        """End the containers of the newest pod: (name, exit code, last words)."""
        statuses = [
            {
                "name": f"step-{name}",
                "state": {
                    "terminated": {
                        "exitCode": code,
                        "reason": "Completed" if code == 0 else "Error",
                        "message": msgspec.json.encode(words).decode(),
                    }
                },
            }
            for name, code, words in steps
        ]
        over = phase or ("Failed" if any(code for _, code, _ in steps) else "Succeeded")
        self.pod["status"] = {"phase": over, "containerStatuses": statuses}

    def running(self) -> None:
        """Let the newest pod's containers run."""
        names = [c["name"] for c in self.pod["spec"]["containers"]]
        self.pod["status"] = {
            "phase": "Running",
            "containerStatuses": [{"name": n, "state": {"running": {}}} for n in names],
        }
