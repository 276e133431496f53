"""`trainshed image build`: a Dockerfile becomes an image of the store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from trainshed.cli.console import err, note, out, say_hint, user_errors, warn, warnings_of
from trainshed.sdk.errors import UNAVAILABLE, UserError

if TYPE_CHECKING:
    from trainshed.cli.buildprogress import LiveProgress, PlainProgress, QuietProgress
    from trainshed.cluster.images.building.errors import BuildFailed
    from trainshed.cluster.images.building.progress import Progress
    from trainshed.cluster.images.dockerfile.lines import DockerfileError
    from trainshed.cluster.images.dockerfile.steps import Options
    from trainshed.cluster.images.oci import Platform
    from trainshed.cluster.images.reference import Reference
    from trainshed.cluster.images.store.store import StoredImage

_AROUND = 2
"""Lines that are shown before and after those that an error is about."""
_MAX_DOCKERFILE = 4 << 20
_ADDRESS = re.compile(r"(?:https?|git|ssh)://|git@")


def build(
    context: Annotated[
        str, typer.Argument(metavar="DIRECTORY", help="The build context: what COPY takes files from.")
    ],
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", metavar="NAME", help="The image's name; may be repeated."),
    ] = None,
    file: Annotated[
        str,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="The Dockerfile; - is standard input. Else the context's own.",
        ),
    ] = "",
    build_arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUE]", help="The value of an ARG; without one, the variable's. May be repeated."
        ),
    ] = None,
    target: Annotated[str, typer.Option(metavar="STAGE", help="Build this stage and what it needs.")] = "",
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="id=ID[,src=FILE|env=NAME]", help="A secret for RUN --mount=type=secret. May be repeated."
        ),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label of the image; may be repeated.")
    ] = None,
    platform: Annotated[
        str,
        typer.Option(metavar="OS/ARCH", help="Of base images that are pulled; this machine's by default."),
    ] = "",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do every step again.")] = False,
    pull: Annotated[
        bool, typer.Option("--pull", help="Ask registries for base images that are here.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the image's id only.")] = False,
    progress: Annotated[
        Literal["auto", "plain", "tty"], typer.Option(help="How to show what is done.")
    ] = "auto",
    iidfile: Annotated[str, typer.Option(metavar="FILE", help="Write the image's id to a file.")] = "",
) -> None:
    """Build an image of a Dockerfile. No daemon, no root; commands run in a sandbox like a pod's."""
    from trainshed.cluster.images.building.errors import BuildFailed, StepError
    from trainshed.cluster.images.dockerfile.lines import DockerfileError
    from trainshed.cluster.images.dockerfile.steps import Options
    from trainshed.cluster.images.store.store import tagged, wanted_platform
    from trainshed.cluster.sandbox.model import RuntimeUnavailable

    with user_errors():
        directory, dockerfile = _places(context, file)
        text = _text(dockerfile)
        names = [tagged(each) for each in tag or ()]
        try:
            options = Options(
                arguments=dict(_argument(each) for each in build_arg or ()),
                target=target,
                labels=dict(_pair("--label", each) for each in label or ()),
                platform=wanted_platform(platform),
            )
        except ValueError as error:
            raise UserError(str(error)) from error
        view = _view(progress, quiet)
        shown = str(dockerfile or "Dockerfile")
        with _Secrets(secret or ()) as secrets:
            try:
                work = _Work(
                    directory,
                    dockerfile,
                    text,
                    options,
                    secrets=secrets.files,
                    no_cache=no_cache,
                    pull=pull,
                )
                image = asyncio.run(work.run(names, view))
            except BuildFailed as error:
                view.close()
                _say_failure(error, shown, text)
                raise typer.Exit(1) from error
            except DockerfileError as error:
                view.close()
                _say_place(shown, text, error)
                raise UserError(f"{shown}:{error.line}: {error.message}") from error
            except StepError as error:
                view.close()
                raise UserError(str(error)) from error
            except RuntimeUnavailable as error:
                view.close()
                raise UserError(error.message, error.remedy, UNAVAILABLE) from error
            finally:
                view.close()
        if iidfile:
            Path(iidfile).write_text(image)
        for name in names:
            if not quiet:
                note(f"named {escape(name.familiar)}")
        out.print(image)


class _Work:
    """What a build needs, put together."""

    def __init__(
        self,
        directory: Path,
        dockerfile: Path | None,
        text: str,
        options: Options,
        *,
        secrets: dict[str, Path],
        no_cache: bool,
        pull: bool,
    ) -> None:
        self._directory, self._dockerfile, self._text = directory, dockerfile, text
        self._options, self._secrets, self._no_cache, self._pull = options, secrets, no_cache, pull

    async def run(self, names: Sequence[Reference], view: Progress) -> str:
        """Return the id of the image."""
        from trainshed.cluster.images.building.base import Bases
        from trainshed.cluster.images.building.builder import Builder, Parts
        from trainshed.cluster.images.building.context import Context, load_ignore
        from trainshed.cluster.images.building.sandbox import BuildSandbox
        from trainshed.cluster.images.dockerfile.parse import parse
        from trainshed.cluster.images.dockerfile.planning import plan
        from trainshed.cluster.images.store.store import ImageStore
        from trainshed.cluster.paths import StatePaths
        from trainshed.sdk.images import bases

        task = view.begin(f"[internal] load build definition from {self._dockerfile or 'standard input'}")
        parsed = parse(self._text)
        whole = plan(parsed, self._options)
        ignored = load_ignore(self._directory, self._dockerfile)
        task.end("done")
        for name in whole.unused:
            warn(f"--build-arg {name}: no ARG has that name")
        paths = StatePaths.default().prepare()
        store = ImageStore(paths.image_store)
        folders = [self._directory, *([self._dockerfile.parent] if self._dockerfile else [])]

        async def fetch(name: Reference, wanted: Platform) -> StoredImage:
            from trainshed.cluster.images.registry.credentials import of_user
            from trainshed.cluster.images.registry.transfer import pull

            own = of_user(name)
            task = view.begin(f"[internal] pull {name.familiar}")
            try:
                with warnings_of("trainshed.cluster.images.registry"):
                    image = await pull(store, name, wanted, [own] if own else [])
            except BaseException:
                task.end("failed")
                raise
            task.end("done")
            return image

        async with BuildSandbox(paths.builds, [str(paths.root)]) as sandbox:
            parts = Parts(
                store=store,
                bases=Bases(store, bases(*folders), fetch, self._options.platform, again=self._pull),
                context=Context(self._directory, ignored),
                sandbox=sandbox,
                progress=view,
                caches=paths.build_caches,
                secrets=self._secrets,
                use_cache=not self._no_cache,
            )
            return (await Builder(parts, whole, self._options).build(names)).id


