"""Every kind of job comes to the same end whatever happens to its operator: killed, refused, shown the world late.

A sample, always the same, of the faults of every scenario; `python -m bench.sweep` plays all of them.
"""

from __future__ import annotations

import random

import msgspec
import pytest

from tests.fakes.faults import AT_CALL, AT_EVENT, Fault
from tests.fakes.scenarios import SCENARIOS, SHAPES, Shape
from tests.histories.sweep import Record, differences, faults, judge, play
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.testing.builders import JOB_KINDS

FAULTS_OF_EACH = 4
"""Of some 500 that each scenario of each shape has."""


def test_every_kind_is_swept() -> None:
    assert {shape.kind for shape in SHAPES} == set(JOB_KINDS) == set(FRAMEWORKS), (
        "a kind has no shape to sweep"
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_whatever_happens_the_end_is_the_same(shape: Shape) -> None:
    wrong: dict[str, list[str]] = {}
    for scenario in SCENARIOS:
        reference = play(shape, scenario)
        said = {"no fault": differences(reference, reference, scenario.expected_runs(shape))}
        every = list(faults(reference))
        assert {fault.what for fault in every} == {*AT_CALL, *AT_EVENT}
        chosen = random.Random(f"{shape} {scenario}").sample(every, FAULTS_OF_EACH)
        said |= {str(fault): judge(shape, scenario, fault, reference) for fault in chosen}
        wrong |= {f"{scenario}: {what}": found for what, found in said.items() if found}
    assert not wrong


REFERENCE = Record(
    calls=1,
    events=1,
    left={"/pods/a": {"phase": "Succeeded"}},
    runs={"a": 1},
    path=(("Created=True", "Running=True", "Succeeded=True"),),
    backward=(),
)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("left", {}, "left at /pods/a: None, not {'phase': 'Succeeded'}"),
        ("left", {**REFERENCE.left, "/pods/b": {}}, "left at /pods/b: {}, not None"),
        ("runs", {"a": 2}, "pods ran {'a': 2}, not {'a': 1}"),
        (
            "path",
            (("Running=True", "Created=True"),),
            "conditions went ('Running=True', 'Created=True'), not as",
        ),
        ("backward", ("Failed was taken back",), "Failed was taken back"),
    ],
)
def test_a_difference_is_noticed(field: str, value: object, said: str) -> None:
    record = msgspec.structs.replace(REFERENCE, **{field: value})
    (found,) = differences(record, REFERENCE, {"a": 1})
    assert found.startswith(said)


def test_a_condition_that_was_not_seen_is_no_difference() -> None:
    record = msgspec.structs.replace(REFERENCE, path=(("Created=True", "Succeeded=True"),))
    assert differences(record, REFERENCE, {"a": 1}) == []


def test_a_fault_says_where_it_is() -> None:
    assert [str(Fault("unsent", 3)), str(Fault("late", 4))] == ["call 3 unsent", "event 4 late"]
