"""Text of pods and manifests on a terminal: it may have colours, and tells the terminal nothing else.

A program that runs in a pod writes the pod's log, its termination message and, if it may, objects. On a terminal some
characters are commands: they retitle or clear the window, move the cursor over what stands there, ask the terminal to
type something, or put text on the clipboard (ECMA-48; xterm's "Control Sequences"). What goes into a pipe or a file is
left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook
from rich.segment import Segment

from trainshed.sdk.logformats import last_frame

_RESET = "\x1b[0m"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SEQUENCE = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]{0,64}m)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: cursor, erasing, modes
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]+[0-~]"  # character sets and the like
    r"|(?P<other>[\x00-\x08\x0b-\x1f\x7f-\x9f])"
)
_LAST_ASCII = 0x7F


def harmless(text: str) -> str:
    """Return `text` with its colours, without other control sequences, and single control characters made visible.

    As `^[` for escape, as `cat -v` has it. Tabs and ends of lines stay. A colour ends with the text.
    """
    if _CONTROL.search(text) is None:
        return text
    coloured = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal coloured
        if match["colour"] is not None:
            coloured = True
            return match[0]
        return "" if match["other"] is None else _visible(ord(match["other"]))

    out = _SEQUENCE.sub(replaced, text)
    return f"{out}{_RESET}" if coloured and not out.endswith((_RESET, "\x1b[m")) else out


def _visible(code: int) -> str:
    return f"^{chr(code ^ 0x40)}" if code <= _LAST_ASCII else f"\\x{code:02x}"


class _Harmless:
    """What `renderable` shows, made harmless; what rich itself tells the terminal stays."""

    def __init__(self, renderable: ConsoleRenderable) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self._renderable, options):
            yield Segment(text if control else harmless(text), style, control)


class _Hook(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Harmless(each) for each in renderables]


def guarded(**options: Any) -> Console:
    """Return a console of `options` that prints nothing to a terminal but what is harmless."""
    console = Console(**options)
    if console.is_terminal:
        console.push_render_hook(_Hook())
    return console


def harmless_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of a log as they are shown on a terminal: of one that was drawn over itself, what would be left."""
    for line in lines:
        yield harmless(last_frame(line))
