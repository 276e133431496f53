"""What the store of a new cluster holds first, as the API server stores it.

`scripts/generate_newcluster.py` asks one for it, as a first start would, and writes down what was stored then. The
definitions of the job kinds lack their versions in that file: those are in the operator's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from trainshed.cluster.apiserver.uids import new_uid
from trainshed.kube.meta.objects import Object, name_of
from trainshed.operator.install import definitions

FILE = Path(__file__).with_name("newcluster.jsonl")
TIME = "0001-01-01T00:00:00Z"
"""What stands in the file for the time at which the cluster is made."""


class Entry(msgspec.Struct):
    """An object by its key in the store. Its uid is empty, and it has no resourceVersion."""

    key: str
    object: Object


def steps(now: str) -> Iterator[Sequence[tuple[str, Object]]]:
    """Yield the objects of a cluster that is made at `now` (RFC 3339) by their keys: those of one step together.

    First all small ones, then the definitions of the job kinds one by one: each takes several MiB while it is decoded.
    """
    small: list[tuple[str, Object]] = []
    job_kinds: dict[str, Entry] = {}
    with FILE.open("rb") as lines:
        for line in lines:
            entry = msgspec.json.decode(line.replace(TIME.encode(), now.encode()), type=Entry)
            entry.object["metadata"]["uid"] = new_uid()
            if lacks_versions(entry.object):
                job_kinds[name_of(entry.object)] = entry
            else:
                small.append((entry.key, entry.object))
    yield small
    del small
    for definition in definitions():
        entry = job_kinds.pop(name_of(definition))  # not kept: all of them decoded are 5 MiB
        entry.object["spec"]["versions"] = definition["spec"]["versions"]
        yield [(entry.key, entry.object)]


def lacks_versions(obj: Object) -> bool:
    """Return whether this is a definition of which the versions are elsewhere."""
    return obj["kind"] == "CustomResourceDefinition" and not obj["spec"]["versions"]
