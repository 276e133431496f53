"""Plans: the answer of every decision, and what their values are equal by."""

from __future__ import annotations

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Create
from trainshed.kube.meta.resources import PODS, SERVICES


def test_creations_are_equal_by_what_they_create_whoever_writes_it() -> None:
    written: list[Object] = []

    def write() -> Object:
        written.append({"kind": "Pod"})
        return written[-1]

    late, here = Create(resource=PODS, given=write), Create(resource=PODS, given={"kind": "Pod"})
    assert written == [], "only when it is asked for"
    assert late == here
    assert late.object == {"kind": "Pod"}
    assert late != Create(resource=PODS, given={"kind": "Service"})
    assert late != Create(resource=SERVICES, given=write)
    assert late != Create(resource=PODS, given=write, counter="restarted")
