"""What a Dockerfile says, instruction by instruction: values as they were written, variables and all. Pure."""

from __future__ import annotations

import msgspec

from trainshed.cluster.images.dockerfile.lines import Heredoc


class Instruction(msgspec.Struct, frozen=True, kw_only=True):
    """What all have: the numbers of the first and the last line, and the text with continuations joined."""

    line: int
    end: int
    text: str


class Command(msgspec.Struct, frozen=True):
    """A command: a list of words, or, with `shell`, one text for the shell."""

    argv: tuple[str, ...]
    shell: bool = False


class Pair(msgspec.Struct, frozen=True):
    """A name and a value; of ARG without one, None."""

    name: str
    value: str | None


class From(Instruction, frozen=True, kw_only=True):
    """Begins a stage. `stage` is its name, in lower case; empty where it has none."""

    image: str
    stage: str = ""
    platform: str = ""


class Arg(Instruction, frozen=True, kw_only=True):
    pairs: tuple[Pair, ...]


class Env(Instruction, frozen=True, kw_only=True):
    pairs: tuple[Pair, ...]


class Label(Instruction, frozen=True, kw_only=True):
    pairs: tuple[Pair, ...]


class Run(Instruction, frozen=True, kw_only=True):
    """`mounts` are the values of `--mount`."""

    command: Command
    mounts: tuple[str, ...] = ()
    heredocs: tuple[Heredoc, ...] = ()


class Copy(Instruction, frozen=True, kw_only=True):
    """COPY, or ADD with `add`. Sources that are here-documents stand in `heredocs`."""

    sources: tuple[str, ...]
    target: str
    add: bool = False
    stage: str = ""
    chown: str = ""
    chmod: str = ""
    checksum: str = ""
    exclude: tuple[str, ...] = ()
    heredocs: tuple[Heredoc, ...] = ()


class Workdir(Instruction, frozen=True, kw_only=True):
    path: str


class User(Instruction, frozen=True, kw_only=True):
    user: str


class Entrypoint(Instruction, frozen=True, kw_only=True):
    command: Command


class Cmd(Instruction, frozen=True, kw_only=True):
    command: Command


class Shell(Instruction, frozen=True, kw_only=True):
    argv: tuple[str, ...]


class Expose(Instruction, frozen=True, kw_only=True):
    ports: tuple[str, ...]


class Volume(Instruction, frozen=True, kw_only=True):
    paths: tuple[str, ...]


class StopSignal(Instruction, frozen=True, kw_only=True):
    signal: str


class HealthCheck(Instruction, frozen=True, kw_only=True):
    """`command` None is NONE. Durations in nanoseconds; 0 is the default."""

    command: Command | None
    interval: int = 0
    timeout: int = 0
    start_period: int = 0
    start_interval: int = 0
    retries: int = 0


class Maintainer(Instruction, frozen=True, kw_only=True):
    author: str


class Stage(msgspec.Struct, frozen=True):
    """A FROM and what follows it."""

    source: From
    instructions: tuple[Instruction, ...] = ()


class Dockerfile(msgspec.Struct, frozen=True):
    """A whole file. `arguments` are those before the first FROM; `warnings` are (line, text)."""

    stages: tuple[Stage, ...]
    arguments: tuple[Arg, ...] = ()
    escape: str = "\\"
    warnings: tuple[tuple[int, str], ...] = ()
