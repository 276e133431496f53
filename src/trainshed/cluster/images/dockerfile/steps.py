"""What a stage of a build does, in order, and the configuration that comes of it. Pure.

    Dockerfile ── plan ──▶ the stages that are needed ── evaluate ──▶ steps, variables replaced
                                                   ▲
                                     the configuration of its base

Source: docs.docker.com/reference/dockerfile; where it is silent, what BuildKit's dockerfile2llb does.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from trainshed.cluster.images.dockerfile import instructions as i
from trainshed.cluster.images.dockerfile.lines import DockerfileError
from trainshed.cluster.images.dockerfile.words import WordError, expand
from trainshed.cluster.images.oci import MACHINE_ROOT, Healthcheck, History, Platform, RunConfig

DEFAULT_SHELL = ("/bin/sh", "-c")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
"""Arguments that every RUN has without ARG, in both cases; neither history nor the cache knows of them."""
_SIGNAL = re.compile(r"(SIG)?[A-Z0-9+-]+")
_PORT = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?(?:/(tcp|udp|sctp))?", re.IGNORECASE)


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


class PlannedStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that is needed. `base` is an image's name, `scratch`, or that of a stage before it: then `stage` is its
    number, else -1."""

    number: int
    name: str
    line: int
    end: int
    title: str
    base: str
    stage: int = -1
    platform: str = ""
    instructions: tuple[i.Instruction, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The stages that are needed, in the order of the file; the last is what is built."""

    stages: tuple[PlannedStage, ...]
    names: Mapping[str, int]
    """The number of every stage by its name and by its number as a text."""
    globals: Mapping[str, str]
    escape: str = "\\"
    unused: tuple[str, ...] = ()
    """Build arguments that nothing declares."""


class Evaluated(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage does, and the configuration of its result."""

    steps: tuple[Step, ...]
    config: RunConfig
    author: str = ""


def plan(dockerfile: i.Dockerfile, options: Options) -> Plan:
    """Return the stages that the target needs. Raises DockerfileError."""
    known = dict(_platform_arguments(options.platform))
    for argument in dockerfile.arguments:
        for pair in argument.pairs:
            value = options.arguments.get(pair.name)
            if value is None and pair.value is not None:
                value = _expanded(argument, pair.value, known, dockerfile.escape)
            if value is not None:
                known[pair.name] = value
    names: dict[str, int] = {}
    stages: list[PlannedStage] = []
    for number, stage in enumerate(dockerfile.stages):
        source = stage.source
        base = _expanded(source, source.image, known, dockerfile.escape)
        if not base:
            raise DockerfileError(source.line, f"base name ({source.image}) should not be blank", source.end)
        stages.append(
            PlannedStage(
                number=number,
                name=source.stage or str(number),
                line=source.line,
                end=source.end,
                title=f"FROM {base}",
                base=base,
                stage=names.get(base.lower(), -1),
                platform=_expanded(source, source.platform, known, dockerfile.escape),
                instructions=stage.instructions,
            )
        )
        names |= {str(number): number} | ({source.stage: number} if source.stage else {})
    target = names.get(options.target.lower(), -1) if options.target else len(stages) - 1
    if target < 0:
        raise DockerfileError(1, f'target stage "{options.target}" could not be found')
    needed = _needed(stages, names, target, known, dockerfile.escape)
    declared = {
        pair.name
        for each in (*dockerfile.arguments, *(x for stage in dockerfile.stages for x in stage.instructions))
        if isinstance(each, i.Arg)
        for pair in each.pairs
    }
    unused = [n for n in options.arguments if n not in declared and n.upper() not in PROXIES]
    return Plan(
        stages=tuple(stages[number] for number in needed),
        names=names,
        globals=known,
        escape=dockerfile.escape,
        unused=tuple(unused),
    )


def _needed(
    stages: Sequence[PlannedStage],
    names: Mapping[str, int],
    target: int,
    known: Mapping[str, str],
    escape: str,
) -> list[int]:
    """Return the numbers of the stages that the target stands on or takes files from."""
    found: set[int] = set()
    waiting = [target]
    while waiting:
        number = waiting.pop()
        if number in found:
            continue
        found.add(number)
        stage = stages[number]
        if stage.stage >= 0:
            waiting.append(stage.stage)
        for origin, instruction in _origins(stage, known, escape):
            other = names.get(origin.lower(), -1)
            if other >= number:
                text = f"{origin} is no stage before this one: files come from stages above"
                raise DockerfileError(instruction.line, text, instruction.end)
            if other >= 0:
                waiting.append(other)
    return sorted(found)


def _origins(stage: PlannedStage, known: Mapping[str, str], escape: str) -> list[tuple[str, i.Instruction]]:
    """Return where a stage takes files from."""
    found: list[tuple[str, i.Instruction]] = []
    for each in stage.instructions:
        if isinstance(each, i.Copy) and each.stage:
            found.append((_expanded(each, each.stage, known, escape), each))
        elif isinstance(each, i.Run):
            for text in each.mounts:
                if origin := _fields(text).get("from", ""):
                    found.append((_expanded(each, origin, known, escape), each))
    return found


def _platform_arguments(platform: Platform) -> dict[str, str]:
    found = {}
    for prefix in ("TARGET", "BUILD"):
        found[f"{prefix}PLATFORM"] = str(platform)
        found[f"{prefix}OS"] = platform.os
        found[f"{prefix}ARCH"] = platform.architecture
        found[f"{prefix}VARIANT"] = platform.variant
    return found


def evaluate(whole: Plan, stage: PlannedStage, base: RunConfig, options: Options) -> Evaluated:
    """Return what a stage does on a base of that configuration. Raises DockerfileError."""
    return _Evaluation(whole, base, options).run(stage)


class _Evaluation:
    """One stage, instruction by instruction."""

    def __init__(self, whole: Plan, base: RunConfig, options: Options) -> None:
        self._plan, self._options = whole, options
        self._config = base
        self._env: dict[str, str] = dict(_assignment(text) for text in base.env or ())
        self._arguments: dict[str, str] = {}
        self._shell = base.shell or DEFAULT_SHELL
        self._has_cmd = False
        self._author = ""
        self._steps: list[Step] = []

    def run(self, stage: PlannedStage) -> Evaluated:
        for instruction in stage.instructions:
            step = self._step(instruction)
            self._steps.append(step)
        env = tuple(f"{name}={value}" for name, value in self._env.items())
        labels = dict(self._config.labels or {})
        if stage is self._plan.stages[-1]:
            labels |= self._options.labels
        config = msgspec.structs.replace(self._config, env=env or None, labels=labels or None)
        return Evaluated(steps=tuple(self._steps), config=config, author=self._author)

    def _step(self, instruction: i.Instruction) -> Step:
        match instruction:
            case i.Run():
                return self._run(instruction)
            case i.Copy():
                return self._copy(instruction)
            case i.Workdir():
                return self._workdir(instruction)
            case i.Arg():
                return self._arg(instruction)
            case i.Env():
                return self._env_step(instruction)
        return self._configure(instruction)

    def _expand(self, instruction: i.Instruction, text: str) -> str:
        return _expanded(instruction, text, {**self._arguments, **self._env}, self._plan.escape)

    def _origin(self, instruction: i.Instruction, text: str) -> str:
        """Return where files come from: known before any stage is begun, so of arguments before the first FROM."""
        origin = _expanded(instruction, text, self._plan.globals, self._plan.escape)
        if text and not origin:
            why = f"from={text}: only arguments that are declared before the first FROM count here"
            raise DockerfileError(instruction.line, why, instruction.end)
        return origin

    def _change(self, **fields: object) -> None:
        self._config = msgspec.structs.replace(self._config, **fields)

    def _note(self, instruction: i.Instruction, history: str) -> Note:
        return Note(
            line=instruction.line, end=instruction.end, title=shortened(instruction.text), history=history
        )

    def _run(self, instruction: i.Run) -> RunStep:
        argv, script = self._argv(instruction)
        arguments = {name: value for name, value in self._arguments.items() if name not in self._env}
        env = {**arguments, **self._env}
        proxies = [*PROXIES, *(name.lower() for name in PROXIES)]
        env |= {
            n: self._options.arguments[n] for n in proxies if n in self._options.arguments and n not in env
        }
        listed = "".join(f" {name}={value}" for name, value in sorted(arguments.items()))
        history = f"RUN {f'|{len(arguments)}{listed} ' if listed else ''}{shlex.join(argv)} # buildkit"
        return RunStep(
            line=instruction.line,
            end=instruction.end,
            title=shortened(instruction.text),
            history=history[:4096],
            argv=argv,
            env=tuple(env.items()),
            cwd=self._config.working_dir or "/",
            user=self._config.user,
            mounts=tuple(self._mount(instruction, text) for text in instruction.mounts),
            script=script,
        )

    def _argv(self, instruction: i.Run) -> tuple[tuple[str, ...], str]:
        """Return the command line, and the script that is to be its last word's content."""
        command = instruction.command
        if not command.shell:
            if not command.argv:
                raise DockerfileError(instruction.line, "RUN [] names no command", instruction.end)
            return command.argv, ""
        if not instruction.heredocs:
            return (*self._shell, command.argv[0]), ""
        first = instruction.heredocs[0]
        if len(instruction.heredocs) == 1 and re.fullmatch(r"[0-9]*<<-?\S+", command.argv[0]):
            content = first.content
            if content.startswith("#!"):
                return (), content
            return (*self._shell, content), ""
        text = command.argv[0]
        for document in instruction.heredocs:
            text += f"\n{document.content}{document.name}"
        return (*self._shell, text.replace("<<-", "<<")), ""

    def _mount(self, instruction: i.Run, text: str) -> Mount:
        fields = {
            name: self._origin(instruction, value) if name == "from" else self._expand(instruction, value)
            for name, value in _fields(text).items()
        }
        kind = fields.pop("type", "bind")
        known = _MOUNT_FIELDS.get(kind)
        if known is None:
            why = "there is no agent to forward" if kind == "ssh" else "must be bind, cache, secret or tmpfs"
            raise DockerfileError(instruction.line, f"--mount=type={kind}: {why}", instruction.end)
        for name in fields:
            if name not in known:
                raise DockerfileError(
                    instruction.line, f"--mount=type={kind} has no field {name!r}", instruction.end
                )
        target = fields.get("target", "")
        identity = fields.get("id", "")
        if kind == "secret":
            identity = identity or posixpath.basename(fields.get("source") or target)
            variable = fields.get("env", "")
            target = target or ("" if variable else f"/run/secrets/{identity}")
        elif not target:
            raise DockerfileError(instruction.line, f"--mount=type={kind} needs a target", instruction.end)
        if target:
            target = self._absolute(target)
        writable = fields.get("rw", fields.get("readwrite", "")).lower() in ("true", "1")
        read_only = not writable if kind == "bind" else fields.get("readonly", "").lower() in ("true", "1")
        return Mount(
            kind=kind,
            target=target,
            source=fields.get("source", "") if kind != "secret" else "",
            origin=fields.get("from", ""),
            id=identity or (target if kind == "cache" else ""),
            read_only=read_only,
            required=fields.get("required", "").lower() in ("true", "1"),
            variable=fields.get("env", ""),
            mode=self._octal(instruction, fields["mode"]) if "mode" in fields else None,
            uid=self._number(instruction, fields.get("uid", "0")),
            gid=self._number(instruction, fields.get("gid", "0")),
        )

    def _octal(self, instruction: i.Instruction, text: str) -> int:
        if not re.fullmatch(r"[0-7]{3,5}", text):
            raise DockerfileError(
                instruction.line, f"mode {text!r}: must be octal, as in 755 or 0644", instruction.end
            )
        return int(text, 8) & 0o7777

    def _number(self, instruction: i.Instruction, text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
            raise DockerfileError(
                instruction.line, f"{text!r} is no number of a user or group", instruction.end
            )
        return int(text)

    def _copy(self, instruction: i.Copy) -> CopyStep:
        sources = tuple(self._expand(instruction, source) for source in instruction.sources)
        documents = tuple(
            (
                each.name,
                _document(instruction, each.content, {**self._arguments, **self._env}, self._plan.escape)
                if each.expand
                else each.content,
            )
            for each in instruction.heredocs
        )
        target = self._expand(instruction, instruction.target)
        several = len(sources) + len(documents) > 1
        is_directory = several or target in ("", ".", "..") or target.endswith(("/", "/.", "/.."))
        path = self._absolute(target)
        chmod = self._expand(instruction, instruction.chmod)
        for source in sources:
            if re.match(r"(?:https?|ftp)://|git@|git://|ssh://", source):
                if not instruction.add:
                    raise DockerfileError(
                        instruction.line, f"source can't be a URL for COPY: {source}", instruction.end
                    )
                if not source.startswith(("http://", "https://")) or source.partition("#")[0].endswith(
                    ".git"
                ):
                    raise DockerfileError(
                        instruction.line,
                        f"ADD {source}: repositories are not fetched; RUN git clone, or clone it beside the Dockerfile",
                        instruction.end,
                    )
        kind = "ADD" if instruction.add else "COPY"
        return CopyStep(
            line=instruction.line,
            end=instruction.end,
            title=shortened(instruction.text),
            history=f"{instruction.text[:4000]} # buildkit" if instruction.text else kind,
            sources=sources,
            target=path.rstrip("/") + "/" if is_directory else path,
            documents=documents,
            origin=self._origin(instruction, instruction.stage),
            chown=self._expand(instruction, instruction.chown),
            mode=self._octal(instruction, chmod) if chmod else None,
            exclude=tuple(self._expand(instruction, each) for each in instruction.exclude),
            add=instruction.add,
            checksum=self._expand(instruction, instruction.checksum),
        )

    def _absolute(self, path: str) -> str:
        return _normal(posixpath.join(self._config.working_dir or "/", path))

    def _workdir(self, instruction: i.Workdir) -> DirectoryStep:
        path = self._absolute(self._expand(instruction, instruction.path))
        self._change(working_dir=path)
        return DirectoryStep(
            line=instruction.line,
            end=instruction.end,
            title=shortened(instruction.text),
            history=f"WORKDIR {path}",
            path=path,
            user=self._config.user,
        )

    def _arg(self, instruction: i.Arg) -> Note:
        for pair in instruction.pairs:
            value = self._options.arguments.get(pair.name)
            if value is None and pair.value is not None:
                value = self._expand(instruction, pair.value)
            if value is None:
                value = self._plan.globals.get(pair.name)
            if value is not None:
                self._arguments[pair.name] = value
            else:
                self._arguments.pop(pair.name, None)
        return self._note(instruction, instruction.text[:4096])

    def _env_step(self, instruction: i.Env) -> Note:
        # All of one line see what was set before it (reference, "Environment replacement").
        new = {
            self._expand(instruction, pair.name): self._expand(instruction, pair.value or "")
            for pair in instruction.pairs
        }
        self._env |= new
        return self._note(instruction, "ENV " + " ".join(f"{name}={value}" for name, value in new.items()))

    def _configure(self, instruction: i.Instruction) -> Note:
        match instruction:
            case i.Label():
                labels = {
                    self._expand(instruction, pair.name): self._expand(instruction, pair.value or "")
                    for pair in instruction.pairs
                }
                if MACHINE_ROOT in labels:
                    raise DockerfileError(
                        instruction.line, f"the label {MACHINE_ROOT} is set by builds", instruction.end
                    )
                self._change(labels={**(self._config.labels or {}), **labels})
            case i.User():
                self._change(user=self._expand(instruction, instruction.user))
            case i.Entrypoint():
                # What the base says to do by default is for its own entrypoint.
                fields = {} if self._has_cmd else {"cmd": None}
                self._change(entrypoint=self._words(instruction.command) or None, **fields)
            case i.Cmd():
                self._has_cmd = True
                self._change(cmd=self._words(instruction.command) or None)
            case i.Shell():
                self._shell = instruction.argv
                self._change(shell=instruction.argv)
            case i.Expose():
                ports = [self._port(instruction, text) for text in instruction.ports]
                self._change(
                    exposed_ports={
                        **(self._config.exposed_ports or {}),
                        **{p: {} for each in ports for p in each},
                    }
                )
            case i.Volume():
                paths = [_normal(self._expand(instruction, path)) for path in instruction.paths]
                self._change(volumes={**(self._config.volumes or {}), **{path: {} for path in paths}})
            case i.StopSignal():
                signal = self._expand(instruction, instruction.signal)
                if not _SIGNAL.fullmatch(signal.upper()):
                    raise DockerfileError(instruction.line, f"Invalid signal: {signal}", instruction.end)
                self._change(stop_signal=signal)
            case i.HealthCheck():
                self._change(healthcheck=_health(instruction))
            case i.Maintainer():
                self._author = instruction.author
        return self._note(instruction, instruction.text[:4096])

    def _words(self, command: i.Command) -> tuple[str, ...]:
        return (*self._shell, command.argv[0]) if command.shell else command.argv

    def _port(self, instruction: i.Expose, text: str) -> list[str]:
        found = []
        for word in self._expand(instruction, text).split():
            match = _PORT.fullmatch(word)
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if match is None or not 0 < first <= last <= 65535:
                raise DockerfileError(instruction.line, f"Invalid containerPort: {word}", instruction.end)
            found += [f"{port}/{(match[3] or 'tcp').lower()}" for port in range(first, last + 1)]
        return found


_ALIASES = {"dst": "target", "destination": "target", "src": "source", "ro": "readonly"}


def _fields(text: str) -> dict[str, str]:
    """Return the fields of a `--mount`, as they are written."""
    found = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name = name.strip().lower()
        found[_ALIASES.get(name, name)] = value if equals else "true"
    return found


_MOUNT_FIELDS = {
    "bind": ("target", "source", "from", "rw", "readwrite", "readonly"),
    "cache": (
        "id",
        "target",
        "readonly",
        "sharing",
        "from",
        "source",
        "mode",
        "uid",
        "gid",
        "rw",
        "readwrite",
    ),
    "secret": ("id", "source", "target", "required", "env", "mode", "uid", "gid"),
    "tmpfs": ("target", "size"),
}


def shortened(text: str, limit: int = 160) -> str:
    """Return a line for people."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def variables(config: RunConfig) -> dict[str, str]:
    """Return the variables of a configuration."""
    return dict(_assignment(text) for text in config.env or ())


def history_of(step: Step, created: str, *, empty: bool) -> History:
    """Return what an image remembers of a step."""
    return History(created=created, created_by=step.history, comment="trainshed.build", empty_layer=empty)


def _health(instruction: i.HealthCheck) -> Healthcheck:
    command = instruction.command
    if command is None:
        return Healthcheck(test=("NONE",))
    return Healthcheck(
        test=("CMD-SHELL" if command.shell else "CMD", *command.argv),
        interval=instruction.interval,
        timeout=instruction.timeout,
        start_period=instruction.start_period,
        start_interval=instruction.start_interval,
        retries=instruction.retries,
    )


def _assignment(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _normal(path: str) -> str:
    """Return an absolute path that leads no further up than the root."""
    return "/" + posixpath.normpath("/" + path).lstrip("/")


def _expanded(instruction: i.Instruction, text: str, variables: Mapping[str, str], escape: str) -> str:
    try:
        return expand(text, variables, escape)
    except WordError as error:
        why = f"failed to process {json.dumps(text[:200], ensure_ascii=False)}: {error}"
        raise DockerfileError(instruction.line, why, instruction.end) from error


def _document(instruction: i.Instruction, content: str, variables: Mapping[str, str], escape: str) -> str:
    """Return a here-document with its variables replaced; quotes in it are text."""
    quoted = re.sub(r"""(['"])""", lambda found: escape + found[0], content)
    return _expanded(instruction, quoted, variables, escape)
