"""The language of cell tags, as a table, and what a cell's tags say.

Spellings are those of Kale 0.7 (`block:`), of Kale 2 (`image:`, `cache:`, `report:`, `secret:`, `notebook:`), of the
fork with distributed steps (`distribute:`, `numWorkers:`), and ours (`nprocPerNode:`, `retries:`, `timeout:`, `env:`,
`request:`, `toleration:`, `pull-secret:`).
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic
from trainshed.pipelines.notebook.cells import Cell
from trainshed.pipelines.notebook.nearest import nearest
from trainshed.pipelines.notebook.strategies import STRATEGIES

NAME = r"[_a-z][_a-z0-9]*"
_SEGMENT = r"[a-zA-Z0-9](?:[a-zA-Z0-9-_.]*[a-zA-Z0-9])?"
_KEY = rf"{_SEGMENT}(?:/{_SEGMENT})?"
_DNS = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"


class CellKind(StrEnum):
    """What a cell is for. Cells of a step are STEP; NONE means untagged."""

    NONE = "none"
    STEP = "step"
    SKIP = "skip"
    IMPORTS = "imports"
    FUNCTIONS = "functions"
    PARAMETERS = "pipeline-parameters"
    METRICS = "pipeline-metrics"
    NOTEBOOK = "notebook"


class Tag(msgspec.Struct, frozen=True):
    """One form of tag: how it is written and what it means. Its pattern's groups are its arguments."""

    name: str
    form: str
    pattern: re.Pattern[str]
    meaning: str
    since: str = "Kale 0.7"


def _tag(name: str, form: str, pattern: str, meaning: str, since: str = "Kale 0.7") -> Tag:
    return Tag(name, form, re.compile(pattern), meaning, since)


_FORK, _V2, _OURS = "the fork with distributed steps", "Kale 2", "Trainshed"

_strategies = ", ".join(f"`{name}` ({strategy.kind})" for name, strategy in STRATEGIES.items())

TAGS: tuple[Tag, ...] = (
    _tag(
        "skip", "skip", r"skip", "The cell is left out; untagged cells after it belong to the step before it."
    ),
    _tag("imports", "imports", r"imports", "The code runs at the start of every step."),
    _tag(
        "functions", "functions", r"functions", "The code runs at the start of every step, after the imports."
    ),
    _tag(
        "pipeline-parameters", "pipeline-parameters", r"pipeline-parameters", "Assigns the run's parameters."
    ),
    _tag("pipeline-metrics", "pipeline-metrics", r"pipeline-metrics", "Prints the run's metrics."),
    _tag(
        "step",
        "step:NAME",
        rf"(?:step|block):({NAME})?",
        "The cell is of this step; `block:` is the older word.",
    ),
    _tag("prev", "prev:NAME", rf"prev:({NAME})", "The step runs after this one. May be given several times."),
    _tag("annotation", "annotation:KEY:VALUE", rf"annotation:({_KEY}):(.*)", "An annotation of the pod."),
    _tag("label", "label:KEY:VALUE", rf"label:({_KEY}):(.*)", "A label of the pod."),
    _tag(
        "limit",
        "limit:RESOURCE:AMOUNT",
        r"limit:([-_a-zA-Z0-9./]+):([_a-zA-Z0-9.]+)",
        "A limit of the container: `limit:nvidia.com/gpu:1`.",
    ),
    _tag(
        "request",
        "request:RESOURCE:AMOUNT",
        r"request:([-_a-zA-Z0-9./]+):([_a-zA-Z0-9.]+)",
        "What the container asks for.",
        _OURS,
    ),
    _tag(
        "env", "env:NAME:VALUE", r"env:([a-zA-Z_][a-zA-Z0-9_]*):(.*)", "A variable of the environment.", _OURS
    ),
    _tag(
        "secret",
        "secret:SECRET:KEY:NAME",
        rf"secret:({_DNS}(?:\.{_DNS})*):([-._a-zA-Z0-9]+):([a-zA-Z_][a-zA-Z0-9_]*)",
        "A variable of the environment, from a Secret.",
        _V2,
    ),
    _tag("image", "image:IMAGE", r"image:(.+)", "The image of the step.", _V2),
    _tag(
        "cache", "cache:enabled", r"cache:(enabled|disabled)", "Whether results may be used again (KFP).", _V2
    ),
    _tag(
        "report",
        "report:enabled",
        r"report:(enabled|disabled)",
        "Whether the step writes an HTML report.",
        _V2,
    ),
    _tag("retries", "retries:N", r"retries:([0-9]+)", "How often the step is tried again.", _OURS),
    _tag(
        "timeout",
        "timeout:DURATION",
        r"timeout:((?:[0-9]+[hms])+)",
        "How long the step may take: `1h30m`.",
        _OURS,
    ),
    _tag(
        "toleration",
        "toleration:KEY=VALUE:EFFECT",
        rf"toleration:({_KEY})(?:=({_SEGMENT}))?(?::(NoSchedule|PreferNoSchedule|NoExecute))?",
        "The pod may run on nodes with this taint; without value or effect, with any.",
        _OURS,
    ),
    _tag(
        "pull-secret",
        "pull-secret:NAME",
        rf"pull-secret:({_DNS}(?:\.{_DNS})*)",
        "A Secret with which the image is pulled.",
        _OURS,
    ),
    _tag(
        "notebook",
        "notebook:NAME",
        rf"notebook:({NAME})",
        "The cell stands for another notebook, whose path is in its metadata `notebook_path`.",
        _V2,
    ),
    _tag(
        "distribute",
        "distribute:STRATEGY",
        r"distribute:([a-zA-Z]+)",
        f"The step runs on several workers: {_strategies}.",
        _FORK,
    ),
    _tag("numWorkers", "numWorkers:N", r"numWorkers:([1-9][0-9]*)", "How many workers.", _FORK),
    _tag(
        "nprocPerNode",
        "nprocPerNode:N",
        r"nprocPerNode:([1-9][0-9]*)",
        "How many processes torchrun starts in each worker of a `DDP` step.",
        _OURS,
    ),
    _tag(
        "numParameterServers",
        "numParameterServers:N",
        r"numParameterServers:([1-9][0-9]*)",
        "Understood, and reported as without effect.",
        _FORK,
    ),
)
"""Every form of tag. The reference page is made of this table."""

