"""Gangs: the PodGroup of a job in both APIs, what its pods say, and when they are made."""

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
    kinds_of,
    made,
    make_condition,
    make_job,
    make_pod,
    make_replica,
)
from tests.unit.jobs_kinds import Builder
from trainshed.api.registry import KINDS
from trainshed.jobs.engine.model import Observed, OperatorOptions
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.registry import all_verbs, controlled, needed, review
from trainshed.jobs.v1.decide import decide
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.jobs.v1.gang.warnings import IGNORED
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Create
from trainshed.kube.meta.podgroups import COSCHEDULING_PODGROUPS, VOLCANO_PODGROUPS
from trainshed.kube.meta.resources import PODS, PRIORITYCLASSES, SERVICES, Resource

VOLCANO = OperatorOptions(gang_scheduler="volcano")
PLUGINS = OperatorOptions(gang_scheduler="scheduler-plugins-scheduler")
APIS = [(VOLCANO, VOLCANO_PODGROUPS), (PLUGINS, COSCHEDULING_PODGROUPS)]
both = pytest.mark.parametrize(("options", "resource"), APIS, ids=["volcano", "scheduler-plugins"])


def make_kind_job(name: str) -> Object:
    """Return a job with one pod of each of the first two types of a kind."""
    kind = FRAMEWORKS[name].kind
    spec = {"jobMode": "MXTrain"} if name == "MXJob" else {}
    return Builder(kind).job({type_.name: 1 for type_ in kind.replica_types[:2]}, spec=spec)


def plan_of(job: Object, options: OperatorOptions, owned: dict[Resource, list[Object]] | None = None) -> Plan:
    return written(decide(Observed(job=job, owned=owned or {}, now=NOW, options=options)))


def group_of(job: Object, options: OperatorOptions, **more: Any) -> Object:
    (group,) = made(plan_of(job, options, **more), "PodGroup")
    return group


def stored(group: Object, phase: str | None = None) -> Object:
    """Return the PodGroup as the API has it."""
    out = copy.deepcopy(group)
    out["metadata"]["uid"] = "group"
    if phase is not None:
        out["status"] = {"phase": phase}
    return out


def with_requests(replica: Object, requests: Object | None = None, **container: Any) -> Object:
    made_up = copy.deepcopy(replica)
    resources = {} if requests is None else {"resources": {"requests": requests}}
    made_up["template"]["spec"]["containers"][0].update(resources, **container)
    return made_up


# The PodGroup.


@both
def test_a_job_without_a_policy_is_a_gang_of_all_its_pods(
    options: OperatorOptions, resource: Resource
) -> None:
    job = make_job(master=1, workers=2)
    job["metadata"]["annotations"] = {
        "team": "a",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    group = group_of(job, options)
    assert group["apiVersion"] == resource.api_version
    assert group["metadata"]["name"] == "train"
    assert group["metadata"]["annotations"] == {"team": "a"}, "not what kubectl remembers of the job itself"
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("PyTorchJob", True)
    extra = {"queue": "default"} if options is VOLCANO else {}
    assert group["spec"] == {"minMember": 3, **extra}


POLICY = {
    "minAvailable": 2,
    "queue": "research",
    "minResources": {"cpu": 3, "memory": "1024Mi"},
    "priorityClass": "high",
    "scheduleTimeoutSeconds": 60,
}


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        (VOLCANO, {"queue": "research", "priorityClassName": "high"}),
        (PLUGINS, {"scheduleTimeoutSeconds": 60}),
    ],
    ids=["volcano", "scheduler-plugins"],
)
def test_the_policy_decides_where_it_says_something(options: OperatorOptions, spec: Object) -> None:
    group = group_of(make_job(workers=4, schedulingPolicy=POLICY), options)
    assert group["spec"] == {"minMember": 2, "minResources": {"cpu": 3, "memory": "1024Mi"}, **spec}


@pytest.mark.parametrize("least", [None, 0, 1, 2, 10])
def test_the_least_resources_are_those_of_so_many_pods(least: int | None) -> None:
    replicas = {
        "Master": with_requests(make_replica(1), {"cpu": "500m", "memory": "1Gi"}),
        "Worker": with_requests(make_replica(2), {"cpu": "1", "nvidia.com/gpu": 1}),
    }
    policy = {} if least is None else {"schedulingPolicy": {"minAvailable": least}}
    spec = group_of(make_job(replicas=replicas, **policy), PLUGINS)["spec"]
    workers = {0: 0, 1: 0, 2: 1}.get(3 if least is None else least, 2)
    if least == 0:
        assert "minResources" not in spec
        return
    expected = {"cpu": ["500m", "1500m", "2500m"][workers], "memory": "1Gi"}
    assert spec["minResources"] == {**expected, **({"nvidia.com/gpu": str(workers)} if workers else {})}


