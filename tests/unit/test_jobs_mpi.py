"""What an MPIJob owns, what its pods are given, and what their ends mean. The objects whole: `tests/golden/mpi*`."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.fakes.plans import written
from tests.unit.jobs_builders import (
    NOW,
    conditions_of,
    created,
    created_pods,
    deleted,
    env_of,
    kinds_of,
    made,
    reasons,
)
from trainshed.jobs.engine.model import Observed, OperatorOptions
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.registry import controlled
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.objects import Object, name_of
from trainshed.kube.meta.resources import CONFIGMAPS, PODS, ROLEBINDINGS, ROLES, SERVICEACCOUNTS, Resource
from trainshed.operator.flags import parse

ALL_PODS = ["train-worker-0", "train-worker-1", "train-launcher"]


def make(
    workers: int | None = 2, policy: str = "Never", *, launcher: Object | None = None, **spec: Any
) -> Object:
    """Return the MPIJob `train`; `launcher` is added to the only container of its launcher."""
    container = {"name": "main", "image": "i:1"}
    specs: Object = {
        "Launcher": {
            "restartPolicy": policy,
            "template": {"spec": {"containers": [{**container, **(launcher or {})}]}},
        }
    }
    if workers is not None:
        template = {"spec": {"containers": [dict(container)]}}
        specs["Worker"] = {"replicas": workers, "restartPolicy": policy, "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": "train", "namespace": "ns", "uid": "job-uid"},
        "spec": {"mpiReplicaSpecs": specs, **spec},
    }


def plan_of(job: Object, owned: dict[Resource, list[Object]] | None = None) -> Plan:
    return written(decide(Observed(job=job, owned=owned or {}, now=NOW)))


def stored(job: Object, **phases: str) -> dict[Resource, list[Object]]:
    """Return what the first plan makes as the next pass sees it; `phases` by the end of a pod's name."""
    out: dict[Resource, list[Object]] = {}
    for action in plan_of(job).actions:
        obj = copy.deepcopy(action.object)  # type: ignore[attr-defined]
        obj["metadata"]["uid"] = f"uid-{name_of(obj)}"
        if action.resource == PODS:
            end = name_of(obj).removeprefix("train-").replace("-", "_")
            obj["status"] = {"phase": phases.get(end, "Pending")}
        out.setdefault(action.resource, []).append(obj)
    return out


def end(owned: dict[Resource, list[Object]], name: str, code: int) -> None:
    """Fail a pod with the exit code of its first container."""
    (pod,) = (pod for pod in owned[PODS] if name_of(pod) == f"train-{name}")
    state = {"terminated": {"exitCode": code}}
    pod["status"] = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]}


def data_of(plan: Plan) -> dict[str, str]:
    (config,) = made(plan, "ConfigMap")
    data: dict[str, str] = config["data"]
    return data


# Objects.


def test_objects_come_in_order_and_there_are_no_services() -> None:
    plan = plan_of(make())
    objects = ["CreateServiceAccount", "ApplyConfigMap", "ApplyRole", "CreateRoleBinding"]
    assert kinds_of(plan) == [*objects, *["CreatePod"] * 3]
    assert created(plan) == ALL_PODS
    job = {**make(), "status": plan.status}
    assert plan_of(job, stored(make())).actions == (), "and then there is nothing to do"


def test_without_workers_the_launcher_may_run_nothing_anywhere() -> None:
    for workers in (0, None):
        (role,) = made(plan_of(make(workers)), "Role")
        assert [rule["resources"] for rule in role["rules"]] == [["pods"]]
    (role,) = made(plan_of(make(1)), "Role")
    assert role["rules"][1]["resourceNames"] == ["train-worker-0"]


