"""Runs a daemon of this package with the standard library only: `python -I -S bootstrap.py <module> <args>`.

`-S` leaves out site-packages (22 ms and several MB). The packages above the daemons are entered into
`sys.modules` without running their `__init__` files, so what those import never reaches a daemon.
"""

import os
import sys
from types import ModuleType

_PACKAGES = (
    "trainshed",
    "trainshed.cluster",
    "trainshed.cluster.sandbox",
    "trainshed.cluster.sandbox.daemon",
    "trainshed.cluster.sandbox.daemon.plain",
    "trainshed.cluster.sandbox.layers",
    "trainshed.cluster.sandbox.linux",
    "trainshed.cluster.sandbox.net",
)
_OWN_PATH = os.path.join("trainshed", "cluster", "sandbox", "bootstrap.py")


def source_directory() -> str:
    """Return the directory that holds the package `trainshed`."""
    return os.path.dirname(os.path.abspath(__file__).removesuffix(_OWN_PATH))


def enter_packages(source: str) -> None:
    """Make the modules of the daemons importable from the directory `source` that holds `trainshed`."""
    for name in _PACKAGES:
        package = ModuleType(name)
        package.__path__ = [os.path.join(source, *name.split("."))]
        sys.modules[name] = package


class _Selectors(ModuleType):
    """What stands for `selectors` until somebody asks it for a name."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get("selectors") is self:
            del sys.modules["selectors"]
        return getattr(__import__("selectors"), name)


def leave_selectors() -> None:
    """Have `selectors` run when it is needed: `socket` imports it at its head, for `sendfile` alone."""
    sys.modules["selectors"] = _Selectors("selectors")


def main(argv: list[str]) -> int:
    """Run `main(argv)` of the module named first; return its exit status."""
    enter_packages(source_directory())
    leave_selectors()
    module = __import__(argv[0], fromlist=["main"])
    status: int = module.main(argv[1:])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
