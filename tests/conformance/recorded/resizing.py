"""A sequence about `pods/resize`."""

from __future__ import annotations

from typing import Any

from tests.conformance.recorded.steps import NS, Step, get, merge, pod, post, put, strategic
from trainshed.kube.meta.objects import Object


def _amounts(limits: Object | None = None, **requests: str) -> Object:
    out: Object = {"requests": requests} if requests else {}
    return {**out, "limits": limits} if limits else out


_DRY = {"dryRun": "All"}
_SMALL = {"cpu": "100m", "memory": "64Mi"}
_LARGE = {"cpu": "200m", "memory": "128Mi"}


def _resize(
    name: str, resources: Any, container: str = "main", query: dict[str, str] | None = None, **more: Any
) -> Step:
    body = {"spec": {"containers": [{"name": container, "resources": resources, **more}]}}
    return strategic(f"{NS}/pods/{name}/resize", body, **(query or {}))


def _json(name: str, path: str, value: Any) -> Step:
    return Step(
        "PATCH",
        f"{NS}/pods/{name}/resize",
        [{"op": "replace", "path": path, "value": value}],
        content_type="application/json-patch+json",
    )


_SIDECARS = {
    "initContainers": [
        {"name": "side", "image": "i", "restartPolicy": "Always", "resources": _amounts(**_SMALL)},
        {"name": "first", "image": "i", "resources": _amounts(**_SMALL)},
    ]
}
_RESTART = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]


def _running(**status: Any) -> Step:
    one = {
        "name": "main",
        "image": "train:1",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        **status,
    }
    return merge(f"{NS}/pods/burst/status", {"status": {"containerStatuses": [one]}})


RESIZING: list[Step] = [
    post(f"{NS}/pods", pod("burst", container={"resources": _amounts(_LARGE, **_SMALL)})),
    post(f"{NS}/pods", pod("even", container={"resources": _amounts(_SMALL, **_SMALL)})),
    post(f"{NS}/pods", pod("free")),
    post(f"{NS}/pods", pod("many", _SIDECARS, container={"resources": _amounts(**_SMALL)})),
    post(
        f"{NS}/pods",
        pod("again", container={"resources": _amounts(_LARGE, **_SMALL), "resizePolicy": _RESTART}),
    ),
    get(f"{NS}/pods/burst/resize"),
    _resize("burst", {"requests": {"cpu": "150m"}, "limits": {"cpu": "300m"}}),
    _resize("burst", {"limits": {"memory": "64Mi"}}),
    _resize("burst", {"limits": {"memory": "256Mi"}}),
    _resize("again", {"limits": {"memory": "64Mi"}}),
    _resize("burst", {"requests": {"cpu": "1", "memory": "1Gi"}}),
    _json("burst", "/spec/containers/0/resources", {"requests": {"cpu": "100m"}, "limits": _LARGE}),
    _json("burst", "/spec/containers/0/resources", {}),
    _resize("burst", {"limits": {"ephemeral-storage": "1Gi"}}),
    _resize("burst", {"limits": {"nvidia.com/gpu": "1"}}),
    _resize("burst", {"limits": {"cpu": "-1"}}),
    _resize("burst", {"limits": {"cpu": "a lot"}}),
    _resize("even", {"limits": {"cpu": "200m"}}),
    _resize("even", {"limits": {"cpu": "200m"}, "requests": {"cpu": "200m"}}),
    _resize("free", {"requests": {"cpu": "100m"}}),
    _resize("burst", {"limits": {"cpu": "400m"}}, query=_DRY, image="other:1"),
    _resize("burst", {"limits": {"cpu": "400m"}}, resizePolicy=_RESTART),
    _resize("burst", {}, container="new"),
    _json("burst", "/spec/containers/0/name", "renamed"),
    _json("burst", "/spec/containers", []),
    _json("many", "/spec/initContainers/0/resources/requests/cpu", "200m"),
    _json("many", "/spec/initContainers/1/resources/requests/cpu", "200m"),
    merge(f"{NS}/pods/burst/resize", {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}, **_DRY),
    merge(f"{NS}/pods/burst/resize", {"spec": {"activeDeadlineSeconds": 5}}, **_DRY),
    merge(
        f"{NS}/pods/burst", {"spec": {"containers": [{"name": "main", "image": "train:1", "resources": {}}]}}
    ),
    strategic(
        f"{NS}/pods/burst",
        {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}},
    ),
    _running(),
    _resize("burst", {"limits": {"cpu": "500m"}}),
    _running(resources={"limits": _LARGE}),
    _resize("burst", {"limits": {"cpu": "500m"}}),
    put(f"{NS}/pods/missing/resize", pod("missing")),
]
