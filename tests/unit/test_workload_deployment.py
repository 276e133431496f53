"""Deployment rollouts: the bounds hold at every step, whatever becomes ready when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.cluster.controllers.workloads.deployment import Observed, decide
from trainshed.cluster.controllers.workloads.deployment_status import deployment_status
from trainshed.cluster.controllers.workloads.rollout import (
    absolute,
    bounds,
    new_set,
    revision,
    scales,
    template_hash,
)
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.plan import Adopt, Create, Delete, Patch, Plan
from trainshed.kube.meta.times import format_time


def make_deployment(replicas: int, **spec: Any) -> Any:
    return {
        "metadata": {"name": "web", "generation": 1},
        "spec": {"replicas": replicas, "template": {"spec": {}}, **spec},
    }


def make_set(name: str, replicas: int, available: int) -> Any:
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"replicas": replicas, "template": {"spec": {}}},
        "status": {"replicas": replicas, "availableReplicas": available, "readyReplicas": available},
    }


def rolling(surge: int | str, unavailable: int | str) -> Any:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


@given(st.data())
def test_a_rollout_keeps_its_bounds_and_ends(data: st.DataObject) -> None:
    desired = data.draw(st.integers(0, 8))
    deployment = make_deployment(
        desired, strategy=rolling(data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4)))
    )
    surge, unavailable = bounds(deployment["spec"])
    old = [make_set("old", desired, desired)]
    new = None
    for _ in range(60):
        for name, count in scales(deployment, new, old).items():
            target = next(
                (rs for rs in [*old, *([new] if new else [])] if rs["metadata"]["name"] == name), None
            )
            if target is None:
                new = target = make_set("new", 0, 0)
            target["spec"]["replicas"] = target["status"]["replicas"] = count
            # Pods that go are the unready ones first.
            target["status"]["availableReplicas"] = min(target["status"]["availableReplicas"], count)
        assert new is not None
        every = [new, *old]
        assert sum(rs["spec"]["replicas"] for rs in every) <= desired + surge
        assert sum(rs["status"]["availableReplicas"] for rs in every) >= desired - unavailable
        missing = new["spec"]["replicas"] - new["status"]["availableReplicas"]
        if missing:
            new["status"]["availableReplicas"] += data.draw(st.integers(0, missing))
    new["status"]["availableReplicas"] = new["spec"]["replicas"]
    for _ in range(40):
        for name, count in scales(deployment, new, old).items():
            target = new if name == "new" else old[0]
            target["spec"]["replicas"] = target["status"]["replicas"] = count
            target["status"]["availableReplicas"] = count
    assert (new["spec"]["replicas"], old[0]["spec"]["replicas"]) == (desired, 0)


def test_pods_that_never_became_ready_do_not_hold_up_the_next_rollout() -> None:
    deployment = make_deployment(4, strategy=rolling(1, 0))
    stuck = make_set("stuck", 1, 0)
    good = make_set("good", 4, 4)
    assert scales(deployment, make_set("new", 0, 0), [stuck, good]) == {"new": 0, "stuck": 0, "good": 4}
    stuck["spec"]["replicas"] = 0
    assert scales(deployment, make_set("new", 0, 0), [stuck, good])["new"] == 1


@pytest.mark.parametrize(
    ("spec", "new", "old", "expected"),
    [
        ({"paused": True}, None, [make_set("old", 2, 2)], {"old": 3}),
        ({"paused": True}, make_set("new", 1, 1), [make_set("old", 2, 2)], {"new": 1, "old": 3}),
        ({"strategy": {"type": "Recreate"}}, None, [make_set("old", 2, 2)], {"old": 0}),
        ({"strategy": {"type": "Recreate"}}, None, [make_set("old", 0, 0)], {"": 3}),
        ({}, make_set("new", 5, 5), [], {"new": 3}),
        ({}, None, [], {"": 3}),
    ],
)
def test_scales(spec: Any, new: Any, old: Any, expected: dict[str, int]) -> None:
    assert scales(make_deployment(3, **spec), new, old) == expected


def test_percentages_round_up_for_surge_and_down_for_missing() -> None:
    assert absolute("25%", 3, up=True) == 1
    assert absolute("25%", 3, up=False) == 0
    assert bounds({"replicas": 3, "strategy": rolling("0%", "25%")}) == (0, 1)
    assert bounds({"replicas": 3, "strategy": {"type": "Recreate"}}) == (0, 0)


def test_a_set_is_known_by_its_template_not_its_hash() -> None:
    deployment = make_deployment(1, template={"metadata": {"labels": {"app": "x"}}, "spec": {"a": 1}})
    labels = {"app": "x", "pod-template-hash": "other"}
    found = make_set("x", 1, 1)
    found["spec"]["template"] = {"metadata": {"labels": labels, "creationTimestamp": None}, "spec": {"a": 1}}
    assert new_set(deployment, [found]) is found
    found["spec"]["template"]["spec"] = {"a": 2}
    assert new_set(deployment, [found]) is None
    assert template_hash({"a": 1, "b": 2}) == template_hash({"b": 2, "a": 1}) != template_hash({"a": 1})
    assert template_hash({"a": 1}) != template_hash({"a": 1}, 1)


def test_a_hash_stays_what_it_was_and_differs_by_collision() -> None:
    """It is part of names that exist: another version of the program has to make the same ones."""
    hashes = [template_hash({"a": 1}, collisions) for collisions in range(3)]
    assert hashes == ["s2jh7rkl5b", "x4qc9cwx98", "pnlp2dw4x9"]


@pytest.mark.parametrize(("text", "number"), [(None, 0), ("0", 0), ("7", 7), ("12", 12), ("x", 0), ("-1", 0)])
def test_revision(text: str | None, number: int) -> None:
    annotations = {} if text is None else {"deployment.kubernetes.io/revision": text}
    assert revision({"metadata": {"annotations": annotations}}) == number


def progressing(status: Any) -> Any:
    return next(c for c in status["conditions"] if c["type"] == "Progressing")


def test_a_rollout_times_out_only_without_progress() -> None:
    deployment = make_deployment(2, progressDeadlineSeconds=10)
    status, timeout = deployment_status(deployment, make_set("new", 2, 0), [], 1000.0)
    assert (progressing(status)["reason"], timeout) == ("ReplicaSetUpdated", 10.0)
    deployment["status"] = status
    again, timeout = deployment_status(deployment, make_set("new", 2, 0), [], 1004.0)
    assert again == status and timeout == 6.0
    further, timeout = deployment_status(deployment, make_set("new", 2, 1), [], 1009.0)
    assert timeout == 10.0 and progressing(further)["lastUpdateTime"] != progressing(status)["lastUpdateTime"]
    assert progressing(further)["lastTransitionTime"] == progressing(status)["lastTransitionTime"]
    late, timeout = deployment_status(deployment, make_set("new", 2, 0), [], 1010.0)
    assert (progressing(late)["status"], progressing(late)["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert progressing(late)["lastTransitionTime"] == format_time(1010.0)
    assert timeout is None
    deployment["status"] = late
    done, _ = deployment_status(deployment, make_set("new", 2, 2), [], 1020.0)
    assert progressing(done)["reason"] == "NewReplicaSetAvailable"
    deployment["status"] = done
    restarting, timeout = deployment_status(deployment, make_set("new", 2, 1), [], 2000.0)
    assert progressing(restarting)["reason"] == "NewReplicaSetAvailable" and timeout is None
    assert restarting["unavailableReplicas"] == 1


def decided(deployment: Any, *sets: Any, busy: Sequence[str] = ()) -> Plan:
    return decide(Observed(deployment, sets, busy, 1_700_000_000.0))


def whole(replicas: int = 3, **spec: Any) -> Any:
    deployment = make_deployment(replicas, selector={"matchLabels": {"app": "web"}}, **spec)
    deployment["metadata"] |= {"namespace": "ns", "uid": "web-uid", "annotations": {"note": "x"}}
    deployment["spec"]["template"] = {"metadata": {"labels": {"app": "web"}}, "spec": {"image": "web:2"}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", **deployment}


def owned_set(name: str, replicas: int, *, image: str, number: int, owned: bool = True) -> Any:
    made = make_set(name, replicas, replicas)
    made["metadata"] |= {
        "namespace": "ns",
        "uid": f"{name}-uid",
        "resourceVersion": "7",
        "labels": {"app": "web"},
        "annotations": {"deployment.kubernetes.io/revision": str(number), "note": "x"},
        "ownerReferences": [controller_reference(whole())] if owned else [],
    }
    made["spec"]["template"] = {"metadata": {"labels": {"app": "web"}}, "spec": {"image": image}}
    return made


def shown(deployment: Any, new: Any, *old: Any, now: float = 0.0) -> list[tuple[str, str, str]]:
    """Write the status into the Deployment; return its conditions."""
    deployment["status"], _ = deployment_status(deployment, new, old, now)
    return [(c["type"], c["status"], c["reason"]) for c in deployment["status"]["conditions"]]


def test_with_recreate_all_pods_have_to_be_available() -> None:
    deployment = make_deployment(2, strategy={"type": "Recreate"}, progressDeadlineSeconds=600)
    assert shown(deployment, make_set("new", 2, 2))[0] == ("Available", "True", "MinimumReplicasAvailable")
    found = {kind: rest for kind, *rest in shown(deployment, None, make_set("old", 0, 0))}
    assert found["Available"] == ["False", "MinimumReplicasUnavailable"]
    found = {kind: rest for kind, *rest in shown(deployment, make_set("newer", 2, 1))}
    assert found["Available"] == ["False", "MinimumReplicasUnavailable"]


def test_conditions_that_change_come_last() -> None:
    paused = make_deployment(1, paused=True, progressDeadlineSeconds=600)
    unavailable = ("Available", "False", "MinimumReplicasUnavailable")
    assert shown(paused, None) == [("Progressing", "Unknown", "DeploymentPaused"), unavailable]
    assert shown(paused, None) == [("Progressing", "Unknown", "DeploymentPaused"), unavailable], "and stay"
    rolled = make_deployment(1, progressDeadlineSeconds=600)
    assert shown(rolled, make_set("a", 1, 0)) == [unavailable, ("Progressing", "True", "ReplicaSetUpdated")]
    available = ("Available", "True", "MinimumReplicasAvailable")
    complete = ("Progressing", "True", "NewReplicaSetAvailable")
    assert shown(rolled, make_set("a", 1, 1)) == [available, complete]
    assert shown(rolled, make_set("a", 1, 0)) == [complete, unavailable]


def test_a_rollout_that_is_over_is_paused_all_the_same_but_not_one_that_timed_out() -> None:
    deployment = make_deployment(1, progressDeadlineSeconds=5)
    shown(deployment, make_set("a", 1, 1))
    deployment["spec"]["paused"] = True
    available = ("Available", "True", "MinimumReplicasAvailable")
    paused = [available, ("Progressing", "Unknown", "DeploymentPaused")]
    assert shown(deployment, make_set("a", 1, 1)) == paused
    deployment = make_deployment(1, progressDeadlineSeconds=5)
    shown(deployment, make_set("a", 1, 0))
    overdue = shown(deployment, make_set("a", 1, 0), now=6.0)
    deployment["spec"]["paused"] = True
    assert shown(deployment, make_set("a", 1, 0), now=7.0) == overdue


def test_the_set_of_a_new_template_is_made_with_the_next_revision() -> None:
    plan = decided(whole(), owned_set("old", 3, image="web:1", number=4))
    creation = plan.actions[0]
    assert isinstance(creation, Create) and plan.status is not None
    metadata, spec = creation.object["metadata"], creation.object["spec"]
    wanted = metadata["labels"]["pod-template-hash"]
    assert metadata["name"] == f"web-{wanted}" and spec["replicas"] == 1, "maxSurge of 3 is 1"
    assert metadata["annotations"] == {
        "note": "x",
        "deployment.kubernetes.io/revision": "5",
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
    }
    assert spec["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": wanted}
    assert [event.message for event in creation.succeeded("")] == [
        f"Scaled up replica set web-{wanted} from 0 to 1"
    ]
    again = decided({**whole(), "status": {"collisionCount": 1}})
    renamed = again.actions[0]
    assert isinstance(renamed, Create)
    assert renamed.object["metadata"]["name"] != metadata["name"], "the name was taken"


def test_a_rollback_scales_and_numbers_the_set_in_one_write() -> None:
    first, second = (
        owned_set("first", 0, image="web:2", number=1),
        owned_set("second", 3, image="web:1", number=2),
    )
    plan = decided(whole(), first, second)
    patches = [action for action in plan.actions if isinstance(action, Patch)]
    assert [(patch.object["metadata"]["name"], patch.patch) for patch in patches] == [
        (
            "first",
            {
                "metadata": {
                    "resourceVersion": "7",
                    "annotations": {
                        "note": "x",
                        "deployment.kubernetes.io/revision": "3",
                        "deployment.kubernetes.io/revision-history": "1",
                        "deployment.kubernetes.io/desired-replicas": "3",
                        "deployment.kubernetes.io/max-replicas": "4",
                    },
                },
                "spec": {"replicas": 1},
            },
        ),
        ("web", {"metadata": {"annotations": {"deployment.kubernetes.io/revision": "3"}}}),
    ]
    assert [patch.subresource for patch in patches] == ["", "status"], "a revision is no new generation"


def test_a_finished_rollout_has_nothing_left_to_do() -> None:
    deployment = whole()
    deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "2"
    plan = decided(
        deployment,
        owned_set("new", 3, image="web:2", number=2),
        owned_set("old", 0, image="web:1", number=1),
    )
    assert plan.actions == ()


def test_old_sets_beyond_the_history_go_the_oldest_first() -> None:
    old = [owned_set(f"old-{number}", 0, image=f"web:{number}", number=number) for number in (12, 10, 11)]
    plan = decided(whole(revisionHistoryLimit=1), owned_set("new", 3, image="web:2", number=13), *old)
    gone = [action.name for action in plan.actions if isinstance(action, Delete)]
    assert gone == ["old-10", "old-11"]


def test_sets_are_adopted_before_anything_is_scaled() -> None:
    orphan = owned_set("orphan", 1, image="web:2", number=1, owned=False)
    plan = decided(whole(), orphan)
    assert [type(action) for action in plan.actions] == [Adopt] and plan.status is None


def test_recreate_waits_for_pods_that_are_still_there() -> None:
    recreate = whole(strategy={"type": "Recreate"})
    old = owned_set("old", 0, image="web:1", number=1)
    assert not [a for a in decided(recreate, old, busy=["old-uid"]).actions if isinstance(a, Create)]
    assert [type(action) for action in decided(recreate, old).actions] == [Create]


def noted(name: str, replicas: int, available: int, *, desired: int, most: int) -> Any:
    """Return a set that was scaled last when the Deployment asked for `desired`."""
    made = make_set(name, replicas, available)
    notes = {"desired-replicas": str(desired), "max-replicas": str(most)}
    made["metadata"]["annotations"] = {f"deployment.kubernetes.io/{key}": text for key, text in notes.items()}
    return made


@pytest.mark.parametrize(
    ("desired", "old", "new", "expected"),
    [
        (8, 3, 2, {"old": 6, "new": 4}),
        (2, 3, 2, {"old": 2, "new": 1}),
        (0, 3, 2, {"old": 0, "new": 0}),
    ],
)
def test_a_rollout_that_hangs_is_scaled_in_proportion(
    desired: int, old: int, new: int, expected: dict[str, int]
) -> None:
    """kube-controller-manager 1.33 made 6 and 4 of 3 and 2 when `replicas` went from 4 to 8 (surge 25 %)."""
    deployment = make_deployment(desired)
    sets = noted("new", new, 0, desired=4, most=5), noted("old", old, old, desired=4, most=5)
    assert scales(deployment, sets[0], [sets[1]]) == expected


@pytest.mark.parametrize(
    ("available", "expected"), [(4, {"old": 0}), (3, {"new": 4, "old": 1})], ids=["all", "not all"]
)
def test_what_is_paused_lets_old_pods_go_when_all_new_ones_are_available(
    available: int, expected: dict[str, int]
) -> None:
    sets = noted("new", 4, available, desired=4, most=5), noted("old", 1, 1, desired=4, most=5)
    assert scales(make_deployment(4, paused=True), sets[0], [sets[1]]) == expected


def test_scaling_is_neither_progress_nor_the_lack_of_it() -> None:
    deployment = make_deployment(4, progressDeadlineSeconds=10)
    shown(deployment, make_set("new", 4, 4))
    before = progressing(deployment["status"])
    status, timeout = deployment_status(deployment, make_set("new", 6, 4), [], 5000.0, rescaled=True)
    assert (progressing(status), timeout) == (before, None)


def test_a_progressing_deployment_says_what_was_done_until_it_gets_further() -> None:
    """The reasons that kube-controller-manager 1.33 writes between the steps of a rollout."""
    deployment = make_deployment(1, progressDeadlineSeconds=10)

    def said(new: Any, now: float, creating: str = "") -> tuple[str, str, str, float | None]:
        deployment["status"], timeout = deployment_status(deployment, new, [], now, creating=creating)
        found = progressing(deployment["status"])
        return found["status"], found["reason"], found["message"], timeout

    assert said(None, 0.0, "a") == ("True", "NewReplicaSetCreated", 'Created new replica set "a"', 10.0)
    assert said(make_set("a", 0, 0), 4.0)[1:] == ("NewReplicaSetCreated", 'Created new replica set "a"', 6.0)
    assert said(make_set("a", 1, 0), 5.0)[1:] == ("ReplicaSetUpdated", 'ReplicaSet "a" is progressing.', 10.0)
    deployment["spec"]["paused"] = True
    assert said(make_set("a", 1, 0), 6.0) == ("Unknown", "DeploymentPaused", "Deployment is paused", None)
    del deployment["spec"]["paused"]
    assert said(make_set("a", 1, 0), 7.0) == ("Unknown", "DeploymentResumed", "Deployment is resumed", 10.0)
    assert said(make_set("a", 1, 1), 8.0)[1] == "NewReplicaSetAvailable"
    deployment["status"] = {"updatedReplicas": 1, "replicas": 1}
    assert said(make_set("b", 1, 0), 9.0)[1:3] == ("FoundNewReplicaSet", 'Found new replica set "b"')


def test_with_recreate_the_end_of_the_old_pods_is_no_progress() -> None:
    deployment = make_deployment(2, strategy={"type": "Recreate"}, progressDeadlineSeconds=600)
    shown(deployment, make_set("old", 2, 2))
    before = progressing(deployment["status"])
    shown(deployment, None, make_set("old", 0, 0))
    assert progressing(deployment["status"]) == before


def test_a_deployment_shows_that_pods_of_a_set_are_refused() -> None:
    deployment = make_deployment(1, progressDeadlineSeconds=600)
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no"}
    old = make_set("old", 1, 0)
    old["status"]["conditions"] = [{**failed, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    shown(deployment, make_set("new", 1, 0), old)
    assert deployment["status"]["conditions"][-1] == {
        **failed,
        "lastUpdateTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assert "ReplicaFailure" not in {kind for kind, *_ in shown(deployment, make_set("new", 1, 1))}


def test_old_sets_stay_while_a_rollout_goes_on() -> None:
    old = [owned_set(f"old-{number}", 0, image=f"web:{number}", number=number) for number in (10, 11)]
    young = owned_set("new", 3, image="web:2", number=13)
    young["status"]["availableReplicas"] = 2
    plan = decided(whole(revisionHistoryLimit=0), young, *old)
    assert not [action for action in plan.actions if isinstance(action, Delete)]


def test_a_set_without_replicas_is_made_in_silence() -> None:
    creation = decided(whole(0)).actions[0]
    assert isinstance(creation, Create) and creation.succeeded("") == ()
