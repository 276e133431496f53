"""What can be wrong with a notebook: every rule with its code and severity, and what a finding is.

Codes are for people to search for and never change their meaning. The hundreds tell the stage: 0 reading, 1 tags and
order of steps, 2 names, 3 code, 4 parameters and metrics, 5 what a target cannot do, 6 functions.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trainshed.findings import Rule, Severity


class Diagnostic(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding: where it is and how to mend it.

    `cell` is the position in the notebook counted from 1, markdown cells included; `line` that in the cell, from 1.
    """

    code: str
    severity: Severity
    message: str
    cell: int | None = None
    line: int | None = None
    step: str | None = None
    fix: str = ""
    file: str | None = None

    @property
    def where(self) -> str:
        """The place in words, empty when the finding is about the whole notebook."""
        parts = [self.file] if self.file else []
        if self.cell is not None:
            parts.append(f"cell {self.cell}")
        if self.line is not None:
            parts.append(f"line {self.line}")
        if self.step is not None:
            parts.append(f"step {self.step}")
        return ", ".join(parts)


class NotebookError(Exception):
    """The notebook cannot become a pipeline. `diagnostics` says why."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        errors = [d for d in self.diagnostics if d.severity == Severity.ERROR]
        super().__init__("; ".join(f"{d.where}: {d.message}" if d.where else d.message for d in errors))


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: dict[str, Rule] = {
    rule.code: rule
    for rule in (
        Rule("NB001", "not-a-notebook", _E, "The file is no Jupyter notebook."),
        Rule("NB002", "unknown-setting", _W, "The notebook's metadata has a key that nobody reads."),
        Rule(
            "NB003", "wrong-setting", _E, "A setting in the notebook's metadata has the wrong type or value."
        ),
        Rule("NB004", "setting-without-effect", _W, "A setting of Kale that has no counterpart here."),
        Rule("NB101", "unknown-tag", _E, "A cell has a tag that is none of the language's."),
        Rule("NB102", "tag-without-step", _E, "A tag needs a `step:` tag in the same cell."),
        Rule("NB103", "several-steps", _E, "A cell names more than one step."),
        Rule("NB104", "unknown-previous-step", _E, "A `prev:` tag names a step that does not exist."),
        Rule("NB105", "cycle", _E, "Steps wait for one another."),
        Rule("NB106", "steps-named-alike", _E, "Two steps would have one name as resources."),
        Rule("NB107", "impossible-name", _E, "A step has a name that no resource may have."),
        Rule("NB108", "leading-cells", _W, "Untagged cells before the first tagged one are left out."),
        Rule("NB109", "ignored-tag", _W, "A tag has no effect where it stands."),
        Rule("NB110", "wrong-distribution", _E, "The tags that distribute a step contradict one another."),
        Rule("NB111", "metrics-in-the-middle", _E, "A metrics cell is followed by a step."),
        Rule("NB112", "legacy-tag", _W, "An old spelling of a tag was understood."),
        Rule("NB113", "no-steps", _I, "The notebook has no step; all of it becomes one."),
        Rule(
            "NB114", "split-step", _W, "A step's cells lie around those of another that shares names with it."
        ),
        Rule("NB115", "wrong-composition", _E, "A `notebook:` cell cannot be resolved."),
        Rule("NB201", "producer-not-before", _E, "A name comes from a step that this one does not wait for."),
        Rule("NB202", "undefined-name", _W, "Nothing before this step defines the name."),
        Rule("NB203", "two-producers", _E, "Two steps that run at the same time both set the name."),
        Rule(
            "NB204", "changed-in-parallel", _W, "Steps that run at the same time may both change the object."
        ),
        Rule(
            "NB205",
            "order-lost",
            _W,
            "A step earlier in the notebook changes the name, but need not run before.",
        ),
        Rule("NB206", "deleted-name", _E, "The name was deleted by the step that would hand it on."),
        Rule("NB207", "cannot-be-saved", _W, "An object of this kind cannot be handed to another step."),
        Rule(
            "NB208",
            "prelude-needs-step",
            _E,
            "An imports or functions cell needs at once what a step defines.",
        ),
        Rule(
            "NB209", "two-names-one-object", _W, "Two names of one object become two objects in another step."
        ),
        Rule("NB301", "syntax-error", _E, "The code cannot be parsed."),
        Rule("NB302", "install-in-step", _W, "A step installs packages when it runs."),
        Rule("NB303", "needs-ipython", _E, "The cell has magics or `!`, and IPython is not installed."),
        Rule("NB304", "program-too-large", _E, "The code of a step does not fit into an object."),
        Rule(
            "NB401", "parameter-statement", _E, "A parameters cell may only assign one literal to one name."
        ),
        Rule("NB402", "parameter-value", _E, "A parameter is an int, float, str or bool."),
        Rule("NB403", "parameters-alike", _W, "Parameters differ only in case."),
        Rule("NB404", "metrics-statement", _E, "A metrics cell may only print names."),
        Rule("NB405", "unknown-metric", _W, "No step defines the metric."),
        Rule("NB601", "pipeline-statement", _E, "The body of a `@pipeline` may only call steps."),
        Rule(
            "NB602",
            "step-call",
            _E,
            "A step is called with what it does not take, or gives what it does not return.",
        ),
        Rule(
            "NB603", "unknown-name", _E, "A `@step` or `@pipeline` uses a name that its file does not define."
        ),
        Rule("NB604", "no-function", _E, "A `@step` is not what can become a step's program."),
        Rule("NB501", "target-cannot", _W, "The target cannot express something that the notebook asks for."),
    )
}
"""Every rule by its code."""


def diagnostic(
    code: str,
    message: str,
    *,
    cell: int | None = None,
    line: int | None = None,
    step: str | None = None,
    fix: str = "",
) -> Diagnostic:
    """Return a finding of the rule with this code."""
    return Diagnostic(code, RULES[code].severity, message, cell, line, step, fix)


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Return whether any finding stops the compilation."""
    return any(d.severity == Severity.ERROR for d in diagnostics)


def ordered(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return each finding once, in the order of the notebook."""
    unique = dict.fromkeys(diagnostics)
    return tuple(sorted(unique, key=lambda d: (d.file or "", d.cell or 0, d.line or 0, d.code, d.message)))
