"""What is said of expressions that cannot be read, whatever the native parser does."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.cel import wording


class Engine:
    """A native parser that raises."""

    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    def compile(self, expression: str) -> None:
        raise self.raised


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what puts a parser that raises in the place of the native one."""

    def put(raised: BaseException) -> None:
        monkeypatch.setattr(wording, "_engine", lambda: Engine(raised))

    return put


PanicException = type("PanicException", (BaseException,), {})


@pytest.mark.parametrize("raised", [PanicException("index out of bounds"), KeyError("x")])
def test_where_the_native_parser_fails_our_own_words_stand(engine: Any, raised: BaseException) -> None:
    engine(raised)
    assert wording.wording("1 +") == ""
    assert wording.syntax_error("1 +").startswith("compilation failed: ERROR: <input>: Syntax error: ")


def test_its_complaints_are_shown_below_the_line_and_only_once(engine: Any) -> None:
    engine(
        ValueError(
            "ERROR: <input>:1:4: Syntax error: no viable alternative\nERROR: <input>:1:1: Incomplete `call`"
        )
    )
    assert (
        wording.wording("1 +") == "ERROR: <input>:1:4: Syntax error: no viable alternative\n | 1 +\n | ...^"
    )


def test_an_end_that_was_asked_for_is_not_kept(engine: Any) -> None:
    engine(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        wording.wording("1 +")
