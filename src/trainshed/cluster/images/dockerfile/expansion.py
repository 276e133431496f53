"""Variables in the words of instructions, and what texts of a configuration are made of."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping

from trainshed.cluster.images.dockerfile import instructions as i
from trainshed.cluster.images.dockerfile.lines import DockerfileError
from trainshed.cluster.images.dockerfile.words import WordError, expand
from trainshed.cluster.images.oci import RunConfig


def variables(config: RunConfig) -> dict[str, str]:
    """Return the variables of a configuration."""
    return dict(assignment(text) for text in config.env or ())


def assignment(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=value`."""
    name, _, value = text.partition("=")
    return name, value


def normal(path: str) -> str:
    """Return an absolute path that leads no further up than the root."""
    return "/" + posixpath.normpath("/" + path).lstrip("/")


def expanded(instruction: i.Instruction, text: str, variables: Mapping[str, str], escape: str) -> str:
    """Return a text of an instruction with its variables replaced. Raises DockerfileError."""
    try:
        return expand(text, variables, escape)
    except WordError as error:
        why = f"failed to process {json.dumps(text[:200], ensure_ascii=False)}: {error}"
        raise DockerfileError(instruction.line, why, instruction.end) from error


def document(instruction: i.Instruction, content: str, variables: Mapping[str, str], escape: str) -> str:
    """Return a here-document with its variables replaced; quotes in it are text."""
    quoted = re.sub(r"""(['"])""", lambda found: escape + found[0], content)
    return expanded(instruction, quoted, variables, escape)
