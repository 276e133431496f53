"""The docs say what is there: links lead somewhere, generated pages are current, commands and flags are listed."""

from __future__ import annotations

import functools
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.tutorial import blocks, commands
from trainshed.api.registry import KINDS
from trainshed.cli.main import everything
from trainshed.operator.flags import build_parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted(DOCS.rglob("*.md")),
]
HOW_TOS = sorted((DOCS / "how-to").glob("*.md"))
GENERATOR = runpy.run_path(str(ROOT / "scripts/generate_reference.py"))
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_DRIVERS = (
    *("cp", "curl", "docker", "echo", "eval", "export", "git", "install", "KUBECTLS=…"),
    *("kubectl", "ls", "openssl", "sed", "sudo", "trainshed", "./check"),
)
"""Programs that the how-tos call."""


def name_of(value: Any) -> str:
    """Return how a parameter is shown in pytest's output."""
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


def prose(page: Path) -> str:
    """Return the page without its fenced blocks."""
    return _FENCED.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors of the page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(found), f"{link}: no such heading"


@functools.cache
def reached() -> frozenset[Path]:
    """Return the pages that links lead to from the index, and the index."""
    found, waiting = set(), [DOCS / "README.md"]
    while waiting:
        current = waiting.pop()
        if current in found or not current.exists():
            continue
        found.add(current)
        for link in _LINK.findall(prose(current)):
            target = (current.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.is_relative_to(DOCS):
                waiting.append(target)
    return frozenset(found)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name_of)
def test_every_page_is_reached_from_the_index(page: Path) -> None:
    assert page in reached()


@pytest.mark.parametrize("name", GENERATOR["PAGES"])
def test_generated_pages_are_current(name: str) -> None:
    stored = DOCS / "reference" / name
    made = GENERATOR["PAGES"][name]()
    assert stored.read_text() == made, "run: python scripts/generate_reference.py"


def test_every_command_is_in_the_reference() -> None:
    page = (DOCS / "reference/cli.md").read_text()
    listed = [path for path, _ in GENERATOR["commands"](everything(), "trainshed")]
    assert "trainshed run" in listed
    assert "trainshed image add" in listed
    assert [path for path in listed if f"## {path}\n" not in page] == []


def operator_flags() -> set[str]:
    """Return the flags that the operator's `--help` lists."""
    return set(re.findall(r"--([a-z-]+)", build_parser({}).format_help()))


def test_every_operator_flag_is_in_the_reference() -> None:
    page = (DOCS / "reference/operator.md").read_text()
    flags = operator_flags() - {"help"}
    assert "legacy-labels" in flags
    assert sorted(flag for flag in flags if f"`{flag}`" not in page) == []


def test_every_flag_that_the_reference_lists_exists() -> None:
    page = (DOCS / "reference/operator.md").read_text()
    listed = re.findall(r"^\| `([a-z-]+)` \|", page.partition("## Legacy")[0], re.MULTILINE)
    assert listed
    assert set(listed) <= operator_flags()


def test_every_kind_has_a_page() -> None:
    assert [kind for kind in KINDS if not (DOCS / f"reference/{kind.lower()}.md").exists()] == []


@pytest.mark.parametrize("page", HOW_TOS, ids=name_of)
def test_console_blocks_of_how_tos_parse(page: Path) -> None:
    found = [block for block in blocks(page.read_text()) if block.language == "console"]
    for block in found:
        parsed = commands(block.text)
        assert parsed, f"line {block.line}: no command"
        assert block.text.startswith("$ "), f"line {block.line}: output before the first command"
        for command in parsed:
            first = re.sub(r"^([A-Z]+)=.*", r"\1=…", command.text.split()[0])
            assert first in _DRIVERS, f"line {block.line}: {first}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_the_docs_exist(page: Path) -> None:
    """Every `trainshed …` line of a console block starts with a command that the program has."""
    known = {path.removeprefix("trainshed ") for path, _ in GENERATOR["commands"](everything(), "trainshed")}
    for block in blocks(page.read_text()):
        if block.language != "console":
            continue
        for line in commands(block.text):
            for used in re.findall(
                r"(?:^|&& |\$\()trainshed ((?:(?:image|node|notebook) )?[a-z]+)", line.text
            ):
                assert used in known, f"line {block.line}: trainshed {used}"


@pytest.mark.parametrize("word", ["TrainJob", "notebooks", "pipelines", "Katib", "KServe"])
def test_what_of_kubeflow_is_missing_is_found_by_its_name(word: str) -> None:
    """Who looks for a part searches for its name, in the README and in the limits."""
    for page in (ROOT / "README.md", DOCS / "reference/limits.md"):
        rows = re.split(r"\n\n|\n(?=\|)", page.read_text())
        assert any(word in row and re.search(r"not yet|not there|refused", row) for row in rows), page
