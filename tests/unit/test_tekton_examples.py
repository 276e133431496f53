"""The script that runs Tekton's example files: what it takes for a failure of ours, and what not."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts/tekton_examples.py"))
TOO_LARGE = "error: the results are larger than the 4096 bytes that a container's end may carry"
FAILED = 'StepFailed: "step-a" exited with code 127'


@pytest.mark.parametrize(
    ("message", "details", "expected"),
    [
        (
            "Invalid: the resolver git is not served here",
            "",
            ("not served", "Invalid: the resolver git is not served here"),
        ),
        ("Failed: Tasks Completed: 1 (Failed: 1)", TOO_LARGE, ("not served", TOO_LARGE)),
        (
            FAILED,
            "error: step step-a: [Errno 2] No such file or directory: '/bin/ash'",
            ("not runnable", "no program /bin/ash"),
        ),
        (
            FAILED,
            "error: step step-a: [Errno 2] No such file or directory: '-c'",
            ("not runnable", "no command, and the image has none that is known"),
        ),
        (FAILED, "/usr/bin/env: ‘ash’: No such file or directory", ("not runnable", "no program ash")),
        (FAILED, "/tekton/scripts/a: 3: crane: not found", ("not runnable", "no program crane")),
        (FAILED, "/tekton/scripts/a: line 3: crane: command not found", ("not runnable", "no program crane")),
        (
            FAILED,
            "error: step step-a: no command: the image has none that is known here; set command or script",
            ("not runnable", "no command, and the image has none that is known"),
        ),
        (
            FAILED,
            "/tekton/scripts/a: 2: [: 1: unexpected operator",
            ("not runnable", "the script is for another shell than this machine's /bin/sh"),
        ),
        (
            "Running: 0 of 1",
            "0/1 nodes are available: 1 didn't match",
            ("not runnable", "0/1 nodes are available: 1 didn't match"),
        ),
        (
            "PodCreationFailed: Pod is invalid: spec.containers[0].securityContext.privileged: Forbidden: disallowed",
            "",
            ("not runnable", "a container that is privileged"),
        ),
        (FAILED, "hello", ("failed", FAILED)),
    ],
)
def test_why_a_run_did_not_succeed(message: str, details: str, expected: tuple[str, str]) -> None:
    assert SCRIPT["why"]([message], details) == expected


def test_files_that_tekton_leaves_out_are_left_out(tmp_path: Path) -> None:
    for name in ("a.yaml", "beta/b.yaml", "no-ci/c.yaml", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert [file.name for file in SCRIPT["files"]([tmp_path])] == ["a.yaml", "b.yaml"]


def test_counts_of_each_directory() -> None:
    found = {"a/x.yaml": "passed", "a/y.yaml": "failed", "b/z.yaml": "not served"}
    results = [SCRIPT["Result"](Path(name), outcome, "", 1.0) for name, outcome in found.items()]
    lines = [line.split() for line in SCRIPT["table"](results)]
    assert lines[1:] == [["a", "2", "1", "0", "0", "0", "1"], ["b", "1", "0", "1", "0", "0", "0"]]