def test_limits_stand_for_requests_that_are_not_there_and_init_containers_do_not_count() -> None:
    worker = with_requests(make_replica(1), resources={"limits": {"cpu": "2"}})
    both_said = {"limits": {"cpu": "9", "memory": "9Gi"}, "requests": {"cpu": "1"}}
    worker["template"]["spec"]["containers"].append({"name": "sidecar", "image": "s", "resources": both_said})
    init = {"name": "init", "image": "i", "resources": {"requests": {"cpu": "64"}}}
    worker["template"]["spec"]["initContainers"] = [init]
    job = make_job(replicas={"Worker": worker})
    assert group_of(job, PLUGINS)["spec"]["minResources"] == {"cpu": "3"}


@pytest.mark.parametrize(("value", "expected"), [(1000, "4"), (-5, "1")])
def test_the_most_important_pods_count_first(value: int, expected: str) -> None:
    workers = with_requests(make_replica(2), {"cpu": "4"})
    workers["template"]["spec"]["priorityClassName"] = "special"
    replicas = {"Master": with_requests(make_replica(1), {"cpu": "1"}), "Worker": workers}
    job = make_job(replicas=replicas, schedulingPolicy={"minAvailable": 1})
    assert list(controlled("PyTorchJob", PLUGINS).lookups(job)) == [(PRIORITYCLASSES, "special")]
    owned = {PRIORITYCLASSES: [{"metadata": {"name": "special"}, "value": value}]}
    assert group_of(job, PLUGINS, owned=owned)["spec"]["minResources"] == {"cpu": expected}


@both
def test_a_group_that_says_what_is_wanted_is_left_alone(options: OperatorOptions, resource: Resource) -> None:
    job = make_job(workers=4, schedulingPolicy=POLICY)
    group = stored(group_of(job, options), "Running")
    group["spec"]["minResources"]["cpu"] = "3000m"
    assert not made(plan_of(job, options, {resource: [group]}), "PodGroup"), "the same quantity"
    group["spec"]["minResources"]["nvidia.com/gpu"] = "1"
    assert made(plan_of(job, options, {resource: [group]}), "PodGroup"), "a resource that is wanted no more"


@both
def test_scaling_and_edits_are_followed(options: OperatorOptions, resource: Resource) -> None:
    job = make_job(workers=2)
    group = stored(group_of(job, options), "Running")
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 3
    job["metadata"]["annotations"] = {"team": "b"}
    (changed,) = made(plan_of(job, options, {resource: [group]}), "PodGroup")
    assert changed["spec"]["minMember"] == 3
    assert changed["metadata"]["annotations"] == {"team": "b"}