def _places(context: str, file: str) -> tuple[Path, Path | None]:
    """Return the context and the Dockerfile; None for standard input. Raises UserError."""
    if context == "-" or _ADDRESS.match(context):
        raise UserError(
            f"{context}: the build context must be a directory",
            "unpack or clone it, then name the directory"
            if context != "-"
            else "-f - reads the Dockerfile from it",
        )
    directory = Path(context)
    if not directory.is_dir():
        raise UserError(f"{context}: no such directory")
    if file == "-":
        return directory.resolve(), None
    dockerfile = Path(file) if file else directory / "Dockerfile"
    if file and not dockerfile.is_file() and (directory / file).is_file():
        dockerfile = directory / file
    if not dockerfile.is_file():
        raise UserError(f"{dockerfile}: no such file", "-f names another Dockerfile")
    return directory.resolve(), dockerfile


def _text(dockerfile: Path | None) -> str:
    if dockerfile is None:
        data = sys.stdin.buffer.read(_MAX_DOCKERFILE + 1)
    else:
        with dockerfile.open("rb") as file:
            data = file.read(_MAX_DOCKERFILE + 1)
    if len(data) > _MAX_DOCKERFILE:
        raise UserError(f"{dockerfile or 'standard input'} is larger than {_MAX_DOCKERFILE >> 20} MiB")
    return data.decode("utf-8", "surrogateescape")


def _argument(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name:
        raise UserError(f"--build-arg {text}: expected NAME=VALUE")
    return name, value if equals else os.environ.get(name, "")


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UserError(f"{option} {text}: expected NAME=VALUE")
    return name, value


class _Secrets:
    """Secrets as files; those of variables are written to files that nobody else can read, and deleted."""

    def __init__(self, options: Sequence[str]) -> None:
        self.files: dict[str, Path] = {}
        self._stack = contextlib.ExitStack()
        self._options = options

    def __enter__(self) -> _Secrets:
        import tempfile

        for option in self._options:
            fields = dict(part.partition("=")[::2] for part in option.split(","))
            identity = fields.get("id", "")
            source = fields.get("src") or fields.get("source") or ""
            if not identity:
                raise UserError(f"--secret {option}: expected id=ID,src=FILE or id=ID,env=NAME")
            variable = fields.get("env") or ("" if source else identity)
            if not source and variable in os.environ:
                file = self._stack.enter_context(tempfile.NamedTemporaryFile(prefix=".trainshed-secret-"))
                file.write(os.environb[variable.encode()])
                file.flush()
                self.files[identity] = Path(file.name)
            elif source:
                if not Path(source).is_file():
                    raise UserError(f"--secret {option}: {source}: no such file")
                self.files[identity] = Path(source).absolute()
            else:
                raise UserError(f"--secret {option}: no variable {variable} is set")
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()


def _view(progress: str, quiet: bool) -> LiveProgress | PlainProgress | QuietProgress:
    from trainshed.cli.buildprogress import LiveProgress, PlainProgress, QuietProgress

    if quiet:
        return QuietProgress()
    if progress == "tty" or (progress == "auto" and err.is_terminal):
        return LiveProgress(err)
    return PlainProgress(err)


def _say_failure(error: BuildFailed, file: str, text: str) -> None:
    """Say which step failed, the last that its command printed, and where it stands."""
    if error.tail:
        from trainshed.cli.buildprogress import printable

        shown = [printable(line.encode()) for line in error.tail]
        rule = "-" * 6
        note(escape("\n".join([rule, f" > {error.title}:", *shown, rule])))
    _say_place(file, text, error)
    err.print(f"[bold red]error:[/] {escape(f'{file}:{error.line}: {error.title}: {error.message}')}")
    if error.title.startswith("FROM "):
        name = error.title.removeprefix("FROM ")
        say_hint(
            f'to build on this machine\'s root instead: images.yaml beside the Dockerfile, bases: {{"{name}": machine}}'
        )


def _say_place(file: str, text: str, error: BuildFailed | DockerfileError) -> None:
    """Show the lines that an error is about, and those around them."""
    lines = text.splitlines()
    first, last = max(error.line - _AROUND, 1), min(error.end + _AROUND, len(lines))
    rows = [
        f"{number:>4} | {'>>>' if error.line <= number <= error.end else '   '} {lines[number - 1]}"
        for number in range(first, last + 1)
    ]
    rule = "-" * 20
    note(escape("\n".join([f"{file}:{error.line}", rule, *rows, rule])))
