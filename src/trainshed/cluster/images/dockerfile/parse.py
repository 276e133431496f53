"""A Dockerfile's text → typed instructions. Pure: DockerfileError, with a line, is all that it raises."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable

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
from trainshed.cluster.images.dockerfile.source import (
    Source,
    blank,
    flags_of,
    json_list,
)
from trainshed.cluster.images.dockerfile.words import WordError, split_quoted

_STAGE = re.compile(r"[a-z][a-z0-9-_.]*")


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
    keyword, _, rest = line.text.partition(blank(line.text))
    reader = _READERS.get(keyword.upper())
    if reader is None:
        near = difflib.get_close_matches(keyword.upper(), _READERS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise DockerfileError(line.number, f"unknown instruction: {keyword[:100]}{hint}", line.end)
    flags, rest = flags_of(rest.strip())
    source = Source(line, flags, rest, escape)
    if not rest:
        raise source.fail(f"{keyword.upper()} requires at least one argument")
    try:
        return reader(source)
    except WordError as error:
        raise source.fail(str(error)) from error


def _from(source: Source) -> From:
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


def _env(source: Source) -> Env:
    return Env(pairs=source.pairs(legacy=True), **source.place())


def _label(source: Source) -> Label:
    return Label(pairs=source.pairs(legacy=True), **source.place())


def _arg(source: Source) -> Arg:
    source.no_flags()
    pairs = []
    for word in split_quoted(source.rest, source.escape):
        name, equals, value = word.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name):
            raise source.fail(f"ARG names a variable that can be none: {json.dumps(name)}")
        pairs.append(Pair(name, value if equals else None))
    return Arg(pairs=tuple(pairs), **source.place())


def _run(source: Source) -> Run:
    flags = source.values("mount", "network", "security")
    network = flags.get("network", [""])[0]
    if network not in ("", "default"):
        raise source.fail(f"--network={network} is not honoured: commands have the network of pods")
    if flags.get("security", ["sandbox"])[0] != "sandbox":
        raise source.fail("--security=insecure is not honoured: a build runs in the sandbox")
    return Run(
        command=source.command(),
        mounts=tuple(flags.get("mount", ())),
        heredocs=source.line.heredocs,
        **source.place(),
    )


def _copy(source: Source) -> Copy:
    add = source.keyword == "ADD"
    flags = source.values("from", "chown", "chmod", "link", "checksum", "exclude", "parents", "keep-git-dir")
    misplaced = ("from", "parents") if add else ("checksum", "keep-git-dir")
    for name in misplaced:
        if name in flags:
            raise source.fail(f"{source.keyword} has no flag --{name}")
    if "parents" in flags:
        raise source.fail("COPY --parents is not honoured: name the directories in the target")
    words = source.words()
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


def _workdir(source: Source) -> Workdir:
    source.no_flags()
    return Workdir(path=source.rest, **source.place())


def _user(source: Source) -> User:
    source.no_flags()
    if len(source.rest.split()) != 1:
        raise source.fail("USER requires exactly one argument")
    return User(user=source.rest, **source.place())


def _entrypoint(source: Source) -> Entrypoint:
    source.no_flags()
    return Entrypoint(command=source.command(), **source.place())


def _cmd(source: Source) -> Cmd:
    source.no_flags()
    return Cmd(command=source.command(), **source.place())


def _shell(source: Source) -> Shell:
    source.no_flags()
    words = json_list(source.rest)
    if not words:
        raise source.fail('SHELL requires the arguments to be in JSON form: SHELL ["/bin/bash", "-c"]')
    return Shell(argv=words, **source.place())


def _expose(source: Source) -> Expose:
    source.no_flags()
    return Expose(ports=tuple(source.rest.split()), **source.place())


def _volume(source: Source) -> Volume:
    source.no_flags()
    paths = source.words()
    if not paths or not all(path.strip() for path in paths):
        raise source.fail("VOLUME specified can not be an empty string")
    return Volume(paths=paths, **source.place())


def _stop_signal(source: Source) -> StopSignal:
    source.no_flags()
    if len(source.rest.split()) != 1:
        raise source.fail("STOPSIGNAL requires exactly one argument")
    return StopSignal(signal=source.rest, **source.place())


def _health_check(source: Source) -> HealthCheck:
    flags = source.values("interval", "timeout", "start-period", "start-interval", "retries")
    kind, _, rest = source.rest.partition(blank(source.rest))
    if kind.upper() == "NONE":
        if rest.strip() or flags:
            raise source.fail("HEALTHCHECK NONE takes no arguments")
        return HealthCheck(command=None, **source.place())
    if kind.upper() != "CMD":
        raise source.fail(f"unknown type {json.dumps(kind)} in HEALTHCHECK (try CMD or NONE)")
    rest = rest.strip()
    words = json_list(rest)
    if not rest or words == ():
        raise source.fail("missing command after HEALTHCHECK CMD")
    retries = flags.get("retries", ["0"])[0]
    if not re.fullmatch(r"[0-9]{1,9}", retries, re.ASCII):
        raise source.fail(f"--retries={retries}: must be a number")
    return HealthCheck(
        command=Command((rest,), True) if words is None else Command(words),
        retries=int(retries),
        interval=source.duration("interval", flags),
        timeout=source.duration("timeout", flags),
        start_period=source.duration("start-period", flags),
        start_interval=source.duration("start-interval", flags),
        **source.place(),
    )


def _maintainer(source: Source) -> Maintainer:
    source.no_flags()
    return Maintainer(author=source.rest, **source.place())


def _onbuild(source: Source) -> Instruction:
    raise source.fail(
        "ONBUILD is not honoured: write the instruction into the Dockerfiles that build on this image"
    )


_READERS: dict[str, Callable[[Source], Instruction]] = {
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
