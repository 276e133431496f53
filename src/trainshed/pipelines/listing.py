"""The program of a step as text to read: what is loaded, every block with its cell, what is saved."""

from __future__ import annotations

import re

from trainshed.pipelines.ir import Block, Pipeline, Step


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
    parts += [_block(b) for b in step.blocks if b.role != "step"]
    if step.inputs:
        lines = [f"#   {i.name} (step {i.step})" for i in step.inputs]
        parts.append("\n".join(["# %% load", *lines]))
    parts += [_block(b) for b in step.blocks if b.role == "step"]
    if step.metrics:
        lines = [f"#   {m.key} = {m.variable}" for m in step.metrics]
        parts.append("\n".join(["# %% metrics", *lines]))
    if step.outputs:
        parts.append("\n".join(["# %% save", *(f"#   {name}" for name in step.outputs)]))
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    what = f" ({block.role})" if block.role != "step" else ""
    source = block.source.rstrip()
    if block.file is not None:
        place, what = f"{block.file}, from line {block.line}", ""
        source = re.sub(r"\n{4,}", "\n\n\n", source)
    elif block.cell is not None:
        place = f"cell {block.cell}"
    else:
        place = "from the steps before" if block.role != "step" else "call"
    return f"# %% {place}{what}\n{source}"
