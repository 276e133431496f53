"""A pipeline as a picture: lines for a terminal, and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import msgspec

from trainshed.pipelines.ir import Pipeline, Step

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _MARGIN, _PORT = 150, 40, 50, 30, 20, 14
"""Sizes of the SVG in pixels: a box, the gaps between boxes, the edge, what an arrow takes of a box's height."""
_LETTER, _SMALL = 8, 6
"""Widths of letters in pixels: of a step's name, of names on arrows."""
_LONGEST = 24
_ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" fill="#888"/></marker></defs>'
)


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


class _Edge(msgspec.Struct, frozen=True):
    """An arrow: what a step waits for, with the names that it loads from there. `waits`: it says so itself."""

    start: str
    end: str
    names: str
    waits: bool


class _Layout(msgspec.Struct, frozen=True):
    """Where things are: `x` by level, `y` and height by row, `boxes` and `lanes` as (level, row).

    An arrow over several levels has a lane, a row of its own at each level between, so that it crosses no box.
    """

    width: int
    x: Sequence[int]
    y: Sequence[int]
    heights: Sequence[int]
    boxes: Mapping[str, tuple[int, int]]
    lanes: Mapping[_Edge, Sequence[tuple[int, int]]]


def svg(pipeline: Pipeline) -> str:
    """Return the graph as SVG: steps from left to right, arrows between them with the names that they carry.

    A dashed arrow carries names from a step further back, which the step does not name as previous.
    """
    edges = [edge for step in pipeline.steps for edge in _edges(step)]
    layout = _layout(pipeline, edges)
    total = layout.x[-1] + layout.width + _MARGIN
    height = layout.y[-1] + layout.heights[-1] + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height}" font-family="sans-serif"'
        ' font-size="13">',
        f"<title>{escape(pipeline.name)}</title>",
        _ARROW,
    ]
    parts += (part for edge in edges for part in _arrow(edge, edges, layout))
    parts += (part for step in pipeline.steps for part in _box(step, layout))
    return "\n".join([*parts, "</svg>\n"])


def _edges(step: Step) -> list[_Edge]:
    names: dict[str, list[str]] = {previous: [] for previous in step.previous}
    for wanted in step.inputs:
        names.setdefault(wanted.step, []).append(wanted.name)
    return [_Edge(start, step.name, ", ".join(own), start in step.previous) for start, own in names.items()]


def _layout(pipeline: Pipeline, edges: Sequence[_Edge]) -> _Layout:
    level = levels(pipeline)
    rows = dict.fromkeys(range(max(level.values()) + 1), 0)
    heights: dict[int, int] = {}
    boxes: dict[str, tuple[int, int]] = {}

    def take(at: int, height: int) -> tuple[int, int]:
        row = rows[at]
        rows[at] += 1
        heights[row] = max(heights.get(row, 0), height)
        return at, row

    for step in pipeline.steps:
        ends = [sum(e.end == step.name for e in edges), sum(e.start == step.name for e in edges)]
        boxes[step.name] = take(level[step.name], max(_HEIGHT, _PORT * (max(ends) + 1)))
    lanes = {
        edge: [take(at, _PORT) for at in range(level[edge.start] + 1, level[edge.end])] for edge in edges
    }
    width = max(_WIDTH, *(len(s.name + _workers(s)) * _LETTER + 20 for s in pipeline.steps))
    across = _ACROSS + max((len(_shown(edge)) for edge in edges), default=0) * _SMALL
    y = [_MARGIN]
    for row in range(len(heights) - 1):
        y.append(y[-1] + heights[row] + _DOWN)
    return _Layout(
        width,
        [_MARGIN + at * (width + across) for at in rows],
        y,
        [heights[row] for row in range(len(heights))],
        boxes,
        lanes,
    )


def _shown(edge: _Edge) -> str:
    return edge.names if len(edge.names) <= _LONGEST else f"{edge.names[: _LONGEST - 1]}…"


def _port(edge: _Edge, mine: Sequence[_Edge], end: int, layout: _Layout) -> int:
    """Return at which height an arrow meets a box: those of one box share its height, in the order of their other ends.

    `end` is 0 where it starts and -1 where it ends.
    """
    ways = {one: (layout.boxes[one.start], *layout.lanes[one], layout.boxes[one.end]) for one in mine}
    ordered = sorted(mine, key=lambda one: ways[one][1 if end == 0 else -2][1])
    row = ways[edge][end][1]
    return layout.y[row] + layout.heights[row] * (ordered.index(edge) + 1) // (len(mine) + 1)


def _arrow(edge: _Edge, edges: Sequence[_Edge], layout: _Layout) -> list[str]:
    first, last = layout.boxes[edge.start], layout.boxes[edge.end]
    x, y = (
        layout.x[first[0]] + layout.width,
        _port(edge, [e for e in edges if e.start == edge.start], 0, layout),
    )
    path = [f"M{x} {y}"]
    for at, row in layout.lanes[edge]:
        lane = layout.y[row] + layout.heights[row] // 2
        path += [_curve(x, y, layout.x[at], lane), f"H{layout.x[at] + layout.width}"]
        x, y = layout.x[at] + layout.width, lane
    end = layout.x[last[0]], _port(edge, [e for e in edges if e.end == edge.end], -1, layout)
    path.append(_curve(x, y, *end))
    dashes = "" if edge.waits else ' stroke-dasharray="4 3"'
    made = [f'<path d="{" ".join(path)}" fill="none" stroke="#888"{dashes} marker-end="url(#arrow)"/>']
    if edge.names:
        made.append(
            f'<text x="{end[0] - 10}" y="{end[1] - 3}" text-anchor="end" font-size="10" fill="#555"'
            f' stroke="#fff" stroke-width="3" paint-order="stroke">'
            f"{escape(_shown(edge))}<title>{escape(edge.names)}</title></text>"
        )
    return made


def _curve(x1: int, y1: int, x2: int, y2: int) -> str:
    middle = (x1 + x2) // 2
    return f"C{middle} {y1} {middle} {y2} {x2} {y2}"


def _box(step: Step, layout: _Layout) -> list[str]:
    level, row = layout.boxes[step.name]
    x, y, width, height = layout.x[level], layout.y[row], layout.width, layout.heights[row]
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="#eef3f8" stroke="#457"/>',
        f'<text x="{x + width // 2}" y="{y + height // 2 + 5}" text-anchor="middle">'
        f"{escape(step.name + _workers(step))}</text>",
    ]


def _loads(step: Step) -> Mapping[str, str]:
    by: dict[str, list[str]] = {}
    for wanted in step.inputs:
        by.setdefault(wanted.step, []).append(wanted.name)
    return {", ".join(names): producer for producer, names in by.items()}


def _workers(step: Step) -> str:
    return f" ×{step.distribution.workers} {step.distribution.strategy}" if step.distribution else ""
