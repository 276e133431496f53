"""What a stage of a build does, as values: steps that change the root, and notes that change the configuration only.

    Dockerfile ── planning ──▶ the stages that are needed ── evaluation ──▶ steps, variables replaced
                                                       ▲
                                         the configuration of its base

Source of the rules: docs.docker.com/reference/dockerfile; where it is silent, what BuildKit's dockerfile2llb does.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trainshed.cluster.images.oci import History, Platform

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
"""Arguments that every RUN has without ARG, in both cases; neither history nor the cache knows of them."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says. `arguments` are those of `--build-arg`; `target` a stage's name or number."""

    arguments: Mapping[str, str] = {}
    target: str = ""
    labels: Mapping[str, str] = {}
    platform: Platform = Platform("amd64", "linux")


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A `--mount` of RUN. `source` is a path in the context or in the image `origin`; `id` names a cache or secret."""

    kind: str
    target: str
    source: str = ""
    origin: str = ""
    id: str = ""
    read_only: bool = False
    required: bool = False
    variable: str = ""
    """Of a secret: the variable that it is given in, instead of a file or beside one."""
    mode: int | None = None
    uid: int = 0
    gid: int = 0


class Step(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that changes the root. `title` is what the user reads; `history` what the image remembers."""

    line: int
    end: int
    title: str
    history: str


class RunStep(Step, frozen=True, kw_only=True):
    """Run `argv`. With `script`, that is written to a file which `argv` ends with."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str
    user: str
    mounts: tuple[Mount, ...] = ()
    script: str = ""


class CopyStep(Step, frozen=True, kw_only=True):
    """Copy into `target`, an absolute path, a directory where it ends with a slash. `origin` is a stage or image."""

    sources: tuple[str, ...]
    target: str
    documents: tuple[tuple[str, str], ...] = ()
    origin: str = ""
    chown: str = ""
    mode: int | None = None
    exclude: tuple[str, ...] = ()
    add: bool = False
    checksum: str = ""


class DirectoryStep(Step, frozen=True, kw_only=True):
    """Make a directory, of `user`, where there is none."""

    path: str
    user: str = ""


class Note(Step, frozen=True, kw_only=True):
    """Changes the configuration only."""


def shortened(text: str, limit: int = 160) -> str:
    """Return a line for people."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def history_of(step: Step, created: str, *, empty: bool) -> History:
    """Return what an image remembers of a step."""
    return History(created=created, created_by=step.history, comment="trainshed.build", empty_layer=empty)
