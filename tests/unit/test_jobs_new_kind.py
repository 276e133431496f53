"""A kind is its two files and two registry lines: one like MPI is made here, and everything follows from it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.fakes.launcher import LAUNCHJOB, PODGROUPS, Gang, LaunchOptions, make_launchjob, registered
from tests.fakes.plans import written
from tests.unit.jobs_builders import (
    NOW,
    conditions_of,
    created,
    created_pods,
    deleted,
    kinds_of,
    made,
    reasons,
)
from trainshed.api.crd import crd
from trainshed.api.registry import KINDS
from trainshed.jobs.engine.model import Observed, OperatorOptions
from trainshed.jobs.engine.owned import Owns
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.v1.decide import decide
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.jobs.v1.frameworks.base import ContainerPatch, Judgement, Phase, PodPatch
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CONFIGMAPS, PODS, ROLES, Resource
from trainshed.operator import objects as install
from trainshed.operator.flags import parse
from trainshed.operator.webhook import review

POD_NAMES = ["job-launcher", "job-worker-0", "job-worker-1"]


@pytest.fixture(autouse=True)
def kind() -> Iterator[None]:
    with registered():
        yield


def plan_of(job: Object, owned: dict[Resource, list[Object]] | None = None, **options: Any) -> Plan:
    return written(decide(Observed(job=job, owned=owned or {}, now=NOW, options=OperatorOptions(**options))))


def stored(plan: Plan, **phases: str) -> dict[Resource, list[Object]]:
    """Return what a plan made as the next pass sees it; `phases` are those of pods, by the end of their name."""
    out: dict[Resource, list[Object]] = {}
    for action in plan.actions:
        obj = copy.deepcopy(action.object)  # type: ignore[attr-defined]
        obj["metadata"]["uid"] = f"uid-{obj['metadata']['name']}"
        if action.resource == PODS:
            end = obj["metadata"]["name"].removeprefix("job-").replace("-", "_")
            obj["status"] = {"phase": phases.get(end, "Pending")}
        out.setdefault(action.resource, []).append(obj)
    return out


def end_launcher(owned: dict[Resource, list[Object]], code: int) -> None:
    pod = next(pod for pod in owned[PODS] if pod["metadata"]["name"] == "job-launcher")
    state = {"terminated": {"exitCode": code}}
    pod["status"] = {"phase": "Failed", "containerStatuses": [{"name": "launch", "state": state}]}


# Shape and pods.


def test_objects_come_before_pods_and_there_are_no_services() -> None:
    plan = plan_of(make_launchjob())
    assert kinds_of(plan) == ["ApplyConfigMap", "CreateServiceAccount", "CreateRole", *["CreatePod"] * 3]
    assert created(plan) == POD_NAMES
    events = [event.reason for action in plan.actions for event in action.succeeded()]
    assert events == ["SuccessfulCreateRole", *["LaunchJobRunning"] * 3]


def test_the_launcher_has_no_index_and_is_found_again() -> None:
    first = plan_of(make_launchjob())
    labels = created_pods(first)["job-launcher"]["metadata"]["labels"]
    assert labels == {
        "training.kubeflow.org/operator-name": "launchjob-controller",
        "training.kubeflow.org/job-name": "job",
        "training.kubeflow.org/replica-type": "launcher",
        "training.kubeflow.org/job-role": "master",
        "job-name": "job",
        "replica-type": "launcher",
        "job-role": "master",
    }
    job = {**make_launchjob(), "status": first.status}
    assert plan_of(job, stored(first)).actions == ()


def test_each_container_gets_what_is_meant_for_it() -> None:
    pods = created_pods(plan_of(make_launchjob()))
    spec = pods["job-launcher"]["spec"]
    training, sidecar = spec["containers"]
    mount = {"name": "launch-config", "mountPath": "/etc/launch"}
    assert training["env"] == [{"name": "HOSTS", "value": "/etc/launch/hosts"}]
    assert (training["command"], training["args"], training["volumeMounts"]) == (["run"], ["--all"], [mount])
    assert sidecar == {"name": "sidecar", "image": "s:1"}
    mine, delivery = spec["initContainers"]
    assert mine["env"] == [{"name": "EARLY", "value": "1"}], "the template's, not what is added"
    assert delivery == {"name": "delivery", "image": "delivery:1"}
    assert spec["serviceAccountName"] == "job-launcher"
    assert spec["volumes"] == [{"name": "launch-config", "configMap": {"name": "job-config"}}]
    assert pods["job-launcher"]["metadata"]["annotations"] == {"launch/role": "launcher"}
    (worker,) = pods["job-worker-0"]["spec"]["containers"]
    assert worker["command"] == ["sleep", "365d"] and "ports" not in worker and "env" not in worker
    assert "serviceAccountName" not in pods["job-worker-0"]["spec"]


def test_counts_default_by_type_and_spelling_counts_where_the_kind_says_so() -> None:
    job = make_launchjob()
    del job["spec"]["launchReplicaSpecs"]["Worker"]["replicas"]
    assert created(plan_of(job)) == ["job-launcher"]
    specs = job["spec"]["launchReplicaSpecs"]
    specs["worker"] = specs.pop("Worker")
    (event,) = plan_of(job).events
    assert "launchReplicaSpecs[worker]: Unsupported value" in event.message
    assert 'supported values: "Launcher", "Worker"' in event.message


# Owned objects.


def test_an_owned_object_follows_the_pods() -> None:
    job = make_launchjob()
    first = plan_of(job)
    job["status"] = first.status
    owned = stored(first, worker_1="Running")
    owned[ROLES][0]["rules"] = []
    plan = plan_of(job, owned)
    assert kinds_of(plan) == ["ApplyConfigMap"], "the Role is created once, and then left as it is"
    assert [o["data"] for o in made(plan, "ConfigMap")] == [{"hosts": "job-worker-1\n"}]


@pytest.mark.parametrize("resource", [CONFIGMAPS, ROLES], ids=lambda r: r.plural)
def test_a_name_that_is_taken_is_said_and_waited_for(resource: Resource) -> None:
    owned = stored(plan_of(make_launchjob()))
    (foreign,) = owned[resource]
    foreign["metadata"]["ownerReferences"] = []
    plan = plan_of(make_launchjob(), {resource: [foreign]})
    assert "ErrResourceExists" in reasons(plan)
    assert not created(plan), "no pods"
    assert not deleted(plan, resource.kind)


def test_owned_objects_stay_while_suspended_and_are_not_made_then() -> None:
    job = make_launchjob(suspend=True)
    owned = stored(plan_of(make_launchjob()))
    plan = plan_of(job, owned)
    assert deleted(plan, "Pod") == POD_NAMES
    assert not deleted(plan, "ConfigMap") and not deleted(plan, "Role")
    assert plan_of(job).actions == ()


def test_what_is_wanted_no_more_goes() -> None:
    owned = stored(plan_of(make_launchjob()))
    owned[CONFIGMAPS].append(copy.deepcopy(owned[CONFIGMAPS][0]))
    owned[CONFIGMAPS][1]["metadata"]["name"] = "old"
    assert deleted(plan_of(make_launchjob(), owned), "ConfigMap") == ["old"]


# Judgement.


def test_the_launcher_alone_decides_and_a_failed_worker_stays() -> None:
    job = make_launchjob()
    owned = stored(plan_of(job), launcher="Running", worker_0="Failed")
    plan = plan_of(job, owned)
    assert conditions_of(plan)[-1] == ("Running", "True", "LaunchJobRunning")
    assert not deleted(plan, "Pod")
    assert plan.status is not None
    assert plan.status["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"failed": 1}}, (
        "no selector"
    )
    plan = plan_of(job, stored(plan_of(job), launcher="Succeeded"))
    assert conditions_of(plan)[-1] == ("Succeeded", "True", "LaunchJobSucceeded")


@pytest.mark.parametrize(
    ("code", "condition", "gone"),
    [
        (1, ("Failed", "True", "LaunchJobLaunchJobFailed"), []),
        (75, ("Restarting", "True", "LaunchJobRestarting"), ["job-launcher"]),
    ],
)
def test_exit_codes_are_judged_by_the_kind(
    code: int, condition: tuple[str, str, str], gone: list[str]
) -> None:
    job = make_launchjob()
    owned = stored(plan_of(job))
    end_launcher(owned, code)
    plan = plan_of(job, owned)
    assert conditions_of(plan)[-1] == condition
    assert deleted(plan, "Pod") == gone


def test_a_kind_may_say_that_a_job_ran_before_it_says_how_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Judgement(running="it runs", succeeded="it ran", ran_first=True)
    monkeypatch.setattr(FRAMEWORKS["LaunchJob"], "judge", lambda job, seen: ended, raising=True)
    assert conditions_of(plan_of(make_launchjob()))[1:] == [
        ("Running", "False", "LaunchJobRunning"),
        ("Succeeded", "True", "LaunchJobSucceeded"),
    ]


def test_its_deletion_is_told_in_its_own_words() -> None:
    job = make_launchjob(ttlSecondsAfterFinished=0)
    owned = stored(plan_of(job), launcher="Succeeded")
    job["status"] = plan_of(job, owned).status
    (action,) = plan_of(job).actions
    assert (action.resource, action.counter) == (LAUNCHJOB.resource, "deleted")
    assert [event.reason for event in action.succeeded()] == ["SuccessfulDeleteJob"]


# Phases of every kind.


def test_a_gang_holds_the_pods_until_it_is_placed_and_goes_at_the_end() -> None:
    with registered(Gang()):
        job = make_launchjob()
        waiting = plan_of(job)
        assert kinds_of(waiting) == ["ApplyConfigMap", "CreateServiceAccount", "CreateRole", "ApplyPodGroup"]
        assert [group["spec"] for group in made(waiting, "PodGroup")] == [{"minMember": 3}]
        owned = stored(waiting)
        owned[PODGROUPS][0]["status"] = {"phase": "Running"}
        pods = created_pods(plan_of(job, owned))
        assert list(pods) == POD_NAMES
        for pod in pods.values():
            assert pod["metadata"]["labels"]["gang"] == "job"
            assert pod["spec"]["schedulerName"] == "gangs"
        job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
        assert deleted(plan_of(job, owned), "PodGroup") == ["job"]
        assert not deleted(plan_of(job, owned), "Role")
        assert not made(plan_of(make_launchjob(), legacy_labels=False), "PodGroup"), "where it is not enabled"


class Rival(Phase):
    """Sets a place that the kind sets, too."""

    def __init__(self, patch: PodPatch) -> None:
        self._patch = patch

    def patch(self, *arguments: Any) -> PodPatch:
        return self._patch


@pytest.mark.parametrize(
    ("patch", "place"),
    [
        (PodPatch(service_account="other"), "serviceAccountName"),
        (PodPatch(volumes=({"name": "launch-config"},)), "volume launch-config"),
        (PodPatch(annotations={"launch/role": "x"}), "annotation launch/role"),
        (PodPatch(init_containers=({"name": "delivery"},)), "init container delivery"),
        (
            PodPatch(containers=(ContainerPatch(env=({"name": "HOSTS"},)),)),
            "variable HOSTS of container launch",
        ),
        (PodPatch(containers=(ContainerPatch(of="first", args=()),)), "args of container launch"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_two_phases_that_set_one_place_are_refused_by_name(patch: PodPatch, place: str) -> None:
    with registered(Rival(patch)):
        plan = plan_of(make_launchjob())
        assert plan.actions == () and plan.status is None
        (event,) = plan.events
        assert event.message == f"LaunchJob failed validation because Launch and Rival both set {place}"


def test_phases_that_set_different_places_go_together() -> None:
    with registered(Rival(PodPatch(containers=(ContainerPatch(env=({"name": "OTHER"},)),)))):
        env = created_pods(plan_of(make_launchjob()))["job-launcher"]["spec"]["containers"][0]["env"]
        assert [variable["name"] for variable in env] == ["HOSTS", "OTHER"], "in the order of the phases"


# What follows from the declaration.


def test_crd_webhook_and_permissions_follow() -> None:
    (version,) = crd(LAUNCHJOB)["spec"]["versions"]
    assert [column["name"] for column in version["additionalPrinterColumns"]] == ["Age", "State"]
    assert "scale" not in version["subresources"]
    assert [*install.crds()][-1]["metadata"]["name"] == "launchjobs.kubeflow.org"
    hook = install.webhook_configuration()["webhooks"][-1]
    assert hook["rules"][0]["resources"] == ["launchjobs"]
    assert hook["rules"][0]["operations"] == ["CREATE", "UPDATE", "DELETE"], "it has a word on deletions"
    rules = {(r["apiGroups"][0], r["resources"][0]): r["verbs"] for r in install.cluster_role()["rules"]}
    assert rules["", "configmaps"] == ["create", "delete", "get", "patch"]
    assert {"create", "delete", "get"} <= set(rules["rbac.authorization.k8s.io", "roles"])
    assert rules["", "pods/exec"] == ["create"], "what its Roles hand on"
    (jobs,) = (r for r in install.cluster_role()["rules"] if "launchjobs" in r["resources"])
    assert jobs["resources"] == [kind.plural for kind in KINDS.values()]
    with registered(Gang()):
        rules = {(r["apiGroups"][0], r["resources"][0]): r["verbs"] for r in install.cluster_role()["rules"]}
        assert rules["scheduling.example.org", "podgroups"] == [
            "create",
            "delete",
            "get",
            "list",
            "patch",
            "watch",
        ]


def test_permissions_of_one_resource_add_up() -> None:
    """The kind creates its Roles, another part applies some."""

    class Applies(Phase):
        owns = (Owns(resource=ROLES, applied=True, watched=""),)

    with registered(Applies()):
        rules = {r["resources"][0]: r["verbs"] for r in install.cluster_role()["rules"]}
        assert rules["roles"] == ["create", "delete", "get", "list", "patch", "watch"]


def test_the_webhook_asks_the_kind() -> None:
    request = {"uid": "1", "operation": "CREATE", "object": {"spec": {}}}
    answer = review(LAUNCHJOB, msgspec.json.encode({"request": request}))["response"]
    assert answer["warnings"] == ["LaunchJobs are new"]
    assert answer["status"]["message"] == "spec.launchReplicaSpecs: Required value: must be required"
    gone = msgspec.json.encode({"request": {"uid": "1", "operation": "DELETE", "oldObject": {}}})
    assert review(LAUNCHJOB, gone)["response"] == {"uid": "1", "allowed": True, "warnings": ["LaunchJobs go"]}
    job = make_launchjob()
    job["spec"]["launchReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"].pop(0)
    request["object"] = job
    answer = review(LAUNCHJOB, msgspec.json.encode({"request": request}))["response"]
    assert answer["status"]["message"].endswith('must have at least one container with name "launch"')


def test_its_flags_are_flags_of_the_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse([], {}).kinds == tuple(KINDS) and "LaunchJob" in KINDS
    assert parse(["--enable-scheme=launchjob"], {}).kinds == ("LaunchJob",)
    assert parse([], {"LAUNCH_IMAGE": "d:2"}).jobs.by_kind["LaunchJob"] == LaunchOptions("d:2")
    options = parse(["--launch-delivery-image=d:3"], {"LAUNCH_IMAGE": "d:2"}).jobs
    pods = created_pods(decide(Observed(job=make_launchjob(), now=NOW, options=options)))
    assert pods["job-launcher"]["spec"]["initContainers"][1]["image"] == "d:3"
    for wrong, message in (("0", "not at least 1"), ("10", "--launch-attempts: at most 9")):
        with pytest.raises(SystemExit):
            parse([f"--launch-attempts={wrong}"], {})
        assert message in capsys.readouterr().err
