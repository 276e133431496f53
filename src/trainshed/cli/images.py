"""Commands about images: the store's, and names that stand for directories of this machine."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from trainshed.cli import imagebuild, imagestore, imagetransfer
from trainshed.cli.console import note, out, show, user_errors
from trainshed.cluster.images.directories import Image, ImageProblem, ImageRegistry
from trainshed.cluster.paths import StatePaths
from trainshed.cluster.sandbox.model import Layer
from trainshed.sdk.errors import UserError
from trainshed.sdk.images import register

app = typer.Typer(
    help="Build, pull, push, load, save, list and name images.",
    no_args_is_help=True,
)
for command in (
    imagebuild.build,
    imagestore.ls,
    imagestore.tag,
    imagestore.inspect,
    imagestore.history,
    imagestore.rm,
    imagestore.prune,
    imagestore.pin,
    imagestore.save,
    imagestore.load,
    imagetransfer.pull,
    imagetransfer.push,
):
    app.command()(command)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Image name as in the manifest.")]


def _registry() -> ImageRegistry:
    return ImageRegistry(StatePaths.default().prepare().images_file)


@app.command()
def add(
    name: Name,
    layer: Annotated[
        list[str] | None,
        typer.Option(metavar="DIRECTORY:PATH", help="A directory to show at PATH; may be repeated."),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable; may be repeated.")
    ] = None,
    entrypoint: Annotated[
        str, typer.Option(help="Command line to run when the container has no `command`.")
    ] = "",
    workdir: Annotated[str, typer.Option(help="Working directory.")] = "",
) -> None:
    """Let directories of this machine stand for a name. An image of that name in the store comes before them."""
    with user_errors():
        image = Image(
            layers=tuple(map(_layer, layer or ())),
            env=dict(map(_variable, env or ())),
            entrypoint=tuple(shlex.split(entrypoint)),
            workdir=workdir,
        )
        (normal,) = register({name: image}, _registry())
        out.print(escape(f"{normal} registered"))


@app.command()
def remove(name: Name) -> None:
    """Forget directories that were added for a name."""
    with user_errors():
        try:
            known = _registry().remove(name)
        except ImageProblem as error:
            raise UserError(str(error)) from error
        if not known:
            raise UserError(f"no image {name} is registered", "trainshed image list")
        note(f"{escape(name)} removed")


@app.command("list")
def list_images(
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print.")] = "text",
) -> None:
    """List the names that stand for directories. Images of the store: `trainshed image ls`."""
    with user_errors():
        images = _registry().list()
        if output == "json":
            out.print_json(json.dumps(msgspec.to_builtins(images)))
            return
        table = Table("NAME", "LAYERS", "ENTRYPOINT", box=None, pad_edge=False)
        for name, image in sorted(images.items()):
            layers = "\n".join(f"{each.source} → {each.path}" for each in image.layers)
            table.add_row(escape(name), escape(layers), escape(shlex.join(image.entrypoint)))
        show(table)


def _layer(text: str) -> Layer:
    source, separator, path = text.partition(":")
    if not separator or not path.startswith("/"):
        raise UserError(f"--layer {text}: expected DIRECTORY:PATH with an absolute PATH")
    return Layer(source=str(Path(source).resolve()), path=path)


def _variable(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise UserError(f"--env {text}: expected NAME=VALUE")
    return name, value
