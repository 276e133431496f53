"""What is published for generators, `kubectl explain` and validation in clients is what kube-apiserver publishes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.api_world import open_world
from tests.conformance.recorded.openapi.record import FOLDER, documents

OURS_ALONE = (
    "metrics.k8s.io",
    "authentication.k8s.io/v1beta1",
    "io.k8s.metrics.",
    "v1beta1.SelfSubjectReview",
)
_OF_DISCOVERY = (
    "APIGroup",
    "APIGroupList",
    "APIVersions",
    "GroupVersionForDiscovery",
    "ServerAddressByClientCIDR",
)
_NOT_HERE = {
    *(f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}" for name in _OF_DISCOVERY),
    "io.k8s.apimachinery.pkg.version.Info",
}
"""What only the paths of discovery and `/version` refer to, which are not in the document here."""


@pytest.mark.timeout(120)
async def test_documents_are_those_of_kubernetes(tmp_path: Path) -> None:
    recorded = json.loads((FOLDER / "1.33.json").read_text())
    async with open_world(tmp_path) as world:
        found = await documents(world.transport)
    for version in ("v2", "v3"):
        theirs, ours = recorded[version], found[version]
        assert theirs.keys() - ours.keys() - _NOT_HERE == set(), f"{version}: not published here"
        more = ours.keys() - theirs.keys()
        assert [name for name in more if not any(part in name for part in OURS_ALONE)] == [], version
        other = sorted(name for name in theirs.keys() & ours.keys() if theirs[name] != ours[name])
        assert other == [], f"{version}: published in another way"
