"""What pods print tells a terminal nothing but colours, and a pipe gets it as it is."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainshed.cli.terminal import guarded, harmless
from trainshed.cli.view import PlainView

COMMANDS = {
    "title": "\x1b]0;owned\x07",
    "title, other end": "\x1b]2;owned\x1b\\",
    "title, 8 bits": "\x9d0;owned\x9c",
    "clipboard": "\x1b]52;c;cm0gLXJmIH4K\x07",
    "clipboard without end": "\x1b]52;c;cm0gLXJmIH4K",
    "link": "\x1b]8;;http://evil.example\x1b\\",
    "clear": "\x1b[2J\x1b[H",
    "clear, 8 bits": "\x9b2J",
    "cursor up": "\x1b[3A",
    "erase": "\x1b[K",
    "report": "\x1b[6n",
    "answerback": "\x1bP$q\x1b\\",
    "alternate screen": "\x1b[?1049h",
    "character set": "\x1b(0",
}
COLOURED = re.compile(r"\x1b\[[0-9;:]*m")


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_no_colour_is_left_out(name: str) -> None:
    assert harmless(f"loss {COMMANDS[name]}") == "loss "


def test_colours_stay_and_end_with_the_text() -> None:
    assert harmless("\x1b[1;38;5;200mred") == "\x1b[1;38;5;200mred\x1b[0m"
    assert harmless("\x1b[31mred\x1b[0m") == "\x1b[31mred\x1b[0m"
    assert harmless("plain\ttext\n") == "plain\ttext\n"


def test_single_control_characters_are_seen() -> None:
    assert harmless("bell\x07 back\x08 \x1bc \x85") == "bell^G back^H ^[c \\x85"


@given(st.text(alphabet=st.sampled_from("\x1b\x9b\x9d\x07\x9c\\[]();?0125;mKJHcPX\r\b a")))
def test_whatever_is_printed_the_terminal_is_told_colours_only(text: str) -> None:
    left = COLOURED.sub("", harmless(text))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", left)


async def test_logs_on_a_terminal_and_in_a_pipe() -> None:
    lines = [f"a{command}b" for command in COMMANDS.values() if not command.endswith("K")]
    lines += ["\x1b[32mgreen", "10%\r20%\r30%"]
    pipe, terminal = io.StringIO(), io.StringIO()
    with PlainView(guarded(file=pipe), None, prefixes=False) as view:
        await view.lines("worker-0", lines)
    with PlainView(guarded(file=terminal, force_terminal=True), None, prefixes=False) as view:
        await view.lines("worker-0", lines)
    assert pipe.getvalue() == "".join(f"{line}\n" for line in lines)
    assert terminal.getvalue() == "ab\n" * (len(lines) - 2) + "\x1b[32mgreen\x1b[0m\n30%\n"


def test_everything_else_that_is_printed_is_harmless_too() -> None:
    """Messages of pods stand in errors, tables, notes and the panel."""
    terminal = io.StringIO()
    console = guarded(file=terminal, force_terminal=True, color_system=None, width=80)
    table = Table.grid()
    table.add_row("cell\x1b]0;owned\x07", Text("\x1b[2Jtext"))
    console.print(table)
    console.print("[bold]note\x1b]0;owned\x07")
    console.out("\x1b[2Jline")
    assert not set(terminal.getvalue()) & {"\x1b", "\x07"}
    assert all(word in terminal.getvalue() for word in ("cell", "text", "note", "line"))


def test_what_is_ours_still_reaches_the_terminal() -> None:
    terminal = io.StringIO()
    console = guarded(file=terminal, force_terminal=True, color_system="standard")
    console.print("[bold]ours[/]")
    assert terminal.getvalue() == "\x1b[1mours\x1b[0m\n"
    assert isinstance(console, Console)
