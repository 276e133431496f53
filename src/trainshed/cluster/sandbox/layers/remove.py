"""Deletes trees whose files may belong to users that only the sandboxes have: `remove REPORT PARENT NAME…`."""

from __future__ import annotations

import sys

from trainshed.cluster.sandbox import files
from trainshed.cluster.sandbox.layers import confined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message


def main(argv: list[str]) -> int:
    """Delete the directories of these names below a directory; tell the outcome on the descriptor named first."""
    report, parent, *names = argv

    def work() -> Message:
        for name in names:
            files.remove_tree(f"/{name}")
        return {}

    return confined.run(work, prepare=lambda: parent, report=int(report))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
