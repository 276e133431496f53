"""LimitRanges: what containers are given, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.builtin.core.limitrange import KIND
from trainshed.kube.meta.objects import Object
from trainshed.kube.policy.limits import ANNOTATION, aggregated, claim_refusals, pod_refusals, with_defaults


def limit_range(kind: str = "Container", **item: Any) -> Object:
    return {"metadata": {"name": "r"}, "spec": {"limits": [{"type": kind, **item}]}}


def pod(requests: Object | None = None, limits: Object | None = None, **spec: Any) -> Object:
    resources = {k: v for k, v in (("requests", requests), ("limits", limits)) if v is not None}
    return {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": resources}], **spec}}


def test_what_is_left_out_is_given_and_said() -> None:
    given = with_defaults(
        pod(requests={"cpu": "1"}, initContainers=[{"name": "init"}]),
        [limit_range(default={"cpu": "2", "memory": "1Gi"}, defaultRequest={"cpu": "500m", "memory": "1Gi"})],
    )
    main, init = given["spec"]["containers"][0], given["spec"]["initContainers"][0]
    assert main["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }
    assert init["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert given["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: memory request for container main; cpu, memory limit for container main;"
        " cpu, memory request for init container init; cpu, memory limit for init container init"
    )


def test_a_pod_that_says_all_is_left_alone() -> None:
    whole = pod(requests={"cpu": "1"}, limits={"cpu": "1"})
    assert with_defaults(whole, [limit_range(default={"cpu": "2"})]) is whole


@pytest.mark.parametrize(
    ("item", "requests", "limits", "text"),
    [
        ({"min": {"cpu": "1"}}, {}, {}, "minimum cpu usage per Container is 1.  No request is specified"),
        (
            {"min": {"cpu": "1"}},
            {"cpu": "500m"},
            {},
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        ({"min": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "1"}, ""),
        ({"max": {"cpu": "1"}}, {}, {}, "maximum cpu usage per Container is 1.  No limit is specified"),
        ({"max": {"cpu": "1"}}, {}, {"cpu": "2"}, "maximum cpu usage per Container is 1, but limit is 2"),
        ({"maxLimitRequestRatio": {"memory": "2"}}, {"memory": "1Gi"}, {"memory": "2Gi"}, ""),
        (
            {"maxLimitRequestRatio": {"memory": "2"}},
            {"memory": "1Gi"},
            {"memory": "3Gi"},
            "memory max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"maxLimitRequestRatio": {"memory": "2"}},
            {},
            {"memory": "3Gi"},
            "memory max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
    ],
)
def test_containers(item: Object, requests: Object, limits: Object, text: str) -> None:
    assert pod_refusals(pod(requests, limits), limit_range(**item)) == ([text] if text else [])


def test_the_sum_of_a_pod() -> None:
    two = pod({"memory": "512Mi"}, {"memory": "512Mi"})
    two["spec"]["containers"] *= 2
    assert pod_refusals(two, limit_range("Pod", max={"memory": "768Mi"})) == [
        "maximum memory usage per Pod is 768Mi, but limit is 1Gi"
    ]


def test_claims() -> None:
    claim = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
    bounds = limit_range("PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "2Gi"})
    assert claim_refusals(claim, bounds) == [
        "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 5Gi"
    ]
    claim["spec"]["resources"]["requests"]["storage"] = "2Gi"
    assert claim_refusals(claim, bounds) == []


def test_several_reasons_are_one_text() -> None:
    assert aggregated(["a"]) == "a"
    assert aggregated(["a", "b", "a"]) == "[a, b]"


def test_a_wrong_range() -> None:
    assert KIND.check is not None
    wrong = limit_range(min={"cpu": "2"}, max={"cpu": "1"}, maxLimitRequestRatio={"cpu": "500m"})
    wrong["spec"]["limits"].append({"type": "Pod", "default": {"cpu": "1"}})
    assert [(cause.field, cause.message) for cause in KIND.check(wrong, None, "")] == [
        (
            "spec.limits[0].min[cpu]",
            "Invalid value: resource.Quantity{i:resource.int64Amount{value:2, scale:0},"
            ' d:resource.infDecAmount{Dec:(*inf.Dec)(nil)}, s:"2", Format:"DecimalSI"}:'
            " min value 2 is greater than max value 1",
        ),
        (
            "spec.limits[0].maxLimitRequestRatio[cpu]",
            "Invalid value: resource.Quantity{i:resource.int64Amount{value:500, scale:-3},"
            ' d:resource.infDecAmount{Dec:(*inf.Dec)(nil)}, s:"500m", Format:"DecimalSI"}:'
            " ratio 500m is less than 1",
        ),
        ("spec.limits[1].default", "Forbidden: may not be specified when `type` is 'Pod'"),
    ]
