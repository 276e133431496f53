"""The program that starts each step: order, results, errors. Each step is a process, as in a pod."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainshed.cluster.controllers.tekton import entrypoint

SECONDS = 20.0


class Steps:
    """The steps of one pod, whose `/tekton` is a directory of the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        text = Path(entrypoint.__file__).read_text().replace('ROOT = "/tekton"', f'ROOT = "{root}"')
        self.program = root / "entrypoint.py"
        self.program.write_text(text)

    def start(self, index: int, *command: str, **told: Any) -> subprocess.Popen[str]:
        what = {
            "index": index,
            "name": f"step-{index}",
            "message": str(self.root / f"message-{index}"),
            **told,
        }
        text = base64.b64encode(json.dumps(what).encode()).decode()
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(self.program), text[:40], text[40:], "--", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def words(self, index: int) -> dict[str, Any]:
        """Return the last words of a step: (type, value) by key."""
        return {
            e["key"]: (e["type"], e["value"])
            for e in json.loads((self.root / f"message-{index}").read_text())
        }


@pytest.fixture
def pod(tmp_path: Path) -> Steps:
    return Steps(tmp_path)


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=SECONDS)
    return process.returncode, out


def test_steps_run_one_after_another_whichever_starts_first(pod: Steps) -> None:
    log = pod.root / "log"
    second = pod.start(1, "sh", "-c", f"echo second >> {log}")
    first = pod.start(0, "sh", "-c", f"sleep 0.2; echo first >> {log}")
    assert (end(first)[0], end(second)[0]) == (0, 0)
    assert log.read_text() == "first\nsecond\n"


def test_what_comes_after_a_failure_does_not_run(pod: Steps) -> None:
    assert end(pod.start(0, "sh", "-c", "exit 3"))[0] == 3
    assert end(pod.start(1, "touch", str(pod.root / "ran")))[0] == 1
    assert pod.words(1) == {"Reason": (3, "Skipped")}
    assert not (pod.root / "ran").exists()
    assert (pod.root / "steps/step-0/exitCode").read_text() == "3"
    assert (pod.root / "steps/0/exitCode").read_text() == "3"


def test_a_failure_may_be_passed_over(pod: Steps) -> None:
    assert end(pod.start(0, "false", onError="continue"))[0] == 0
    assert pod.words(0)["ExitCode"] == (3, "1")
    assert end(pod.start(1, "true"))[0] == 0


def test_a_step_that_is_killed_does_not_leave_the_next_waiting(pod: Steps) -> None:
    first = pod.start(0, "sh", "-c", "echo $$; exec sleep 60")
    assert first.stdout is not None
    program = int(first.stdout.readline())
    second = pod.start(1, "true")
    first.kill()
    os.kill(program, signal.SIGKILL)  # as the end of a container does
    assert end(second)[0] == 1
    end(first)


def test_a_script_and_its_results(pod: Steps) -> None:
    own = pod.root / "steps/step-0/results/l"
    script = f"#!/bin/sh\nprintf '%s' \"$1\" > {pod.root}/results/sum\nprintf '[\"a\"]' > {own}"
    assert end(pod.start(0, "7", script=script, results=["sum", "none"], stepResults=["l"]))[0] == 0
    found = pod.words(0)
    assert found["sum"] == (1, "7")
    assert found["l"] == (4, '["a"]')
    assert "none" not in found


