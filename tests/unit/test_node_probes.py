"""Probes: thresholds, and what a container without probes counts as."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.node_builders import make_container
from trainshed.cluster.node.pod.observed import Health
from trainshed.cluster.node.pod.probes import Tally, initial_health, judge


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 4))
def test_a_verdict_needs_that_many_in_a_row(outcomes, successes, failures):
    probe = {"successThreshold": successes, "failureThreshold": failures}
    tally = Tally()
    for position, ok in enumerate(outcomes):
        before, tally = tally, judge(tally, ok, probe)
        needed = successes if ok else failures
        last = outcomes[max(0, position + 1 - needed) : position + 1]
        if len(last) == needed and all(o is ok for o in last):
            assert tally.verdict is ok
        else:
            assert tally.verdict is before.verdict


def test_what_is_not_probed_counts_as_well():
    assert initial_health(make_container()) == Health(started=True, ready=True)
    probe = {"tcpSocket": {"port": 1}}
    assert initial_health(make_container(readinessProbe=probe)) == Health(started=True)
    assert initial_health(make_container(startupProbe=probe)) == Health()
    assert not initial_health(make_container(readinessProbe={"grpc": {"port": 1}})).ready
