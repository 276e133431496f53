"""Every rule of upstream's validation, for every kind: which field, and the words to the letter; or that it is let in.

The rules are in `tests/fakes/job_rules.py`. Further cases are in the tests of a kind.
"""

from __future__ import annotations

import pytest

from tests.fakes.job_rules import CASES, Rule, replicas
from tests.fakes.manifests import whole
from trainshed.api.replicated import JobKind
from trainshed.jobs.engine.model import Observed
from trainshed.jobs.v1.decide import decide
from trainshed.testing.builders import JOB_KINDS


@pytest.mark.parametrize(("kind", "rule"), CASES, ids=lambda value: value.name)
def test_rule(kind: JobKind, rule: Rule) -> None:
    job, old, problems = rule.case(kind)
    assert kind.validate(whole(kind.name), None).errors == ()
    found = [(error.path, str(error)) for error in kind.validate(job, old).errors]
    assert found == problems


@pytest.mark.parametrize("kind", JOB_KINDS.values(), ids=list(JOB_KINDS))
def test_an_absurd_count_that_was_stored_all_the_same_costs_nothing(kind: JobKind) -> None:
    """`scale` asks no webhook: what lists all replicas must not be made of such a job."""
    job = whole(kind.name)
    replicas(job, kind)["Worker"]["replicas"] = 2**31 - 1
    plan = decide(Observed(job=job, now=1_800_000_000.0))
    assert plan.actions == () and "must be at most 10000" in plan.events[0].message
