"""A pipeline as a picture: lines for a terminal, and SVG."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from trainshed.pipelines.ir import Pipeline, Step

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _MARGIN, _LETTER = 150, 40, 90, 30, 20, 8
"""Sizes of the SVG in pixels: a box, the gaps between boxes, the edge, the width of a letter."""


def levels(pipeline: Pipeline) -> dict[str, int]:
    """Return how many steps must end before each, on the longest way."""
    found: dict[str, int] = {}
    for step in pipeline.steps:
        found[step.name] = max((found[p] + 1 for p in step.previous), default=0)
    return found


def lines(pipeline: Pipeline) -> list[str]:
    """Return a line for each step, indented by its level, with what it waits for and what it loads."""
    level = levels(pipeline)
    heads = {s.name: "  " * level[s.name] + s.name + _workers(s) for s in pipeline.steps}
    after = {s.name: f"after {', '.join(s.previous)}" if s.previous else "" for s in pipeline.steps}
    first = max(map(len, heads.values()))
    second = max(map(len, after.values()))
    made = []
    for step in pipeline.steps:
        loads = ", ".join(f"{name} from {by}" for name, by in _loads(step).items())
        made.append(f"{heads[step.name]:<{first}}  {after[step.name]:<{second}}  {loads}".rstrip())
    return made


def svg(pipeline: Pipeline) -> str:
    """Return the graph as SVG: steps from left to right, data names on the lines between them."""
    level = levels(pipeline)
    width = max(_WIDTH, *(len(s.name + _workers(s)) * _LETTER + 20 for s in pipeline.steps))
    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for step in pipeline.steps:
        row = rows.get(level[step.name], 0)
        rows[level[step.name]] = row + 1
        places[step.name] = (
            _MARGIN + level[step.name] * (width + _ACROSS),
            _MARGIN + row * (_HEIGHT + _DOWN),
        )
    total = _MARGIN * 2 + (max(level.values()) + 1) * (width + _ACROSS) - _ACROSS
    height = _MARGIN * 2 + max(rows.values()) * (_HEIGHT + _DOWN) - _DOWN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height}" font-family="sans-serif"'
        ' font-size="13">',
        f"<title>{escape(pipeline.name)}</title>",
    ]
    for step in pipeline.steps:
        for previous in step.previous:
            parts += _line(places[previous], places[step.name], width, _names(step, previous))
    parts += (part for step in pipeline.steps for part in _box(step, places[step.name], width))
    return "\n".join([*parts, "</svg>\n"])


def _loads(step: Step) -> Mapping[str, str]:
    by: dict[str, list[str]] = {}
    for wanted in step.inputs:
        by.setdefault(wanted.step, []).append(wanted.name)
    return {", ".join(names): producer for producer, names in by.items()}


def _names(step: Step, producer: str) -> str:
    return ", ".join(i.name for i in step.inputs if i.step == producer)


def _workers(step: Step) -> str:
    return f" ×{step.distribution.workers} {step.distribution.strategy}" if step.distribution else ""


def _line(start: tuple[int, int], end: tuple[int, int], width: int, names: str) -> list[str]:
    x1, y1, x2, y2 = start[0] + width, start[1] + _HEIGHT // 2, end[0], end[1] + _HEIGHT // 2
    middle = (x1 + x2) // 2
    made = [f'<path d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}" fill="none" stroke="#888"/>']
    if names:
        shown = names if len(names) <= 24 else f"{names[:23]}…"
        made.append(
            f'<text x="{x2 - 4}" y="{y2 - 5}" text-anchor="end" font-size="10" fill="#555">{escape(shown)}'
            f"<title>{escape(names)}</title></text>"
        )
    return made


def _box(step: Step, place: tuple[int, int], width: int) -> list[str]:
    x, y = place
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{_HEIGHT}" rx="6" fill="#eef3f8" stroke="#457"/>',
        f'<text x="{x + width // 2}" y="{y + _HEIGHT // 2 + 5}" text-anchor="middle">'
        f"{escape(step.name + _workers(step))}</text>",
    ]
