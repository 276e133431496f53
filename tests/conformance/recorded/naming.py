"""A sequence about names, labels, annotations and keys that are none."""

from __future__ import annotations

from tests.conformance.recorded.steps import (
    APPS,
    NS,
    Step,
    config_map,
    delete,
    deployment,
    get,
    pod,
    post,
    service,
)

MAPS = f"{NS}/configmaps"

NAMING: dict[str, list[Step]] = {
    "names": [
        *(
            post(MAPS, config_map(name), dryRun="All")
            for name in ("", "a.b", "-a", "a_b", "a/b", "..", "x" * 254)
        ),
        post(MAPS, config_map("", generateName="Bad_"), dryRun="All"),
        post(MAPS, config_map("", generateName="x" * 300), dryRun="All"),
        *(
            post(f"{NS}/services", service(name, ports=[{"port": 1}]), dryRun="All")
            for name in ("a.b", "1a", "x" * 64)
        ),
        *(post(f"{NS}/pods", pod(name), dryRun="All") for name in ("a.b", "A", "x" * 254)),
        *(post(f"{APPS}/deployments", deployment(name), dryRun="All") for name in ("a.b", "A_", "x" * 64)),
        *(
            post(
                "/api/v1/namespaces",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
                dryRun="All",
            )
            for name in ("a.b", "A", "x" * 64, "default")
        ),
        *(
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "metadata": {"name": name},
                },
                dryRun="All",
            )
            for name in ("a:b", "A B", "a/b", "a%b", ".")
        ),
        post(MAPS, config_map("a", labels={"a b": "c", "x/y/z": "c", "l" * 64: "v"}), dryRun="All"),
        post(MAPS, config_map("a", labels={"ok": "-bad", "long": "v" * 64}), dryRun="All"),
        post(MAPS, config_map("a", annotations={"A/b": "1", "/x": "2", "big": "x" * 10}), dryRun="All"),
        post(MAPS, config_map("a", {"..": "1", "a/b": "2", "k" * 254: "3"}), dryRun="All"),
        post(MAPS, config_map("a", namespace="Other"), dryRun="All"),
        post("/api/v1/namespaces/nowhere/configmaps", config_map("a")),
        get("/api/v1/namespaces/nowhere/configmaps"),
        get("/api/v1/namespaces/nowhere/configmaps/a"),
        delete("/api/v1/namespaces/nowhere"),
        get(f"{MAPS}/A_B"),
        post(
            f"{NS}/serviceaccounts",
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "Bad"}},
        ),
        post(
            f"{NS}/secrets",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s"},
                "type": "kubernetes.io/dockerconfigjson",
                "data": {},
            },
        ),
        post(
            f"{NS}/secrets",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s"},
                "type": "kubernetes.io/basic-auth",
            },
        ),
        post(
            f"{NS}/secrets",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s"},
                "type": "kubernetes.io/service-account-token",
            },
        ),
        post(
            f"{NS}/secrets",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s"},
                "type": "kubernetes.io/ssh-auth",
            },
        ),
    ],
}
