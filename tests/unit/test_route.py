"""Which resource request a path is."""

from __future__ import annotations

import pytest

from trainshed.kube.wire.route import Route, parse

CASES = [
    ("GET", "/api/v1/pods", False, Route("list", "", "v1", "pods")),
    ("GET", "/api/v1/pods", True, Route("watch", "", "v1", "pods")),
    ("GET", "/api/v1/watch/namespaces/a/pods", False, Route("watch", "", "v1", "pods", "a")),
    ("GET", "/api/v1/namespaces", False, Route("list", "", "v1", "namespaces")),
    ("GET", "/api/v1/namespaces/a", False, Route("get", "", "v1", "namespaces", None, "a")),
    (
        "PUT",
        "/api/v1/namespaces/a/finalize",
        False,
        Route("update", "", "v1", "namespaces", None, "a", "finalize"),
    ),
    ("GET", "/api/v1/namespaces/a/status", False, Route("get", "", "v1", "namespaces", None, "a", "status")),
    ("POST", "/api/v1/namespaces/a/pods", False, Route("create", "", "v1", "pods", "a")),
    ("DELETE", "/api/v1/namespaces/a/pods", False, Route("deletecollection", "", "v1", "pods", "a")),
    ("DELETE", "/api/v1/namespaces/a/pods/p", False, Route("delete", "", "v1", "pods", "a", "p")),
    ("GET", "/api/v1/namespaces/a/pods/p", True, Route("get", "", "v1", "pods", "a", "p")),
    ("GET", "/api/v1/namespaces/a/pods/p/log", False, Route("get", "", "v1", "pods", "a", "p", "log")),
    (
        "GET",
        "/api/v1/namespaces/a/services/s/proxy/x/y",
        False,
        Route("get", "", "v1", "services", "a", "s", "proxy", "x/y"),
    ),
    ("PATCH", "/apis/batch/v1/namespaces/a/jobs/j/", False, Route("patch", "batch", "v1", "jobs", "a", "j")),
    (
        "GET",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
        False,
        Route("get", "rbac.authorization.k8s.io", "v1", "clusterroles", None, "system:node"),
    ),
]


@pytest.mark.parametrize(
    ("method", "path", "watch", "expected"), CASES, ids=[f"{c[0]} {c[1]}" for c in CASES]
)
def test_resource_paths(method: str, path: str, watch: bool, expected: Route) -> None:
    assert parse(method, path, watch=watch) == expected


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/batch", "/apis/batch/v1/", "/version", "/x/y/z/a"]
)
def test_paths_that_name_no_resource(path: str) -> None:
    assert parse("GET", path) is None
