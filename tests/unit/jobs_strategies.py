"""Hypothesis strategies for jobs of every kind, valid or whatever the CRD lets in, and for what is seen of them."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st

from tests.unit.jobs_kinds import Builder
from trainshed.api.replicated import JobKind
from trainshed.kube.meta.objects import Object
from trainshed.testing.builders import JOB_KINDS

KINDS = st.sampled_from(list(JOB_KINDS.values()))
POLICIES = st.sampled_from(["OnFailure", "Always", "ExitCode", "Never"])
EXIT_CODES = st.sampled_from([0, 1, 127, 137, 143, None])
RUN_POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "cleanPodPolicy": st.sampled_from(["None", "Running", "All"]),
        "backoffLimit": st.integers(0, 3),
        "activeDeadlineSeconds": st.integers(0, 60),
        "ttlSecondsAfterFinished": st.integers(0, 60),
        "suspend": st.booleans(),
    },
)

_BOUNDS = st.fixed_dictionaries(
    {}, optional={"minReplicas": st.integers(1, 2), "maxReplicas": st.integers(2, 4)}
)
_METRICS = [
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
]
_ELASTIC = st.tuples(
    _BOUNDS,
    st.fixed_dictionaries(
        {},
        optional={
            "metrics": st.just(_METRICS),
            "maxRestarts": st.integers(0, 3),
            "rdzvBackend": st.sampled_from(["c10d", "etcd"]),
            "rdzvPort": st.integers(1, 65535),
            "rdzvId": st.text("ab", max_size=3),
            "rdzvConf": st.just([{"key": "a", "value": "1"}]),
            "standalone": st.booleans(),
        },
    ),
).map(lambda parts: parts[0] | parts[1])

SPECS: dict[str, st.SearchStrategy[Object]] = {
    "PyTorchJob": st.fixed_dictionaries(
        {}, optional={"nprocPerNode": st.sampled_from(["auto", "gpu", "1", "4"]), "elasticPolicy": _ELASTIC}
    ),
    "TFJob": st.fixed_dictionaries(
        {},
        optional={
            "successPolicy": st.sampled_from(["", "AllWorkers", "x"]),
            "enableDynamicWorker": st.booleans(),
        },
    ),
    "MPIJob": st.fixed_dictionaries(
        {},
        optional={
            "slotsPerWorker": st.integers(0, 3),
            "cleanPodPolicy": st.sampled_from(["None", "Running", "All"]),
            "mainContainer": st.sampled_from(["", "main"]),
        },
    ),
    "PaddleJob": st.fixed_dictionaries({}, optional={"elasticPolicy": _BOUNDS}),
    "MXJob": st.fixed_dictionaries({"jobMode": st.sampled_from(["MXTrain", "MXTune"])}),
}
"""What a kind's `spec` may say beside its replicas and its run policy, where it may say more."""


@st.composite
def valid_jobs(
    draw: Any,
    *,
    kinds: Any = KINDS,
    most: int = 3,
    policies: Any = POLICIES,
    run_policies: Any = RUN_POLICIES,
) -> Object:
    """Draw a job of any kind that its validation accepts, with up to `most` pods of a type."""
    kind: JobKind = draw(kinds)
    types = draw(st.sets(st.sampled_from(kind.type_names), min_size=1))
    spec = draw(SPECS.get(kind.name, st.just({})))
    # Repaired rather than thrown away: half of what is drawn would be.
    if kind.name == "TFJob" and {"Chief", "Master"} <= types:
        types.remove("Master")
    types |= {"XGBoostJob": {"Master"}, "MPIJob": {"Launcher"}}.get(kind.name, set())
    if "elasticPolicy" in spec:
        types.add("Worker")
    counts = {}
    for type_ in sorted(types):
        exactly = 1 if type_ in ("Launcher", "Scheduler") else kind.replica_type(type_).exactly
        counts[type_] = draw(st.integers(kind.least_replicas or 0, most)) if exactly is None else exactly
    job = Builder(kind).job(counts, draw(policies), spec=spec, **draw(run_policies))
    assert kind.validate(job, None).errors == (), kind.validate(job, None)
    return job


@st.composite
def stored_jobs(draw: Any) -> Object:
    """Draw a job of any kind, counts and spelling, that its CRD lets in though a webhook would not."""
    kind: JobKind = draw(KINDS)
    types = st.sampled_from([*kind.type_names, "worker", "Helper"])
    replicas = draw(st.dictionaries(types, st.one_of(st.integers(-1, 3), st.just({}))))
    return Builder(kind).job(
        replicas, draw(POLICIES), spec=draw(SPECS.get(kind.name, st.just({}))), **draw(RUN_POLICIES)
    )


@st.composite
def pods_of(draw: Any, job: Object) -> list[Object]:
    """Draw pods of a job in any state, one at most of each name; some are of replicas that it does not want."""
    kind = JOB_KINDS[job["kind"]]
    phases = st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"])
    states = st.tuples(st.sampled_from(kind.type_names), st.integers(0, 3), phases, EXIT_CODES, st.booleans())
    pods = [
        Builder(kind).pod(type_, index, phase, exit_code=code, terminating=going)
        for type_, index, phase, code, going in draw(st.lists(states, max_size=6))
    ]
    return list({pod["metadata"]["name"]: pod for pod in pods}.values())
