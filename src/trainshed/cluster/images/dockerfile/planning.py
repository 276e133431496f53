"""Which stages of a Dockerfile are needed for a target, and what each begins with. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trainshed.cluster.images.dockerfile import instructions as i
from trainshed.cluster.images.dockerfile.expansion import expanded
from trainshed.cluster.images.dockerfile.lines import DockerfileError
from trainshed.cluster.images.dockerfile.mountfields import fields_of
from trainshed.cluster.images.dockerfile.steps import PROXIES, Options
from trainshed.cluster.images.oci import Platform


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


def plan(dockerfile: i.Dockerfile, options: Options) -> Plan:
    """Return the stages that the target needs. Raises DockerfileError."""
    known = dict(_platform_arguments(options.platform))
    for argument in dockerfile.arguments:
        for pair in argument.pairs:
            value = options.arguments.get(pair.name)
            if value is None and pair.value is not None:
                value = expanded(argument, pair.value, known, dockerfile.escape)
            if value is not None:
                known[pair.name] = value
    names: dict[str, int] = {}
    stages: list[PlannedStage] = []
    for number, stage in enumerate(dockerfile.stages):
        source = stage.source
        base = expanded(source, source.image, known, dockerfile.escape)
        if not base:
            raise DockerfileError(source.line, f"base name ({source.image}) should not be blank", source.end)
        stages.append(
            PlannedStage(
                number=number,
                name=source.stage or f"stage-{number}",
                line=source.line,
                end=source.end,
                title=f"FROM {base}",
                base=base,
                stage=names.get(base.lower(), -1),
                platform=expanded(source, source.platform, known, dockerfile.escape),
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
            found.append((expanded(each, each.stage, known, escape), each))
        elif isinstance(each, i.Run):
            for text in each.mounts:
                if origin := fields_of(text).get("from", ""):
                    found.append((expanded(each, origin, known, escape), each))
    return found


def _platform_arguments(platform: Platform) -> dict[str, str]:
    found = {}
    for prefix in ("TARGET", "BUILD"):
        found[f"{prefix}PLATFORM"] = str(platform)
        found[f"{prefix}OS"] = platform.os
        found[f"{prefix}ARCH"] = platform.architecture
        found[f"{prefix}VARIANT"] = platform.variant
    return found
