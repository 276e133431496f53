"""Other amounts for a pod that is on a node: whether it gets them, what is done so that it has them, what is told."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.node_builders import NOW, ended, make_container, make_pod, running, seen
from trainshed.cluster.node.pod.decide import decide
from trainshed.cluster.node.pod.lifecycle import Allocate, BeginStop, Resize, StartContainer, next_steps
from trainshed.cluster.node.pod.observed import (
    Health,
    Observed,
    Problem,
    Refusal,
    SeenContainer,
    StatusContext,
)
from trainshed.cluster.node.pod.resizing import (
    IN_PROGRESS,
    PENDING,
    RETRY_SECONDS,
    change,
    given,
    refusal,
    room,
    with_given,
)
from trainshed.kube.meta.plan import Event
from trainshed.kube.meta.times import format_time

CAPACITY = {"cpu": "2", "memory": "1Gi", "pods": "110"}
CONTEXT = StatusContext("10.88.0.1", lambda image: "trainshed://host-root")
SMALL = {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}}
LARGE = {"requests": {"cpu": "1500m", "memory": "96Mi"}, "limits": {"cpu": "1500m", "memory": "256Mi"}}
RESTARTS = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]


def sized(resources, name="main", **fields):
    return make_container(name, resources=resources, **fields)


def has(resources, *attempts):
    return SeenContainer(attempts or (running(),), Health(started=True, ready=True), actuated=resources)


def told(pod, known, refused=None):
    return decide(Observed(pod, known, NOW, CONTEXT, refused)).status


def resize_conditions(status):
    return [c for c in status["conditions"] if c["type"] in (PENDING, IN_PROGRESS)]


def test_a_pod_has_what_it_was_given_whatever_its_spec_says_since():
    pod = make_pod(sized(LARGE), make_container("b"), init=(sized(SMALL, "side", restartPolicy="Always"),))
    assert with_given(pod, {"main": LARGE, "b": {}, "side": SMALL}) is pod, "the very object: nothing differs"
    same = {**LARGE, "limits": {"cpu": "1.5", "memory": "268435456"}}
    assert with_given(pod, {"main": same}) is pod, "other words for the same"
    held = with_given(pod, {"main": SMALL, "b": {}, "side": SMALL})
    assert [c.get("resources") for c in held["spec"]["containers"]] == [SMALL, None]
    assert held["spec"]["initContainers"] is pod["spec"]["initContainers"]
    assert pod["spec"]["containers"][0]["resources"] == LARGE


def test_what_was_given_is_in_the_status_and_before_that_what_was_asked_for():
    pod = make_pod(sized(LARGE), sized(SMALL, "new"), make_container("none"))
    pod["status"] = {
        "containerStatuses": [{"name": "main", "resources": SMALL}, {"name": "none", "resources": {}}]
    }
    assert given(pod) == {"main": SMALL, "new": SMALL, "none": {}}
    pod["spec"]["containers"][2]["resources"] = SMALL
    assert given(pod)["none"] == {}, "it was given nothing"


@pytest.mark.parametrize(
    ("asked", "others", "reason", "message"),
    [
        (LARGE, [], "", ""),
        (LARGE, [SMALL], "", ""),
        (
            LARGE,
            [SMALL, SMALL],
            "Deferred",
            "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000",
        ),
        (
            {"requests": {"cpu": "3", "memory": "1Ki"}},
            [],
            "Infeasible",
            "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000",
        ),
        (
            {"requests": {"cpu": "3", "memory": "2Gi"}},
            [],
            "Infeasible",
            "Node didn't have enough capacity: memory, requested: 2147483648, capacity: 1073741824",
        ),
        (
            {"requests": {"memory": "1Gi"}},
            [SMALL],
            "Deferred",
            "Node didn't have enough resource: memory, requested: 1073741824, used: 67108864, capacity: 1073741824",
        ),
        ({"limits": {"memory": "8Gi"}}, [{"requests": {"cpu": "2"}}], "", ""),
    ],
)
def test_a_node_gives_what_it_has_beside_its_other_pods(asked, others, reason, message):
    here = room(CAPACITY, [make_pod(sized(each)) for each in others])
    assert refusal(make_pod(sized(asked)), here) == Refusal(reason, message)


def test_pods_that_have_ended_hold_nothing_and_overheads_count():
    over = make_pod(sized(LARGE), status={"phase": "Succeeded"})
    assert not refusal(make_pod(sized(LARGE)), room(CAPACITY, [over]))
    assert (
        refusal(make_pod(sized(LARGE), overhead={"cpu": "600m"}), room(CAPACITY, [])).reason == "Infeasible"
    )


def test_what_there_is_room_for_is_given_and_the_rest_waits():
    pod = make_pod(sized(SMALL))
    known = seen(main=has(None))
    assert next_steps(pod, known, NOW, Refusal()).actions == (Allocate(),)
    waiting = next_steps(pod, known, NOW, Refusal("Deferred", "full"))
    assert (waiting.actions, waiting.requeue_after) == ((), RETRY_SECONDS)
    never = next_steps(pod, known, NOW, Refusal("Infeasible", "too small"))
    assert (never.actions, never.requeue_after) == ((), None), "until the spec is another one"
    assert next_steps(pod, seen(), NOW, Refusal("Deferred", "full")).actions == (
        StartContainer("main", 0),
    ), "with what it was given"


@pytest.mark.parametrize(
    "ending", [{"pod": {"gone": True}}, {"metadata": {"deletionTimestamp": format_time(NOW)}}]
)
def test_a_pod_that_ends_is_given_nothing_more(ending):
    pod = make_pod(sized(SMALL), metadata=ending.get("metadata"))
    known = seen(main=has(SMALL), pod=ending.get("pod"))
    assert Allocate() not in next_steps(pod, known, NOW, Refusal()).actions


def test_a_container_that_runs_is_resized_unless_it_asks_for_a_restart():
    pod = make_pod(sized(LARGE))
    assert next_steps(pod, seen(main=has(LARGE)), NOW).actions == ()
    assert next_steps(pod, seen(main=has(None)), NOW).actions == (), "it has what it was started with"
    assert next_steps(pod, seen(main=has(SMALL)), NOW).actions == (Resize("main"),)
    assert next_steps(pod, seen(main=has({})), NOW).actions == (Resize("main"),), "nobody knows what it has"
    pod = make_pod(sized(LARGE, resizePolicy=RESTARTS))
    plan = next_steps(pod, seen(main=has(SMALL)), NOW)
    assert plan.actions == (BeginStop("main", 0, 30.0),)
    assert plan.events == (Event("Normal", "Killing", "Container main resize requires restart"),)
    only_cpu = {**LARGE, "requests": {**LARGE["requests"], "cpu": "1"}}
    assert next_steps(pod, seen(main=has(only_cpu)), NOW).actions == (Resize("main"),)
    assert next_steps(pod, seen(main=has({})), NOW).actions == (Resize("main"),), "not for want of knowledge"


def test_what_is_to_restart_for_a_resize_does_so_whatever_its_policy_and_at_once():
    pod = make_pod(sized(LARGE, resizePolicy=RESTARTS), restartPolicy="OnFailure")
    over = ended(0, start=NOW - 5, end=NOW, outdated=True)
    assert next_steps(pod, seen(main=has(SMALL, over)), NOW).actions == (StartContainer("main", 1),)
    assert next_steps(pod, seen(main=has(SMALL, ended(0))), NOW).actions != (StartContainer("main", 1),)


def test_sidecars_are_resized_too():
    pod = make_pod(init=(sized(LARGE, "side", restartPolicy="Always"),))
    assert next_steps(pod, seen(side=has(SMALL), main=running()), NOW).actions == (Resize("side"),)


def test_what_could_not_be_done_is_tried_again_in_its_time():
    pod, refused = make_pod(sized(LARGE)), Problem("Error", "container main: no", NOW + 4)
    known = seen(main=has(SMALL), pod={"resize_problem": refused})
    plan = next_steps(pod, known, NOW)
    assert (plan.actions, plan.requeue_after) == ((), 4)
    assert next_steps(pod, known, NOW + 4).actions == (Resize("main"),)
    (condition,) = resize_conditions(told(pod, known))
    assert (condition["reason"], condition["message"]) == ("Error", "container main: no")


def test_the_status_says_what_was_given_and_what_is_in_force():
    (main,) = told(make_pod(sized(LARGE)), seen(main=has(LARGE)))["containerStatuses"]
    assert (main["resources"], main["allocatedResources"]) == (LARGE, LARGE["requests"])
    (main,) = told(make_pod(sized(LARGE)), seen(main=has(SMALL)))["containerStatuses"]
    assert (main["resources"], main["allocatedResources"]) == (SMALL, LARGE["requests"])
    (main,) = told(make_pod(sized(LARGE)), seen(main=has(SMALL, ended(1))))["containerStatuses"]
    assert main["resources"] == LARGE, "one that does not run has what it was given"
    (main,) = told(make_pod(), seen(main=running()))["containerStatuses"]
    assert (main["resources"], "allocatedResources" in main) == ({}, False)
    (main,) = told(make_pod(sized(LARGE)), seen())["containerStatuses"]
    assert "resources" not in main, "it was never started"
    other = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "claims": [{"name": "c"}]}
    (main,) = told(make_pod(sized(other)), seen(main=has({"requests": {"cpu": "2"}})))["containerStatuses"]
    assert main["resources"] == {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}, "claims": [{"name": "c"}]}


def test_conditions_tell_of_a_resize_while_it_goes_on():
    pod = make_pod(sized(LARGE))
    assert resize_conditions(told(pod, seen(main=has(LARGE)))) == []
    assert told(pod, seen(main=has(LARGE)), Refusal()) is None, (
        "neither pending nor in progress: told once it is given"
    )
    (pending,) = resize_conditions(told(pod, seen(main=has(LARGE)), Refusal("Deferred", "full")))
    assert pending == {
        "type": PENDING,
        "status": "True",
        "lastProbeTime": format_time(NOW),
        "lastTransitionTime": format_time(NOW),
        "reason": "Deferred",
        "message": "full",
    }
    both = resize_conditions(told(pod, seen(main=has(SMALL)), Refusal("Deferred", "full")))
    assert [c["type"] for c in both] == [PENDING, IN_PROGRESS]
    assert "reason" not in both[1]


def test_a_condition_keeps_its_time_while_its_reason_stays_and_goes_with_the_resize():
    pod = make_pod(sized(LARGE))
    before = told(pod, seen(main=has(LARGE)), Refusal("Deferred", "full"))
    pod["status"] = before
    known = seen(main=has(LARGE))
    again = decide(Observed(pod, known, NOW + 9, CONTEXT, Refusal("Deferred", "full")))
    assert again.status is None, "nothing to write"
    (changed,) = resize_conditions(
        decide(Observed(pod, known, NOW + 9, CONTEXT, Refusal("Infeasible", "x"))).status
    )
    assert changed["lastTransitionTime"] == format_time(NOW + 9)
    assert resize_conditions(decide(Observed(pod, known, NOW + 9, CONTEXT)).status) == []
    known = msgspec.structs.replace(known, containers={"main": has(LARGE, ended(0))})
    over = make_pod(sized(LARGE), restartPolicy="Never")
    assert resize_conditions(told(over, known, Refusal("Deferred", "full"))) == [], "of a pod that is over"


def test_only_cpu_and_memory_are_compared():
    container = sized({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}})
    assert change(container, has({"requests": {"cpu": "1"}})) == ""
