"""Privileged containers: a flag in a cluster of root's, where they are close to root on the machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from tests.e2e.cluster_fixture import Cluster, until
from tests.e2e.jobs import pod

PATH = "spec.containers[0].securityContext.privileged"


@pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="for a cluster of root's, which takes root"
)
def test_a_flag_is_needed_in_a_cluster_of_roots(
    cluster: Cluster, make_cluster: Callable[..., Cluster]
) -> None:
    strong = pod("strong", "mount -t tmpfs none /mnt && echo mounted", securityContext={"privileged": True})
    refused = cluster.kubectl("apply", "-f", "-", stdin=json.dumps(strong))
    refused.failed(f"{PATH}: Forbidden: disallowed by cluster policy", "trainshed up --allow-privileged")
    cluster.apply(pod("weak", "sleep 1000"))
    cluster.until_phase("Running", "weak")
    debug = ("debug", "weak", "--image=example.com/tools:1", "--profile=sysadmin", "--", "true")
    cluster.kubectl(*debug).failed(
        "spec.ephemeralContainers[0].securityContext.privileged: Forbidden: disallowed"
    )
    willing = make_cluster()
    willing.trainshed("up", "--allow-privileged").ok()
    assert "options are for the next start" in willing.trainshed("up", "--allow-privileged").err
    willing.apply(strong)
    willing.until_phase("Succeeded", "strong")
    assert willing.logs("strong") == ["mounted"]
    until(lambda: willing.events("PrivilegedContainer", "strong"), "the event that says what it means")
    assert "close to root on this machine" in willing.events("PrivilegedContainer", "strong")[0]
