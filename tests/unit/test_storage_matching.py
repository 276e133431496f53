"""Which volume a claim gets."""

from typing import Any

import pytest

from trainshed.cluster.storage.matching import match


def make_volume(name: str = "pv", size: str = "10Gi", **spec: Any) -> Any:
    return {
        "metadata": {"name": name, "labels": {"type": "traindb", "name": name}},
        "spec": {
            "storageClassName": "manual",
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteMany"],
            **spec,
        },
    }


def make_claim(**spec: Any) -> Any:
    return {
        "metadata": {"name": "claim", "namespace": "kubeflow", "uid": "u1"},
        "spec": {
            "storageClassName": "manual",
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "3Gi"}},
            **spec,
        },
    }


def chosen(claim: Any, *volumes: Any) -> str | None:
    volume = match(claim, volumes).volume
    return None if volume is None else volume["metadata"]["name"]


def test_the_smallest_that_is_large_enough() -> None:
    volumes = [make_volume("big", "20Gi"), make_volume("fit", "5Gi"), make_volume("tiny", "1Gi")]
    assert chosen(make_claim(), *volumes) == "fit"


@pytest.mark.parametrize(
    ("claim", "volume", "why"),
    [
        ({}, {"storageClassName": "other"}, 'storageClassName is "other", not "manual"'),
        ({}, {"accessModes": ["ReadWriteOnce"]}, "accessModes lack ReadWriteMany"),
        ({}, {"capacity": {"storage": "2Gi"}}, "capacity 2Gi is less than 3Gi"),
        ({"selector": {"matchLabels": {"name": "x"}}}, {}, "labels do not match the claim's selector"),
        ({}, {"claimRef": {"namespace": "n", "name": "c", "uid": "z"}}, "is claimed by n/c"),
        ({"volumeMode": "Block"}, {}, "volumeMode is Filesystem"),
    ],
)
def test_each_rule_says_why_not(claim: Any, volume: Any, why: str) -> None:
    result = match(make_claim(**claim), [make_volume(**volume)])
    assert result.volume is None
    assert result.why_not == (f"pv: {why}",)


def test_a_reservation_wins_also_by_name_only() -> None:
    reserved = make_volume("kept", "50Gi", claimRef={"namespace": "kubeflow", "name": "claim"})
    assert chosen(make_claim(), make_volume(), reserved) == "kept"


def test_a_named_volume_is_the_only_candidate() -> None:
    assert chosen(make_claim(volumeName="b"), make_volume("a"), make_volume("b")) == "b"
    assert match(make_claim(volumeName="b"), [make_volume("a")]).why_not == ('volume "b" does not exist',)
