"""The condition algebra, rule by rule."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from trainshed.jobs.engine.conditions import find, is_true, set_condition

T0, T1 = "2023-11-14T22:13:20Z", "2023-11-14T22:13:21Z"


def after(*steps: tuple[str, str], start: list[Any] | None = None) -> list[Any]:
    """Return the conditions after setting each (type, status) in turn, one second apart."""
    conditions = start or []
    for second, (type_, status) in enumerate(steps):
        conditions = set_condition(
            conditions, type_, status, type_ + status, "", f"2023-11-14T22:13:{second:02}Z"
        )
    return conditions


def shape(conditions: list[Any]) -> list[tuple[str, str]]:
    return [(c["type"], c["status"]) for c in conditions]


def test_a_life_with_a_restart() -> None:
    """Created, Running, Restarting, Running, Failed: the states of one life replace each other."""
    steps = [("Created", "True"), ("Running", "True"), ("Restarting", "True"), ("Running", "True")]
    assert shape(after(*steps[:2])) == [("Created", "True"), ("Running", "True")]
    assert shape(after(*steps[:3])) == [("Created", "True"), ("Restarting", "True")]
    assert shape(after(*steps)) == [("Created", "True"), ("Running", "True")]
    assert shape(after(*steps, ("Failed", "True"))) == [
        ("Created", "True"),
        ("Running", "False"),
        ("Failed", "True"),
    ]


@pytest.mark.parametrize("outcome", ["Succeeded", "Failed"])
def test_an_outcome_turns_running_off_and_keeps_its_reason_and_times(outcome: str) -> None:
    before = after(("Running", "True"))
    running = find(after((outcome, "True"), start=before), "Running")
    assert running == {**before[0], "status": "False"}


def test_nothing_is_set_after_failed() -> None:
    failed = after(("Failed", "True"))
    assert set_condition(failed, "Succeeded", "True", "r", "m", T1) is failed


def test_same_status_and_reason_is_no_change() -> None:
    """Neither message nor times are refreshed, so that a status settles."""
    before = set_condition([], "Running", "True", "r", "first", T0)
    assert set_condition(before, "Running", "True", "r", "second", T1) is before


def test_another_reason_keeps_the_transition_time_while_the_status_stays() -> None:
    before = set_condition([], "Suspended", "True", "one", "", T0)
    (condition,) = set_condition(before, "Suspended", "True", "two", "", T1)
    assert (condition["lastUpdateTime"], condition["lastTransitionTime"]) == (T1, T0)
    (condition,) = set_condition(before, "Suspended", "False", "two", "", T1)
    assert condition["lastTransitionTime"] == T1


def test_running_false_removes_restarting_too() -> None:
    assert shape(after(("Restarting", "True"), ("Running", "False"))) == [("Running", "False")]


def test_the_last_change_is_last() -> None:
    """`kubectl get` prints the last one as the state."""
    steps = [("Created", "True"), ("Suspended", "True"), ("Running", "True"), ("Suspended", "False")]
    assert [type_ for type_, _ in shape(after(*steps))] == ["Created", "Running", "Suspended"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Created", "Running", "Restarting", "Succeeded", "Failed", "Suspended"]),
            st.sampled_from(["True", "False"]),
        ),
        max_size=12,
    )
)
def test_any_sequence_stays_legal(steps: list[tuple[str, str]]) -> None:
    """One of each type, never Running beside Restarting, and Failed stays once it is true."""
    conditions: list[Any] = []
    failed = False
    for step in steps:
        conditions = after(step, start=conditions)
        types = [c["type"] for c in conditions]
        assert len(types) == len(set(types))
        assert not {"Running", "Restarting"} <= set(types)
        assert is_true(conditions, "Failed") or not failed
        failed = is_true(conditions, "Failed")
