"""The list of commands: what help says without importing them is what they say themselves."""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module

import pytest
from typer.testing import CliRunner

from trainshed.cli.main import COMMANDS, Entry, app


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_summary_is_the_first_sentence_of_the_help(entry: Entry) -> None:
    home, _, function = entry.home.partition(":")
    module = import_module(f"trainshed.cli.{home}")
    text = getattr(module, function).__doc__ if function else module.app.info.help
    assert re.split(r"(?<=\.)\s", inspect.cleandoc(text), maxsplit=1)[0] == entry.summary


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_command_can_be_reached(entry: Entry) -> None:
    done = CliRunner().invoke(app, [entry.name, "--help"])
    assert done.exit_code == 0 and f" {entry.name} " in done.output.splitlines()[0] + " ", done.output


def test_commands_of_a_group_can_be_reached() -> None:
    done = CliRunner().invoke(app, ["image", "add", "--help"])
    assert done.exit_code == 0 and "--entrypoint" in done.output


def test_a_command_that_is_not_there_has_neighbours() -> None:
    done = CliRunner().invoke(app, ["stat"])
    assert done.exit_code == 2 and "status" in done.output


def test_help_imports_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("trainshed.") and "cli.main" not in name]:
        monkeypatch.delitem(sys.modules, name)
    done = CliRunner().invoke(app, ["--help"])
    assert done.exit_code == 0 and "\n  notebook  " in done.output
    assert not [name for name in sys.modules if name.startswith(("trainshed.sdk", "trainshed.kube"))]