def test_running_workers_are_discovered_and_scaling_follows() -> None:
    owned = stored(make(11), worker_10="Running", worker_2="Running")
    plan = plan_of(make(11, slotsPerWorker=3), owned)
    assert data_of(plan)["discover_hosts.sh"] == "#!/bin/sh\necho train-worker-10:3\necho train-worker-2:3"
    plan = plan_of(make(1), stored(make(2)))
    assert data_of(plan)["hostfile"] == "train-worker-0 slots=1\n"
    assert [len(role["rules"][1]["resourceNames"]) for role in made(plan, "Role")] == [1]


@pytest.mark.parametrize(
    ("limit", "counts"),
    [("nvidia.com/gpu", True), ("amd.com/gpu", True), ("example.org/gpu-share", True), ("cpu", False)],
)
def test_a_launcher_with_gpus_is_a_host_and_sees_them(limit: str, counts: bool) -> None:
    plan = plan_of(make(1, launcher={"resources": {"limits": {limit: "1"}}}))
    own = "train-launcher slots=1\n" if counts else ""
    assert data_of(plan)["hostfile"] == own + "train-worker-0 slots=1\n"
    assert ("train-launcher:1" in data_of(plan)["discover_hosts.sh"]) is counts
    hidden = ("NVIDIA_VISIBLE_DEVICES", "") in env_of(created_pods(plan)["train-launcher"])
    assert hidden is not counts


@pytest.mark.parametrize("resource", [CONFIGMAPS, ROLES, ROLEBINDINGS], ids=lambda r: r.kind)
def test_a_name_that_is_taken_is_said_and_waited_for(resource: Resource) -> None:
    (foreign,) = stored(make())[resource]
    foreign["metadata"]["ownerReferences"] = []
    plan = plan_of(make(), {resource: [foreign]})
    assert created(plan) == []
    (event,) = plan.events
    what = f'Resource "{name_of(foreign)}" of MPIJobKind "{resource.kind}"'
    assert (event.type, event.reason) == ("Warning", "ErrResourceExists")
    assert event.message == f"{what} already exists and is not managed by MPIJob"


