"""Changes one operator at a time in a copy of the source, and sees whether the module's tests notice.

    python -m bench.mutants trainshed.jobs.engine.limits trainshed.kube.patch.strategic
    python -m bench.mutants trainshed.kube.patch.strategic --line 159        every mutant of a line
    python -m bench.mutants trainshed.kube.wire.body --tests tests/unit/test_body.py

A mutant that survives is a gap in the tests, or changes nothing that can be seen (an equivalent mutant): look at it.
Each meets the tests of `tests/unit` and `tests/histories` that import the module or are named after it, a built-in kind
also those of all kinds; tests of a larger kind may kill more.
By hand only, never part of `./check`: a mutant costs as long as its tests.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_SECONDS = 120
"""A mutant that loops costs this much: tests that search for counterexamples are slow to give up."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}


class Mutant(NamedTuple):
    """A changed module: `line` of the change, the text `before` and `after`, and the whole `source`."""

    line: int
    before: str
    after: str
    source: str


def mutations(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what can stand in the place of one node."""
    match node:
        case ast.Compare(ops=[*ops]):
            for place, operator in enumerate(ops):
                other = copy.deepcopy(node)
                other.ops[place] = _COMPARISONS[type(operator)]()
                yield other
        case ast.BoolOp(op=operator):
            other_bool = copy.deepcopy(node)
            other_bool.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield other_bool
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(op=arithmetic) if type(arithmetic) in _ARITHMETIC:
            other_sum = copy.deepcopy(node)
            other_sum.op = _ARITHMETIC[type(arithmetic)]()
            yield other_sum
        case ast.Constant(value=bool(truth)):
            yield ast.Constant(not truth)
        case ast.Constant(value=int(number)):
            yield ast.Constant(number + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))


def mutants(source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines. Annotations and messages stay as they are."""
    tree = ast.parse(source)
    found: list[Mutant] = []
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            nodes = value if isinstance(value, list) else [value]
            for place, node in enumerate(nodes):
                if not isinstance(node, (ast.expr, ast.stmt)):
                    continue
                for other in mutations(node):
                    before, after = ast.unparse(node), ast.unparse(other)
                    _put(parent, field, value, place, other)
                    changed = ast.unparse(ast.fix_missing_locations(tree))
                    _put(parent, field, value, place, node)
                    if before != after:
                        found.append(Mutant(node.lineno, before, after, changed))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.before, mutant.after))


def _put(parent: ast.AST, field: str, value: object, place: int, node: ast.AST) -> None:
    if isinstance(value, list):
        value[place] = node
    else:
        setattr(parent, field, node)


OF_ALL_KINDS = (
    "test_builtin.py",
    "test_defaults.py",
    "test_registry.py",
    "test_tables.py",
    "test_validation.py",
    "test_validation_pod.py",
)
"""Tests that meet a built-in kind by the registry."""


def tests_of(module: str) -> list[str]:
    """Return the tests that import a module or have its name in theirs: the quick ones first, then the searches."""
    package, _, name = module.rpartition(".")
    words = (module, f"from {package} import {name}\n", f"from {package} import {name} ")
    return [
        str(path.relative_to(ROOT))
        for room in ("tests/unit", "tests/histories")
        for path in sorted((ROOT / room).glob("test_*.py"))
        if name in path.stem.split("_")
        or any(word in path.read_text() for word in words)
        or (module.startswith("trainshed.kube.builtin.") and path.name in OF_ALL_KINDS)
    ]


def passes(source: Path, tests: list[str]) -> bool:
    """Whether the tests pass with the package in `source`. A test that hangs fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode == 5:
        sys.exit(f"no tests were found in {tests}")
    return done.returncode == 0


def examine(module: str, tests: list[str], chosen: list[Mutant], source: Path) -> int:
    """Run the tests on each mutant, print its fate, and return how many were killed."""
    file = source / (module.replace(".", "/") + ".py")
    original = file.read_text()
    shown = (ROOT / "src" / file.relative_to(source)).relative_to(ROOT)
    killed = 0
    for mutant in chosen:
        file.write_text(mutant.source)
        survives = passes(source, tests)
        killed += not survives
        fate = "SURVIVED" if survives else "killed  "
        print(f"{fate} {shown}:{mutant.line}: {mutant.before[:70]}  →  {mutant.after[:70]}", flush=True)
    file.write_text(original)
    return killed


def main() -> None:
    """Examine the modules that are named; see the head of this file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="dotted name")
    parser.add_argument("--count", type=int, default=9, help="mutants of each module, at random (9)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice (0)")
    parser.add_argument("--line", type=int, help="all mutants of this line instead")
    parser.add_argument("--tests", nargs="+", help="run these instead of the module's own")
    arguments = parser.parse_args()
    killed = total = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for module in arguments.modules:
            if not (source / (module.replace(".", "/") + ".py")).exists():
                sys.exit(f"{module} is no module of the source")
            tests = arguments.tests or tests_of(module)
            if not tests or not passes(source, tests):
                sys.exit(f"{module}: its tests have to be there and to pass unchanged: {tests}")
            found = mutants((source / (module.replace(".", "/") + ".py")).read_text())
            if arguments.line is not None:
                chosen = [mutant for mutant in found if mutant.line == arguments.line]
            else:
                chosen = random.Random(arguments.seed).sample(found, min(arguments.count, len(found)))
            here = examine(module, tests, sorted(chosen, key=lambda mutant: mutant.line), source)
            print(f"{module}: {here} of {len(chosen)} killed by {' '.join(tests)}\n", flush=True)
            killed, total = killed + here, total + len(chosen)
    print(f"{killed} of {total} mutants killed")


if __name__ == "__main__":
    main()
