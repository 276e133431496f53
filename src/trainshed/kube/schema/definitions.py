"""The OpenAPI definitions of built-in kinds, which the distribution `kubernetes-validate` ships as data.

Its code is never imported.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

KUBERNETES_MINOR = "1.33"
"""The Kubernetes version whose built-in kinds are served."""


_LENGTH_BITS = 24


class _GroupVersionKind(msgspec.Struct):
    group: str
    version: str
    kind: str


class _Identity(msgspec.Struct):
    gvks: list[_GroupVersionKind] = msgspec.field(
        name="x-kubernetes-group-version-kind", default_factory=list
    )


class _Document(msgspec.Struct):
    defs: dict[str, msgspec.Raw] = msgspec.field(name="$defs")


class Definitions:
    """The data file, 1.4 MB, of which few definitions are ever read: where each is, not its text."""

    def __init__(self, path: Path) -> None:
        text = path.read_bytes()
        self._path = path
        # A number and a text each, instead of tuples: there are a thousand of them.
        self._places: dict[str, int] = {}
        self._names: dict[str, str] = {}
        decoder = msgspec.json.Decoder(_Identity)
        at = 0
        for name, raw in msgspec.json.decode(text, type=_Document).defs.items():
            part = bytes(raw)
            at = text.index(part, at)  # a document keeps its order when decoded
            self._places[name] = at << _LENGTH_BITS | len(part)
            for gvk in decoder.decode(raw).gvks:
                self._names[f"{gvk.group}/{gvk.version}/{gvk.kind}"] = name

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def read(self, name: str) -> bytes:
        """Return the JSON of a definition. Raises KeyError."""
        place = self._places[name]
        with self._path.open("rb", buffering=0) as file:
            file.seek(place >> _LENGTH_BITS)
            return file.read(place & ((1 << _LENGTH_BITS) - 1))

    def name_of(self, gvk: tuple[str, str, str]) -> str | None:
        """Return the name of what declares (group, version, kind)."""
        return self._names.get("/".join(gvk))


@functools.cache
def definitions() -> Definitions:
    """Return them, read once. Raises LookupError where the distribution is not installed."""
    spec = importlib.util.find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        raise LookupError("the data of the distribution kubernetes-validate is not installed")
    folder = Path(spec.origin).parent / "kubernetes-json-schema" / f"v{KUBERNETES_MINOR}.0-local"
    return Definitions(folder / "_definitions.json")


def definition_name(gvk: tuple[str, str, str]) -> str | None:
    """Return the definition that declares (group, version, kind), e.g. `io.k8s.api.core.v1.Pod`."""
    return definitions().name_of(gvk)


def builtin_definition(name: str) -> dict[str, Any]:
    """Return a fresh copy of definition `name` as in the data file: descriptions, `$defs` references and all.

    Raises:
        KeyError: there is no such definition.
    """
    decoded: dict[str, Any] = msgspec.json.decode(definitions().read(name))
    return decoded
