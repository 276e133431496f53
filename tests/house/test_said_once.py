"""What one module says or reads for all, no other does: the cluster's addresses, keys of the store, times."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.source import SRC, files, text
from trainshed.cluster.sandbox import addresses
from trainshed.cluster.store import keys
from trainshed.kube.builtin.registry import RESOURCES

ADDRESS = re.compile(r"\b10\.(88|96)\.|169\.254\.|cluster\.local|:3128\b")
GROUPS = {resource.resource.group or "core" for resource in RESOURCES}
KEY_LIKE = re.compile(rf"""["']/(\{{|{"|".join(map(re.escape, sorted(GROUPS)))})""")
"""What a source has in it that spells a key."""
STORING = [f for f in files() if f.is_relative_to(SRC / "cluster") and "sandbox" not in f.parts]


def spoken(path: Path) -> Iterator[str]:
    """Yield the texts of a module that are not docstrings."""
    tree = ast.parse(text(path))
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def test_no_other_module_spells_an_address_of_the_cluster() -> None:
    found = {
        str(path.relative_to(SRC)): spelt
        for path in files()
        if path != Path(addresses.__file__) and ADDRESS.search(text(path))
        for spelt in spoken(path)
        if ADDRESS.search(spelt)
    }
    assert found == {}
    assert any(ADDRESS.search(spelt) for spelt in spoken(Path(addresses.__file__))), "the search finds them"


def starts_of_texts(file: Path) -> list[tuple[int, str]]:
    """Return line and first constant part of every string and f-string, docstrings apart."""
    tree = ast.parse(text(file))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(v) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for v in node.values}
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            start = "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner | docs:
            start = node.value
        else:
            continue
        out.append((node.lineno, start))
    return out


def is_key(start: str) -> bool:
    """Return whether a text looks like the start of a key: a group that is served, or two or more computed segments."""
    if start.startswith("/{}/{}/"):
        return True
    return start.startswith("/") and start[1:].partition("/")[0] in GROUPS and start.count("/") > 1


def test_no_other_module_writes_a_key() -> None:
    found = [
        f"{file.relative_to(SRC)}:{line}: {start}"
        for file in STORING
        if file.name != "keys.py"
        if KEY_LIKE.search(text(file))  # parsing takes a hundred times as long
        for line, start in starts_of_texts(file)
        if is_key(start)
    ]
    assert found == []
    assert KEY_LIKE.search(text(Path(keys.__file__))), "the search finds them"


def test_no_other_module_takes_a_key_apart() -> None:
    found = [
        str(file.relative_to(SRC))
        for file in STORING
        if file.name != "keys.py" and ".key.split(" in text(file)
    ]
    assert found == []


def test_no_other_module_reads_times() -> None:
    readers = ("fromisoformat", "strptime")
    found = [
        str(file.relative_to(SRC)) for file in files() if any(reader in text(file) for reader in readers)
    ]
    assert found == ["kube/meta/times.py"]
