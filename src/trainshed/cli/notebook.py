"""`trainshed notebook`: tagged notebooks as pipelines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from trainshed.cli import notebookrun
from trainshed.cli.completion import complete_step
from trainshed.cli.console import err, note, out, user_errors
from trainshed.cli.options import Context, Kubeconfig, Namespace
from trainshed.sdk.errors import REFUSED, UserError

if TYPE_CHECKING:
    from trainshed.pipelines.diagnostics import Diagnostic
    from trainshed.pipelines.ir import Pipeline

app = typer.Typer(
    help="Make pipelines of tagged notebooks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Notebook = Annotated[
    Path,
    typer.Argument(
        metavar="NOTEBOOK",
        help="Notebook file (.ipynb), or a Python file with a @pipeline: FILE.py, or FILE.py:FUNCTION of several.",
        show_default=False,
    ),
]
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


class Target(StrEnum):
    """What to compile to."""

    TEKTON = "tekton"
    TEKTON_V1BETA1 = "tekton-v1beta1"
    KFP = "kfp"
    LOCAL = "local"


class Format(StrEnum):
    """How to print findings."""

    TEXT = "text"
    JSON = "json"


@app.command("compile")
def compile_(
    notebook: _Notebook,
    to: Annotated[
        Target | None,
        typer.Option("--to", help="What to make of it: tekton unless told, kfp with --kfp-host."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-O", metavar="FILE", help="Write here instead of to stdout.")
    ] = None,
    run_name: Annotated[
        str | None,
        typer.Option("--run-name", metavar="NAME", help="Name of the run; otherwise made up."),
    ] = None,
    param: notebookrun.Parameters = None,
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="IMAGE", help="Image of steps that name none."),
    ] = None,
    namespace: Namespace = None,
    service_account: Annotated[
        str | None,
        typer.Option("--service-account", metavar="NAME", help="Service account of the run's pods."),
    ] = None,
    split: Annotated[
        bool, typer.Option("--split", help="Write a Pipeline and a run that refers to it.")
    ] = False,
    workers_as_tasks: notebookrun.WorkersAsTasks = False,
    kfp_host: Annotated[
        str | None,
        typer.Option("--kfp-host", metavar="URL", help="Upload it to KFP there and run it."),
    ] = None,
) -> None:
    """Write the pipeline of a notebook as YAML.

    The same notebook gives the same bytes. Findings go to stderr; with an error nothing is written and the exit
    code is 1.
    """
    from trainshed.pipelines.emit.options import Options
    from trainshed.sdk import notebook as notebooks

    with _notebook_errors(notebook):
        to = to or (Target.KFP if kfp_host is not None else Target.TEKTON)
        if kfp_host is not None and to is not Target.KFP:
            raise UserError("--kfp-host is for --to kfp")
        pipeline, found = notebooks.pipeline_of(notebook)
        options = Options(
            run_name=run_name,
            namespace=namespace,
            image=image,
            split=split,
            workers_as_tasks=workers_as_tasks,
            service_account=service_account,
            parameters=notebooks.parameters(pipeline, param or []),
        )
        text, limits = notebooks.emitted(pipeline, to.value, options)
        _report(notebook, [*found, *limits], err.print)
        if kfp_host is not None:
            from trainshed.sdk.kfphost import upload

            made = upload(text, kfp_host, pipeline, options.parameters, run_name, namespace)
            note(f"{escape(pipeline.name)}: version {escape(made.version)}")
            typer.echo(made.address)
        if output is None and kfp_host is None:
            typer.echo(text, nl=False)
        elif output is not None:
            notebooks.write(output, text)


@app.command()
def check(
    notebook: Annotated[
        list[Path],
        typer.Argument(metavar="NOTEBOOK...", help="Notebook files; FILE.py as well.", show_default=False),
    ],
    output: Annotated[Format, typer.Option("--output", "-o", help="Form of the findings.")] = Format.TEXT,
) -> None:
    """Say what is wrong with notebooks, with cell, line and a fix.

    Exit code 1 when one of them cannot become a pipeline.
    """
    import msgspec

    from trainshed.pipelines.diagnostics import has_errors

    found: list[Diagnostic] = []
    unread = False
    for path in notebook:
        try:
            with user_errors():
                findings = _checked(path, output)
        except typer.Exit:
            unread = True
            continue
        # Of several, each finding says whose it is.
        found += [
            msgspec.structs.replace(one, file=one.file or str(path)) if len(notebook) > 1 else one
            for one in findings
        ]
    if output == Format.JSON and (found or not unread):
        typer.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    if has_errors(found) or unread:
        raise typer.Exit(REFUSED)


def _checked(notebook: Path, output: Format) -> Sequence[Diagnostic]:
    """Return the findings of a notebook, printed as text. Raises UserError when it cannot be read."""
    from trainshed.pipelines.diagnostics import has_errors
    from trainshed.sdk import notebook as notebooks

    compiled = notebooks.checked(notebook)
    if output == Format.TEXT:
        _report(notebook, compiled.diagnostics, out.print)
        if compiled.pipeline is not None and not has_errors(compiled.diagnostics):
            steps = len(compiled.pipeline.steps)
            out.print(f"[green]✓[/] {escape(str(notebook))}: {steps} step{'s' if steps != 1 else ''}")
    return compiled.diagnostics


@app.command()
def graph(
    notebook: _Notebook,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the graph as SVG; - is stdout.")
    ] = None,
) -> None:
    """Draw the steps, what each waits for and what it loads."""
    from trainshed.pipelines import drawing
    from trainshed.sdk import notebook as notebooks

    pipeline = _compiled(notebook)
    if svg is None:
        for line in drawing.lines(pipeline):
            typer.echo(line)
    elif str(svg) == "-":
        typer.echo(drawing.svg(pipeline), nl=False)
    else:
        with user_errors():
            notebooks.write(svg, drawing.svg(pipeline))


@app.command()
def show(
    notebook: _Notebook,
    step: Annotated[
        str,
        typer.Argument(
            metavar="STEP", help="Name of a step.", show_default=False, autocompletion=complete_step
        ),
    ],
) -> None:
    """Print the program of a step: what it loads, every block with its cell, what it saves."""
    from trainshed.pipelines.listing import listing
    from trainshed.sdk import notebook as notebooks

    pipeline = _compiled(notebook)
    with user_errors():
        typer.echo(listing(pipeline, notebooks.step_of(pipeline, step)), nl=False)


@app.command()
def run(
    notebook: _Notebook,
    param: notebookrun.Parameters = None,
    run_name: notebookrun.RunName = None,
    image: notebookrun.Image = None,
    start_at: notebookrun.From = None,
    step: notebookrun.OneStep = None,
    debug: notebookrun.Debug = False,
    at_once: notebookrun.AtOnce = None,
    prepare: notebookrun.Prepare = True,
    cpu: notebookrun.Cpu = False,
    workers_as_tasks: notebookrun.WorkersAsTasks = False,
    detach: notebookrun.Detach = False,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="Form of the result; json has no logs.")
    ] = Format.TEXT,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Run a notebook as a pipeline, and follow it to its end.

    Starts the local cluster when it is not up; --context names another with Tekton. A finished run of the same name
    is replaced. Exit code 0: succeeded; 1: refused or failed. Ctrl-C detaches: the run goes on.
    """
    from trainshed.pipelines.devices import without_devices
    from trainshed.pipelines.emit.options import Options
    from trainshed.sdk import notebook as notebooks

    with _notebook_errors(notebook):
        pipeline, found = notebooks.pipeline_of(notebook)
        _report(notebook, found, err.print)
        if cpu:
            pipeline = without_devices(pipeline)
        target = notebookrun.target_of(kubeconfig, context, namespace)
        parameters = notebooks.parameters(pipeline, param or [])
        if debug != (step is not None):
            raise UserError("--step and --debug go together", "--from STEP runs a step again")
        if step is not None:
            code = notebookrun.debug(pipeline, notebook, target, step, run_name, parameters)
        else:
            options = Options(
                run_name=run_name or pipeline.name,
                image=image,
                parameters=parameters,
                at_once=at_once,
                prepare=prepare,
                workers_as_tasks=workers_as_tasks,
            )
            as_json = output == Format.JSON
            code = notebookrun.run_pipeline(
                pipeline, notebook, target, options, start_at=start_at, detach=detach, as_json=as_json
            )
    raise typer.Exit(code)


def _compiled(notebook: Path) -> Pipeline:
    from trainshed.sdk import notebook as notebooks

    with _notebook_errors(notebook):
        pipeline, found = notebooks.pipeline_of(notebook)
        _report(notebook, found, err.print)
        return pipeline


@contextmanager
def _notebook_errors(notebook: Path) -> Iterator[None]:
    """Print the findings of a notebook that cannot be compiled, and leave with exit code 1."""
    from trainshed.pipelines.diagnostics import NotebookError

    with user_errors():
        try:
            yield
        except NotebookError as error:
            _report(notebook, error.diagnostics, err.print)
            raise UserError(f"{notebook} cannot become a pipeline") from error


def _report(notebook: Path, found: Sequence[Diagnostic], write: object) -> None:
    assert callable(write)
    for one in found:
        colour = _COLOURS[one.severity]
        place = f"{notebook}{f', {one.where}' if one.where else ''}"
        write(f"{escape(place)}: [{colour}]{one.severity}[/] {one.code}: {escape(one.message)}")
        if one.fix:
            write(f"  [cyan]{escape(one.fix)}[/]")
