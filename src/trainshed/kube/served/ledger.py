"""What this server does of what Kubernetes serves, call by call.

SHIPPED   as Kubernetes
PARTIAL   it answers as Kubernetes; what the object then causes is not all there
REFUSED   discovery lists it, and a call is answered with a Status that says so
ABSENT    not served: 404, as for any resource that a server does not know
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from trainshed.kube.builtin.registry import BUILTINS
from trainshed.kube.meta.resourceinfo import ALL_VERBS, ResourceInfo

State = Literal["SHIPPED", "PARTIAL", "REFUSED", "ABSENT"]
READS = frozenset({"get", "list", "watch"})
_LETTERS = {
    "c": "create",
    "d": "delete",
    "D": "deletecollection",
    "g": "get",
    "l": "list",
    "p": "patch",
    "u": "update",
    "w": "watch",
}
_TABLE = Path(__file__).parents[1] / "data" / "kubernetes.txt"
STORED_ONLY = "only stored: nothing acts on it"


class Call(msgspec.Struct, frozen=True):
    """One verb of a resource, or of one of its subresources, and how this server answers it."""

    group: str
    version: str
    plural: str
    namespaced: bool
    subresource: str
    verb: str
    state: State
    why: str


class Upstream(msgspec.Struct, frozen=True):
    """A resource of Kubernetes: its verbs by subresource, its own under the empty name."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: Mapping[str, tuple[str, ...]]


def upstream() -> list[Upstream]:
    """Return what Kubernetes serves, in the order of its discovery."""
    text = _TABLE.read_text("utf-8")
    out: list[Upstream] = []
    group = version = ""
    for line in text.splitlines():
        if line.startswith("["):
            group, _, version = line.strip("[]").rpartition("/")
        elif line and not line.startswith("#"):
            plural, kind, scope, own, *parts = line.split()
            verbs = {"": _verbs(own)}
            for part in parts:
                name, _, letters = part.partition(":")
                verbs[name] = _verbs(letters or "gpu")
            out.append(Upstream(group, version, plural, kind, scope == "N", verbs))
    return out


def _verbs(letters: str) -> tuple[str, ...]:
    return ALL_VERBS if letters == "all" else tuple(sorted(_LETTERS[letter] for letter in letters))


def calls(handled: Callable[[ResourceInfo, str, str], bool]) -> Iterator[Call]:
    """Yield every call that Kubernetes serves; `handled` says whether a resource's subresource and verb are."""
    builtin = {(*kind.info.group_version, kind.info.resource.plural): kind for kind in BUILTINS}
    for one in upstream():
        kind = builtin.get((one.group, one.version, one.plural))
        for part, verbs in one.verbs.items():
            for verb in verbs:
                state: State = "ABSENT"
                why = ""
                if kind is not None:
                    offered = kind.info.verbs if not part else ()
                    if part and part in kind.info.subresources:
                        offered = kind.info.subresources[part].verbs
                    if verb in offered and not handled(kind.info, part, verb):
                        state, why = "REFUSED", "501 NotImplemented"
                    elif verb in offered:
                        why = "" if part else _lack(kind.does, kind.lacks, verb)
                        state = "PARTIAL" if why else "SHIPPED"
                yield Call(one.group, one.version, one.plural, one.namespaced, part, verb, state, why)


def _lack(does: str, lacks: str, verb: str) -> str:
    """Return what a write leads to less than upstream. What is read is what was written."""
    if verb in READS or verb.startswith("delete"):
        return ""
    return lacks if does else STORED_ONLY


def extra() -> list[ResourceInfo]:
    """Return the built-in resources that Kubernetes has from elsewhere, or not by default."""
    known = {(one.group, one.version, one.plural) for one in upstream()}
    return [
        kind.info for kind in BUILTINS if (*kind.info.group_version, kind.info.resource.plural) not in known
    ]
