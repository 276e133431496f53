"""CEL expressions come to what they come to on kube-apiserver, and what it refuses is refused in its words."""

from __future__ import annotations

import json

import pytest

from tests.conformance.recorded.cel.record import FOLDER, OBJECT, compile_error, expressions
from trainshed.kube.cel.admission import CONDITION, expression_type
from trainshed.kube.cel.library.textformat import text_of
from trainshed.kube.cel.program import compiled
from trainshed.kube.cel.values import EvaluationError

ANSWERS: dict[str, dict[str, str]] = json.loads((FOLDER / "1.33.json").read_text())


def test_every_expression_is_recorded() -> None:
    assert sorted(ANSWERS) == sorted(expressions())
    assert len(ANSWERS) > 600


@pytest.mark.parametrize("expression", [key for key, answer in ANSWERS.items() if "refused" not in answer])
def test_values_and_errors(expression: str) -> None:
    assert expression_type(expression, "", CONDITION)[0] == []
    try:
        found = {"value": text_of(compiled(expression).run({"object": OBJECT})[0])}
    except EvaluationError as error:
        found = {"error": str(error)}
    assert found == ANSWERS[expression]


@pytest.mark.parametrize("expression", [key for key, answer in ANSWERS.items() if "refused" in answer])
def test_refusals(expression: str) -> None:
    (cause,), _ = expression_type(expression, "", CONDITION)
    wanted, found = ANSWERS[expression]["refused"], compile_error(cause.message)
    if wanted.startswith("Syntax error:"):
        # The recorder puts the expression into brackets, which the parser tells of.
        assert found.startswith("Syntax error:")
    else:
        assert found == wanted
