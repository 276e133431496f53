"""Which node may have a volume that only one may have."""

from __future__ import annotations

import pytest

from tests.unit.node_builders import make_pod
from trainshed.cluster.node.attachments import Attachments
from trainshed.cluster.node.references import References


def pod(name: str, claim: str = "data"):
    made = make_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])
    return {**made, "metadata": {**made["metadata"], "name": name, "uid": f"uid-{name}"}}


def references(*modes: str, provisioned: bool = True) -> References:
    annotations = {"pv.kubernetes.io/provisioned-by": "x"} if provisioned else {}
    volume = {"metadata": {"name": "pvc-1", "annotations": annotations}, "spec": {"accessModes": list(modes)}}
    claim = {"metadata": {"name": "data"}, "spec": {"volumeName": "pvc-1"}}
    return References({("persistentvolumeclaims", "data"): claim, ("persistentvolumes", "pvc-1"): volume})


def test_a_second_node_waits_until_the_first_has_let_go():
    known, once = Attachments(), references("ReadWriteOnce")
    assert known.take("a", pod("p"), once) == ""
    assert known.take("a", pod("q"), once) == "", "the same node may have it twice"
    expected = 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) p, q'
    assert known.take("b", pod("r"), once) == expected
    known.let_go("uid-p")
    assert known.take("b", pod("r"), once).endswith("pod(s) q")
    known.let_go("uid-q")
    assert known.take("b", pod("r"), once) == ""
    assert known.take("a", pod("p"), once).endswith("pod(s) r")


@pytest.mark.parametrize(
    "shared",
    [
        references("ReadWriteOnce", "ReadWriteMany"),
        references("ReadOnlyMany"),
        references("ReadWriteOnce", provisioned=False),
        References({("persistentvolumeclaims", "data"): None}),
    ],
)
def test_what_several_nodes_may_have(shared):
    known = Attachments()
    known.hold("a", pod("p"))
    assert known.take("b", pod("q"), shared) == ""


def test_another_claim_and_another_namespace_are_others():
    known, once = Attachments(), references("ReadWriteOnce")
    known.hold("a", pod("p", "other"))
    elsewhere = pod("q")
    known.hold("a", {**elsewhere, "metadata": {**elsewhere["metadata"], "namespace": "elsewhere"}})
    assert known.take("b", pod("r"), once) == ""