def test_a_service_account_that_is_there_is_good_enough() -> None:
    job = make()
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["serviceAccountName"] = "mine"
    account = {"metadata": {"name": "mine", "namespace": "ns"}}
    plan = plan_of(job, {SERVICEACCOUNTS: [account]})
    assert made(plan, "ServiceAccount") == [] and created(plan) == ALL_PODS
    assert created_pods(plan)["train-launcher"]["spec"]["serviceAccountName"] == "mine"
    (binding,) = made(plan, "RoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "mine", "namespace": "ns"}]


def test_objects_are_looked_up_while_the_job_runs() -> None:
    lookups = controlled("MPIJob", OperatorOptions()).lookups
    names = [("ServiceAccount", "train-launcher"), ("ConfigMap", "train-config")]
    names += [("Role", "train-launcher"), ("RoleBinding", "train-launcher")]
    assert [(resource.kind, name) for resource, name in lookups(make())] == names
    over = {"conditions": [{"type": "Failed", "status": "True"}]}
    assert list(lookups({**make(), "status": over})) == []
    assert list(lookups(make(runPolicy={"suspend": True}))) == []
    assert len(list(lookups({"metadata": {"name": "x"}, "spec": {"mpiReplicaSpecs": []}}))) == 4


def test_suspending_takes_the_pods_only() -> None:
    plan = plan_of(make(runPolicy={"suspend": True}), stored(make()))
    assert kinds_of(plan) == ["DeletePod"] * 3


# Pods.


@pytest.mark.parametrize("given", [(), ("I_MPI_HYDRA_BOOTSTRAP",), ("I_MPI_HYDRA_BOOTSTRAP_EXEC",)])
def test_settings_of_intel_mpi_are_the_users_where_they_are_given(given: tuple[str, ...]) -> None:
    job = make(launcher={"env": [{"name": name, "value": "mine"} for name in given]})
    env = env_of(created_pods(plan_of(job))["train-launcher"])
    values = {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh"}
    intel = [(name, value) for name, value in env if name in values]
    ours = [(name, value) for name, value in values.items() if name not in given]
    assert intel == [*((name, "mine") for name in given), *ours]


def test_a_worker_with_a_command_keeps_it_and_its_arguments() -> None:
    job = make(1)
    (container,) = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    container |= {"command": ["serve"], "args": ["--all"]}
    (made_one,) = created_pods(plan_of(job))["train-worker-0"]["spec"]["containers"]
    assert (made_one["command"], made_one["args"]) == (["serve"], ["--all"])


def test_the_delivery_image_is_a_flag() -> None:
    options = parse(["--mpi-kubectl-delivery-image=mirror/kubectl:1"], {}).jobs
    plan = decide(Observed(job=make(), now=NOW, options=options))
    (init,) = created_pods(plan)["train-launcher"]["spec"]["initContainers"]
    assert init["image"] == "mirror/kubectl:1"


def test_creations_are_told_in_upstreams_words() -> None:
    job = make(1)
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["restartPolicy"] = "Always"
    told = [(e.reason, e.message) for action in plan_of(job).actions for e in action.succeeded()]
    overridden = "Restart policy in pod template will be overwritten by restart policy in replica spec"
    assert told == [
        ("SuccessfulCreatePod", "Created worker pod: train-worker-0"),
        ("SettedPodTemplateRestartPolicy", overridden),
        ("MPIJobRunning", "launcher pod created success: train-launcher"),
    ]
    failed = [(e.reason, e.message) for action in plan_of(job).actions for e in action.failed("no")]
    assert failed == [
        ("MPIJobFailed", "worker pod created failed: no"),
        ("MPIJobFailed", "launcher pod created failed: no"),
    ]


def test_surplus_workers_go_without_a_word_and_do_not_count() -> None:
    owned = stored(make(2), launcher="Running", worker_0="Running", worker_1="Failed")
    plan = plan_of(make(1), owned)
    assert deleted(plan, "Pod") == ["train-worker-1"]
    assert [event for action in plan.actions for event in action.succeeded()] == []
    assert conditions_of(plan)[-1] == ("Running", "True", "MPIJobRunning")


# Judgement.


@pytest.mark.parametrize(
    ("phases", "condition", "counts"),
    [
        ({}, ("Created", "True", "MPIJobCreated"), ({}, {})),
        (
            {"worker_0": "Running", "worker_1": "Running"},
            ("Created", "True", "MPIJobCreated"),
            ({}, {"active": 2}),
        ),
        ({"launcher": "Running"}, ("Running", "True", "MPIJobRunning"), ({"active": 1}, {})),
        (
            {"launcher": "Succeeded", "worker_0": "Running"},
            ("Succeeded", "True", "MPIJobSucceeded"),
            ({"succeeded": 1}, {}),
        ),
        (
            {"launcher": "Succeeded", "worker_0": "Failed"},
            ("Succeeded", "True", "MPIJobSucceeded"),
            ({"succeeded": 1}, {}),
        ),
        (
            {"launcher": "Failed", "worker_0": "Running"},
            ("Failed", "True", "MPIJobMPIJobFailed"),
            ({"failed": 1}, {}),
        ),
        (
            {"launcher": "Running", "worker_0": "Failed"},
            ("Failed", "True", "MPIJobMPIJobFailed"),
            ({"active": 1}, {"failed": 1}),
        ),
    ],
)
@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_the_launcher_decides_and_any_failure_fails_the_job(
    phases: dict[str, str], condition: tuple[str, str, str], counts: tuple[Object, Object], policy: str
) -> None:
    plan = plan_of(make(policy=policy), stored(make(), **phases))
    assert conditions_of(plan)[-1] == condition
    assert plan.status is not None
    assert plan.status["replicaStatuses"] == {"Launcher": counts[0], "Worker": counts[1]}
    assert deleted(plan, "Pod") == [], "no pod is replaced"
    if condition[0] == "Failed":
        assert plan.status["conditions"][-1]["message"].startswith("MPIJob train is failed because 1 ")


@pytest.mark.parametrize("type_", ["launcher", "worker-0"])
def test_under_exit_code_a_killed_pod_is_replaced_and_an_error_fails_the_job(type_: str) -> None:
    owned = stored(make(policy="ExitCode"), launcher="Running")
    end(owned, type_, 137)
    plan = plan_of(make(policy="ExitCode"), owned)
    assert deleted(plan, "Pod") == [f"train-{type_}"]
    assert conditions_of(plan)[-1] == ("Restarting", "True", "MPIJobRestarting")
    end(owned, type_, 1)
    plan = plan_of(make(policy="ExitCode"), owned)
    assert deleted(plan, "Pod") == []
    assert conditions_of(plan)[-1] == ("Failed", "True", "MPIJobFailed")


def test_a_job_without_workers_counts_them_all_the_same() -> None:
    job = make(None)
    plan = plan_of(job, stored(job, launcher="Running"))
    assert plan.status is not None
    assert plan.status["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {}}


def test_a_worker_on_its_way_out_still_counts() -> None:
    owned = stored(make(1), launcher="Running", worker_0="Running")
    owned[PODS][0]["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z"
    plan = plan_of(make(1), owned)
    assert conditions_of(plan)[-1] == ("Running", "True", "MPIJobRunning")
    assert created(plan) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("policy", ["Never", "ExitCode"])
def test_once_the_launcher_has_ended_its_objects_are_left_as_they_are(phase: str, policy: str) -> None:
    owned = stored(make(policy=policy), launcher=phase, worker_0="Running")
    owned[ROLES][0]["metadata"]["ownerReferences"] = []
    del owned[SERVICEACCOUNTS]
    plan = plan_of(make(policy=policy), owned)
    assert [action for action in plan.actions if action.resource != PODS] == []
    assert "ErrResourceExists" not in reasons(plan)
    assert created(plan) == []


# Words.


def test_that_all_runs_is_said_once() -> None:
    owned = stored(make(1), launcher="Running", worker_0="Running")
    plan = plan_of(make(1), owned)
    assert [(e.reason, e.message) for e in plan.events] == [("MPIJobRunning", "MPIJob ns/train is running")]
    assert reasons(plan_of({**make(1), "status": plan.status}, owned)) == []
    waiting = stored(make(1), launcher="Running")
    assert reasons(plan_of(make(1), waiting)) == [], "not while a worker is missing"


def test_the_end_is_told_with_upstreams_reasons() -> None:
    plan = plan_of(make(1), stored(make(1), launcher="Succeeded"))
    assert [(e.reason, e.message) for e in plan.events] == [
        ("mpijobsSucceeded", "MPIJob ns/train successfully completed."),
        ("MPIJobSucceeded", "MPIJob train is successfully completed."),
    ]
    owned = stored(make(1), launcher="Failed")
    owned[PODS][1]["status"]["reason"] = "DeadlineExceeded"
    first = plan_of(make(1), owned).events[0]
    assert (first.type, first.reason, first.message) == (
        "Warning",
        "DeadlineExceeded",
        "MPIJob ns/train has failed",
    )


def test_evicted_workers_are_counted() -> None:
    owned = stored(make(2), launcher="Running", worker_1="Failed")
    owned[PODS][1]["status"]["reason"] = "Evicted"
    first = plan_of(make(2), owned).events[0]
    assert (first.reason, first.message) == ("MPIJobEvicted", "1/2 workers are evicted")


def test_an_invalid_job_says_why_and_starts_nothing() -> None:
    job = make()
    del job["spec"]["mpiReplicaSpecs"]["Launcher"]
    plan = plan_of(job)
    assert plan.actions == ()
    (event,) = plan.events
    assert event.reason == "MPIJobFailedValidation"
    sentence = "MPIReplicaSpec is not valid: Master ReplicaSpec must be present"
    assert event.message == f"MPIJob failed validation because {sentence}"