def test_a_group_stays_in_its_queue() -> None:
    job = make_job(workers=1, schedulingPolicy={"queue": "a"})
    group = stored(group_of(job, VOLCANO), "Running")
    group["spec"]["queue"] = "moved"
    job["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] = 0
    (changed,) = made(plan_of(job, VOLCANO, {VOLCANO_PODGROUPS: [group]}), "PodGroup")
    assert changed["spec"]["queue"] == "moved"


@both
def test_a_group_of_somebody_else_is_told_and_holds_the_pods(
    options: OperatorOptions, resource: Resource
) -> None:
    job = make_job(workers=1)
    foreign = {"metadata": {"name": "train", "namespace": "ns"}, "spec": {}, "status": {"phase": "Running"}}
    plan = plan_of(job, options, {resource: [foreign]})
    assert not plan.actions
    assert [event.reason for event in plan.events] == ["ErrResourceExists"]
    why = {"type": "Unschedulable", "status": "True", "message": "cpu: needed 9, free 4"}
    foreign["status"] = {"phase": "Pending", "conditions": [why]}
    plan = plan_of(job, options, {resource: [foreign]})
    assert [event.reason for event in plan.events] == ["ErrResourceExists"], (
        "what it waits for is not the job's"
    )


# The pods.


def test_volcanos_pods_have_its_annotations() -> None:
    job = make_job(master=1, workers=1)
    group = stored(group_of(job, VOLCANO), "Inqueue")
    pods = created_pods(plan_of(job, VOLCANO, {VOLCANO_PODGROUPS: [group]}))
    assert list(pods) == ["train-master-0", "train-worker-0"]
    for name, task in (("train-master-0", "master"), ("train-worker-0", "worker")):
        assert pods[name]["metadata"]["annotations"] == {
            "scheduling.k8s.io/group-name": "train",
            "volcano.sh/task-spec": task,
        }
        assert pods[name]["spec"]["schedulerName"] == "volcano", "whatever the case of the flag"


def test_pods_of_scheduler_plugins_have_its_label_and_are_made_at_once() -> None:
    options = OperatorOptions(gang_scheduler="my-scheduler")
    plan = plan_of(make_job(workers=1), options)
    assert kinds_of(plan) == ["ApplyPodGroup", "CreatePod", "CreateService"]
    (pod,) = created_pods(plan).values()
    assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "train"
    assert pod["spec"]["schedulerName"] == "my-scheduler"


@both
@pytest.mark.parametrize("kind", KINDS)
def test_a_template_keeps_its_scheduler_and_a_warning_says_so(
    kind: str, options: OperatorOptions, resource: Resource
) -> None:
    job = make_kind_job(kind)
    for replica in job["spec"][FRAMEWORKS[kind].kind.replica_specs_field].values():
        replica["template"]["spec"]["schedulerName"] = "kube-batch"
    group = stored(group_of(job, options), "Running")
    plan = plan_of(job, options, {resource: [group]})
    creations = [a for a in plan.actions if isinstance(a, Create) and a.resource == PODS]
    assert creations
    for action in creations:
        assert action.object["spec"]["schedulerName"] == "kube-batch"
        warning, last = action.told.done[-2:]
        word = "Setted" if kind == "MPIJob" else "Set"
        assert (warning.type, warning.reason) == ("Warning", f"{word}PodTemplateSchedulerName")
        assert last.type == "Normal"


@both
@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_warns_where_nobody_names_a_scheduler(
    kind: str, options: OperatorOptions, resource: Resource
) -> None:
    """Upstream's MPIJob does."""
    job = make_kind_job(kind)
    group = stored(group_of(job, options), "Running")
    plan = plan_of(job, options, {resource: [group]})
    told = [event.type for a in plan.actions if isinstance(a, Create) for event in a.told.done]
    assert created(plan) and set(told) <= {"Normal"}


# Waiting.


@pytest.mark.parametrize("phase", [None, "", "Pending"])
def test_pods_wait_until_volcano_lets_the_group_in_and_nothing_is_counted_meanwhile(
    phase: str | None,
) -> None:
    job = make_job(workers=2, activeDeadlineSeconds=60)
    group = stored(group_of(job, VOLCANO), phase)
    plan = plan_of(job, VOLCANO, {VOLCANO_PODGROUPS: [group]})
    assert not plan.actions
    assert [c[0] for c in conditions_of(plan)] == ["Created"]
    assert plan.status is not None and set(plan.status) == {"conditions"}, "no startTime: no deadline runs"
    job["status"] = plan.status
    again = plan_of(job, VOLCANO, {VOLCANO_PODGROUPS: [group]})
    assert (again.actions, again.status, again.requeue_after) == ((), None, None), (
        "upstream writes every second"
    )


@pytest.mark.parametrize(("ended", "condition"), [("Running", "Running"), ("Succeeded", "Succeeded")])
def test_where_a_group_waits_again_missing_pods_wait_and_the_others_count(ended: str, condition: str) -> None:
    job = make_job(master=1, workers=1)
    group = stored(group_of(job, VOLCANO), "Running")
    pods = created_pods(plan_of(job, VOLCANO, {VOLCANO_PODGROUPS: [group]}))
    master = {**pods["train-master-0"], "status": {"phase": ended}}
    master["metadata"]["uid"] = "master"
    group["status"]["phase"] = "Pending"
    plan = plan_of(job, VOLCANO, {VOLCANO_PODGROUPS: [group], PODS: [master]})
    assert created_pods(plan) == {}
    assert conditions_of(plan)[-1] == (condition, "True", f"PyTorchJob{condition}")
    group["status"]["phase"] = "Running"
    plan = plan_of(job, VOLCANO, {VOLCANO_PODGROUPS: [group], PODS: [master]})
    assert list(created_pods(plan)) == (["train-worker-0"] if ended == "Running" else [])


def test_why_the_group_waits_is_said_of_the_job() -> None:
    job = make_job(workers=2)
    group = stored(group_of(job, VOLCANO), "Pending")
    why = {"type": "Unschedulable", "status": "True", "message": "cpu: needed 9, free 4"}
    group["status"]["conditions"] = [why]
    (event,) = plan_of(job, VOLCANO, {VOLCANO_PODGROUPS: [group]}).events
    assert (event.type, event.reason) == ("Warning", "PodGroupUnschedulable")
    assert event.message == "PodGroup train waits: cpu: needed 9, free 4"
    group["status"]["phase"] = "Running"
    assert not plan_of(job, VOLCANO, {VOLCANO_PODGROUPS: [group]}).events


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_pods_are_made_in_every_other_phase(phase: str) -> None:
    job = make_job(workers=2)
    group = stored(group_of(job, VOLCANO), phase)
    plan = plan_of(job, VOLCANO, {VOLCANO_PODGROUPS: [group]})
    assert created(plan) == ["train-worker-0", "train-worker-1"]
    assert plan.status is not None and plan.status["startTime"]


def test_a_job_that_runs_is_looked_after_while_its_group_is_held_again() -> None:
    job = make_job(workers=2, policy="Never")
    group = stored(group_of(job, VOLCANO), "Pending")
    pods = [make_pod("Worker", 0, "Failed", exit_code=1), make_pod("Worker", 1, "Running")]
    plan = plan_of(job, VOLCANO, {VOLCANO_PODGROUPS: [group], PODS: pods})
    assert "Failed" in [c[0] for c in conditions_of(plan)]


# The end.


@both
@pytest.mark.parametrize("end", ["Succeeded", "Failed", "suspended"])
def test_the_group_goes_with_the_run_and_is_told_once(
    end: str, options: OperatorOptions, resource: Resource
) -> None:
    job = make_job(workers=1)
    group = stored(group_of(job, options), "Running")
    if end == "suspended":
        job["spec"]["runPolicy"] = {"suspend": True}
    else:
        job["status"] = {"conditions": [make_condition("Created"), make_condition(end)]}
    plan = plan_of(job, options, {resource: [group]})
    assert deleted(plan, "PodGroup") == ["train"]
    action = next(a for a in plan.actions if a.resource == resource)
    assert [(e.type, e.reason, e.message) for e in action.succeeded()] == [
        ("Normal", "JobTerminated", "Job has been terminated. Deleting PodGroup"),
        ("Normal", "SuccessfulDeletePodGroup", "Deleted PodGroup: train"),
    ]
    assert [e.reason for e in action.failed("no")] == ["FailedDeletePodGroup"]
    assert not plan_of(job, options).actions, "nothing more to delete, nothing more to say"


def test_a_new_group_is_not_told() -> None:
    action = plan_of(make_job(workers=1), VOLCANO).actions[0]
    assert action.succeeded() == ()


# Only for those who ask.


ASKED = OperatorOptions(gang_scheduler="volcano", gang_policy_only=True)


def with_marks(plan: Plan, name: str, phase: str) -> Object:
    """Return the pod that the plan makes, as the API has it when it is in this phase."""
    made_pod = copy.deepcopy(created_pods(plan)[name])
    made_pod["metadata"]["uid"] = f"Pod-{name}"
    return {**made_pod, "status": {"phase": phase}}


@pytest.mark.parametrize("options", [ASKED, VOLCANO, PLUGINS], ids=["policy added", "volcano", "plugins"])
def test_a_run_that_began_without_a_group_ends_without(options: OperatorOptions) -> None:
    """A policy is added, or the operator is told of a scheduler: a replaced pod alone would never make a gang."""
    job = make_job(workers=2, schedulingPolicy={})
    began = plan_of(job, OperatorOptions())
    pods = [with_marks(began, "train-worker-0", "Running")]
    plan = plan_of(job, options, {PODS: pods})
    assert kinds_of(plan).count("CreatePod") == 1 and not made(plan, "PodGroup")
    assert created_pods(plan)["train-worker-1"] == created_pods(began)["train-worker-1"]
    # The next run is a gang.
    assert made(plan_of(job, options), "PodGroup")


def test_a_run_that_began_as_a_gang_goes_on_as_one() -> None:
    job = make_job(workers=2, schedulingPolicy={})
    group = stored(group_of(job, ASKED), "Running")
    began = plan_of(job, ASKED, {VOLCANO_PODGROUPS: [group]})
    pods = [with_marks(began, "train-worker-0", "Running")]
    plan = plan_of(job, ASKED, {VOLCANO_PODGROUPS: [group], PODS: pods})
    assert created_pods(plan)["train-worker-1"] == created_pods(began)["train-worker-1"]
    assert created_pods(plan)["train-worker-1"]["spec"]["schedulerName"] == "volcano"


def test_a_job_without_a_policy_may_be_no_gang() -> None:
    plan = plan_of(make_job(workers=1), ASKED)
    assert kinds_of(plan) == ["CreatePod", "CreateService"]
    (pod,) = created_pods(plan).values()
    assert "annotations" not in pod["metadata"] and "schedulerName" not in pod["spec"]
    assert plan == plan_of(make_job(workers=1), OperatorOptions())


def test_the_group_of_a_job_whose_policy_was_taken_away_stays_for_its_waiting_pods() -> None:
    group = stored(group_of(make_job(workers=1, schedulingPolicy={}), ASKED), "Pending")
    plan = plan_of(make_job(workers=1), ASKED, {VOLCANO_PODGROUPS: [group]})
    assert kinds_of(plan) == ["CreatePod", "CreateService"]


def test_no_job_has_a_group_without_a_gang_scheduler() -> None:
    plan = plan_of(make_job(workers=1, schedulingPolicy=POLICY), OperatorOptions())
    assert kinds_of(plan) == ["CreatePod", "CreateService"]


# What follows from the declarations.


@both
def test_permissions_and_watches_are_those_of_the_api_that_is_on(
    options: OperatorOptions, resource: Resource
) -> None:
    assert needed(options) == (resource,)
    verbs = all_verbs(options)
    assert verbs[resource] == ("create", "delete", "get", "list", "patch", "watch")
    assert verbs[PRIORITYCLASSES] == ("get",)
    (other,) = {VOLCANO_PODGROUPS, COSCHEDULING_PODGROUPS} - {resource}
    assert other not in verbs
    assert resource in {row.resource for row in controlled("TFJob", options).owns}


def test_without_a_gang_scheduler_nothing_of_it_is_asked_for() -> None:
    assert needed(OperatorOptions()) == ()
    groups = {VOLCANO_PODGROUPS, COSCHEDULING_PODGROUPS, PRIORITYCLASSES}
    assert not groups & all_verbs(OperatorOptions()).keys()
    assert {row.resource for row in controlled("XGBoostJob", OperatorOptions()).owns} == {PODS, SERVICES}


# Warnings.


@pytest.mark.parametrize(
    ("policy", "warned"), [({"minAvailable": 2}, True), ({"queue": "q"}, True), ({}, False), (None, False)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_scheduling_policy_that_nothing_acts_upon_warns(
    kind: str, policy: Object | None, warned: bool
) -> None:
    job = {"metadata": {"name": "train"}, "spec": {"runPolicy": {"schedulingPolicy": policy}}}
    assert (IGNORED in review(KINDS[kind], job, None, OperatorOptions()).warnings) is warned
    assert IGNORED not in review(KINDS[kind], job, None, VOLCANO).warnings


@pytest.mark.parametrize(
    ("options", "fields"),
    [(VOLCANO, ["scheduleTimeoutSeconds"]), (PLUGINS, ["queue", "priorityClass"])],
    ids=["volcano", "scheduler-plugins"],
)
def test_what_an_api_has_no_place_for_warns(options: OperatorOptions, fields: list[str]) -> None:
    warnings = review(
        KINDS["PyTorchJob"], make_job(workers=4, schedulingPolicy=POLICY), None, options
    ).warnings
    assert [w.split(" ")[0].rsplit(".", 1)[1] for w in warnings] == fields


@pytest.mark.parametrize(("least", "warned"), [(2, False), (3, True)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_gang_that_can_never_be_complete_warns(kind: str, least: int, warned: bool) -> None:
    job = make_kind_job(kind)
    specs = job["spec"][FRAMEWORKS[kind].kind.replica_specs_field]
    pods = sum(replica.get("replicas", 1) for replica in specs.values())
    job["spec"].setdefault("runPolicy", {})["schedulingPolicy"] = {"minAvailable": pods + least - 2}
    warnings = review(KINDS[kind], job, None, VOLCANO).warnings
    assert any("more than the" in warning for warning in warnings) is warned


def test_an_elastic_gang_may_have_more_pods_later() -> None:
    elastic = {"minReplicas": 1, "maxReplicas": 4}
    job = make_job(workers=1, spec={"elasticPolicy": elastic}, schedulingPolicy={"minAvailable": 2})
    assert review(KINDS["PyTorchJob"], job, None, VOLCANO).warnings == ()
    del job["spec"]["elasticPolicy"]
    assert len(review(KINDS["PyTorchJob"], job, None, VOLCANO).warnings) == 1
