"""What the blocks of a step put out: copied to this process's own streams as it comes, kept in the notebook format."""

from __future__ import annotations

import sys
from typing import Any

Output = dict[str, Any]


class Outputs:
    """Takes the messages of a kernel, block by block."""

    def __init__(self) -> None:
        self._block: list[Output] = []
        self._displays: dict[str, list[Output]] = {}
        self._clears_before_next = False

    def begin(self) -> list[Output]:
        """Return the list that what the next block puts out is kept in."""
        self._block = []
        self._clears_before_next = False
        return self._block

    def take(self, message: dict[str, Any]) -> None:
        """Show and keep one message of the kernel; those that are no output are nothing to us."""
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "stream":
            self._stream(content["name"], content["text"])
        elif kind in ("display_data", "execute_result"):
            self._display(kind, content)
        elif kind == "update_display_data":
            for shown in self._displays.get(_display_id(content), ()):
                shown |= {"data": content["data"], "metadata": content["metadata"]}
        elif kind == "clear_output":
            self._clears_before_next = bool(content["wait"])
            if not content["wait"]:
                self._block.clear()
        elif kind == "error":
            words = {key: content[key] for key in ("ename", "evalue", "traceback")}
            self._keep({"output_type": "error", **words})

    def _stream(self, name: str, text: str) -> None:
        stream = sys.stderr if name == "stderr" else sys.stdout
        stream.write(text)
        stream.flush()
        last = self._block[-1] if self._block and not self._clears_before_next else {}
        if last.get("name") == name:
            last["text"] += text
        else:
            self._keep({"output_type": "stream", "name": name, "text": text})

    def _display(self, kind: str, content: dict[str, Any]) -> None:
        if text := content["data"].get("text/plain"):
            print(text, flush=True)  # noqa: T201
        shown = {"output_type": kind, "data": content["data"], "metadata": content["metadata"]}
        self._keep(shown)
        if name := _display_id(content):
            self._displays.setdefault(name, []).append(shown)

    def _keep(self, output: Output) -> None:
        if self._clears_before_next:
            self._block.clear()
            self._clears_before_next = False
        self._block.append(output)


def _display_id(content: dict[str, Any]) -> str:
    return str((content.get("transient") or {}).get("display_id") or "")
