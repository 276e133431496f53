"""Instructions that change the configuration only: ARG, ENV, LABEL, USER, CMD and the like."""

from __future__ import annotations

import re

from trainshed.cluster.images.dockerfile import instructions as i
from trainshed.cluster.images.dockerfile.expansion import normal
from trainshed.cluster.images.dockerfile.lines import DockerfileError
from trainshed.cluster.images.dockerfile.scope import Scope
from trainshed.cluster.images.dockerfile.steps import Note
from trainshed.cluster.images.oci import MACHINE_ROOT, Healthcheck
from trainshed.cluster.images.stopsignal import signal_number

_PORT = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?(?:/(tcp|udp|sctp))?", re.IGNORECASE)


def configure(scope: Scope, instruction: i.Instruction) -> Note:
    """Change the configuration as the instruction says. Raises DockerfileError."""
    match instruction:
        case i.Arg():
            return _argument(scope, instruction)
        case i.Env():
            return _environment(scope, instruction)
        case i.Label():
            labels = {
                scope.expand(instruction, pair.name): scope.expand(instruction, pair.value or "")
                for pair in instruction.pairs
            }
            if MACHINE_ROOT in labels:
                raise DockerfileError(
                    instruction.line, f"the label {MACHINE_ROOT} is set by builds", instruction.end
                )
            scope.change(labels={**(scope.config.labels or {}), **labels})
        case i.User():
            scope.change(user=scope.expand(instruction, instruction.user))
        case i.Entrypoint():
            # What the base says to do by default is for its own entrypoint.
            fields = {} if scope.has_cmd else {"cmd": None}
            scope.change(entrypoint=_words(scope, instruction.command) or None, **fields)
        case i.Cmd():
            scope.has_cmd = True
            scope.change(cmd=_words(scope, instruction.command) or None)
        case i.Shell():
            scope.shell = instruction.argv
            scope.change(shell=instruction.argv)
        case i.Expose():
            ports = [_port(scope, instruction, text) for text in instruction.ports]
            scope.change(
                exposed_ports={
                    **(scope.config.exposed_ports or {}),
                    **{p: {} for each in ports for p in each},
                }
            )
        case i.Volume():
            paths = [normal(scope.expand(instruction, path)) for path in instruction.paths]
            scope.change(volumes={**(scope.config.volumes or {}), **{path: {} for path in paths}})
        case i.StopSignal():
            signal = scope.expand(instruction, instruction.signal)
            if signal_number(signal) is None:
                raise DockerfileError(instruction.line, f"Invalid signal: {signal}", instruction.end)
            scope.change(stop_signal=signal)
        case i.HealthCheck():
            scope.change(healthcheck=_health(instruction))
        case i.Maintainer():
            scope.author = instruction.author
    return scope.note(instruction, instruction.text[:4096])


def _argument(scope: Scope, instruction: i.Arg) -> Note:
    for pair in instruction.pairs:
        value = scope.options.arguments.get(pair.name)
        if value is None and pair.value is not None:
            value = scope.expand(instruction, pair.value)
        if value is None:
            value = scope.plan.globals.get(pair.name)
        if value is not None:
            scope.arguments[pair.name] = value
        else:
            scope.arguments.pop(pair.name, None)
    return scope.note(instruction, instruction.text[:4096])


def _environment(scope: Scope, instruction: i.Env) -> Note:
    # All of one line see what was set before it (reference, "Environment replacement").
    new = {
        scope.expand(instruction, pair.name): scope.expand(instruction, pair.value or "")
        for pair in instruction.pairs
    }
    scope.env |= new
    return scope.note(instruction, "ENV " + " ".join(f"{name}={value}" for name, value in new.items()))


def _words(scope: Scope, command: i.Command) -> tuple[str, ...]:
    return (*scope.shell, command.argv[0]) if command.shell else command.argv


def _port(scope: Scope, instruction: i.Expose, text: str) -> list[str]:
    found = []
    for word in scope.expand(instruction, text).split():
        match = _PORT.fullmatch(word)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or not 0 < first <= last <= 65535:
            raise DockerfileError(instruction.line, f"Invalid containerPort: {word}", instruction.end)
        found += [f"{port}/{(match[3] or 'tcp').lower()}" for port in range(first, last + 1)]
    return found


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