_SPECIAL = {
    kind.value: kind for kind in CellKind if kind not in (CellKind.NONE, CellKind.STEP, CellKind.NOTEBOOK)
}
_LEGACY_DISTRIBUTE = "distribute"
_LEGACY_WORKERS = re.compile(r"workers:([1-9][0-9]*)")


class Said(msgspec.Struct, frozen=True):
    """One tag of a cell, understood: the form's name and its arguments."""

    name: str
    args: tuple[str, ...]


class TaggedCell(msgspec.Struct, frozen=True):
    """A cell and what its tags say. `name` is that of the step or of the other notebook."""

    cell: Cell
    kind: CellKind
    name: str | None = None
    said: tuple[Said, ...] = ()

    def values(self, name: str) -> list[tuple[str, ...]]:
        """Return the arguments of each tag of this form, in order."""
        return [said.args for said in self.said if said.name == name]


def understand(text: str) -> Said | None:
    """Return what a tag says, or None when it is none of the language's."""
    for tag in TAGS:
        match = tag.pattern.fullmatch(text)
        if match:
            return Said(tag.name, tuple(group or "" for group in match.groups()))
    return None


def tagged(cell: Cell) -> tuple[TaggedCell, list[Diagnostic]]:
    """Return the cell with its tags understood. Wrong tags are named, and left out."""
    found: list[Diagnostic] = []
    said: list[Said] = []
    special: CellKind | None = None
    for text in _without_legacy(cell, found):
        if not isinstance(text, str):
            found.append(
                diagnostic(
                    "NB101",
                    f"tags must be strings, not {type(text).__name__}: {text!r}",
                    cell=cell.number,
                    fix="remove it",
                )
            )
            continue
        understood = understand(text)
        if understood is None:
            found.append(
                diagnostic("NB101", f"unrecognized tag: {text}", cell=cell.number, fix=_spelling(text))
            )
        elif understood.name in _SPECIAL:
            special = special or _SPECIAL[understood.name]
        else:
            said.append(understood)
    if special is not None:
        for other in said:
            found.append(
                diagnostic(
                    "NB109",
                    f"tag {other.name}: has no effect in a cell tagged {special}",
                    cell=cell.number,
                    fix="remove it",
                )
            )
        return TaggedCell(cell, special), found
    return _of_step(cell, said, found), found


def _of_step(cell: Cell, said: list[Said], found: list[Diagnostic]) -> TaggedCell:
    names = list(dict.fromkeys(s.args[0] for s in said if s.name == "step" and s.args[0]))
    others = [s.args[0] for s in said if s.name == "notebook"]
    rest = tuple(s for s in said if s.name not in ("step", "notebook"))
    if len(names) + len(others) > 1:
        found.append(
            diagnostic(
                "NB103",
                f"a cell can be of one step only, and this one names {', '.join(names + others)}",
                cell=cell.number,
                fix="split the cell",
            )
        )
    if others:
        return TaggedCell(cell, CellKind.NOTEBOOK, others[0], rest)
    if names:
        return TaggedCell(cell, CellKind.STEP, names[0], rest)
    for name in dict.fromkeys(s.name for s in rest):
        found.append(
            diagnostic(
                "NB102",
                f"tag {name}: needs a tag step:NAME in the same cell",
                cell=cell.number,
                fix="add step:NAME",
            )
        )
    return TaggedCell(cell, CellKind.NONE)


def _without_legacy(cell: Cell, found: list[Diagnostic]) -> list[object]:
    """Return the tags with `distribute` and `workers:N`, of an early image of the fork, in new words."""
    if _LEGACY_DISTRIBUTE not in cell.tags:
        return list(cell.tags)
    tags: list[object] = []
    for tag in cell.tags:
        workers = _LEGACY_WORKERS.fullmatch(tag) if isinstance(tag, str) else None
        if tag == _LEGACY_DISTRIBUTE:
            tags.append("distribute:MultiWorkerMirroredStrategy")
        elif workers:
            tags.append(f"numWorkers:{workers[1]}")
        else:
            tags.append(tag)
    found.append(
        diagnostic(
            "NB112",
            "tags distribute and workers:N are an old spelling",
            cell=cell.number,
            fix="write distribute:MultiWorkerMirroredStrategy and numWorkers:N",
        )
    )
    return tags


def _spelling(text: str) -> str:
    word = text.partition(":")[0]
    known = {tag.name: tag.form for tag in TAGS} | {"block": "step:NAME"}
    if word in known:
        return f"write it as {known[word]}; names have lower-case letters, digits and _"
    close = nearest(word, known)
    return f"did you mean {known[close]}?" if close else f"tags are {', '.join(tag.name for tag in TAGS)}"
