"""The program of a step as text to read: what is loaded, every block with its cell, what is saved."""

from __future__ import annotations

from trainshed.pipelines.ir import Pipeline, Step


def listing(pipeline: Pipeline, step: Step) -> str:
    """Return the program in the order in which it runs, as Python with `# %%` between the cells."""
    parts: list[str] = []
    by_name = {p.name: p for p in pipeline.parameters}
    if step.distribution is not None:
        parts.append(
            f"# %% {step.distribution.workers} workers, {step.distribution.strategy}; the first one saves"
        )
    if step.parameters:
        lines = [f"{name} = {by_name[name].default!r}  # or what the run says" for name in step.parameters]
        parts.append("\n".join(["# %% parameters", *lines]))
    parts += [_block(b.role, b.cell, b.source) for b in step.blocks if b.role != "step"]
    if step.inputs:
        lines = [f"#   {i.name} (step {i.step})" for i in step.inputs]
        parts.append("\n".join(["# %% load", *lines]))
    parts += [_block("step", b.cell, b.source) for b in step.blocks if b.role == "step"]
    if step.metrics:
        lines = [f"#   {m.key} = {m.variable}" for m in step.metrics]
        parts.append("\n".join(["# %% metrics", *lines]))
    if step.outputs:
        parts.append("\n".join(["# %% save", *(f"#   {name}" for name in step.outputs)]))
    return "\n\n".join(parts) + "\n"


def _block(role: str, cell: int | None, source: str) -> str:
    what = {"imports": "imports", "functions": "functions"}.get(role, "")
    place = f"cell {cell}" if cell is not None else "from the steps before"
    return f"# %% {place}{f' ({what})' if what else ''}\n{source.rstrip()}"
