"""What `trainshed run` applies: manifests or a script, adapted if that is wished for, or printed instead."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.markup import escape
from typer.core import TyperCommand

from trainshed.cli.console import err, note, warn
from trainshed.kube.meta.objects import Object
from trainshed.sdk import images, manifests
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.errors import UserError
from trainshed.sdk.script import Script, is_script, job_of

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class RunCommand(TyperCommand):
    """`--adapt=print` is short for `--adapt --dry-run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        spelt = [
            each
            for word in args[:end]
            for each in (["--adapt", "--dry-run"] if word == "--adapt=print" else [word])
        ]
        return super().parse_args(ctx, [*spelt, *args[end:]])


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asks of what is run; see the options of `run`."""

    adapt: bool = False
    cpu: bool = False
    workers: int | None = None
    nproc: int | None = None
    kind: str | None = None

    @property
    def adapts(self) -> bool:
        """Whether manifests are to be relaxed."""
        return self.adapt or self.cpu


def read(files: Sequence[str], asked: Asked) -> list[Object]:
    """Return the objects of the manifests, or the job that runs the script. Raises UserError."""
    if files and is_script(files[0]):
        path = Path(files[0])
        if not path.is_file():
            raise manifests.no_such_file(files[0])
        script = Script(
            path=path.resolve(),
            directory=Path.cwd().resolve(),
            arguments=tuple(files[1:]),
            workers=asked.workers or 1,
            processes=asked.nproc,
            kind=asked.kind or "",
        )
        return [job_of(script)]
    for name, value in (("--nproc", asked.nproc), ("--kind", asked.kind)):
        if value is not None:
            raise UserError(
                f"{name} is for scripts; a manifest says it itself", "trainshed run train.py --workers 4"
            )
    return manifests.load(files, warn)


def sources(files: Sequence[str]) -> list[str]:
    """Return those of the files that are manifests, beside which an `images.yaml` may be."""
    return [] if files and is_script(files[0]) else list(files)


async def adapted(target: Target, files: Sequence[str], objects: list[Object], asked: Asked) -> list[Object]:
    """Return the objects as they are applied: relaxed, and with so many workers. Shows the difference on stderr."""
    from trainshed.sdk.adapt import Wishes, adapt, diff, set_workers

    workers = None if files and is_script(files[0]) else asked.workers
    if not asked.adapts:
        if workers is not None:
            set_workers(objects, workers)
        return objects
    after = adapt(objects, await _world(target, files, objects), Wishes(workers=workers, cpu=asked.cpu))
    lines = diff(objects, after)
    note("adapted; the file stays as it is:" if lines else "there is nothing to adapt")
    for line in lines:
        colour = _COLOURS.get(line[:1], "")
        err.print(f"[{colour}]{escape(line)}[/]" if colour else escape(line))
    return after


async def _world(target: Target, files: Sequence[str], objects: Sequence[Object]) -> Any:
    from trainshed.sdk import local
    from trainshed.sdk.foresight.gather import of_cluster, of_machine
    from trainshed.sdk.foresight.references import claims

    known = images.known(sources(files), target.paths.images_file) if target.is_local else None
    if known is not None and (not target.paths.root.is_dir() or local.running(target.paths) is None):
        world = of_machine(target.namespace or "default", known, local.kept_gang(target.paths))
        return world if target.paths.root.is_dir() else world.without(claims(objects))
    async with connected(target) as client:
        return await of_cluster(client, objects, known)


def print_objects(objects: Sequence[Object], form: str) -> None:
    """Print what would be applied to stdout, as YAML or JSON."""
    from trainshed.kube.wire.yamltext import documents

    if form == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        text = json.dumps(objects[0] if len(objects) == 1 else listed, indent=2) + "\n"
    else:
        text = documents(objects)
    sys.stdout.write(text)


def watched(files: Sequence[str]) -> list[Path]:
    """Return what `--watch` looks at: the manifests, what stands for their images, or the script and what is beside it.

    Raises:
        UserError: standard input cannot be watched.
    """
    if "-" in files:
        raise UserError("standard input cannot be watched", "name a file")
    if files and is_script(files[0]):
        return [Path(files[0]).resolve().parent]
    places = [Path(each) for each in files]
    for file in images.beside(list(files)):
        layers = [layer.source for image in images.read(file).values() for layer in image.layers]
        places += [file, *map(Path, layers)]
    return places


def again() -> list[str]:
    """Return the arguments of this very `run` without --watch."""
    arguments = sys.argv[sys.argv.index("run") + 1 :]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [*(word for word in arguments[:end] if word != "--watch"), *arguments[end:]]
