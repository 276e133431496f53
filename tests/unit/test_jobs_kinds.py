"""What holds for kinds alike: defaults, rules of validation, suspension, limits; one row of a table for each kind."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from tests.unit.jobs_builders import NOW, UID, conditions_of, created, deleted, kinds_of, reasons
from tests.unit.kind_builders import make_job_of, make_pod_of, make_replica_of, plan_of, told
from trainshed.api.crd import crd
from trainshed.api.registry import KINDS
from trainshed.api.replicated import JobKind
from trainshed.api.v1.jax import JAXJOB
from trainshed.api.v1.mx import MXJOB
from trainshed.api.v1.paddle import PADDLEJOB
from trainshed.jobs.engine.model import Observed
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Delete
from trainshed.kube.meta.resources import PODS
from trainshed.kube.meta.times import format_time


class Case(msgspec.Struct, frozen=True):
    """One kind: a usual job of it, and what is its own in tables that all have.

    `pods` are those of the job in order; `named` is how validation writes the name of the training container;
    `space` says whether conditions name the namespace, too; `sentences` is what stands before problems of the name, and
    of the replicas; `misspelled` is a spelling of a type that is not let in.
    """

    kind: JobKind
    counts: dict[str, int | None]
    pods: list[str]
    port: tuple[str, int]
    policy: str
    scales: bool = True
    named: str = ""
    space: bool = False
    sentences: tuple[str, str] = ("", "")
    misspelled: str = "worker"

    @property
    def type(self) -> str:
        """The replica type that speaks for the job."""
        return next(iter(self.counts))

    def job(self, *arguments: Any, **run_policy: Any) -> Object:
        return make_job_of(self.kind, self.counts, *arguments, **run_policy)


CASES = [
    Case(
        JAXJOB,
        {"Worker": 2},
        ["train-worker-0", "train-worker-1"],
        ("jaxjob-port", 6666),
        "Never",
        named="jax",
        space=True,
    ),
    Case(
        PADDLEJOB,
        {"Worker": 2},
        ["train-worker-0", "train-worker-1"],
        ("master", 36543),
        "OnFailure",
        named='"paddle"',
        space=True,
    ),
    Case(
        MXJOB,
        {"Scheduler": 1, "Server": 1, "Worker": 2},
        ["train-scheduler-0", "train-server-0", "train-worker-0", "train-worker-1"],
        ("mxjob-port", 9091),
        "Never",
        scales=False,
        named="mxnet",
        misspelled="tuner",
        sentences=("MXJob name is invalid: ", "MXJobSpec is not valid: "),
    ),
]

every_kind = pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind.name)


# Defaults.


@every_kind
def test_defaults(case: Case) -> None:
    kind = case.kind
    job = make_job_of(kind, {case.type: None})
    before = copy.deepcopy(job)
    out = kind.defaults(job)
    assert job == before
    assert kind.defaults(out) == out
    name, number = case.port
    assert out["spec"]["runPolicy"] == {"cleanPodPolicy": "None"}
    assert out["spec"][kind.replica_specs_field] == {
        case.type: make_replica_of(
            kind, 1, case.policy, ports=[{"name": name, "containerPort": number}], image="i:1"
        )
    }


@every_kind
def test_what_is_said_is_kept(case: Case) -> None:
    kind, (name, _) = case.kind, case.port
    job = make_job_of(kind, {case.type: 3}, "Always", cleanPodPolicy="All")
    (container,) = job["spec"][kind.replica_specs_field][case.type]["template"]["spec"]["containers"]
    container["ports"] = [{"name": name, "containerPort": 9}]
    spec = kind.defaults(job)["spec"]
    assert spec["runPolicy"] == {"cleanPodPolicy": "All"}
    assert spec[kind.replica_specs_field] == job["spec"][kind.replica_specs_field]


@every_kind
def test_other_spellings_of_a_type_mean_it(case: Case) -> None:
    job = make_job_of(case.kind, {case.type.upper(): 1})
    assert list(case.kind.defaults(job)["spec"][case.kind.replica_specs_field]) == [case.type]


# The declaration.


@every_kind
def test_columns_and_scale(case: Case) -> None:
    (version,) = crd(case.kind)["spec"]["versions"]
    columns = [(c["name"], c["type"], c["jsonPath"]) for c in version["additionalPrinterColumns"]]
    assert columns == [
        ("State", "string", ".status.conditions[-1:].type"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ]
    scale = {
        "specReplicasPath": f".spec.{case.kind.replica_specs_field}.Worker.replicas",
        "statusReplicasPath": ".status.replicaStatuses.Worker.active",
        "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
    }
    assert version["subresources"].get("scale") == (scale if case.scales else None)


# Validation.


def problems(kind: JobKind, job: Object, old: Object | None = None) -> list[str]:
    return [str(error) for error in kind.validate(job, old).errors]


def of_replicas(case: Case, job: Object) -> list[str]:
    """Return the problems without the words that stand before each in this kind."""
    found = problems(case.kind, job)
    assert all(text.startswith(case.sentences[1]) for text in found)
    return [text.removeprefix(case.sentences[1]) for text in found]


@every_kind
def test_a_usual_job_is_valid(case: Case) -> None:
    assert problems(case.kind, case.job()) == []


@every_kind
def test_rules_that_all_kinds_have(case: Case) -> None:
    kind = case.kind
    path = f"spec.{kind.replica_specs_field}"
    containers = f"{path}[{case.type}].template.spec.containers"
    no_training = f"{containers}: Required value: must have at least one container with name {case.named}"

    def changed(**container: Any) -> Object:
        job = case.job()
        job["spec"][kind.replica_specs_field][case.type] = make_replica_of(kind, 1, **container)
        return job

    def without(field: str) -> Object:
        job = case.job()
        del job["spec"][field]
        return job

    empty = changed()
    empty["spec"][kind.replica_specs_field][case.type]["template"]["spec"]["containers"] = []
    named = case.job()
    named["metadata"]["name"] = "A.b"
    (bad_name,) = problems(kind, named)
    assert bad_name.startswith(
        case.sentences[0] + 'metadata.name: Invalid value: "A.b": should match: a DNS-1035 label'
    )
    assert of_replicas(case, without(kind.replica_specs_field)) == [
        f"{path}: Required value: must be required"
    ]
    assert of_replicas(case, empty) == [f"{containers}: Required value: must be specified", no_training]
    assert of_replicas(case, changed(image="")) == [
        f"{containers}[0].image: Required value: must be required"
    ]
    assert of_replicas(case, changed(name="main")) == [no_training]


@every_kind
def test_replica_types_are_spelled_as_they_are_declared(case: Case) -> None:
    job = case.job()
    specs = job["spec"][case.kind.replica_specs_field]
    specs[case.misspelled] = make_replica_of(case.kind)
    supported = ", ".join(f'"{name}"' for name in case.kind.type_names)
    assert of_replicas(case, job) == [
        f"spec.{case.kind.replica_specs_field}[{case.misspelled}]: Unsupported value:"
        f' "{case.misspelled}": supported values: {supported}'
    ]


@every_kind
def test_the_manager_is_one_of_two_and_stays(case: Case) -> None:
    path = "spec.runPolicy.managedBy"
    own, kueue = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"
    assert problems(case.kind, case.job(managedBy="x")) == [
        f'{path}: Unsupported value: "x": supported values: "{own}", "{kueue}"'
    ]
    before, after = case.job(managedBy=own), case.job(managedBy=kueue)
    assert problems(case.kind, after, before) == [f'{path}: Invalid value: "{kueue}": field is immutable']
    assert problems(case.kind, after, after) == []


# Judgement.


@every_kind
def test_a_job_of_another_manager_is_left_alone(case: Case) -> None:
    plan = plan_of(case.kind, case.job(managedBy="kueue.x-k8s.io/multikueue"))
    assert plan.actions == () and plan.status is None


@every_kind
def test_a_life(case: Case) -> None:
    job, kind = case.job(), case.kind
    first = plan_of(kind, job)
    assert created(first) == case.pods
    assert created(first, "Service") == case.pods
    assert conditions_of(first) == [("Created", "True", f"{kind.name}Created")]
    job["status"] = first.status
    called = "ns/train" if case.space else "train"
    whole = {(type_, index): "Running" for type_, count in case.counts.items() for index in range(count or 0)}
    running = plan_of(kind, job, whole)
    assert told(running)["Running"] == f"{kind.name} {called} is running."
    job["status"] = running.status
    done = plan_of(kind, job, dict.fromkeys(whole, 0))
    assert conditions_of(done) == [
        ("Created", "True", f"{kind.name}Created"),
        ("Running", "False", f"{kind.name}Running"),
        ("Succeeded", "True", f"{kind.name}Succeeded"),
    ]
    verb = "successfully" if case.space else "is successfully"
    assert told(done)["Succeeded"] == f"{kind.name} {called} {verb} completed."
    assert done.status is not None and done.status["completionTime"] == format_time(NOW)


@every_kind
def test_s1_created_suspended(case: Case) -> None:
    plan = plan_of(case.kind, case.job(suspend=True))
    assert plan.actions == ()
    assert conditions_of(plan) == [
        ("Created", "True", f"{case.kind.name}Created"),
        ("Suspended", "True", f"{case.kind.name}Suspended"),
    ]
    assert plan.status is not None and "startTime" not in plan.status


@every_kind
def test_s2_suspended_while_running_and_resumed(case: Case) -> None:
    kind = case.kind
    whole = {(type_, index): "Running" for type_, count in case.counts.items() for index in range(count or 0)}
    running = plan_of(kind, case.job(), whole)
    suspended = plan_of(kind, case.job(suspend=True, status=running.status), whole)
    assert deleted(suspended, "Pod") == case.pods
    assert conditions_of(suspended) == [
        ("Created", "True", f"{kind.name}Created"),
        ("Running", "False", f"{kind.name}Suspended"),
        ("Suspended", "True", f"{kind.name}Suspended"),
    ]
    assert suspended.status is not None and running.status is not None
    assert suspended.status["startTime"] == running.status["startTime"]
    resumed = plan_of(kind, case.job(status=suspended.status))
    assert conditions_of(resumed)[-1] == ("Suspended", "False", f"{kind.name}Resumed")
    again = plan_of(kind, case.job(status=resumed.status))
    assert created(again) == case.pods
    assert [
        c[:2] for c in conditions_of(plan_of(kind, case.job(status=again.status or resumed.status), whole))
    ] == [
        ("Created", "True"),
        ("Suspended", "False"),
        ("Running", "True"),
    ]


@every_kind
def test_a_deadline_ends_it(case: Case) -> None:
    whole = {(type_, 0): "Running" for type_ in case.counts}
    job = case.job(activeDeadlineSeconds=5, status={"startTime": format_time(NOW - 5)})
    plan = plan_of(case.kind, job, whole)
    assert told(plan)["Failed"] == "Job train has failed because it was active longer than specified deadline"
    assert reasons(plan) == [f"{case.kind.name}Failed"]


@every_kind
def test_the_deletion_after_the_time_to_live_is_told(case: Case) -> None:
    condition = {"type": "Succeeded", "status": "True", "lastTransitionTime": format_time(NOW - 9)}
    status = {"conditions": [condition], "completionTime": format_time(NOW - 9)}
    plan = plan_of(case.kind, case.job(ttlSecondsAfterFinished=5, status=status))
    if plan.status is not None:
        plan = plan_of(case.kind, case.job(ttlSecondsAfterFinished=5, status=plan.status))
    (action,) = plan.actions
    assert isinstance(action, Delete) and (action.resource, action.uid) == (case.kind.resource, UID)
    assert [e.reason for e in action.succeeded()] == [f"SuccessfulDelete{case.kind.deletion_word}"]


@every_kind
def test_no_replicas_wait(case: Case) -> None:
    plan = plan_of(case.kind, make_job_of(case.kind, {case.type: 0}))
    assert plan.actions == ()
    assert list(told(plan)) == ["Created"]


@every_kind
@pytest.mark.parametrize("state", ["Pending", "Running", "Failed", 0, 1, 137])
@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never", "ExitCode", ""])
def test_what_was_done_is_not_done_again(case: Case, policy: str, state: str | int) -> None:
    """The status that a plan writes is the one that the next plan finds right."""
    job = make_job_of(case.kind, {case.type: 1}, policy)
    pods = [make_pod_of(case.kind, case.type, 0, state)]
    first = decide(Observed(job=job, owned={PODS: pods}, now=NOW))
    if "DeletePod" in kinds_of(first):
        pods[0]["metadata"]["deletionTimestamp"] = format_time(NOW)
    job["status"] = first.status
    for _ in range(2):
        plan = decide(Observed(job=job, owned={PODS: pods}, now=NOW))
        job["status"] = plan.status or job["status"]
    assert plan.status is None
    assert [kind for kind in kinds_of(plan) if kind != "CreateService"] == []


def test_a_kind_that_is_deprecated_is_not_proposed_for_a_program() -> None:
    assert [kind.name for kind in KINDS.values() if not kind.runs_programs] == ["MXJob"]
