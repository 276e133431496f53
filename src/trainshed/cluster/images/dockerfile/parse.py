"""A Dockerfile's text → typed instructions. Pure: DockerfileError, with a line, is all that it raises."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from typing import TypedDict

import msgspec

from trainshed.cluster.images.dockerfile import lines
from trainshed.cluster.images.dockerfile.instructions import (
    Arg,
    Cmd,
    Command,
    Copy,
    Dockerfile,
    Entrypoint,
    Env,
    Expose,
    From,
    HealthCheck,
    Instruction,
    Label,
    Maintainer,
    Pair,
    Run,
    Shell,
    Stage,
    StopSignal,
    User,
    Volume,
    Workdir,
)
from trainshed.cluster.images.dockerfile.lines import DockerfileError, Line
from trainshed.cluster.images.dockerfile.words import WordError, split_quoted

_FLAG = re.compile(r"--(?P<name>[a-zA-Z][a-zA-Z0-9-]*)(?:=(?P<value>.*))?", re.DOTALL)
_STAGE = re.compile(r"[a-z][a-z0-9-_.]*")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_MAX_DURATION = 1 << 62


class _Place(TypedDict):
    line: int
    end: int
    text: str


class _Source(msgspec.Struct, frozen=True):
    """An instruction before it is understood: its flags, as (name, value or None), and the rest."""

    line: Line
    flags: tuple[tuple[str, str | None], ...]
    rest: str
    escape: str

    def fail(self, message: str) -> DockerfileError:
        return DockerfileError(self.line.number, message, self.line.end)

    @property
    def keyword(self) -> str:
        return self.line.text.split(None, 1)[0].upper()

    def place(self) -> _Place:
        return {"line": self.line.number, "end": self.line.end, "text": self.line.text}

    def values(self, *known: str) -> dict[str, list[str]]:
        """Return the flags by name. Raises DockerfileError for one that is not known here."""
        found: dict[str, list[str]] = {}
        for name, value in self.flags:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean --{near[0]}?" if near else ""
                raise self.fail(f"unknown flag: --{name}{hint}")
            if value is None:
                value = "true"
            found.setdefault(name, []).append(value)
        for name, values in found.items():
            if len(values) > 1 and name not in ("mount", "exclude"):
                raise self.fail(f"duplicate flag specified: --{name}")
        return found


def parse(text: str) -> Dockerfile:
    """Return what the text says. Raises DockerfileError."""
    source = lines.split(text)
    stages: list[Stage] = []
    current: list[Instruction] = []
    begun: From | None = None
    arguments: list[Arg] = []
    warnings: list[tuple[int, str]] = []
    for line in source.lines:
        instruction = _instruction(line, source.escape, warnings)
        if isinstance(instruction, From):
            if begun is not None:
                stages.append(Stage(begun, tuple(current)))
            begun, current = instruction, []
        elif begun is not None:
            current.append(instruction)
        elif isinstance(instruction, Arg):
            arguments.append(instruction)
        else:
            raise DockerfileError(
                line.number, "no build stage in current context: FROM comes first", line.end
            )
    if begun is None:
        raise DockerfileError(1, "the Dockerfile has no FROM: nothing can be built")
    stages.append(Stage(begun, tuple(current)))
    _check_names(stages)
    return Dockerfile(tuple(stages), tuple(arguments), source.escape, tuple(warnings))


def _check_names(stages: list[Stage]) -> None:
    seen: dict[str, int] = {}
    for stage in stages:
        name, line = stage.source.stage, stage.source.line
        if name and name in seen:
            raise DockerfileError(line, f"duplicate name {name}: a stage in line {seen[name]} has it")
        seen[name] = line


def _instruction(line: Line, escape: str, warnings: list[tuple[int, str]]) -> Instruction:
    keyword, _, rest = line.text.partition(_blank(line.text))
    reader = _READERS.get(keyword.upper())
    if reader is None:
        near = difflib.get_close_matches(keyword.upper(), _READERS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise DockerfileError(line.number, f"unknown instruction: {keyword[:100]}{hint}", line.end)
    flags, rest = _flags(rest.strip())
    source = _Source(line, flags, rest, escape)
    if not rest:
        raise source.fail(f"{keyword.upper()} requires at least one argument")
    try:
        return reader(source)
    except WordError as error:
        raise source.fail(str(error)) from error


def _blank(text: str) -> str:
    found = re.search(r"\s", text)
    return found[0] if found else " "


def _flags(rest: str) -> tuple[tuple[tuple[str, str | None], ...], str]:
    """Return the flags before the arguments, and the arguments."""
    found: list[tuple[str, str | None]] = []
    while rest.startswith("--"):
        word = split_quoted(rest)[0] if rest.split() else rest
        match = _FLAG.fullmatch(word)
        if match is None or not rest.startswith(word):
            break
        found.append((match["name"], match["value"]))
        rest = rest[len(word) :].lstrip()
    return tuple(found), rest


def _command(source: _Source) -> Command:
    """Return a command: a JSON list is its words, anything else is for the shell."""
    words = _json(source.rest)
    return Command((source.rest,), True) if words is None else Command(words)


def _json(text: str) -> tuple[str, ...] | None:
    """Return the strings of a JSON list; None where it is none."""
    if not text.startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        return None
    return tuple(found)


def _words(source: _Source) -> tuple[str, ...]:
    words = _json(source.rest)
    return tuple(source.rest.split()) if words is None else words


def _none(source: _Source) -> None:
    source.values()


def _from(source: _Source) -> From:
    platform = source.values("platform").get("platform", [""])[0]
    words = source.rest.split()
    if len(words) == 3 and words[1].upper() == "AS":
        name = words[2].lower()
        if not _STAGE.fullmatch(name):
            raise source.fail(
                f'invalid name for build stage: "{words[2]}", name can\'t start with a number or contain symbols'
            )
        return From(image=words[0], stage=name, platform=platform, **source.place())
    if len(words) != 1:
        raise source.fail("FROM requires either one or three arguments: FROM image [AS name]")
    return From(image=words[0], platform=platform, **source.place())


def _pairs(source: _Source, *, legacy: bool) -> tuple[Pair, ...]:
    """Return name=value pairs; with `legacy`, `NAME the rest` is one too."""
    _none(source)
    words = split_quoted(source.rest, source.escape)
    if legacy and "=" not in words[0]:
        name, _, value = source.rest.partition(_blank(source.rest))
        if not value.strip():
            raise source.fail(f"{source.keyword} must have two arguments")
        return (Pair(name, value.strip()),)
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise source.fail(
                f"syntax error: can't find = in {json.dumps(word)}. Must be of the form: name=value"
            )
        if not name:
            raise source.fail(f"{source.keyword} names can not be blank")
        found.append(Pair(name, value))
    return tuple(found)


def _env(source: _Source) -> Env:
    return Env(pairs=_pairs(source, legacy=True), **source.place())


def _label(source: _Source) -> Label:
    return Label(pairs=_pairs(source, legacy=True), **source.place())


def _arg(source: _Source) -> Arg:
    _none(source)
    pairs = []
    for word in split_quoted(source.rest, source.escape):
        name, equals, value = word.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name):
            raise source.fail(f"ARG names a variable that can be none: {json.dumps(name)}")
        pairs.append(Pair(name, value if equals else None))
    return Arg(pairs=tuple(pairs), **source.place())


def _run(source: _Source) -> Run:
    flags = source.values("mount", "network", "security")
    network = flags.get("network", [""])[0]
    if network not in ("", "default"):
        raise source.fail(f"--network={network} is not honoured: commands have the network of pods")
    if flags.get("security", ["sandbox"])[0] != "sandbox":
        raise source.fail("--security=insecure is not honoured: a build runs in the sandbox")
    return Run(
        command=_command(source),
        mounts=tuple(flags.get("mount", ())),
        heredocs=source.line.heredocs,
        **source.place(),
    )


def _copy(source: _Source) -> Copy:
    add = source.keyword == "ADD"
    flags = source.values("from", "chown", "chmod", "link", "checksum", "exclude", "parents", "keep-git-dir")
    misplaced = ("from", "parents") if add else ("checksum", "keep-git-dir")
    for name in misplaced:
        if name in flags:
            raise source.fail(f"{source.keyword} has no flag --{name}")
    if "parents" in flags:
        raise source.fail("COPY --parents is not honoured: name the directories in the target")
    words = _words(source)
    if len(words) < 2:
        raise source.fail(f"{source.keyword} requires at least two arguments, but only one was provided")
    *sources, target = words
    names = {document.name for document in source.line.heredocs}
    plain = [word for word in sources if not _is_heredoc(word, names)]
    if len(sources) > 1 and not target.endswith("/") and target not in (".", "..") and "$" not in target:
        raise source.fail(
            f"When using {source.keyword} with more than one source file, the destination must be a directory "
            "and end with a /"
        )
    return Copy(
        sources=tuple(plain),
        target=target,
        add=add,
        stage=flags.get("from", [""])[0],
        chown=flags.get("chown", [""])[0],
        chmod=flags.get("chmod", [""])[0],
        checksum=flags.get("checksum", [""])[0],
        exclude=tuple(flags.get("exclude", ())),
        heredocs=source.line.heredocs,
        **source.place(),
    )


def _is_heredoc(word: str, names: set[str]) -> bool:
    return word.startswith("<<") and word.removeprefix("<<").removeprefix("-").strip("'\"") in names


def _workdir(source: _Source) -> Workdir:
    _none(source)
    return Workdir(path=source.rest, **source.place())


def _user(source: _Source) -> User:
    _none(source)
    if len(source.rest.split()) != 1:
        raise source.fail("USER requires exactly one argument")
    return User(user=source.rest, **source.place())


def _entrypoint(source: _Source) -> Entrypoint:
    _none(source)
    return Entrypoint(command=_command(source), **source.place())


def _cmd(source: _Source) -> Cmd:
    _none(source)
    return Cmd(command=_command(source), **source.place())


def _shell(source: _Source) -> Shell:
    _none(source)
    words = _json(source.rest)
    if not words:
        raise source.fail('SHELL requires the arguments to be in JSON form: SHELL ["/bin/bash", "-c"]')
    return Shell(argv=words, **source.place())


def _expose(source: _Source) -> Expose:
    _none(source)
    return Expose(ports=tuple(source.rest.split()), **source.place())


def _volume(source: _Source) -> Volume:
    _none(source)
    paths = _words(source)
    if not paths or not all(path.strip() for path in paths):
        raise source.fail("VOLUME specified can not be an empty string")
    return Volume(paths=paths, **source.place())


def _stop_signal(source: _Source) -> StopSignal:
    _none(source)
    if len(source.rest.split()) != 1:
        raise source.fail("STOPSIGNAL requires exactly one argument")
    return StopSignal(signal=source.rest, **source.place())


def _health_check(source: _Source) -> HealthCheck:
    flags = source.values("interval", "timeout", "start-period", "start-interval", "retries")
    kind, _, rest = source.rest.partition(_blank(source.rest))
    if kind.upper() == "NONE":
        if rest.strip() or flags:
            raise source.fail("HEALTHCHECK NONE takes no arguments")
        return HealthCheck(command=None, **source.place())
    if kind.upper() != "CMD":
        raise source.fail(f"unknown type {json.dumps(kind)} in HEALTHCHECK (try CMD or NONE)")
    rest = rest.strip()
    words = _json(rest)
    if not rest or words == ():
        raise source.fail("missing command after HEALTHCHECK CMD")
    retries = flags.get("retries", ["0"])[0]
    if not re.fullmatch(r"[0-9]{1,9}", retries, re.ASCII):
        raise source.fail(f"--retries={retries}: must be a number")
    return HealthCheck(
        command=Command((rest,), True) if words is None else Command(words),
        retries=int(retries),
        interval=_duration(source, "interval", flags),
        timeout=_duration(source, "timeout", flags),
        start_period=_duration(source, "start-period", flags),
        start_interval=_duration(source, "start-interval", flags),
        **source.place(),
    )


def _duration(source: _Source, name: str, flags: dict[str, list[str]]) -> int:
    """Return nanoseconds."""
    text = flags.get(name, ["0"])[0]
    if text == "0":
        return 0
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise source.fail(f"--{name}={text}: invalid duration (as in 30s or 1m30s)")
    total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if total > _MAX_DURATION:
        raise source.fail(f"--{name}={text}: longer than anything lasts")
    return int(total)


def _maintainer(source: _Source) -> Maintainer:
    _none(source)
    return Maintainer(author=source.rest, **source.place())


def _onbuild(source: _Source) -> Instruction:
    raise source.fail(
        "ONBUILD is not honoured: write the instruction into the Dockerfiles that build on this image"
    )


_READERS: dict[str, Callable[[_Source], Instruction]] = {
    "ADD": _copy,
    "ARG": _arg,
    "CMD": _cmd,
    "COPY": _copy,
    "ENTRYPOINT": _entrypoint,
    "ENV": _env,
    "EXPOSE": _expose,
    "FROM": _from,
    "HEALTHCHECK": _health_check,
    "LABEL": _label,
    "MAINTAINER": _maintainer,
    "ONBUILD": _onbuild,
    "RUN": _run,
    "SHELL": _shell,
    "STOPSIGNAL": _stop_signal,
    "USER": _user,
    "VOLUME": _volume,
    "WORKDIR": _workdir,
}
