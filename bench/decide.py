"""How long the operator's judgement takes for one job of each kind: of 5 pods, and of 1,000.

    python -m bench.decide [--repeat 30]

A line per kind and size, for a job that is new (all is made, every object written) and one that runs (nothing is to
do), as the median and the spread of one pass; then the slowest of each size against its bar.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bench.measure import Figure, table
from trainshed import _collector
from trainshed.api.replicated import JobKind
from trainshed.jobs.engine.model import Observed
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Apply, Create, Plan
from trainshed.kube.meta.resources import PODS, Resource
from trainshed.testing.builders import JOB_KINDS, make_job, make_pod_spec, make_replica

NOW = 1_800_000_000.0
BARS_MS = {5: 0.5, 1000: 50.0}
ALONE = ("Master", "Chief", "Launcher", "Scheduler")
"""Types of which a job has one; the others are workers."""
SPECS: dict[str, Object] = {"MXJob": {"jobMode": "MXTrain"}}


def job(kind: JobKind, pods: int) -> Object:
    """Return a job of so many pods: one that leads, where the kind has such, and workers."""
    leader = next((name for name in kind.type_names if name in ALONE), None)

    def replica(type_: str) -> Object | None:
        count = {leader: 1, "Worker": pods - (leader is not None)}.get(type_)
        if count is None:
            return None
        env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
        spec = make_pod_spec(
            "python train.py", name=kind.container_name, env=env, resources={"limits": {"cpu": "1"}}
        )
        return make_replica(count, spec, restart_policy="OnFailure")

    replicas = [replica(type_) for type_ in kind.type_names]
    metadata = {"uid": "uid", "generation": 1}
    return make_job(
        "train", *replicas, kind=kind.name, namespace="ns", metadata=metadata, spec=SPECS.get(kind.name)
    )


def running(document: Object) -> Observed:
    """Return the view of the job when all its pods run and its status says so."""
    owned: dict[Resource, list[Object]] = {}
    plan = decide(Observed(job=document, now=NOW))
    for number, action in enumerate(plan.actions):
        assert isinstance(action, Create | Apply)
        obj: Object = {**action.object, "metadata": {**action.object["metadata"], "uid": f"uid-{number}"}}
        if action.resource == PODS:
            container = {
                "name": obj["spec"]["containers"][0]["name"],
                "restartCount": 0,
                "state": {"running": {}},
            }
            obj["status"] = {"phase": "Running", "containerStatuses": [container]}
        owned.setdefault(action.resource, []).append(obj)
    for _ in range(5):
        seen = Observed(job=document, owned=owned, now=NOW)
        plan = decide(seen)
        if plan.status is None and not plan.actions:
            return seen
        for action in plan.actions:  # a file that lists the pods that run
            assert isinstance(action, Apply), action
            owned[action.resource] = [
                {**action.object, "metadata": {**action.object["metadata"], "uid": "u"}}
            ]
        document = {**document, "status": plan.status or document.get("status")}
    raise AssertionError(f"{document['kind']} does not come to rest")


def samples(observed: Observed, repeat: int, passes: int) -> Iterator[float]:
    """Yield the milliseconds of CPU time of one pass, `repeat` times, each the mean of some passes."""
    for _ in range(repeat):
        started = time.process_time()
        for _ in range(passes):
            write(decide(observed))
        yield (time.process_time() - started) / passes * 1000


def write(plan: Plan) -> None:
    """Have each object of a plan written once, as its execution has."""
    for action in plan.actions:
        if isinstance(action, Create):
            assert action.object


def measure(repeat: int = 30) -> list[Figure]:
    """Return the figure of every kind, size and state."""
    figures = []
    _collector.settle()  # as the operator does
    for pods, bar in BARS_MS.items():
        for kind in JOB_KINDS.values():
            document = job(kind, pods)
            for state, observed in (("new", Observed(job=document, now=NOW)), ("running", running(document))):
                passes = max(1, 200 // pods)
                list(samples(observed, 2, passes))
                gc.collect()
                taken = list(samples(observed, repeat, passes))
                figures.append(Figure(f"decide, {kind.name} of {pods} pods, {state}", "ms", taken, bar))
    return figures


def line(figures: Sequence[Figure]) -> str:
    """Return the slowest of each size in a line."""
    parts = []
    for pods, bar in BARS_MS.items():
        slowest: Any = max((f for f in figures if f" of {pods} pods" in f.name), key=lambda f: f.value)
        spread = f"{min(slowest.samples):.3g} - {max(slowest.samples):.3g}"
        parts.append(f"{slowest.name}: median {slowest.value:.3g} ms ({spread}), bar {bar:g} ms")
    return "slowest decide: " + "; ".join(parts)


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=30)
    figures = measure(parser.parse_args().repeat)
    print(table(figures))
    print(line(figures))


if __name__ == "__main__":
    main()
