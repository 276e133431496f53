"""Commands that move images between the store and registries, and the lines that show how far they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from trainshed.cli.completion import complete_image
from trainshed.cli.console import err, note, out, user_errors, warn, warnings_of
from trainshed.cli.imagestore import OnePlatform, asked_platform, store_of_user
from trainshed.cluster.images.reference import parse
from trainshed.cluster.images.registry.credentials import of_user
from trainshed.cluster.images.store.store import SHORT, tagged

if TYPE_CHECKING:
    from trainshed.cluster.images.registry import transfer

Remote = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the image, with its registry unless that is Docker Hub.",
        autocompletion=complete_image,
    ),
]


def pull(
    name: Remote,
    platform: OnePlatform = "",
) -> None:
    """Fetch an image from its registry into the store. What has come of a pull that broke off is not fetched again."""
    from trainshed.cluster.images.registry import transfer  # loads an HTTP library

    with user_errors():
        reference = parse(name)
        wanted = asked_platform(platform)
        own = of_user(reference)
        with _lines() as tell:
            work = transfer.pull(store_of_user(), reference, wanted, [own] if own else [], tell)
            image = asyncio.run(work)
        note(f"digest: {image.descriptor.digest}")
        out.print(escape(reference.familiar))


def push(
    name: Remote,
    to: Annotated[
        str, typer.Option("--to", metavar="NAME", help="Under which name; its own by default.")
    ] = "",
) -> None:
    """Put an image of the store on its registry."""
    from trainshed.cluster.images.registry import transfer  # loads an HTTP library

    with user_errors():
        store = store_of_user()
        image = store.get(name)
        target = tagged(to or name)
        if image.over_machine:
            warn(
                f"{name} holds only what was added to this machine's root: it runs where Trainshed runs on such a one"
            )
        own = of_user(target)
        with _lines() as tell:
            digest = asyncio.run(transfer.push(store, image, target, [own] if own else [], tell))
        note(f"digest: {digest}")
        out.print(escape(target.familiar))


@contextmanager
def _lines() -> Iterator[transfer.Tell]:
    """Yield what shows progress: a bar for each blob on a terminal, else a line for each that is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bars = Progress(*columns, console=err, disable=not err.is_terminal)
    with bars, warnings_of("trainshed.cluster.images.registry"):
        tasks: dict[str, TaskID] = {}
        told: set[str] = set()

        def tell(progress: transfer.Progress) -> None:
            short = progress.digest.removeprefix("sha256:")[:SHORT]
            if progress.what == "there" and progress.digest in told:
                return  # its own pull has just brought it: a configuration, which says what else there is
            if progress.what in ("done", "there"):
                told.add(progress.digest)
            if not err.is_terminal:
                if progress.what in ("done", "there"):
                    note(f"{short}: {'already there' if progress.what == 'there' else 'done'}")
                return
            if progress.digest not in tasks:
                tasks[progress.digest] = bars.add_task(short, total=progress.total)
            bars.update(
                tasks[progress.digest], completed=progress.done, description=f"{short} {progress.what}"
            )

        yield tell
