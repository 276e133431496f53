"""`python -m trainshed.operator.manifests [--check]`."""

from __future__ import annotations

import sys

from trainshed.operator import manifests


def main() -> int:
    """Write the manifests, or with `--check` return 1 and list what differs."""
    if sys.argv[1:] == ["--check"]:
        different = manifests.differences()
        for line in different:
            sys.stderr.write(f"{line}\n")
        if different:
            sys.stderr.write("run `python -m trainshed.operator.manifests` and commit the result\n")
        return 1 if different else 0
    if sys.argv[1:]:
        sys.stderr.write("usage: python -m trainshed.operator.manifests [--check]\n")
        return 2
    manifests.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