def test_steps_that_are_plain_processes_find_their_volumes_where_they_are(tmp_path: Path) -> None:
    """As a runtime without mounts starts them: the paths of the pod lead nowhere, and each `run/<i>` elsewhere."""
    known = ("/tekton", "/tekton/run/0", "/tekton/run/1", "/workspace", "/dev/termination-log")
    places = {path: str(tmp_path / path.replace("/", "-")[1:]) for path in known}
    for path in known[:-1]:
        Path(places[path]).mkdir()
    script = "#!/bin/sh\npwd\nprintf 7 > /tekton/results/sum; printf 8 > /tekton/steps/step-0/results/own"
    steps: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"script": script, "cwd": "/workspace/deep", "results": ["sum"], "stepResults": ["own"]}, ()),
        ({"stdout": "/workspace/out"}, ("echo", "$(steps.0.results.own)")),
    ]
    for index, (told, command) in enumerate(steps):
        what = {"index": index, "name": f"step-{index}", "message": "/dev/termination-log", **told}
        text = base64.b64encode(json.dumps(what).encode()).decode()
        done = subprocess.run(
            [sys.executable, "-I", "-S", entrypoint.__file__, text, "--", *command],
            env={**os.environ, "TRAINSHED_MOUNTS": json.dumps(places)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert (done.returncode, done.stderr) == (0, "")
        if index == 0:
            assert done.stdout == f"{places['/workspace']}/deep\n"
            ends = json.loads(Path(places["/dev/termination-log"]).read_text())
            assert {("sum", "7"), ("own", "8")} <= {(one["key"], one["value"]) for one in ends}
    assert Path(places["/workspace"], "out").read_text() == "8\n"
    assert (Path(places["/tekton"]) / "steps/1").resolve() == Path(places["/tekton/run/1"]) / "status"


def test_later_steps_read_the_results_of_earlier_ones(pod: Steps) -> None:
    folder = pod.root / "steps/step-0/results"
    made = f'printf \'["x","y"]\' > {folder}/l; printf z > {folder}/s; printf \'{{"k":"v"}}\' > {folder}/o'
    assert end(pod.start(0, "sh", "-c", made))[0] == 0
    wanted = ["results.s)", "results.l[*])", "results.l[1])", "results.o.k)"]
    rc, out = end(pod.start(1, "echo", *(f"$(steps.0.{one}" for one in wanted)))
    assert (rc, out) == (0, "z x y y v\n")


def test_a_step_may_not_be_wanted(pod: Steps) -> None:
    when = [{"input": "a", "operator": "in", "values": ["b"]}]
    assert end(pod.start(0, "false", when=when))[0] == 0
    assert pod.words(0) == {"Reason": (3, "Skipped")}
    assert end(pod.start(1, "true"))[0] == 0


def test_a_step_has_a_time_limit_and_its_children_go_with_it(pod: Steps) -> None:
    assert end(pod.start(0, "sh", "-c", "sleep 60 & wait", timeout=0.2))[0] == 137
    assert pod.words(0)["Reason"] == (3, "TimeoutExceeded")


def test_a_signal_reaches_the_program(pod: Steps) -> None:
    step = pod.start(
        0, "sh", "-c", "trap 'echo bye; exit 9' TERM; echo started; while :; do sleep 0.05; done"
    )
    assert step.stdout is not None
    assert step.stdout.readline() == "started\n"
    step.send_signal(signal.SIGTERM)
    rc, out = end(step)
    assert rc == 9
    assert "bye" in out


@pytest.mark.parametrize(
    ("command", "rc", "text"),
    [((), 126, "no command"), (("no-such-program",), 127, "No such file or directory: 'no-such-program'")],
)
def test_a_step_that_cannot_start_says_why(pod: Steps, command: tuple[str, ...], rc: int, text: str) -> None:
    code, out = end(pod.start(0, *command))
    assert code == rc
    assert text in out
    assert "Traceback" not in out


def test_a_script_whose_interpreter_is_missing_names_it(pod: Steps) -> None:
    code, out = end(pod.start(0, script="#!/bin/no-such-shell -e\necho never\n"))
    assert code == 127
    assert "No such file or directory: '/bin/no-such-shell'" in out


def test_results_that_do_not_fit_fail_the_step(pod: Steps) -> None:
    rc, out = end(
        pod.start(0, "sh", "-c", f"head -c 5000 /dev/zero | tr '\\0' x > {pod.root}/results/r", results=["r"])
    )
    assert rc == 1
    assert "4096" in out
    assert pod.words(0)["Reason"] == (3, "ResultsTooLarge")


def test_output_may_go_to_files_and_the_directory_is_made(pod: Steps) -> None:
    rc, out = end(pod.start(0, "pwd", cwd=str(pod.root / "a/b"), stdout=str(pod.root / "out")))
    assert (rc, out) == (0, "")
    assert (pod.root / "out").read_text().strip() == str(pod.root / "a/b")
