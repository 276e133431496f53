"""The data edges of a pipeline.

A name is loaded from the nearest step before that has it, even if that step only looked at it: then an object that was
changed in place is handed on as it is. The nearest by distance is refused when another step, which runs after it and
before the reader, may have changed the object. Two steps that may run at the same time and both set
a name are an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic
from trainshed.pipelines.graph.order import ancestors
from trainshed.pipelines.names.usage import Carried, Level, Need, Usage
from trainshed.pipelines.notebook.literals import Metric


class StepNames(msgspec.Struct, frozen=True):
    """A step as the search for edges sees it. `order` is its place in the notebook."""

    name: str
    order: int
    cell: int
    previous: tuple[str, ...]
    usage: Usage


class Wiring(msgspec.Struct):
    """What a step loads (name → step), saves, imports again, and which parameters and metrics are its."""

    inputs: dict[str, str] = {}
    outputs: set[str] = set()
    imports: list[str] = []
    parameters: set[str] = set()
    metrics: list[Metric] = []


class Edges:
    """Finds the edges of steps that stand in topological order."""

    def __init__(self, steps: Sequence[StepNames], parameters: Sequence[str]) -> None:
        self._steps = {step.name: step for step in steps}
        self.parameters = frozenset(parameters)
        self._previous = {step.name: step.previous for step in steps}
        self._ancestors = {name: ancestors(name, self._previous) for name in self._previous}
        self._before = {name: frozenset(found) for name, found in self._ancestors.items()}
        self._mentions = {step.name: dict(step.usage.mentions) for step in steps}
        self._carries: dict[str, dict[str, Carried]] = {step.name: dict(step.usage.carries) for step in steps}
        self._imports: dict[str, dict[str, str]] = {step.name: dict(step.usage.imports) for step in steps}
        self._set_by_calls: dict[str, set[str]] = {step.name: set() for step in steps}
        self.wiring = {step.name: Wiring() for step in steps}
        self.found: list[Diagnostic] = []

    def connect(self, metrics: Sequence[Metric]) -> None:
        """Fill `wiring` and `found`."""
        for step in self._steps.values():
            self._resolve(step)
        for step in self._steps.values():
            self._check_order(step)
        for metric in metrics:
            self._assign(metric)

    def _resolve(self, step: StepNames) -> None:
        waiting = list(step.usage.needs)
        asked: set[str] = set()
        while waiting:
            need = waiting.pop(0)
            if need.name in asked:
                continue
            asked.add(need.name)
            carried = self._supply(step, need)
            for name, use in sorted(carried.items()):
                mentions = self._mentions[step.name]
                mentions[name] = max(use.level, mentions.get(name, Level.READ))
                if use.level == Level.BIND:
                    self._set_by_calls[step.name].add(name)
                if name not in need.bound and name != need.name:
                    waiting.append(Need(name, need.cell, need.line, True, bound=need.bound))

    def _supply(self, step: StepNames, need: Need) -> Carried:
        """Connect one name; return what comes along with its object."""
        name, wiring = need.name, self.wiring[step.name]
        if name in self.parameters and not self._setters(step, name, Level.BIND):
            wiring.parameters.add(name)
            return {}
        if need.prelude and not self._setters(step, name, self._least_change(step, name)):
            return {}
        producer = self._producer(step, need)
        if producer is None:
            if not need.maybe:
                self._unresolved(step, need)
            return {}
        if name in self._steps[producer].usage.deleted:
            self._deleted(step, need, producer)
            return {}
        if name in self.parameters:
            wiring.parameters.discard(name)
        imported = self._imports[producer].get(name)
        if imported is not None:
            wiring.imports += [line for line in imported.splitlines() if line not in wiring.imports]
            self._imports[step.name].setdefault(name, imported)
            return {}
        if name in self._steps[producer].usage.uncertain and name not in self.wiring[producer].inputs:
            # Set in a branch that may not run: then the value from before is the one to hand on.
            self._supply(self._steps[producer], Need(name, need.cell, need.line, maybe=True))
        wiring.inputs[name] = producer
        self.wiring[producer].outputs.add(name)
        carried = self._carries[producer].get(name, {})
        self._carries[step.name].setdefault(name, carried)
        return carried

    def _least_change(self, step: StepNames, name: str) -> Level:
        """What another step must do to a name that every step gets from the imports and functions cells."""
        return Level.TOUCH if name in step.usage.prelude_variables else Level.BIND

    def _setters(self, step: StepNames, name: str, least: Level) -> list[str]:
        return [other for other in self._ancestors[step.name] if self._mentions[other].get(name, -1) >= least]

    def _has(self, step: str, name: str) -> bool:
        """Return whether a step has the name at its end."""
        usage = self._steps[step].usage
        if name in usage.deleted:
            return False
        wired = self.wiring[step]
        return (
            name in usage.bound
            or name in self._set_by_calls[step]
            or name in wired.inputs
            or name in self._imports[step]
            or (name in usage.prelude_variables and name in self._mentions[step])
        )

    def _producer(self, step: StepNames, need: Need) -> str | None:
        name = need.name
        having = [a for a in self._ancestors[step.name] if name in self._mentions[a]]
        having = [a for a in having if self._has(a, name) or name in self._steps[a].usage.deleted]
        setting = self._last([a for a in having if self._mentions[a][name] >= Level.CHANGE])
        if len(setting) > 1:
            self._two_producers(step, need, setting)
        base = setting[0] if setting else None
        if base is None and need.prelude:
            base = next(iter(self._last([a for a in having if self._mentions[a][name] == Level.TOUCH])), None)
        following = [a for a in having if base is None or a == base or base in self._before[a]]
        touching = [a for a in following if self._mentions[a][name] >= Level.TOUCH]
        final = [a for a in following if not any(a in self._before[other] for other in touching)]
        if not final:
            return None
        last = self._last([a for a in touching if a != base])
        if len(last) > 1 and len(setting) < 2:
            self._changed_in_parallel(step, need, last, final[0])
        return final[0]

    def _last(self, steps: Sequence[str]) -> list[str]:
        """Return those after which none of the others runs."""
        return [a for a in steps if not any(a in self._before[b] for b in steps)]

    def _check_order(self, step: StepNames) -> None:
        """Find names whose value depends on the order of the notebook, which the pipeline does not keep."""
        wiring = self.wiring[step.name]
        sources: dict[str, str | None] = dict(wiring.inputs)
        initial = {
            need.name for need in step.usage.needs if need.prelude and need.name not in step.usage.imports
        }
        for name in sorted(wiring.parameters | initial):
            sources.setdefault(name, None)
        variables = step.usage.prelude_variables
        least = {n: Level.BIND if n in initial and n not in variables else Level.CHANGE for n in sources}
        for name, producer in sources.items():
            known = self._before[step.name] | (self._before[producer] | {producer} if producer else set())
            since = self._steps[producer].order if producer else -1
            for other in self._steps.values():
                between = since < other.order < step.order and other.name not in known
                same_again = name in other.usage.imports
                if not between or same_again or self._mentions[other.name].get(name, -1) < least[name]:
                    continue
                gets = (
                    f"gets {name} from step {producer}" if producer else f"gets {name} as it is at the start"
                )
                self.found.append(
                    diagnostic(
                        "NB205",
                        f"step {other.name} stands before and changes {name}, but step {step.name} does not wait for"
                        f" it and {gets}",
                        cell=step.cell,
                        step=step.name,
                        fix=f"add prev:{other.name} if its value is meant",
                    )
                )

    def _assign(self, metric: Metric) -> None:
        """Give a metric to the last step that has the variable."""
        leaves = set(self._previous) - {p for previous in self._previous.values() for p in previous}
        self._previous[""] = tuple(sorted(leaves))
        order = ancestors("", self._previous)
        del self._previous[""]
        having = [name for name in order if metric.variable in self._mentions[name]]
        owners = [
            n for n in having if self._has(n, metric.variable) or metric.variable in self.wiring[n].parameters
        ]
        changing = [n for n in owners if self._mentions[n][metric.variable] >= Level.CHANGE]
        last = [n for n in owners if not any(n in self._before[c] for c in changing)]
        if not last:
            self.found.append(
                diagnostic(
                    "NB405",
                    f"metric {metric.variable}: no step defines it",
                    cell=metric.cell,
                    fix="set it in a step, or remove the print",
                )
            )
            return
        self.wiring[last[0]].metrics.append(metric)

    # Findings.

    def _unresolved(self, step: StepNames, need: Need) -> None:
        def found(code: str, message: str, fix: str) -> None:
            self.found.append(
                diagnostic(code, message, fix=fix, cell=need.cell, line=need.line, step=step.name)
            )

        before = self._before[step.name]
        others = [
            s
            for s in self._steps.values()
            if need.name in s.usage.bound and s.name not in before and s is not step
        ]
        earlier = [s for s in others if s.order < step.order]
        if earlier:
            nearest = max(earlier, key=lambda s: s.order)
            found(
                "NB201",
                f"{need.name} is defined in step {nearest.name}, which this one does not wait for",
                f"add prev:{nearest.name}",
            )
        elif others:
            nearest = min(others, key=lambda s: s.order)
            found(
                "NB201",
                f"{need.name} is defined in step {nearest.name}, which stands behind",
                "move the definition",
            )
        elif step.usage.stars or self._star_before(step):
            return
        else:
            found(
                "NB202",
                f"{need.name} is not defined in step {step.name} or before",
                "define it, or check its spelling",
            )

    def _star_before(self, step: StepNames) -> bool:
        """Import again what a step before imported with a star; say whether one did."""
        for ancestor in self._ancestors[step.name]:
            stars = self._steps[ancestor].usage.stars
            if stars:
                imports = self.wiring[step.name].imports
                imports += [text for text in stars if text not in imports]
                return True
        return False

    def _two_producers(self, step: StepNames, need: Need, producers: Sequence[str]) -> None:
        names = sorted(producers)
        self.found.append(
            diagnostic(
                "NB203",
                f"{need.name} is set by {' and by '.join(names)}, which may run at the same time",
                cell=need.cell,
                line=need.line,
                step=step.name,
                fix=f"let one wait for the other (prev:{names[0]} in {names[1]}), or use two names",
            )
        )

    def _changed_in_parallel(self, step: StepNames, need: Need, steps: Sequence[str], chosen: str) -> None:
        names = sorted(steps)
        self.found.append(
            diagnostic(
                "NB204",
                f"{need.name} may be changed by {' and by '.join(names)}, which may run at the same time; this step"
                f" gets it from {chosen}",
                cell=need.cell,
                line=need.line,
                step=step.name,
                fix="let one wait for the other if both changes matter",
            )
        )

    def _deleted(self, step: StepNames, need: Need, by: str) -> None:
        self.found.append(
            diagnostic(
                "NB206",
                f"{need.name} was deleted by step {by}",
                cell=need.cell,
                line=need.line,
                step=step.name,
                fix=f"remove the del in step {by}",
            )
        )
