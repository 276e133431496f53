"""Which resource request a path is."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trainshed.kube.meta.resources import (
    CLUSTERROLES,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    Resource,
)
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


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.:-]{0,20}[a-z0-9])?", fullmatch=True)
METHODS = {"get": "GET", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


@given(
    st.sampled_from((PODS, NODES, NAMESPACES, DEPLOYMENTS, CLUSTERROLES)),
    st.sampled_from(tuple(METHODS)),
    NAMES,
    NAMES,
    st.sampled_from(("", "status", "scale")),
)
def test_paths_that_clients_build_are_read_back(
    resource: Resource, verb: str, namespace: str, name: str, subresource: str
) -> None:
    assume(resource != NAMESPACES or subresource != "scale")  # that would be a list of scales
    found = parse(METHODS[verb], resource.path(namespace, name, subresource))
    within = namespace if resource.namespaced else None
    assert found == Route(verb, resource.group, resource.version, resource.plural, within, name, subresource)
    listed = parse("GET", resource.path(namespace))
    assert listed == Route("list", resource.group, resource.version, resource.plural, within)
