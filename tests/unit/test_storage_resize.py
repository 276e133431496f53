"""What a claim says while its volume grows."""

from __future__ import annotations

from trainshed.cluster.storage import resize

OTHER = {"type": "ModifyingVolume", "status": "True"}


def claim(size: str = "7Gi", **status):
    return {"spec": {"resources": {"requests": {"storage": size}}}, "status": status}


def test_it_says_that_it_grows_once_and_again_for_another_size():
    begun = resize.begun(claim(conditions=[OTHER], capacity={"storage": "3Gi"}), 0.0)
    assert begun == {
        "conditions": [
            OTHER,
            {"type": "Resizing", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"},
        ],
        "allocatedResources": {"storage": "7Gi"},
        "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
    }
    assert resize.begun(claim(**begun), 9.0) is None
    again = resize.begun(claim("8Gi", **begun), 9.0)
    assert (
        again is not None
        and again["allocatedResources"] == {"storage": "8Gi"}
        and len(again["conditions"]) == 2
    )


def test_what_ends_is_no_longer_said():
    begun = resize.begun(claim(conditions=[OTHER]), 0.0)
    assert resize.ended(claim(**begun)) == {"conditions": [OTHER], "allocatedResourceStatuses": None}
    assert resize.ended(claim(**resize.begun(claim(), 0.0)))["conditions"] is None
    assert resize.ended(claim(conditions=[OTHER])) == {}
