"""Runs Tekton's own example files on a cluster: `python scripts/tekton_examples.py DIRECTORY…`.

    git clone --depth 1 https://github.com/tektoncd/pipeline
    trainshed up
    python scripts/tekton_examples.py pipeline/examples/v1/pipelineruns pipeline/examples/v1/taskruns

As in Tekton's own tests, each file is created with `kubectl create` in a namespace of its own, and passes when each run
that it makes succeeds. A line for each says

    passed          as its authors mean
    not served      refused in words: what it asks for is not served here
    not runnable    it needs a program of its image, or a node, that this machine does not have
    no run          it makes no PipelineRun and no TaskRun
    failed          anything else

then counts for each directory. `no-ci` is left out, as by Tekton. The exit code is 1 when a file failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OUTCOMES = ("passed", "not served", "not runnable", "no run", "failed")
_NOT_SERVED = re.compile(r"not served here|larger than the \d+ bytes that a container's end may carry")
_PROGRAM = r"['‘\"]?([\w./-]+)['’\"]?"
_NOT_RUNNABLE = (
    (re.compile(r"unexpected operator"), "the script is for another shell than this machine's /bin/sh"),
    (
        re.compile(r"No such file or directory: '(-[^']*)'"),
        "no command, and the image has none that is known",
    ),
    (re.compile(r"No such file or directory: '([^']+)'"), "no program {}"),
    (re.compile(rf"env: {_PROGRAM}: No such file"), "no program {}"),
    (
        re.compile(rf": (?:line )?\d+: (?:exec: )?{_PROGRAM}: (?:not found|command not found|No such file)"),
        "no program {}",
    ),
    (re.compile(r"no command: (the image has none)"), "no command, and {} that is known"),
    (re.compile(r"securityContext\.(privileged): Forbidden"), "a container that is {}"),
    (re.compile(r"(\d+/\d+ nodes are available: [^\n]*)"), "{}"),
)
_RUNS = ("pipelineruns.tekton.dev", "taskruns.tekton.dev")
_NAMESPACE = re.compile(r"namespace: default\b")


@dataclass(frozen=True)
class Result:
    """How one file ended, and why."""

    file: Path
    outcome: str
    why: str
    seconds: float


class Kubectl:
    """kubectl in one namespace."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self._command = ["kubectl", "--kubeconfig", kubeconfig, "--namespace", namespace]

    def __call__(self, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            [*self._command, *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def items(self, *arguments: str) -> list[Any]:
        """Return the objects that `get` lists."""
        done = self("get", *arguments, "-o", "json")
        return list(json.loads(done.stdout).get("items", ())) if done.returncode == 0 else []


def run_file(file: Path, namespace: str, kubeconfig: str, timeout: float) -> Result:
    """Create what a file has, wait for its runs and return how they ended."""
    kubectl = Kubectl(kubeconfig, namespace)
    began = time.monotonic()
    kubectl("create", "namespace", namespace)
    try:
        outcome, why = _outcome(file, kubectl, namespace, timeout)
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")
    return Result(file, outcome, why, time.monotonic() - began)


def _outcome(file: Path, kubectl: Kubectl, namespace: str, timeout: float) -> tuple[str, str]:
    text = _NAMESPACE.sub(f"namespace: {namespace}", file.read_text())
    made = kubectl("create", "-f", "-", "-o", "name", given=text)
    runs = [name for name in made.stdout.split() if name.startswith(("pipelinerun.", "taskrun."))]
    if made.returncode != 0:
        served = _NOT_SERVED.search(made.stderr)
        return ("not served" if served else "failed"), _first(made.stderr)
    if not runs:
        return "no run", ""
    deadline = time.monotonic() + timeout
    while not (ended := [_condition(kubectl, run) for run in runs]) or any(s == "Unknown" for s, _ in ended):
        if time.monotonic() > deadline:
            break
        time.sleep(0.3)
    if all(status == "True" for status, _ in ended):
        return "passed", ""
    messages = [message for status, message in ended if status != "True"]
    return why(messages, _details(kubectl))


def why(messages: Sequence[str], details: str) -> tuple[str, str]:
    """Return the outcome of a run that did not succeed, from what its conditions say and what pods and logs say."""
    everything = "\n".join((*messages, details))
    if _NOT_SERVED.search(everything):
        return "not served", next(
            line for line in everything.splitlines() if _NOT_SERVED.search(line)
        ).strip()
    for pattern, words in _NOT_RUNNABLE:
        found = pattern.search(everything)
        if found:
            return "not runnable", words.format(*found.groups())
    return "failed", _first("; ".join(messages))


def _first(text: str) -> str:
    return text.strip().partition("\n")[0]


def _condition(kubectl: Kubectl, run: str) -> tuple[str, str]:
    done = kubectl("get", run, "-o", "json")
    status = json.loads(done.stdout).get("status", {}) if done.returncode == 0 else {}
    for condition in status.get("conditions", ()):
        if condition["type"] == "Succeeded":
            return condition["status"], f"{condition.get('reason')}: {condition.get('message')}"
    return "Unknown", "no condition"


def _details(kubectl: Kubectl) -> str:
    """Return what children, pods and their logs say."""
    said = [
        f"{c.get('reason')}: {c.get('message')}"
        for kind in _RUNS
        for run in kubectl.items(kind)
        for c in run.get("status", {}).get("conditions", ())
    ]
    for pod in kubectl.items("pods"):
        status = pod.get("status", {})
        said += [str(c.get("message", "")) for c in status.get("conditions", ())]
        for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
            for state in container.get("state", {}).values():
                said += [str(state.get("reason", "")), str(state.get("message", ""))]
        said.append(kubectl("logs", pod["metadata"]["name"], "--all-containers", "--tail=40").stdout)
    return "\n".join(said)


def files(directories: Iterable[Path]) -> list[Path]:
    """Return the example files below directories, without those that Tekton leaves out of its tests."""
    found = [file for directory in directories for file in sorted(directory.rglob("*.yaml"))]
    return [file for file in found if "no-ci" not in file.parts]


def table(results: Sequence[Result]) -> list[str]:
    """Return lines with the counts of each directory."""
    folders: dict[Path, Counter[str]] = {}
    for result in results:
        folders.setdefault(result.file.parent, Counter())[result.outcome] += 1
    width = max(len(str(folder)) for folder in folders)
    lines = [f"{'':<{width}}  {'files':>6}" + "".join(f"  {outcome:>12}" for outcome in OUTCOMES)]
    for folder, counts in folders.items():
        cells = "".join(f"  {counts[outcome]:>12}" for outcome in OUTCOMES)
        lines.append(f"{folder!s:<{width}}  {counts.total():>6}{cells}")
    return lines


def say(text: str) -> None:
    """Write a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the files and return the exit code."""
    home = Path(os.environ.get("TRAINSHED_HOME", Path.home() / ".trainshed"))
    parser = argparse.ArgumentParser(description="Run Tekton's example files on a cluster.")
    parser.add_argument("directories", nargs="+", type=Path, help="directories of example files")
    parser.add_argument(
        "--kubeconfig", default=str(home / "kubeconfig"), help="cluster; the local one unless told"
    )
    parser.add_argument("--timeout", type=float, default=90, help="seconds that a file may take")
    parser.add_argument("--at-once", type=int, default=3, help="files that run at the same time")
    parser.add_argument("--only", default="", help="files whose path has this in it")
    options = parser.parse_args()
    wanted = [file for file in files(options.directories) if options.only in str(file)]
    if not wanted:
        parser.error("there are no example files")
    stamp = f"{time.time_ns() // 1_000_000:x}"
    results = []
    with ThreadPoolExecutor(options.at_once) as pool:
        for result in pool.map(
            lambda one: run_file(one[1], f"tekton-{stamp}-{one[0]}", options.kubeconfig, options.timeout),
            enumerate(wanted),
        ):
            results.append(result)
            say(f"{result.outcome:<13} {result.file}  {result.seconds:.0f} s  {result.why}".rstrip())
    say("\n".join(["", *table(results)]))
    return any(result.outcome == "failed" for result in results)


if __name__ == "__main__":
    sys.exit(main())
