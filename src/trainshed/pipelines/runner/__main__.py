"""Run a step: `python -m trainshed.pipelines.runner --program FILE --data DIR --run-name NAME`.

Exit code 0: done; 1: the step failed, or its data could not be saved or loaded; 2: wrong usage.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":
    gc.disable()  # of what is imported nothing becomes garbage; `kernel.fork` enables it again

import msgspec

from trainshed.pipelines.runner import rendezvous, shared
from trainshed.pipelines.runner.program import (
    Circumstances,
    Job,
    MetricsArtifact,
    Program,
    parameter_value,
)

_MEETING = "rendezvous"
_MEETING_SECONDS = 600.0


_PAIRS = ("param", "input", "output", "result", "artifact")
"""Options that may be given several times, as NAME=VALUE."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m trainshed.pipelines.runner", description="Run a step of a pipeline."
    )
    made.add_argument("--program", required=True, help="file with the step's program")
    made.add_argument("--data", required=True, help="directory of the run's data")
    made.add_argument("--run-name", required=True, help="name of the run")
    made.add_argument("--attempt", default="0", help="which attempt of the step this is")
    for name, what in (
        ("param", "parameter, as NAME=VALUE"),
        ("input", "directory of one input, as NAME=DIRECTORY"),
        ("output", "directory of one output, as NAME=DIRECTORY"),
        ("result", "file for one metric, as KEY=FILE"),
        ("artifact", "address of one artifact of Kubeflow Pipelines, as NAME=URI"),
    ):
        made.add_argument(f"--{name}", action="append", default=[], help=what)
    made.add_argument("--results", help="directory for metrics, one file each")
    made.add_argument("--message", help="file for all metrics together, as a container's last words")
    for name, what in (
        ("artifact", "file of the metrics artifact of Kubeflow Pipelines"),
        ("uri", "its address"),
        ("name", "its name"),
    ):
        made.add_argument(f"--metrics-{name}", help=what)
    made.add_argument("--executor-output", help="file in which a container describes its artifacts")
    made.add_argument("--report", help="file for the HTML page")
    made.add_argument("--work", help="directory in which the step's code runs; made if absent")
    made.add_argument("--ready", help="file that is filled when the step's turn has come; otherwise it has")
    made.add_argument("--shared", help="directory in which code leaves files for later steps")
    made.add_argument("--shared-first", help="where the first worker has that directory")
    made.add_argument("--trust-data", action="store_true", help="load pickles of other runs")
    made.add_argument("--debug", action="store_true", help="load the inputs and open a console")
    made.add_argument("--strategy", help="the step is one of several workers, which are tasks of their own")
    made.add_argument("--worker", type=int, help="which worker this is, from 0")
    made.add_argument("--workers", type=int, help="how many there are")
    made.add_argument("--processes", type=int, default=1, help="processes of torchrun")
    made.add_argument(
        "--rendezvous-timeout", type=float, default=_MEETING_SECONDS, help="seconds to wait for the others"
    )
    return made


def rank(environment: Mapping[str, str]) -> int:
    """Return which worker this is by what its framework is told; 0 for a step that is not distributed."""
    if "TF_CONFIG" in environment:
        task = json.loads(environment["TF_CONFIG"]).get("task", {})
        return int(task.get("index", 0)) if task.get("type") in ("worker", "chief", "master") else 1
    for name in ("RANK", "PROCESS_ID", "WORKER_INDEX"):
        if environment.get(name, "").isdigit():
            return int(environment[name])
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the step and return the exit code."""
    given = parser().parse_args(arguments)
    started_in = str(Path.cwd())
    try:
        program = msgspec.json.decode(Path(given.program).read_bytes(), type=Program)
        pairs = {name: _pairs(getattr(given, name), name) for name in _PAIRS}
        for parameter in program.parameters:
            parameter_value(parameter, pairs["param"].get(parameter.name))
    except (OSError, ValueError, msgspec.DecodeError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    for name in ("input", "output", "result"):
        pairs[name] = {key: str(Path(path).absolute()) for key, path in pairs[name].items()}
    for name in ("metrics_artifact", "executor_output"):
        if getattr(given, name):
            setattr(given, name, str(Path(getattr(given, name)).absolute()))
    given.data, given.program = str(Path(given.data).absolute()), str(Path(given.program).absolute())
    if given.report:
        given.report = str(Path(given.report).absolute())
    if given.work:
        Path(given.work).mkdir(parents=True, exist_ok=True)
        os.chdir(given.work)
    meeting = Path(given.data) / program.step / _MEETING
    if given.worker is not None:
        try:
            _meet(given, meeting)
        except rendezvous.Missing as error:
            sys.stderr.write(f"error: step {program.step}: {error}\n")
            return 1
        if given.strategy == "DDP" and "LOCAL_RANK" not in os.environ:
            _torchrun(given.processes, list(sys.argv[1:] if arguments is None else arguments))
    own = rank(os.environ)
    os.environ.setdefault("WORKER_INDEX", str(own))
    if given.shared and own:
        shared.link(Path(given.shared), Path(given.shared_first))
    circumstances = Circumstances(
        data=given.data,
        run=given.run_name,
        attempt=given.attempt,
        parameters=pairs["param"],
        input_folders=pairs["input"],
        output_folders=pairs["output"],
        results=pairs["result"],
        results_folder=given.results,
        message=given.message,
        metrics_artifact=MetricsArtifact(given.metrics_name, given.metrics_uri, given.metrics_artifact)
        if given.metrics_artifact
        else None,
        artifacts=pairs["artifact"],
        executor_output=given.executor_output,
        saves=own == 0,
        trusted=given.trust_data,
        work=given.work,
    )
    if given.debug:
        from trainshed.pipelines.runner.console import console

        return console(Job(program, circumstances))
    failure = _run(Job(program, circumstances), given, meeting, started_in)
    if failure is None:
        return 0
    if given.worker is not None:
        rendezvous.fail(meeting, given.worker)
    if failure:
        sys.stderr.write(f"error: {failure}\n")
    return 1


def _run(job: Job, given: argparse.Namespace, meeting: Path, started_in: str) -> str | None:
    from trainshed.pipelines.runner.execution import execute
    from trainshed.pipelines.runner.report import render

    worker, report = given.worker, given.report
    peers = (lambda: rendezvous.failure_of_peer(meeting, worker)) if worker is not None else None
    outcome = execute(job, peers, started_in, Path(given.ready) if given.ready else None)
    if report is not None and outcome.begun and job.circumstances.saves and job.program.report:
        file = Path(report)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}.partial")
        partial.write_text(render(job.program.step, outcome))
        partial.replace(file)
    return outcome.error


def _meet(given: argparse.Namespace, meeting: Path) -> None:
    if "LOCAL_RANK" in os.environ:
        return  # started by torchrun, which this worker's first process became
    own = rendezvous.address()
    addresses = rendezvous.meet(meeting, given.worker, given.workers, own, given.rendezvous_timeout)
    os.environ.update(rendezvous.environment(given.strategy or "", addresses, given.worker))


def _torchrun(processes: int, arguments: list[str]) -> None:
    module = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    sys.stdout.flush()
    os.execv(sys.executable, [*module, "-m", "trainshed.pipelines.runner", *arguments])  # noqa: S606


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise ValueError(f"--{option} {text}: write NAME=VALUE")
        pairs[name] = value
    return pairs


if __name__ == "__main__":
    code = main()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # taking the interpreter apart takes a fifth of all that a small step does
