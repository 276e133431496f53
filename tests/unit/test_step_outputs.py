"""What a block puts out is shown as it comes and kept as a notebook has it."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.pipelines.runner.outputs import Outputs


def message(kind: str, **content: Any) -> dict[str, Any]:
    return {"header": {"msg_type": kind}, "content": content}


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return message("stream", name=name, text=text)


def display(text: str, name: str = "", kind: str = "display_data") -> dict[str, Any]:
    transient = {"display_id": name} if name else {}
    return message(kind, data={"text/plain": text}, metadata={}, transient=transient)


def kept(*messages: dict[str, Any]) -> list[Any]:
    """Return what is kept of one block's messages, in short."""
    outputs = Outputs()
    block = outputs.begin()
    for one in messages:
        outputs.take(one)
    return [o.get("text") or o.get("ename") or o["data"]["text/plain"] for o in block]


CLEAR, CLEAR_LATER = message("clear_output", wait=False), message("clear_output", wait=True)
ERROR = message("error", ename="ValueError", evalue="x", traceback=["line"])


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ((stream("a"), stream("b\n")), ["ab\n"]),
        ((stream("a"), stream("b", "stderr"), stream("c")), ["a", "b", "c"]),
        ((stream("a"), display("7"), stream("b")), ["a", "7", "b"]),
        ((stream("a"), CLEAR, stream("b")), ["b"]),
        ((stream("a"), CLEAR), []),
        ((stream("a"), CLEAR_LATER), ["a"]),
        ((stream("a"), CLEAR_LATER, stream("b")), ["b"]),
        ((stream("a"), CLEAR_LATER, display("7"), stream("b")), ["7", "b"]),
        ((display("1", "bar"), stream("a"), display("2", "bar", "update_display_data")), ["2", "a"]),
        ((display("2", "bar", "update_display_data"),), []),
        ((stream("a"), ERROR), ["a", "ValueError"]),
        ((message("status", execution_state="idle"), message("comm_open", data={})), []),
    ],
)
def test_what_is_kept(messages: tuple[dict[str, Any], ...], expected: list[str]) -> None:
    assert kept(*messages) == expected


def test_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    kept(stream("a\n"), stream("b\n", "stderr"), display("7"), display("8", kind="execute_result"), ERROR)
    assert capsys.readouterr() == ("a\n7\n8\n", "b\n"), "an error is told once the step has ended"


def test_a_display_of_an_earlier_block_is_updated() -> None:
    outputs = Outputs()
    first = outputs.begin()
    outputs.take(display("1", "bar"))
    second = outputs.begin()
    outputs.take(display("2", "bar", "update_display_data"))
    assert (first[0]["data"], second) == ({"text/plain": "2"}, [])
