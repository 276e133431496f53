"""`python -m trainshed.cli.serve`: the control plane's process, of which most is imported with the collector off.

Started by `trainshed up`; not a command for users.
"""

from __future__ import annotations

from trainshed import _collector
from trainshed._packages import at_first_use, without

MODULE = "trainshed.cli.serve"


def main() -> None:
    """Run the control plane of one state directory until it is told to stop."""
    _collector.pause()
    at_first_use("ast", "bz2", "configparser", "locale", "logging.config", "lzma")
    with without("typing_extensions"):  # Python has all that it has for msgspec
        import msgspec  # noqa: F401
    from trainshed.cli import controlplane

    controlplane.main(MODULE)


if __name__ == "__main__":
    main()
