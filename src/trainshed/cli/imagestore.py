"""Commands about the store of images: what is in it, under which names, from and into files."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from trainshed.cli import imagespace
from trainshed.cli.completion import complete_image
from trainshed.cli.console import is_interactive, note, out, show, user_errors
from trainshed.cli.options import TextOrJson
from trainshed.cluster.images.oci import InvalidImage, Platform
from trainshed.cluster.images.reference import InvalidReference, Reference, parse
from trainshed.cluster.images.store import archive, confined, garbage
from trainshed.cluster.images.store.blobs import MissingBlob
from trainshed.cluster.images.store.space import Space
from trainshed.cluster.images.store.store import SHORT, ImageStore, StoredImage, wanted_platform
from trainshed.cluster.images.store.usage import Usage, usage_of
from trainshed.cluster.paths import StatePaths
from trainshed.kube.meta.duration import human
from trainshed.kube.meta.times import format_time, parse_time
from trainshed.sdk.errors import UserError
from trainshed.sdk.local import image_use

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of an image, or its id.", autocompletion=complete_image),
]
Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME", help="Names of images, or their ids.", autocompletion=complete_image),
]
OnePlatform = Annotated[
    str, typer.Option(metavar="OS/ARCH", help="Which image of several; this machine's by default.")
]


def asked_platform(text: str) -> Platform:
    """Return the platform that a command is given, or this machine's. Raises UserError."""
    try:
        return wanted_platform(text)
    except ValueError as error:
        raise UserError(str(error)) from error


def store_of_user() -> ImageStore:
    """Return the store of this user's state directory. Raises StateError."""
    return ImageStore(StatePaths.default().prepare().image_store)


def ls(output: TextOrJson = "text") -> None:
    """List the images of the store."""
    with user_errors():
        paths = StatePaths.default().prepare()
        store = ImageStore(paths.image_store)
        rows = []
        for name, descriptor in store.all().items():
            try:
                rows.append((name, store.image(descriptor)))
            except (InvalidImage, MissingBlob) as error:
                note(f"[yellow]warning:[/] {escape(name.familiar)}: {escape(str(error))}")
        usage = usage_of(store, paths.pods)
        if output == "json":
            out.print_json(json.dumps([_summary(name, image, usage) for name, image in rows]))
            return
        columns = ("REPOSITORY", "TAG", "IMAGE ID", "CREATED", "SIZE", "ON DISK", "USED", "KEPT")
        table = Table(*columns, box=None, pad_edge=False)
        for name, image in rows:
            table.add_row(
                escape(name.familiar_repository),
                escape(name.tag or "<none>"),
                _short(image.id),
                _age(image.config.created),
                imagespace.size_text(image.size),
                imagespace.size_text(usage.size_of(item)) if (item := usage.of(image)) else "-",
                f"{human(time.time() - item.used_at)} ago" if item else "-",
                item.kept if item else "",
            )
        show(table)
        if (use := image_use(paths)) is not None and rows:
            note(imagespace.use_text(use))


def inspect(names: Names) -> None:
    """Print manifest, configuration and place of images as JSON."""
    with user_errors():
        store = store_of_user()
        found = []
        for name in names:
            image = store.get(name)
            found.append(
                {
                    "id": image.id,
                    "digest": image.descriptor.digest,
                    "names": [known.familiar for known in store.names_of(image.descriptor)],
                    "size": image.size,
                    "manifest": msgspec.to_builtins(image.manifest),
                    "config": json.loads(store.blobs.read(image.id)),
                    "layers": [str(store.layers.path(each)) for each in image.config.rootfs.diff_ids],
                }
            )
        out.print_json(json.dumps(found))


def history(name: Name, output: TextOrJson = "text") -> None:
    """Print the instructions that an image was built by, the last first."""
    with user_errors():
        image = store_of_user().get(name)
        sizes = iter(image.manifest.layers)
        rows = []
        for step in image.config.history:
            layer = None if step.empty_layer else next(sizes, None)
            rows.append((step, layer.size if layer is not None else 0))
        rows.reverse()
        if output == "json":
            out.print_json(json.dumps([{**msgspec.to_builtins(step), "size": size} for step, size in rows]))
            return
        table = Table("CREATED", "CREATED BY", "SIZE", "COMMENT", box=None, pad_edge=False)
        for step, size in rows:
            table.add_row(
                _age(step.created), escape(step.created_by), imagespace.size_text(size), escape(step.comment)
            )
        show(table)


def tag(
    name: Name, new: Annotated[str, typer.Argument(metavar="NEW", help="The name to give it as well.")]
) -> None:
    """Give an image another name."""
    with user_errors():
        note(f"{escape(name)} is also {escape(store_of_user().tag(name, new).familiar)}")


def rm(names: Names) -> None:
    """Remove names, and with the last one the image. Pods that run in it are not disturbed."""
    with user_errors():
        paths = StatePaths.default().prepare()
        store = ImageStore(paths.image_store)
        for name in names:
            image = store.get(name)
            known = store.names_of(image.descriptor)
            asked = [each for each in known if _is_called(each, name)]
            store.names.remove(*(str(each) for each in asked or known))
            for each in asked or known:
                out.print(escape(f"untagged: {each.familiar}"))
        with suppress(garbage.Busy):  # the next removal takes it along
            _say_freed(garbage.collect(store, paths.pods, store.remembered()))


