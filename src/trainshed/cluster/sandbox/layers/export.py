"""Reads files out of an image's root: `export PRIVATE REPORT WHAT`, an archive on standard output.

WHAT, in JSON: `lowers` and `machine`, as for `copy`, and `sources`, [path, pattern] as `tree.Tree.matches` takes
them. The report says how many of what was asked for are `files`, and how many `directories`.
"""

from __future__ import annotations

import encodings.utf_8  # noqa: F401 - cannot be loaded later
import os
import re
import sys
import tarfile

from trainshed.cluster.sandbox.layers.confined import Refused
from trainshed.cluster.sandbox.layers.copy import run_on_root
from trainshed.cluster.sandbox.layers.tree import NotThere, Tree, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message


def main(argv: list[str]) -> int:
    """Write the archive; tell how many files and directories were asked for on the descriptor named second."""
    return run_on_root(argv, _export)


def _export(what: Message) -> Message:
    tree = Tree(os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), lambda path: False, False)
    files = directories = 0
    with (
        os.fdopen(1, "wb", buffering=1 << 20) as target,
        tarfile.open(
            fileobj=target, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape"
        ) as archive,
    ):
        for path, pattern in what["sources"]:
            places = tree.matches(path, re.compile(pattern, re.DOTALL) if pattern else None)
            if not places:
                raise Refused(f"{path}: nothing fits")
            for place in places:
                try:
                    for number, entry in enumerate(tree.entries(place)):
                        if number == 0:
                            files, directories = files + bool(entry.name), directories + (not entry.name)
                        write(archive, entry, entry.name or ".", owners=True)
                except NotThere as error:
                    raise Refused(str(error)) from None
    return {"files": files, "directories": directories}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
