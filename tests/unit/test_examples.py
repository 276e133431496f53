"""The manifests of `examples/` are such as one would have others copy: `check` finds nothing wrong with any of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from trainshed.api.registry import KINDS
from trainshed.cli.main import app

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFESTS = sorted(file for file in EXAMPLES.rglob("*.yaml") if file.name != "images.yaml")


def test_every_kind_has_an_example() -> None:
    found = {obj["kind"] for file in MANIFESTS for obj in yaml.load_all(file.read_text(), yaml.CSafeLoader)}
    assert found >= set(KINDS)


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_check_finds_nothing_wrong(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINSHED_HOME", str(tmp_path / "home"))
    done = CliRunner().invoke(app, ["check", str(file), "--offline", "-o", "json"])
    assert done.exit_code == 0, done.output
    for verdict in json.loads(done.stdout):
        kind = KINDS.get(verdict["kind"])
        # That a kind is deprecated is said with each write of it.
        assert set(verdict["warnings"]) <= set(kind.deletion_warnings if kind else ()), verdict
        assert verdict["accepted"] and not verdict["findings"], verdict
