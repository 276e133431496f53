"""`trainshed notebook run`: a notebook's pipeline on the local cluster, or where Tekton runs."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from trainshed.cli.cluster import ensure_up
from trainshed.cli.completion import complete_parameter, complete_step
from trainshed.cli.console import err, note, out
from trainshed.cli.options import Context, Kubeconfig, Namespace
from trainshed.sdk.errors import REFUSED

if TYPE_CHECKING:
    from trainshed.kube.meta.objects import Object
    from trainshed.pipelines.emit.options import Options
    from trainshed.pipelines.ir import Pipeline
    from trainshed.sdk.connection import Target
    from trainshed.sdk.pipelineruns.ended import PipelineOutcome

Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        help="Set a parameter of the run.",
        autocompletion=complete_parameter,
    ),
]
RunName = Annotated[
    str | None,
    typer.Option("--run-name", metavar="NAME", help="Name of the run; otherwise the pipeline's."),
]
Image = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="Image of steps that name none.")]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="STEP",
        help="Run this step and those after it, on the data of the last run.",
        autocompletion=complete_step,
    ),
]
OneStep = Annotated[
    str | None,
    typer.Option(
        "--step", metavar="STEP", help="With --debug: the step to look into.", autocompletion=complete_step
    ),
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Open a kernel with the inputs of --step loaded, here, as in Jupyter.")
]
AtOnce = Annotated[
    int | None,
    typer.Option(
        "--at-once", metavar="N", min=1, help="Steps that run at the same time here; 4 unless told."
    ),
]
Prepare = Annotated[
    bool,
    typer.Option(
        "--prepare/--no-prepare", help="Start the pods of the next steps here before their turn; they wait."
    ),
]
Cpu = Annotated[bool, typer.Option("--cpu", help="Ask for no GPUs and other devices, whatever tags say.")]
WorkersAsTasks = Annotated[
    bool, typer.Option("--workers-as-tasks", help="Make each worker of a distributed step a task.")
]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Start the run and return; do not follow.")]


def run_pipeline(
    pipeline: Pipeline,
    notebook: Path,
    target: Target,
    options: Options,
    *,
    start_at: str | None = None,
    detach: bool = False,
    as_json: bool = False,
) -> int:
    """Run a pipeline and return the exit code. Raises what `user_errors` explains."""
    from trainshed.sdk.pipelineruns.start import emitted

    objects = emitted(pipeline, target, options, notebook)
    if target.is_local:
        ensure_up()
    return asyncio.run(_run(pipeline, target, objects, start_at, detach, as_json))


async def _run(
    pipeline: Pipeline,
    target: Target,
    objects: Sequence[Object],
    start_at: str | None,
    detach: bool,
    as_json: bool,
) -> int:
    from trainshed.sdk.connection import connected
    from trainshed.sdk.pipelineruns.start import start

    async with connected(target) as client:
        if start_at is not None:
            from trainshed.sdk.pipelineruns.again import again

            pipeline, objects = await again(client, pipeline, objects, start_at)
        run = await start(client, objects)
        name, namespace = run["metadata"]["name"], run["metadata"]["namespace"]
        note(f"pipelinerun.tekton.dev/{escape(name)} created")
        if detach:
            note(_how_to_go_on(name, namespace))
            return 0
        ended = await _follow(client, pipeline, run, as_json)
    if ended is None:
        note(f"\ndetached: the run {escape(name)} goes on\n{_how_to_go_on(name, namespace)}")
        return 0
    return report(ended, as_json)


async def _follow(client: object, pipeline: Pipeline, run: Object, as_json: bool) -> PipelineOutcome | None:
    """Follow the run on the terminal; None when a Ctrl-C detached."""
    from trainshed.cli.notebookview import LiveRun, PlainRun
    from trainshed.client.client import Client
    from trainshed.sdk.pipelineruns.follow import Follower

    assert isinstance(client, Client)
    live = out.is_terminal and not as_json
    with LiveRun(out) if live else PlainRun(None if as_json else out, err) as view:
        following = asyncio.create_task(Follower(client, pipeline, run, view).run())
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, following.cancel)
        try:
            return await following
        except asyncio.CancelledError:
            return None
        finally:
            loop.remove_signal_handler(signal.SIGINT)


def report(ended: PipelineOutcome, as_json: bool = False) -> int:
    """Print how a run ended and return the exit code: what failed first."""
    from trainshed.sdk.pipelineruns.ended import summary

    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(ended)).decode())
        return 0 if ended.succeeded else REFUSED
    for line in summary(ended):
        (out if ended.succeeded else err).out(line, highlight=False)
    return 0 if ended.succeeded else REFUSED


def _how_to_go_on(name: str, namespace: str) -> str:
    return "\n".join(
        (
            f"  look     kubectl get pipelinerun,taskruns -n {namespace}",
            f"  logs     kubectl logs -n {namespace} -l tekton.dev/pipelineRun={name} --all-containers --prefix -f",
            f"  delete   kubectl delete pipelinerun {name} -n {namespace}",
        )
    )


def target_of(kubeconfig: Kubeconfig, context: Context, namespace: Namespace) -> Target:
    """Return which cluster the options name."""
    from trainshed.sdk.connection import Target

    return Target(kubeconfig, context, namespace)


def debug(
    pipeline: Pipeline,
    notebook: Path,
    target: Target,
    step: str,
    run_name: str | None,
    parameters: dict[str, str],
) -> int:
    """Open a console in a kernel that has the step's inputs, and return its exit code."""
    import subprocess
    import tempfile

    from trainshed.pipelines.emit.program import program_text
    from trainshed.sdk import notebook as notebooks
    from trainshed.sdk.connection import connected
    from trainshed.sdk.errors import UserError
    from trainshed.sdk.pipelineruns.again import last_run
    from trainshed.sdk.pipelineruns.data import data_directory, given_parameters

    wanted = notebooks.step_of(pipeline, step)

    async def where() -> tuple[str, str, dict[str, str]]:
        async with connected(target) as client:
            before = await last_run(client, run_name or pipeline.name)
            found = await data_directory(client, before)
            if found is None:
                raise UserError("the data of the last run is not on this machine", "run without --context")
            return before["metadata"]["name"], found, given_parameters(before)

    name, data, given = asyncio.run(where())
    with tempfile.TemporaryDirectory(prefix="trainshed-debug-") as folder:
        program = Path(folder) / "program.json"
        program.write_text(program_text(pipeline, wanted))
        command = [sys.executable, "-m", "trainshed.pipelines.runner", "--program", str(program)]
        command += ["--data", f"{data}/steps", "--run-name", name, "--debug"]
        known = {parameter.name for parameter in pipeline.parameters}
        command += [f"--param={key}={value}" for key, value in (given | parameters).items() if key in known]
        return subprocess.run(command, check=False, cwd=notebook.resolve().parent).returncode
