"""`RUN --mount`: its fields, and what they mean."""

from __future__ import annotations

import posixpath
import re

from trainshed.cluster.images.dockerfile import instructions as i
from trainshed.cluster.images.dockerfile.lines import DockerfileError
from trainshed.cluster.images.dockerfile.mountfields import fields_of
from trainshed.cluster.images.dockerfile.scope import Scope
from trainshed.cluster.images.dockerfile.steps import Mount

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


def mount_of(scope: Scope, instruction: i.Run, text: str) -> Mount:
    """Return what one flag asks for. Raises DockerfileError."""
    fields = {
        name: scope.origin(instruction, value) if name == "from" else scope.expand(instruction, value)
        for name, value in fields_of(text).items()
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
        target = scope.absolute(target)
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
        mode=octal(instruction, fields["mode"]) if "mode" in fields else None,
        uid=_number(instruction, fields.get("uid", "0")),
        gid=_number(instruction, fields.get("gid", "0")),
    )


def octal(instruction: i.Instruction, text: str) -> int:
    """Return a mode. Raises DockerfileError."""
    if not re.fullmatch(r"[0-7]{3,5}", text):
        raise DockerfileError(
            instruction.line, f"mode {text!r}: must be octal, as in 755 or 0644", instruction.end
        )
    return int(text, 8) & 0o7777


def _number(instruction: i.Instruction, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise DockerfileError(instruction.line, f"{text!r} is no number of a user or group", instruction.end)
    return int(text)
