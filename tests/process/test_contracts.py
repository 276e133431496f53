"""The import contracts can fail: each breaks on an import that it forbids, and names it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("importlinter", reason="the extra `lint` is not installed; ./check installs it")

ROOT = Path(__file__).parents[2]
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
    "importlinter"
]["contracts"]


class Import(NamedTuple):
    """What a contract forbids: an import by `importer` or something in it."""

    importer: str
    imported: str


def violations(contract: dict[str, Any]) -> list[Import]:
    """Return imports that break a contract: one for each rung of layers, and for each module that is restricted."""
    found: list[Import] = []
    match contract["type"]:
        case "layers":
            for container in contract.get("containers", [""]):
                prefix = f"{container}." if container else ""
                layers = _present(contract["layers"], prefix)
                found += [Import(prefix + one, prefix + other) for one, other in _rungs(layers)]
        case "forbidden":
            for number, module in enumerate(_expanded(contract["source_modules"])):
                forbidden = _expanded(contract["forbidden_modules"])
                found.append(Import(module, forbidden[number % len(forbidden)]))
        case "independence":
            modules = _expanded(contract["modules"])
            for one in modules[::2]:
                later = modules[modules.index(one) + 1 :] + modules
                candidates = (Import(one, other) for other in later if other != one)
                found += [c for c in candidates if not _is_ignored(contract, c)][:1]
        case unknown:
            raise AssertionError(f"say here what breaks a contract of type {unknown}")
    assert found, f"nothing breaks {contract['name']!r}"
    return found


def _present(layers: list[str], prefix: str) -> list[str]:
    """Return the layers without what stands in brackets and is not there yet."""
    out = []
    for layer in layers:
        there = [
            part
            for part in re.split(r"([|:])", layer)
            if part in "|:" or "(" not in part or _is_there(prefix + part.strip(" ()"))
        ]
        if text := "".join(there).strip(" |:"):
            out.append(text)
    return out


def _is_there(module: str) -> bool:
    place = ROOT / "src" / module.replace(".", "/")
    return place.is_dir() or place.with_suffix(".py").exists()


def _rungs(layers: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (lower, higher) for layers from the top down, and pairs of modules of one layer that is independent."""
    for higher, lower in pairwise(layers):
        yield _modules(lower)[0], _modules(higher)[-1]
    for layer in layers:
        if "|" in layer:
            yield from pairwise(_modules(layer))


def _modules(layer: str) -> list[str]:
    return [name.strip(" ()\n") for name in re.split(r"[|:]", layer)]


def _expanded(modules: list[str]) -> list[str]:
    """Return the modules with those in place of `package.*` and `package.*.*` that lie there."""
    out: list[str] = []
    for module in modules:
        package, star, below = module.partition(".*")
        if not star:
            out.append(module)
            continue
        inside = (ROOT / "src" / package.replace(".", "/")).iterdir()
        names = {
            path.stem
            for path in inside
            if (path / "__init__.py").exists()
            or (path.suffix == ".py" and path.stem != "__init__" and not below)
        }
        out += _expanded([f"{package}.{name}{below}" for name in sorted(names)])
    return out


def _is_ignored(contract: dict[str, Any], one: Import) -> bool:
    patterns = (text.split(" -> ") for text in contract.get("ignore_imports", ()))
    return any(
        fnmatch(one.importer, importer) and fnmatch(one.imported, imported) for importer, imported in patterns
    )


def write(source: Path, violation: Import) -> None:
    """Add an import to a module or a package."""
    place = source / violation.importer.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    assert file.exists(), f"{violation.importer}, which a contract names, is not there"
    with file.open("a") as out:
        out.write(f"\nimport {violation.imported}\n")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What lint-imports says of a copy of the source with every violation at once."""
    copy = tmp_path_factory.mktemp("broken")
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for contract in CONTRACTS:
        for violation in violations(contract):
            write(copy / "src", violation)
    command = [Path(sys.executable).with_name("lint-imports"), "--config", "pyproject.toml", "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "COLUMNS": "400"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["name"])
def test_a_contract_breaks_on_what_it_forbids(contract: dict[str, Any], report: str) -> None:
    assert f"{contract['name']} BROKEN" in report, report
    _, _, details = report.partition("Broken contracts")
    sections = re.split(r"\n(.+)\n-+\n", details)
    told = sections[sections.index(contract["name"]) + 1]
    for violation in violations(contract):
        pattern = rf"{re.escape(violation.importer)} -> {re.escape(violation.imported)}\b"
        assert re.search(pattern, told), f"{violation} goes unseen:\n{told}"


def test_every_decision_is_held_to_be_pure() -> None:
    """A new controller that is forgotten in the contract would keep none."""
    (contract,) = (each for each in CONTRACTS if each["name"].startswith("decisions are pure"))
    files = sorted((ROOT / "src").rglob("*.py"))
    names = {
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for path in files
        if "\ndef decide(" in path.read_text()
    }
    assert len(names) > 10
    assert [name for name in sorted(names) if not name.startswith(tuple(contract["source_modules"]))] == []
