"""A kind is named in its own two files and in the three registries, and nowhere else in the program.

What counts as naming it: an identifier, or a text that the program works with, which holds the kind's name, its
singular, its plural, or its framework's label as a word of its own. What does not: docstrings, and the texts of
declared fields and of arguments of commands (`doc`, `core`, `help`), which explain by example.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import SRC, files, text
from trainshed.api.kind import Kind
from trainshed.api.registry import KINDS
from trainshed.cluster.node.pod.plainfields import OPEN_MPI
from trainshed.jobs.v1.frameworks import FRAMEWORKS

REGISTRIES = {
    SRC / "api/registry.py",
    SRC / "jobs/v1/frameworks/__init__.py",
    SRC / "pipelines/notebook/strategies.py",
}
RUNNER = SRC / "pipelines/runner"
"""Saves values of libraries, some of which are called as the framework of a kind is."""
EXPLAINING = {"doc", "core", "Argument", "Option"}
BORROWED = {
    # The event reason that upstream gives to another kind's jobs; clients know it.
    ("jobs/v1/frameworks/mx.py", "MPIJobFailedValidation"),
    # A node shares its cores among ranks, and knows how many there are by the variable that any framework's pods have.
    ("cluster/node/pod/environment.py", "PADDLE_NNODES"),
    # The step runner is apart from the kinds: it tells frameworks by their variables, and names them to people.
    ("pipelines/runner/rendezvous.py", "JAX"),
    # The library Open MPI, whatever kind of job starts it: its ranks do not find one another without networks of pods.
    *(("cluster/node/pod/plainfields.py", text) for text in ("OPEN_MPI", "_MPI_RANKS_ELSEWHERE", OPEN_MPI)),
}


def pattern_of(kind: Kind) -> re.Pattern[str]:
    """Return what names the kind in a text of lower case; the plural holds the singular."""
    return re.compile(rf"{kind.singular}|(?<![a-z]){kind.framework}(?![a-z])")


def pattern_in(file: Path, kind: Kind) -> re.Pattern[str]:
    """Return what of that must not be in a file."""
    return re.compile(kind.singular) if file.is_relative_to(RUNNER) else pattern_of(kind)


def own_files(kind: Kind) -> set[Path]:
    """Return where the kind is declared and where its behaviour is."""
    return {Path(inspect.getfile(kind.validate)), Path(inspect.getfile(type(FRAMEWORKS[kind.name])))}


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of identifiers and of texts that the program works with."""
    explaining: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            explaining |= {id(s.value) for s in node.body if isinstance(s, ast.Expr)}
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in EXPLAINING:
                explaining |= {id(part) for part in ast.walk(node)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Constant(value=str(text)) if id(node) not in explaining:
                yield line, text
            case ast.Name(id=name) | ast.alias(name=name):
                yield line, name
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)) | ast.arg(arg=name):
                yield line, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield line, name
            case ast.ImportFrom(module=str(name)):
                yield line, name


@functools.cache
def lower(source: str) -> str:
    """Return a source in lower case, in which each kind is looked for."""
    return source.lower()


@functools.cache
def names_of(source: str) -> frozenset[tuple[int, str]]:
    """Return (line, text) of what a source names; each file is parsed once for all kinds."""
    return frozenset((line, said) for line, said in names_in(ast.parse(source)))


def naming(source: str, kind: Kind, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    """Return the places that hold a pattern of the kind."""
    low = lower(source)
    if not (kind.singular in low or kind.framework in low) or not pattern.search(low):
        return []  # parsing takes a thousand times as long
    return sorted((line, said) for line, said in names_of(source) if pattern.search(said.lower()))


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_no_other_file_names_a_kind(kind: Kind) -> None:
    allowed = REGISTRIES | own_files(kind)
    found = {
        (str(file.relative_to(SRC)), said)
        for file in files()
        if file not in allowed
        for _, said in naming(text(file), kind, pattern_in(file, kind))
    }
    assert found - BORROWED == set()


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_kind_has_two_files_of_its_own(kind: Kind) -> None:
    declared, behaviour = sorted(own_files(kind))
    assert declared.parent == SRC / "api" / kind.version
    assert behaviour.parent == SRC / "jobs" / kind.version / "frameworks"
    assert declared.name == behaviour.name


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('PLURAL = "pytorchjobs"', True),
        ("from trainshed.api.v1.pytorch import X", True),
        ("def admit_pytorchjob(): ...", True),
        ('f"kubectl get pytorchjobs -n {x}"', True),
        ("run(pytorch=1)", True),
        ("x.PYTORCHJOB", True),
        ('"""A PyTorchJob."""\nclass A:\n    """Like a PyTorchJob."""', False),
        ('a: Annotated[str, doc("a is as for a PyTorchJob.")]', False),
        ('typer.Argument(help="such as pytorchjob/mnist")', False),
        ("import torch", False),
        ("import pytorchvision", False),
    ],
)
def test_what_counts_as_naming_it(source: str, found: bool) -> None:
    kind = KINDS["PyTorchJob"]
    assert bool(naming(source, kind, pattern_of(kind))) is found
