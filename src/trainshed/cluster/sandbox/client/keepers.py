"""What keeps the limits of a cluster's pods, as its sandboxd says, and what leads to Services, as netd does."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trainshed.cluster.sandbox import wire
from trainshed.cluster.sandbox.model import Keepers


def keepers(run: Path) -> Keepers | None:
    """Return what keeps limits in the cluster whose daemons are at `run`; None while there is no answer."""
    try:
        with wire.connect(str(run / "sandboxd.sock"), timeout=2.0) as sock:
            answer, _ = wire.ask(sock, {"op": "ping"})
        return msgspec.convert(answer["keepers"], Keepers)
    except (OSError, KeyError, msgspec.ValidationError):
        return None


def services_by(run: Path) -> str:
    """Return what leads connections to Services on, in words; nothing while there is no answer."""
    try:
        with wire.connect(str(run / "netd.sock"), timeout=2.0) as sock:
            answer, _ = wire.ask(sock, {"op": "ping"})
    except OSError:
        return ""
    return str(answer.get("services", ""))
