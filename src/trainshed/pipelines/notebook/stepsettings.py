"""What tags say of a step: how its pod is set up, and on how many workers it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic
from trainshed.pipelines.notebook.nearest import nearest
from trainshed.pipelines.notebook.strategies import STRATEGIES
from trainshed.pipelines.notebook.tags import Said


class Distribution(msgspec.Struct, frozen=True):
    """A step that runs on several workers at once."""

    strategy: str
    workers: int
    nproc_per_node: int = 1

    @property
    def kind(self) -> str:
        """The job's kind."""
        return STRATEGIES[self.strategy].kind


class SecretVariable(msgspec.Struct, frozen=True):
    """A variable of the environment, from a key of a Secret."""

    name: str
    secret: str
    key: str


class Toleration(msgspec.Struct, frozen=True):
    """A taint that the pod tolerates; an empty value or effect stands for any."""

    key: str
    value: str = ""
    effect: str = ""


class StepSettings(msgspec.Struct, frozen=True):
    """How the pod of a step is set up."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    env: dict[str, str] = {}
    secrets: tuple[SecretVariable, ...] = ()
    image: str | None = None
    caching: bool | None = None
    report: bool = True
    retries: int = 0
    timeout: str | None = None
    tolerations: tuple[Toleration, ...] = ()
    pull_secrets: tuple[str, ...] = ()


def step_settings(said: Iterable[Said]) -> StepSettings:
    """Return what tags say about a step's pod. Of two that contradict each other the later holds."""
    groups: dict[str, dict[str, str]] = {"label": {}, "annotation": {}, "limit": {}, "request": {}, "env": {}}
    secrets: dict[str, SecretVariable] = {}
    tolerations: list[Toleration] = []
    pull_secrets: list[str] = []
    last: dict[str, str] = {}
    for one in said:
        if one.name == "toleration":
            tolerations.append(Toleration(*one.args))
        elif one.name == "pull-secret":
            pull_secrets.append(one.args[0])
        elif one.name in groups:
            groups[one.name][one.args[0]] = one.args[1]
        elif one.name == "secret":
            secrets[one.args[2]] = SecretVariable(one.args[2], one.args[0], one.args[1])
        elif one.args:
            last[one.name] = one.args[0]
    return StepSettings(
        labels=groups["label"],
        annotations=groups["annotation"],
        limits=groups["limit"],
        requests=groups["request"],
        env=groups["env"],
        secrets=tuple(secrets.values()),
        image=last.get("image"),
        caching=last["cache"] == "enabled" if "cache" in last else None,
        report=last.get("report") != "disabled",
        retries=int(last.get("retries", "0")),
        timeout=last.get("timeout"),
        tolerations=tuple(dict.fromkeys(tolerations)),
        pull_secrets=tuple(dict.fromkeys(pull_secrets)),
    )


def distribution(name: str, said: Sequence[tuple[int, Said]], found: list[Diagnostic]) -> Distribution | None:
    """Return how many workers a step has, None where one is enough; what is wrong with that goes to `found`."""
    values: dict[str, list[str]] = {}
    cells: dict[str, int] = {}
    for cell, one in said:
        if one.name in ("distribute", "numWorkers", "nprocPerNode", "numParameterServers"):
            values.setdefault(one.name, []).append(one.args[0])
            cells.setdefault(one.name, cell)
    if not values:
        return None
    first = min(cells.values())
    strategies = list(dict.fromkeys(values.get("distribute", ())))

    def wrong(message: str, fix: str = "") -> None:
        found.append(diagnostic("NB110", f"step {name}: {message}", cell=first, step=name, fix=fix))

    def ignored(message: str, fix: str = "remove it") -> None:
        found.append(diagnostic("NB109", f"step {name}: {message}", cell=first, step=name, fix=fix))

    known = [s for s in strategies if s in STRATEGIES]
    if "MultiWorkerMirroredStrategy" in known:
        if "ParameterServerStrategy" in strategies:
            wrong(
                '"MultiWorkerMirroredStrategy" tag cannot be used with "ParameterServerStrategy" tag',
                "keep one",
            )
            return None
        if "numParameterServers" in values:
            wrong(
                '"MultiWorkerMirroredStrategy" tag cannot be used with "numParameterServers:n" tag',
                "remove it",
            )
            return None
    for strategy in strategies:
        if strategy not in STRATEGIES:
            close = nearest(strategy, STRATEGIES)
            ignored(
                f"tag distribute:{strategy} has no effect; strategies are {', '.join(STRATEGIES)}",
                f"did you mean distribute:{close}?" if close else "remove it",
            )
    if not known:
        for other in ("numWorkers", "nprocPerNode", "numParameterServers"):
            if other in values:
                ignored(f"tag {other} has no effect without a tag distribute", "add distribute:STRATEGY")
        return None
    if len(known) > 1:
        wrong(f"has {len(known)} strategies: {', '.join(known)}", "keep one")
        return None
    workers = values.get("numWorkers", [])
    if not workers:
        wrong(
            f'"{known[0]}" tag must be used with "numWorkers:n" tag, where n is a positive integer',
            "add numWorkers:2",
        )
        return None
    if len(workers) > 1:
        wrong('"numWorkers:n" tag must be unique', "keep one")
        return None
    processes = values.get("nprocPerNode", ["1"])
    if len(processes) > 1:
        wrong('"nprocPerNode:n" tag must be unique', "keep one")
        return None
    torchrun = STRATEGIES[known[0]].torchrun
    if "nprocPerNode" in values and not torchrun:
        ignored("tag nprocPerNode has an effect with distribute:DDP only")
    return Distribution(known[0], int(workers[0]), int(processes[0]) if torchrun else 1)