def prune(
    all_images: Annotated[
        bool, typer.Option("--all", "-a", help="Remove every image and the caches of builds, too.")
    ] = False,
    keep_storage: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Remove only as many images that were pulled, and caches of builds, as are above this size, as 20Gi: "
            "those that were not used for the longest time.",
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
) -> None:
    """Delete what no image needs any more, layers kept for builds among it; what pods run on stays."""
    with user_errors():
        paths = StatePaths.default().prepare()
        store = ImageStore(paths.image_store)
        names = [str(name) for name in store.all()]
        if all_images and keep_storage:
            raise UserError("--all removes every image, --keep-storage keeps some", "give one of them")
        if all_images and names and not yes:
            if not is_interactive():
                raise UserError(f"prune --all removes {len(names)} images", "add --yes")
            typer.confirm(f"Remove {len(names)} images?", abort=True, err=True)
        try:
            if all_images:
                store.names.remove(*names)
            if keep_storage:
                wanted = usage_of(store, paths.pods).bytes - imagespace.size(keep_storage, "--keep-storage")
                shrunk = garbage.shrink(store, paths.pods, Space(), time.time(), wanted=max(wanted, 0))
                for name in shrunk.images:
                    out.print(escape(f"untagged: {parse(name).familiar}"))
                note(f"freed {imagespace.size_text(shrunk.bytes)}")
                return
            _say_freed(garbage.collect(store, paths.pods))
            store.forget(everything=all_images)
            if all_images and paths.build_caches.is_dir():
                confined.remove(paths.images, paths.build_caches.name)
        except garbage.Busy as error:
            raise UserError(f"nothing can be deleted now: {error}", "try again when that is done") from error


def pin(
    names: Names,
    off: Annotated[bool, typer.Option("--off", help="Let them go again.")] = False,
) -> None:
    """Keep images that were pulled, whatever others need of the disk. What was built or loaded here is kept anyway."""
    with user_errors():
        store = store_of_user()
        for name in names:
            image = store.get(name)
            known = store.names_of(image.descriptor)
            for each in [one for one in known if _is_called(one, name)] or known:
                store.names.pin(str(each), not off)
                note(f"{escape(each.familiar)} is {'no longer ' if off else ''}pinned")


def save(
    names: Names,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is standard output.")
    ] = "-",
) -> None:
    """Write images to an archive that docker, podman, skopeo and this command's counterpart read."""
    with user_errors():
        store = store_of_user()
        images: dict[str, tuple[StoredImage, list[Reference]]] = {}
        for name in names:
            image = store.get(name)
            known = store.names_of(image.descriptor)
            asked = [each for each in known if _is_called(each, name)]
            images.setdefault(image.descriptor.digest, (image, []))[1].extend(asked or known)
        if output == "-":
            if sys.stdout.isatty():
                raise UserError("an archive is not for a terminal", "add -o FILE")
            archive.save(store, list(images.values()), sys.stdout.buffer)
            return
        file = Path(output)
        partial = file.with_name(f".{file.name}.partial")
        try:
            with _about(output), partial.open("wb") as target:
                archive.save(store, list(images.values()), target)
                partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
        note(f"saved to {escape(output)}, {imagespace.size_text(file.stat().st_size)}")


def load(
    file: Annotated[
        str, typer.Option("--input", "-i", metavar="FILE", help="The archive; - is standard input.")
    ] = "-",
    platform: OnePlatform = "",
) -> None:
    """Read images from an archive of docker, podman or skopeo, or an OCI layout as a tar file."""
    with user_errors():
        store = store_of_user()
        wanted = asked_platform(platform)
        with _opened(file) as source:
            loaded = archive.load(store, source, wanted)
        for image, names in loaded:
            for name in names:
                out.print(escape(f"loaded {name.familiar}"))
            if not names:
                out.print(
                    escape(
                        f"loaded {image.id}, which has no name: trainshed image tag {_short(image.id)} NAME"
                    )
                )


@contextmanager
def _about(file: str) -> Iterator[None]:
    """Say of which file it is what the system refuses."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}") from error


def _opened(file: str) -> IO[bytes]:
    import tempfile

    if file != "-":
        with _about(file):
            return Path(file).open("rb")
    if sys.stdin.isatty():
        raise UserError("no archive was given", "add -i FILE")
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    shutil.copyfileobj(sys.stdin.buffer, spool)
    spool.seek(0)
    return spool


def _is_called(name: Reference, text: str) -> bool:
    """Return whether the text is this name, and no id."""
    try:
        return parse(text) == name
    except InvalidReference:
        return False


def _summary(name: Reference, image: StoredImage, usage: Usage) -> dict[str, object]:
    item = usage.of(image)
    return {
        "name": name.familiar,
        "id": image.id,
        "digest": image.descriptor.digest,
        "created": image.config.created,
        "platform": str(image.config.platform),
        "size": image.size,
        "size_on_disk": usage.size_of(item) if item else None,
        "used": format_time(item.used_at) if item else None,
        "kept": item.kept if item else None,
    }


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:SHORT]


def _age(created: str | None) -> str:
    try:
        return f"{human(time.time() - parse_time(created))} ago" if created else "-"
    except ValueError:
        return "-"


def _say_freed(freed: garbage.Freed) -> None:
    note(
        f"deleted {freed.blobs} blobs ({imagespace.size_text(freed.bytes)}) and {freed.layers} unpacked layers"
    )
