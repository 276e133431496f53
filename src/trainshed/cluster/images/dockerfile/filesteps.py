"""Instructions that change the root: RUN, COPY and ADD, WORKDIR."""

from __future__ import annotations

import re
import shlex

from trainshed.cluster.images.dockerfile import instructions as i
from trainshed.cluster.images.dockerfile.expansion import document
from trainshed.cluster.images.dockerfile.lines import DockerfileError
from trainshed.cluster.images.dockerfile.mountflags import mount_of, octal
from trainshed.cluster.images.dockerfile.scope import Scope
from trainshed.cluster.images.dockerfile.steps import PROXIES, CopyStep, DirectoryStep, RunStep, shortened


def run_step(scope: Scope, instruction: i.Run) -> RunStep:
    """Return what a RUN does. Raises DockerfileError."""
    argv, script = _argv(scope, instruction)
    arguments = {name: value for name, value in scope.arguments.items() if name not in scope.env}
    env = {**arguments, **scope.env}
    proxies = [*PROXIES, *(name.lower() for name in PROXIES)]
    env |= {n: scope.options.arguments[n] for n in proxies if n in scope.options.arguments and n not in env}
    listed = "".join(f" {name}={value}" for name, value in sorted(arguments.items()))
    history = f"RUN {f'|{len(arguments)}{listed} ' if listed else ''}{shlex.join(argv)} # buildkit"
    return RunStep(
        line=instruction.line,
        end=instruction.end,
        title=shortened(instruction.text),
        history=history[:4096],
        argv=argv,
        env=tuple(env.items()),
        cwd=scope.config.working_dir or "/",
        user=scope.config.user,
        mounts=tuple(mount_of(scope, instruction, text) for text in instruction.mounts),
        script=script,
    )


def _argv(scope: Scope, instruction: i.Run) -> tuple[tuple[str, ...], str]:
    """Return the command line, and the script that is to be its last word's content."""
    command = instruction.command
    if not command.shell:
        if not command.argv:
            raise DockerfileError(instruction.line, "RUN [] names no command", instruction.end)
        return command.argv, ""
    if not instruction.heredocs:
        return (*scope.shell, command.argv[0]), ""
    first = instruction.heredocs[0]
    if len(instruction.heredocs) == 1 and re.fullmatch(r"[0-9]*<<-?\S+", command.argv[0]):
        content = first.content
        if content.startswith("#!"):
            return (), content
        return (*scope.shell, content), ""
    text = command.argv[0]
    for each in instruction.heredocs:
        text += f"\n{each.content}{each.name}"
    return (*scope.shell, text.replace("<<-", "<<")), ""


def copy_step(scope: Scope, instruction: i.Copy) -> CopyStep:
    """Return what a COPY or ADD does. Raises DockerfileError."""
    sources = tuple(scope.expand(instruction, source) for source in instruction.sources)
    documents = tuple(
        (
            each.name,
            document(instruction, each.content, {**scope.arguments, **scope.env}, scope.plan.escape)
            if each.expand
            else each.content,
        )
        for each in instruction.heredocs
    )
    target = scope.expand(instruction, instruction.target)
    several = len(sources) + len(documents) > 1
    is_directory = several or target in ("", ".", "..") or target.endswith(("/", "/.", "/.."))
    path = scope.absolute(target)
    chmod = scope.expand(instruction, instruction.chmod)
    for source in sources:
        if re.match(r"(?:https?|ftp)://|git@|git://|ssh://", source):
            if not instruction.add:
                raise DockerfileError(
                    instruction.line, f"source can't be a URL for COPY: {source}", instruction.end
                )
            if not source.startswith(("http://", "https://")) or source.partition("#")[0].endswith(".git"):
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
        origin=scope.origin(instruction, instruction.stage),
        chown=scope.expand(instruction, instruction.chown),
        mode=octal(instruction, chmod) if chmod else None,
        exclude=tuple(scope.expand(instruction, each) for each in instruction.exclude),
        add=instruction.add,
        checksum=scope.expand(instruction, instruction.checksum),
    )


def workdir_step(scope: Scope, instruction: i.Workdir) -> DirectoryStep:
    """Return what a WORKDIR does, and do the rest from there on. Raises DockerfileError."""
    path = scope.absolute(scope.expand(instruction, instruction.path))
    scope.change(working_dir=path)
    return DirectoryStep(
        line=instruction.line,
        end=instruction.end,
        title=shortened(instruction.text),
        history=f"WORKDIR {path}",
        path=path,
        user=scope.config.user,
    )
