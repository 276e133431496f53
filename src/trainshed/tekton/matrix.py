"""`matrix`: one task of a pipeline for each combination of some parameters."""

from __future__ import annotations

from itertools import product

from trainshed.kube.meta.objects import Object, objects, section
from trainshed.tekton.params import as_value
from trainshed.tekton.variables import Scope, Value, replace

Combination = dict[str, Value]


def combinations(task: Object, scope: Scope) -> list[Combination]:
    """Return what each run of the task gets beside its own parameters; an empty list where an array has no element.

    Of `include`, an entry that fits combinations of `params` adds to those, and one that fits none is a run of its own.
    """
    matrix = section(task, "matrix")
    axes: list[tuple[str, list[str]]] = []
    for param in objects(matrix, "params"):
        value = as_value(replace(param.get("value"), scope))
        axes.append((str(param["name"]), value if isinstance(value, list) else [str(value)]))
    # The first parameter changes fastest: results of the runs, in order, are an array that others index.
    names, values = [n for n, _ in reversed(axes)], [v for _, v in reversed(axes)]
    found: list[Combination] = (
        [dict(reversed([*zip(names, one, strict=True)])) for one in product(*values)] if axes else []
    )
    base = [dict(c) for c in found]
    for entry in objects(matrix, "include"):
        extra = {str(p["name"]): as_value(replace(p.get("value"), scope)) for p in objects(entry, "params")}
        shared = [name for name in extra if name in dict(axes)]
        fitting = [i for i, c in enumerate(base) if all(c[name] == extra[name] for name in shared)]
        if fitting and (shared or base):
            for index in fitting:
                found[index].update(extra)
        else:
            found.append(dict(extra))
    return found


def is_fanned_out(task: Object) -> bool:
    """Return whether the task has a matrix."""
    matrix = section(task, "matrix")
    return bool(matrix.get("params") or matrix.get("include"))
