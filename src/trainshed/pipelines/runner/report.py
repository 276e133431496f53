"""The HTML page of a step: each block with what it put out, and the error if there was one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

from trainshed.pipelines.runner.execution import Outcome

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
pre { background: #f5f5f5; padding: .6rem; overflow-x: auto; border-radius: 4px; }
pre.code { background: #eef3f8; } pre.stderr { background: #fdeeee; } .error { border-left: 4px solid #c33; }
iframe { width: 100%; min-height: 12rem; border: 0; } summary { color: #666; cursor: pointer; }
"""
_IMAGES = ("image/png", "image/jpeg")


def render(step: str, outcome: Outcome) -> str:
    """Return the page. Everything but a block's own HTML is escaped, and that runs in a frame of its own."""
    parts = [
        "<!doctype html><html><head><meta charset='utf-8'>",
        f"<title>{escape(step)}</title><style>{_STYLE}</style></head><body><h1>{escape(step)}</h1>",
    ]
    if outcome.error is not None:
        parts.append(f"<pre class='error'>{escape(outcome.error)}</pre>")
    for ran in outcome.ran:
        if ran.block is not None:
            place = f"cell {ran.block.cell}" if ran.block.cell is not None else ran.block.role
            shown = " open" if ran.block.role == "step" else ""
            parts.append(
                f"<details{shown}><summary>{place}</summary><pre class='code'>{escape(ran.block.source)}</pre>"
            )
            parts.append("</details>")
        parts += (part for output in ran.outputs for part in _output(output))
    if not any(ran.outputs for ran in outcome.ran):
        parts.append("<p>This step did not put out anything.</p>")
    return "\n".join([*parts, "</body></html>\n"])


def _output(output: dict[str, Any]) -> Iterator[str]:
    if output["output_type"] == "stream":
        yield f"<pre class='{escape(output['name'])}'>{escape(_ANSI.sub('', output['text']))}</pre>"
    elif output["output_type"] == "error":
        yield f"<pre class='error'>{escape(_ANSI.sub('', chr(10).join(output['traceback'])))}</pre>"
    else:
        data = output.get("data", {})
        title = escape(str(data.get("text/plain", "")))
        image = next((kind for kind in _IMAGES if kind in data), None)
        if image is not None:
            yield f"<img alt='{title}' src='data:{image};base64,{escape(''.join(data[image].split()))}'>"
        elif "image/svg+xml" in data:
            yield _frame(data["image/svg+xml"])
        elif "text/html" in data:
            yield _frame(data["text/html"])
        elif title:
            yield f"<pre>{title}</pre>"


def _frame(html: str) -> str:
    return f"<iframe sandbox='allow-scripts' srcdoc='{escape(html)}'></iframe>"
