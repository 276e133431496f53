"""Rules of aggregated ClusterRoles, as whoever reads them sees them."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.control_world import World, cluster
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CLUSTERROLES

GROUP = "rbac.authorization.k8s.io"


def rule(resource: str) -> Object:
    return {"apiGroups": ["x.test"], "resources": [resource], "verbs": ["get"]}


def rules(world: World, name: str) -> list[Object]:
    found = world.stored(CLUSTERROLES, name, "")
    return [] if found is None else found.get("rules") or []


async def test_what_is_aggregated_is_written_out_over_all_levels(tmp_path: Path) -> None:
    async with cluster(tmp_path) as world:
        labels = {f"{GROUP}/aggregate-to-view": "true"}
        await world.client.create(
            CLUSTERROLES, {"metadata": {"name": "more", "labels": labels}, "rules": [rule("widgets")]}
        )
        for name in ("view", "edit", "admin"):
            await world.until(f"{name} has it", lambda name=name: rule("widgets") in rules(world, name))
        assert not [one for one in rules(world, "view") if "secrets" in one["resources"]]
        assert [one for one in rules(world, "edit") if "secrets" in one["resources"]]
        await world.client.delete(CLUSTERROLES, "more")
        for name in ("view", "edit", "admin"):
            await world.until(
                f"{name} has lost it", lambda name=name: rule("widgets") not in rules(world, name)
            )
