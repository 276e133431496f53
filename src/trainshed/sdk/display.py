"""A training job as HTML, for notebooks. Pure: facts in, text out. Everything that a user or a pod wrote is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import msgspec

from trainshed.sdk.progress import Progress, sparkline
from trainshed.sdk.state import Replica

_COLOURS = {"Succeeded": "#1a7f37", "Running": "#1a7f37", "Failed": "#cf222e", "Gone": "#cf222e"}
_OTHER = "#9a6700"
_CELL = "text-align:left;padding:1px 12px 1px 0"


class JobFacts(msgspec.Struct, frozen=True):
    """What is shown of a job. `tails` are the last log lines by replica."""

    kind: str
    namespace: str
    name: str
    state: str
    message: str = ""
    replicas: Sequence[Replica] = ()
    progress: Progress = Progress()
    tails: Mapping[str, Sequence[str]] = {}


def job_html(facts: JobFacts) -> str:
    """Return a fragment of HTML: the job and its state, a row for each replica, progress, and the last lines."""
    colour = _COLOURS.get(facts.state, _OTHER)
    parts = [
        '<div class="trainshed-job">',
        f"<b>{escape(facts.kind)}</b> {escape(facts.namespace)}/{escape(facts.name)} "
        f'<b style="color:{colour}">{escape(facts.state)}</b>',
    ]
    if facts.message:
        parts.append(f"<div>{escape(facts.message)}</div>")
    parts += _progress(facts.progress)
    if facts.replicas:
        rows = "".join(map(_row, facts.replicas))
        head = "".join(f'<th style="{_CELL}">{title}</th>' for title in ("Replica", "State", "Restarts", ""))
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
    for replica, lines in facts.tails.items():
        if lines:
            text = escape("\n".join(lines))
            parts.append(f"<details><summary>{escape(replica)}</summary><pre>{text}</pre></details>")
    return "\n".join([*parts, "</div>"])


def _row(replica: Replica) -> str:
    cells = (replica.name, replica.state, str(replica.restarts or ""), replica.detail)
    return "<tr>" + "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in cells) + "</tr>"


def _progress(progress: Progress) -> list[str]:
    said = []
    share = progress.part if progress.fraction is None else progress.fraction
    if share is not None:
        where = "" if progress.epoch is None else f"epoch {progress.epoch} "
        of = f" of {progress.total:g} steps" if progress.fraction is None else ""
        said.append(f'{where}<progress value="{share:.3f}"></progress> {share * 100:.0f}%{of}')
    if progress.losses:
        said.append(
            f"{escape(progress.loss_name)} {progress.losses[-1]:.4f} {sparkline(progress.losses, 40)}"
        )
    if progress.accuracy is not None:
        said.append(f"accuracy {progress.accuracy:.4f}")
    return [f"<div>{' · '.join(said)}</div>"] if said else []
