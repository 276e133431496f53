"""What instructions of a stage see and change: variables, the configuration so far, the shell."""

from __future__ import annotations

import posixpath

import msgspec

from trainshed.cluster.images.dockerfile import instructions as i
from trainshed.cluster.images.dockerfile.expansion import assignment, expanded, normal
from trainshed.cluster.images.dockerfile.lines import DockerfileError
from trainshed.cluster.images.dockerfile.planning import Plan
from trainshed.cluster.images.dockerfile.steps import Note, Options, shortened
from trainshed.cluster.images.oci import RunConfig

DEFAULT_SHELL = ("/bin/sh", "-c")


class Scope:
    """One stage on a base of the configuration `base`."""

    def __init__(self, whole: Plan, base: RunConfig, options: Options) -> None:
        self.plan, self.options = whole, options
        self.config = base
        self.env: dict[str, str] = dict(assignment(text) for text in base.env or ())
        self.arguments: dict[str, str] = {}
        self.shell = base.shell or DEFAULT_SHELL
        self.has_cmd = False
        self.author = ""

    def expand(self, instruction: i.Instruction, text: str) -> str:
        """Return a text with the variables of the stage replaced. Raises DockerfileError."""
        return expanded(instruction, text, {**self.arguments, **self.env}, self.plan.escape)

    def origin(self, instruction: i.Instruction, text: str) -> str:
        """Return where files come from: known before any stage is begun, so of arguments before the first FROM."""
        origin = expanded(instruction, text, self.plan.globals, self.plan.escape)
        if text and not origin:
            why = f"from={text}: only arguments that are declared before the first FROM count here"
            raise DockerfileError(instruction.line, why, instruction.end)
        return origin

    def absolute(self, path: str) -> str:
        """Return the path from the root: others begin in the working directory."""
        return normal(posixpath.join(self.config.working_dir or "/", path))

    def change(self, **fields: object) -> None:
        """Change fields of the configuration."""
        self.config = msgspec.structs.replace(self.config, **fields)

    def note(self, instruction: i.Instruction, history: str) -> Note:
        """Return the step of an instruction that changes the configuration only."""
        return Note(
            line=instruction.line, end=instruction.end, title=shortened(instruction.text), history=history
        )
