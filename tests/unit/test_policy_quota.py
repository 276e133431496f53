"""ResourceQuotas: what counts, which quota it concerns, and how the lack of room is told."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from trainshed.kube.builtin.core.resourcequota import KIND
from trainshed.kube.meta.objects import Object
from trainshed.kube.policy import quota

NOW = 1_000_000.0


def make_quota(hard: dict[str, str], **spec: Any) -> Object:
    return {"metadata": {"name": "q", "uid": "1"}, "spec": {"hard": hard, **spec}}


def make_pod(requests: Object | None = None, limits: Object | None = None, **spec: Any) -> Object:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "resources": resources}], **spec},
    }


def used(plural: str, obj: Object, group: str = "") -> dict[str, str]:
    return {name: str(amount) for name, amount in quota.usage(group, plural, obj, NOW).items()}


def test_a_pod() -> None:
    pod = make_pod({"cpu": "500m", "nvidia.com/gpu": "1"}, {"cpu": "1"})
    assert used("pods", pod) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "0.500",
        "requests.cpu": "0.500",
        "requests.nvidia.com/gpu": "1",
        "limits.cpu": "1",
    }


def resized(reason: str = "", **more: Any) -> Object:
    """A pod that asks for two cores, and was given half a core or with `more` something on the way."""
    given = {"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}, **more}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    status = {"containerStatuses": [{"name": "main", **given}], "conditions": conditions}
    return {**make_pod({"cpu": "2"}, {"cpu": "3"}), "status": status}


def test_a_pod_that_is_resized_holds_what_it_has_or_is_to_have_whichever_is_more() -> None:
    assert (used("pods", resized())["requests.cpu"], used("pods", resized())["limits.cpu"]) == ("2", "3")
    assert used("pods", resized("Deferred"))["requests.cpu"] == "2"
    less = {**resized(), "spec": make_pod({"cpu": "100m"}, {"cpu": "200m"})["spec"]}
    assert (used("pods", less)["requests.cpu"], used("pods", less)["limits.cpu"]) == ("0.500", "1")
    going_on = resized("Infeasible", allocatedResources={"cpu": "1"})
    assert used("pods", going_on)["requests.cpu"] == "1", "it was given that, and will not have more"
    assert used("pods", resized("Infeasible"))["limits.cpu"] == "1"
    waiting = {**resized(), "status": {"containerStatuses": [{"name": "main"}]}}
    assert used("pods", waiting)["requests.cpu"] == "2"


def test_a_pod_that_is_over_holds_its_count_only() -> None:
    pod = {**make_pod({"cpu": "1"}), "status": {"phase": "Succeeded"}}
    assert used("pods", pod) == {"count/pods": "1"}


def test_other_kinds() -> None:
    claim = {"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "2Gi"}}}}
    assert used("persistentvolumeclaims", claim) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": str(2 * 1024**3),
        "fast.storageclass.storage.k8s.io/requests.storage": str(2 * 1024**3),
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
    }
    service = {"spec": {"type": "NodePort", "ports": [{}, {}]}}
    assert used("services", service) == {"count/services": "1", "services": "1", "services.nodeports": "2"}
    assert used("jobs", {}, "batch") == {"count/jobs.batch": "1"}


@pytest.mark.parametrize(
    ("scope", "pod", "counted"),
    [
        ({"scopes": ["BestEffort"]}, {"status": {"qosClass": "BestEffort"}}, True),
        ({"scopes": ["BestEffort"]}, {"status": {"qosClass": "Burstable"}}, False),
        ({"scopes": ["Terminating"]}, {"spec": {"activeDeadlineSeconds": 5}}, True),
        ({"scopes": ["NotTerminating"]}, {"spec": {"activeDeadlineSeconds": 5}}, False),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]
                }
            },
            {"spec": {"priorityClassName": "a"}},
            True,
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["a"]}]
                }
            },
            {"spec": {"priorityClassName": "a"}},
            False,
        ),
    ],
)
def test_scopes(scope: Object, pod: Object, counted: bool) -> None:
    assert quota.concerns(make_quota({"pods": "1"}, **scope), "", "pods", pod) is counted


def test_a_quota_concerns_what_it_names() -> None:
    held = make_quota({"count/jobs.batch": "1", "services.nodeports": "2"})
    assert quota.counted_kinds(held) == {("batch", "jobs"), ("", "services")}
    assert quota.counted_kinds(make_quota({"limits.cpu": "1", "requests.storage": "1Gi"})) == {
        ("", "pods"),
        ("", "persistentvolumeclaims"),
    }
    assert not quota.concerns(held, "", "pods", {})


def test_the_lack_of_room_is_told_as_upstream() -> None:
    held = make_quota({"cpu": "2", "memory": "1Gi", "pods": "10"})
    more = quota.usage("", "pods", make_pod({"cpu": "1500m", "memory": "1Gi"}), NOW)
    taken = {"cpu": Decimal("1"), "memory": Decimal(512 * 1024**2), "pods": Decimal(1)}
    assert quota.exceeded(held, taken, more) == (
        "exceeded quota: q, requested: cpu=1500m,memory=1Gi, used: cpu=1,memory=512Mi, limited: cpu=2,memory=1Gi"
    )
    assert quota.exceeded(held, {}, more) == ""


def test_what_every_container_has_to_say() -> None:
    held = make_quota({"limits.cpu": "2", "memory": "1Gi", "pods": "3"})
    assert quota.unsaid(held, make_pod({"cpu": "1"})) == "limits.cpu for: main; memory for: main"
    assert quota.unsaid(held, make_pod({"memory": "1"}, {"cpu": "1"})) == ""


def test_growth() -> None:
    assert quota.grown({"a": Decimal(2), "b": Decimal(1)}, {"a": Decimal(2), "c": Decimal(1)}) == {
        "b": 1,
        "c": -1,
    }


def test_status_and_what_it_says() -> None:
    held = make_quota({"memory": "2Gi", "pods": "4"})
    assert quota.known_usage(held) is None
    held["status"] = quota.status(held, {"memory": Decimal(1024**3)})
    assert held["status"] == {"hard": {"memory": "2Gi", "pods": "4"}, "used": {"memory": "1Gi", "pods": "0"}}
    assert quota.known_usage(held) == {"memory": 1024**3, "pods": 0}
    held["spec"]["hard"]["pods"] = "5"
    assert quota.known_usage(held) is None


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        (
            {"hard": {"pods": "1500m"}},
            "spec.hard[pods]",
            "Invalid value: resource.Quantity{i:resource.int64Amount{value:1500, scale:-3}, "
            'd:resource.infDecAmount{Dec:(*inf.Dec)(nil)}, s:"1500m", Format:"DecimalSI"}: must be an integer',
        ),
        (
            {"hard": {"pods": "-1"}},
            "spec.hard[pods]",
            'Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            {"scopes": ["X"]},
            "spec.scopes",
            'Invalid value: []core.ResourceQuotaScope{"X"}: unsupported scope',
        ),
        (
            {"scopes": ["BestEffort", "NotBestEffort"]},
            "spec.scopes",
            'Invalid value: []core.ResourceQuotaScope{"BestEffort", "NotBestEffort"}: conflicting scopes',
        ),
    ],
)
def test_wrong_quotas(spec: Object, field: str, text: str) -> None:
    assert KIND.check is not None
    assert [(c.field, c.message) for c in KIND.check({"spec": spec}, None, "")] == [(field, text)]
