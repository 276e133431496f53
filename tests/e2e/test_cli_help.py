"""The command line by itself: help, usage, completion, and errors where there is no cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.cluster_fixture import Cluster
from tests.e2e.terminal import on_a_terminal
from trainshed.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples/fashion-mnist/pytorchjob.yaml"
COMMANDS = [entry.name for entry in main.COMMANDS]


@pytest.fixture
def idle(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A state directory that nothing was ever started in."""
    return make_cluster()


def test_help_lists_every_command_in_a_line(idle: Cluster) -> None:
    text = idle.trainshed("--help").ok()
    assert text == idle.trainshed("-h").ok()
    listed = re.findall(r"^  (\w+)  +(\S.*)$", text[text.index("Commands:") :], re.MULTILINE)
    assert [name for name, _ in listed] == COMMANDS
    for name, summary in listed:
        assert summary.endswith("."), (name, summary)
        assert not summary.endswith("..."), f"{name}: the first sentence is too long for the list"
    assert not idle.home.exists(), "help makes no state"


@pytest.mark.parametrize("command", [*COMMANDS, "image add", "image remove", "image list"])
def test_help_of_each_command(idle: Cluster, command: str) -> None:
    text = idle.trainshed(*command.split(), "--help").ok()
    assert text.startswith(f"Usage: trainshed {command} ")
    assert "--help" in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("nosuch",), "error: no such command 'nosuch'\nhint: trainshed --help"),
        (("lsit",), "error: no such command 'lsit'\nhint: did you mean list?"),
        (("ps",), "error: no such command 'ps'\nhint: did you mean list?"),
        (
            ("run", "train.py", "--workers", "2", "--lr", "3"),
            "error: no such option: --lr\n"
            "hint: what is meant for the script comes after --: trainshed run train.py -- --lr ...",
        ),
        (("run",), "error: invalid value for FILE: name a manifest, "),
        (("check",), "error: missing argument FILE\nhint: trainshed check --help"),
        (("run", "--qqq", "x"), "error: no such option: --qqq\nhint: trainshed run --help"),
        (("up", "--nodes", "17"), "error: invalid value for --nodes: "),
        (("up", "--port", "65536"), "error: invalid value for --port: "),
        (
            ("status", "-o", "yaml"),
            "error: invalid value for --output / -o: 'yaml' is not one of 'text', 'json'\n",
        ),
        (("delete",), "error: missing argument NAME\nhint: trainshed delete --help"),
        (("follow", "a", "b"), "error: got unexpected extra argument"),
        (("image", "add"), "error: missing argument NAME\nhint: trainshed image add --help"),
    ],
)
def test_wrong_usage_is_exit_code_2(idle: Cluster, arguments: tuple[str, ...], text: str) -> None:
    done = idle.trainshed(*arguments)
    assert (done.rc, done.out) == (2, ""), done
    assert text in done.err and done.rc == 2, done
    assert len(done.err.splitlines()) == 2, "one line and a hint"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(idle: Cluster, shell: str) -> None:
    """Of the shell that is named, whatever the shell that asks."""
    script = idle.trainshed("completion", shell).ok()
    assert f"complete_{shell}" in script and "_TRAINSHED_COMPLETE" in script


def test_completed_words(idle: Cluster) -> None:
    environment = {**idle.environment, "_TRAINSHED_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    done = subprocess.run(
        idle.trainshed_command(),
        env={**environment, "COMP_WORDS": "trainshed s"},
        capture_output=True,
        text=True,
    )
    assert set(done.stdout.split()) == {"suspend", "status"}, done


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("follow", "train"), ("error: there is no local cluster\n", "hint: trainshed up")),
        (("delete", "train"), ("there is no local cluster",)),
        (("kubeconfig",), ("there is no cluster yet", "trainshed up")),
        (("run", "/no/such/file"), ("/no/such/file: no such file",)),
        (("run", "--kubeconfig", "/no/such/config", str(EXAMPLE)), ("/no/such/config does not exist",)),
        (("run", "--context", "nowhere", str(EXAMPLE)), ("error: ",)),
        (("image", "add", "x", "--layer", "here"), ("--layer here", "DIRECTORY:PATH")),
        (("image", "remove", "x"), ("no image x is registered", "trainshed image list")),
    ],
)
def test_errors_without_a_cluster(idle: Cluster, arguments: tuple[str, ...], texts: tuple[str, ...]) -> None:
    done = idle.trainshed(*arguments)
    err = done.failed(*texts)
    assert done.out == ""
    assert len(err.splitlines()) <= 2, err


def test_a_state_directory_that_is_a_file(idle: Cluster) -> None:
    idle.home.touch()
    for arguments in (("up",), ("image", "list"), ("run", str(EXAMPLE))):
        err = idle.trainshed(*arguments).failed(str(idle.home), "hint: set TRAINSHED_HOME")
        assert len(err.splitlines()) == 2, err
    idle.home.unlink()


def test_doctor(idle: Cluster) -> None:
    checks = json.loads(idle.trainshed("doctor", "-o", "json").ok())
    assert {"user namespaces", "overlayfs on the state directory"} <= {check["name"] for check in checks}
    assert all(set(check) == {"name", "ok", "detail", "remedy"} for check in checks)
    text = idle.trainshed("doctor").ok().splitlines()
    assert [line.split(":")[0] for line in text] == [f"✓ {check['name']}" for check in checks]


def test_colour_is_for_terminals_and_can_be_turned_off(idle: Cluster) -> None:
    assert "\x1b[32m✓" in on_a_terminal(idle, "doctor")
    assert "\x1b" not in on_a_terminal(idle, "doctor", NO_COLOR="1")
    assert "\x1b" not in idle.trainshed("doctor").ok()


def test_completion_of_the_plugin_of_kubectl(idle: Cluster) -> None:
    """kubectl asks `kubectl_complete-trainshed`, which ends with what else may be offered (0: files, too)."""
    program = "import sys; from trainshed.cli.completion import main; sys.argv[1:] = ['su']; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env=idle.environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (["suspend", ":0"], "")


def test_an_unreachable_cluster_is_not_told_to_start(idle: Cluster) -> None:
    config = idle.scratch / "config"
    config.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "current-context": "x",
            }
        )
    )
    err = idle.trainshed("list", "--kubeconfig", str(config)).failed(
        "error: the API server does not answer: https://127.0.0.1:1",
        "hint: the cluster of that kubeconfig must be reachable from here",
    )
    assert len(err.splitlines()) == 2
