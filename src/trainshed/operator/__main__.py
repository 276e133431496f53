"""`python -m trainshed.operator`: see `process`, which is imported with the collector off."""

from __future__ import annotations

from trainshed import _collector
from trainshed._packages import at_first_use


def main() -> None:
    """Run the operator until it is told to stop."""
    _collector.pause()
    at_first_use("bz2", "lzma", "mimetypes", "shlex", "zlib")
    from trainshed.operator import process

    process.main()


if __name__ == "__main__":
    main()
