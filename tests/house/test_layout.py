"""Tests lie where CONTRIBUTING says: `tests/unit`, `house` and `histories` hold plain functions of data."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SRC = ROOT / "src/trainshed"
UNIT = sorted((TESTS / "unit").rglob("*.py"))
PLAIN = [*UNIT, *(file for room in ("house", "histories") for file in sorted((TESTS / room).rglob("*.py")))]

REASONS = {
    "socket": "opens sockets",
    "socketserver": "opens sockets",
    "http.server": "opens sockets",
    "aiohttp": "opens sockets",
    "uvicorn": "opens sockets",
    "asyncio.start_server": "opens sockets",
    "asyncio.start_unix_server": "opens sockets",
    "asyncio.open_connection": "opens sockets",
    "asyncio.open_unix_connection": "opens sockets",
    "subprocess": "starts processes",
    "multiprocessing": "starts processes",
    "concurrent.futures": "starts threads or processes",
    "asyncio.create_subprocess_exec": "starts processes",
    "asyncio.create_subprocess_shell": "starts processes",
    "os.fork": "starts processes",
    "os.system": "starts processes",
    "os.popen": "starts processes",
    "os.posix_spawn": "starts processes",
    "pty": "starts processes",
    "threading": "runs threads, whose order no test decides",
    "asyncio.to_thread": "runs threads, whose order no test decides",
    "time.sleep": "sleeps",
    **dict.fromkeys(
        ("jax", "kfp", "numpy", "pandas", "pyarrow", "sklearn", "tensorflow", "torch", "xgboost"),
        "loads a library that takes seconds",
    ),
    "trainshed.pipelines.emit.kfp": "loads a library that takes seconds",
}
"""What plain functions of data have no need of, and why it is no unit test then."""

VIRTUAL = "tests.fakes.virtual_time"


@functools.cache
def parsed(path: Path) -> tuple[frozenset[str], list[tuple[int, str]]]:
    """Return the names and the faults of a file. Its tree is not kept: those of all are half a million objects."""
    tree = ast.parse(path.read_text())
    names = tuple(names_of(tree))
    return frozenset(name for _, name in names), faults(tree, names)


def names_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of everything that is imported or taken from a module, `from` imports as `a.b`."""
    modules: dict[str, str] = {}
    taken: list[tuple[int, str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name):
                taken.append((node.lineno, node.value.id, node.attr))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                modules[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
    for line, module, attribute in taken:
        if module in modules:
            yield line, f"{modules[module]}.{attribute}"


def faults(tree: ast.AST, names: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return (line, reason) of what no unit test does itself, in order."""
    found = {
        (line, f"`{name}` {REASONS[part]}")
        for line, name in names
        for part in (name, name.rpartition(".")[0], name.partition(".")[0])
        if part in REASONS
    }
    used = {name for _, name in names}
    if "asyncio.sleep" in used and VIRTUAL not in used:
        found |= {(line, "`asyncio.sleep` outside of virtual time sleeps") for line in _real_sleeps(tree)}
    return sorted(found)


def _real_sleeps(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of `asyncio.sleep(…)` with anything but 0, which only lets others run."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "asyncio.sleep":
            argument = node.args[0]
            if not (isinstance(argument, ast.Constant) and argument.value == 0):
                yield node.lineno


@functools.cache
def reached(path: Path) -> frozenset[Path]:
    """Return `path` and all files of `tests` that it imports, directly or not."""
    found: set[Path] = set()
    pending = [path]
    while pending:
        file = pending.pop()
        if file not in found:
            found.add(file)
            pending += imported(file)
    return frozenset(found)


@functools.cache
def imported(path: Path) -> frozenset[Path]:
    """Return the files of `tests` that a file imports itself."""
    names = {name for name in parsed(path)[0] if name.startswith("tests.")}
    return frozenset(f for name in names if (f := ROOT / (name.replace(".", "/") + ".py")).is_file())


def test_unit_tests_are_plain_functions_of_data() -> None:
    found = [
        f"{path.relative_to(TESTS)}: {file.relative_to(TESTS)}:{line}: {reason}"
        for path in PLAIN
        for file in sorted(reached(path))
        for line, reason in parsed(file)[1]
        if file in PLAIN or "asyncio.sleep" not in reason
    ]
    assert not found, "no unit test: move it to tests/process\n" + "\n".join(found)


def test_unit_tests_do_not_lean_on_the_larger_suites() -> None:
    larger = {"process", "cluster", "conformance", "e2e", "hostile"}
    for path in PLAIN:
        rooms = {p.relative_to(TESTS).parts[0] for p in reached(path)}
        assert not rooms & (larger | {"histories", "house"} if path in UNIT else larger), path


def test_unit_tests_search_no_histories() -> None:
    """A state machine of `hypothesis` plays thousands of steps."""
    found = [path for path in UNIT if any(name.startswith("hypothesis.stateful") for name in parsed(path)[0])]
    assert not found, "a search: move it to tests/histories"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import socket", "`socket` opens sockets"),
        ("from socket import create_server", "`socket` opens sockets"),
        (
            "import asyncio as a\nasync def f(): await a.start_server(g)",
            "`asyncio.start_server` opens sockets",
        ),
        ("from time import sleep", "`time.sleep` sleeps"),
        ("def f():\n    import time\n    time.sleep(1)", "`time.sleep` sleeps"),
        ("import os.path\nos.fork()", "`os.fork` starts processes"),
        ("import concurrent.futures", "`concurrent.futures` starts threads or processes"),
        ("import aiohttp.web", "`aiohttp.web` opens sockets"),
        ("def f():\n    import torch.nn", "`torch.nn` loads a library"),
        ("from trainshed.pipelines.emit import kfp", "`trainshed.pipelines.emit.kfp` loads a library"),
        (
            "import asyncio\nasync def f(): await asyncio.sleep(0.1)",
            "`asyncio.sleep` outside of virtual time",
        ),
    ],
)
def test_faults_are_seen(source: str, expected: str) -> None:
    tree = ast.parse(source)
    found = faults(tree, tuple(names_of(tree)))
    assert any(expected in reason for _, reason in found), found


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasync def f(): await asyncio.sleep(0)",
        "import asyncio\nfrom tests.fakes.virtual_time import run_virtual\nasync def f(): await asyncio.sleep(100)",
        "import time\ntime.monotonic()",
        "import os\nos.open('x', 0)",
        "socket = 'a word'\nprint(socket)",
    ],
)
def test_what_is_no_fault(source: str) -> None:
    tree = ast.parse(source)
    assert faults(tree, tuple(names_of(tree))) == []


def test_every_room_of_the_tests_is_described() -> None:
    """The table in CONTRIBUTING lists the folders with tests or goldens, and no other."""
    rows = re.findall(r"^\| `tests/([a-z0-9/]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    present = {
        p.parent.relative_to(TESTS).parts[0]
        for p in (*TESTS.rglob("test_*.py"), *TESTS.rglob("*.output.yaml"))
    }
    assert {row.partition("/")[0] for row in rows} == present


LONGEST = {SRC: 420, TESTS: 550}
"""How many lines a file may have: what needs more holds two ideas, split at 400: there is room for a few more."""
TABLES = {
    "tests/conformance/recorded/sequences.py",  # a row for each request that is recorded, and no more code than that
    "tests/conformance/recorded/cautioning.py",  # likewise
}


@pytest.mark.parametrize("tree", LONGEST, ids=lambda tree: tree.name)
def test_no_file_is_long(tree: Path) -> None:
    lines = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in tree.rglob("*.py")}
    assert len(lines) > 300, "nothing was looked at"
    long = {name: count for name, count in lines.items() if count > LONGEST[tree]}
    assert long.keys() - TABLES == set(), f"more than {LONGEST[tree]} lines: split it along its ideas"
    assert {name for name in TABLES if name.startswith(str(tree.relative_to(ROOT)))} <= long.keys()
