"""Every rule of upstream's validation, for every kind that has it: which field, which type of error, which words.

One table: what is done to a valid job, and what each kind says to that. Further cases are in the tests of a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
import pytest

from tests.fakes.manifests import whole
from trainshed.api.v1.common import JobKind
from trainshed.api.verdict import FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED
from trainshed.jobs.engine.model import Observed
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.objects import Object
from trainshed.testing.builders import JOB_KINDS

Said: TypeAlias = tuple[str, str, str]
"""Path, type, beginning of the detail. `M` is the map of replicas, `C` the containers of the type that is changed."""

WEBHOOKS = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob")
"""Kinds whose rules are worded alike; MPIJob has its own sentences."""
CHANGED = {
    "PyTorchJob": "Master",
    "TFJob": "Worker",
    "MPIJob": "Launcher",
    "XGBoostJob": "Master",
    "PaddleJob": "Worker",
    "JAXJob": "Worker",
    "MXJob": "Worker",
}
"""The replica type that is changed."""


class Rule(msgspec.Struct, frozen=True):
    """What is done to a valid job of a kind, and what the kinds say that have the rule; `old` is the stored job."""

    name: str
    change: Callable[[Object, JobKind], None]
    said: Mapping[str, tuple[Said, ...]]
    update: bool = False


def replicas(job: Object, kind: JobKind) -> Object:
    found: Object = job["spec"][kind.replica_specs_field]
    return found


def pod(job: Object, kind: JobKind) -> Object:
    spec: Object = replicas(job, kind)[CHANGED[kind.name]]["template"]["spec"]
    return spec


def _name(job: Object, kind: JobKind) -> None:
    job["metadata"]["name"] = "a" * 64 if kind.name == "MPIJob" else "0.A"


def _no_map(job: Object, kind: JobKind) -> None:
    del job["spec"][kind.replica_specs_field]


def _unknown_type(job: Object, kind: JobKind) -> None:
    specs = replicas(job, kind)
    type_ = "Tuners" if kind.name == "MXJob" else CHANGED[kind.name].lower()
    specs[type_] = next(iter(specs.values()))


def _no_containers(job: Object, kind: JobKind) -> None:
    pod(job, kind)["containers"] = []


def _no_image(job: Object, kind: JobKind) -> None:
    del pod(job, kind)["containers"][0]["image"]


def _empty_image(job: Object, kind: JobKind) -> None:
    pod(job, kind)["containers"][0]["image"] = ""


def _no_name(job: Object, kind: JobKind) -> None:
    pod(job, kind)["containers"][0]["name"] = ""


def _other_container(job: Object, kind: JobKind) -> None:
    pod(job, kind)["containers"][0]["name"] = "main"


def _two_leaders(job: Object, kind: JobKind) -> None:
    leader = "Scheduler" if kind.name == "MXJob" else CHANGED[kind.name]
    replicas(job, kind)[leader]["replicas"] = 2


def _uncounted_leader(job: Object, kind: JobKind) -> None:
    del replicas(job, kind)[CHANGED[kind.name]]["replicas"]


def _no_workers(job: Object, kind: JobKind) -> None:
    replicas(job, kind)["Worker"]["replicas"] = 0


def _too_many(job: Object, kind: JobKind) -> None:
    replicas(job, kind)["Worker"]["replicas"] = 10_001


def _no_leader(job: Object, kind: JobKind) -> None:
    del replicas(job, kind)[CHANGED[kind.name]]


def _chief_and_master(job: Object, kind: JobKind) -> None:
    replicas(job, kind)["Master"] = replicas(job, kind)["Chief"]


def _elastic_without_workers(job: Object, kind: JobKind) -> None:
    del replicas(job, kind)["Worker"]


def _both_counts_of_processes(job: Object, kind: JobKind) -> None:
    job["spec"]["elasticPolicy"]["nProcPerNode"] = 2


def _manager(job: Object, kind: JobKind) -> None:
    job["spec"]["runPolicy"]["managedBy"] = "other"


def _no_manager(job: Object, kind: JobKind) -> None:
    job["spec"]["runPolicy"]["managedBy"] = ""


def _changed_manager(job: Object, kind: JobKind) -> None:
    job["spec"]["runPolicy"]["managedBy"] = "kueue.x-k8s.io/multikueue"


def all_of(kinds: tuple[str, ...], *said: Said) -> dict[str, tuple[Said, ...]]:
    return dict.fromkeys(kinds, said)


MISSING = ("C", REQUIRED, "must have at least one container with name ")
MANAGER = "spec.runPolicy.managedBy"
RULES = (
    Rule(
        "1 the name is a label",
        _name,
        all_of(WEBHOOKS, ("metadata.name", INVALID, "should match: a DNS-1035 label must"))
        | {"MPIJob": (("metadata.name", INVALID, "must be no more than 63 characters"),)},
    ),
    Rule(
        "2 there are replicas",
        _no_map,
        all_of(WEBHOOKS, ("M", REQUIRED, "must be required"))
        # What asks for a single type speaks, too.
        | {"XGBoostJob": (("M", REQUIRED, "must be required"), ("M[Master]", REQUIRED, "must be present"))}
        | {"PyTorchJob": (("M[Worker]", REQUIRED, "must be configured"), ("M", REQUIRED, "must be required"))}
        | {"MPIJob": (("M", REQUIRED, "MPIReplicaSpecs is not valid"),)},
    ),
    Rule(
        "3 replica types are known",
        _unknown_type,
        {
            "PyTorchJob": (("M[master]", UNSUPPORTED, 'supported values: "Master", "Worker"'),),
            "XGBoostJob": (("M[master]", UNSUPPORTED, 'supported values: "Master", "Worker"'),),
            "PaddleJob": (("M[worker]", UNSUPPORTED, 'supported values: "Master", "Worker"'),),
            "JAXJob": (("M[worker]", UNSUPPORTED, 'supported values: "Worker"'),),
            "MXJob": (("M[Tuners]", UNSUPPORTED, 'supported values: "Scheduler", "Server", "Worker"'),),
            "MPIJob": (
                (
                    "M[launcher]",
                    UNSUPPORTED,
                    "MPIReplicaType is launcher but must be one of [Launcher Worker]",
                ),
            ),
        },
    ),
    Rule(
        "4 there is a container",
        _no_containers,
        all_of(WEBHOOKS, ("C", REQUIRED, "must be specified"), MISSING)
        | {"MPIJob": (("C", REQUIRED, "MPIReplicaSpecs is not valid: containers definition expected in"),)},
    ),
    Rule(
        "5 every container has an image",
        _no_image,
        all_of(WEBHOOKS, ("C[0].image", REQUIRED, "must be required"))
        | {"MPIJob": (("C[0].image", REQUIRED, "MPIReplicaSpec is not valid: Image is undefined in"),)},
    ),
    Rule(
        "5 an empty image is none",
        _empty_image,
        all_of(WEBHOOKS, ("C[0].image", REQUIRED, "must be required"))
        | {"MPIJob": (("C[0].image", REQUIRED, "MPIReplicaSpec is not valid: Image is undefined in"),)},
    ),
    Rule(
        "6 one container has the kind's name",
        _other_container,
        all_of(WEBHOOKS, MISSING),
    ),
    Rule(
        "6 a container has a name",
        _no_name,
        all_of(WEBHOOKS, MISSING)
        | {"MPIJob": (("C[0].name", REQUIRED, "MPIReplicaSpec is not valid: ImageName is undefined in"),)},
    ),
    Rule(
        "7 there is one leader",
        _two_leaders,
        all_of(("PyTorchJob", "XGBoostJob"), ("M[Master].replicas", FORBIDDEN, "must be 1"))
        | {
            "MXJob": (("M[Scheduler].replicas", FORBIDDEN, "must not be more than 1"),),
            "MPIJob": (
                (
                    "M[Launcher].replicas",
                    FORBIDDEN,
                    "MPIReplicaSpec is not valid: There must be only 1 launcher",
                ),
            ),
        },
    ),
    Rule(
        "7 a master says that it is one",
        _uncounted_leader,
        all_of(("PyTorchJob", "XGBoostJob"), ("M[Master].replicas", FORBIDDEN, "must be 1")),
    ),
    Rule(
        "8 others are at least one",
        _no_workers,
        {"PyTorchJob": (("M[Worker].replicas", FORBIDDEN, "must be at least 1"),)},
    ),
    Rule(
        "8 and not absurdly many",
        _too_many,
        all_of((*WEBHOOKS, "MPIJob"), ("M[Worker].replicas", FORBIDDEN, "must be at most 10000")),
    ),
    Rule(
        "9 there is a leader",
        _no_leader,
        {
            "XGBoostJob": (("M[Master]", REQUIRED, "must be present"),),
            "MPIJob": (
                ("M[Launcher]", REQUIRED, "MPIReplicaSpec is not valid: Master ReplicaSpec must be present"),
            ),
        },
    ),
    Rule(
        "10 chief or master",
        _chief_and_master,
        {"TFJob": (("M", FORBIDDEN, "must not have more than 1 Chief or Master role"),)},
    ),
    Rule(
        "11 an elastic job has workers",
        _elastic_without_workers,
        {"PyTorchJob": (("M[Worker]", REQUIRED, "must be configured if elastic policy is used"),)},
    ),
    Rule(
        "12 processes are counted once",
        _both_counts_of_processes,
        {
            "PyTorchJob": (
                ("spec.elasticPolicy.nProcPerNode", FORBIDDEN, "must not be used with spec.nprocPerNode"),
            )
        },
    ),
    Rule(
        "13 the manager is known",
        _manager,
        all_of((*WEBHOOKS, "MPIJob"), (MANAGER, UNSUPPORTED, "supported")),
    ),
    Rule(
        "13 an empty one is not",
        _no_manager,
        all_of((*WEBHOOKS, "MPIJob"), (MANAGER, UNSUPPORTED, "supported")),
    ),
    Rule(
        "14 the manager stays",
        _changed_manager,
        all_of((*WEBHOOKS, "MPIJob"), (MANAGER, INVALID, "field is immutable")),
        update=True,
    ),
)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [(JOB_KINDS[name], rule) for rule in RULES for name in rule.said],
    ids=lambda value: value.name,
)
def test_rule(kind: JobKind, rule: Rule) -> None:
    valid, job = whole(kind.name), whole(kind.name)
    assert kind.validate(valid, None).errors == ()
    rule.change(job, kind)
    map_ = f"spec.{kind.replica_specs_field}"
    containers = f"{map_}[{CHANGED[kind.name]}].template.spec.containers"
    expected = [
        (path.replace("M", map_, 1) if path[0] == "M" else path.replace("C", containers, 1), type_, detail)
        for path, type_, detail in rule.said[kind.name]
    ]
    found = kind.validate(job, valid if rule.update else None).errors
    assert [(error.path, error.type) for error in found] == [(path, type_) for path, type_, _ in expected]
    for error, (_, _, detail) in zip(found, expected, strict=True):
        assert error.detail.startswith(detail), str(error)


def test_every_kind_has_its_rules() -> None:
    assert {name for rule in RULES for name in rule.said} == set(JOB_KINDS) == set(CHANGED)


@pytest.mark.parametrize("kind", JOB_KINDS.values(), ids=list(JOB_KINDS))
def test_an_absurd_count_that_was_stored_all_the_same_costs_nothing(kind: JobKind) -> None:
    """`scale` asks no webhook: what lists all replicas must not be made of such a job."""
    job = whole(kind.name)
    replicas(job, kind)["Worker"]["replicas"] = 2**31 - 1
    plan = decide(Observed(job=job, now=1_800_000_000.0))
    assert plan.actions == () and "must be at most 10000" in plan.events[0].message
