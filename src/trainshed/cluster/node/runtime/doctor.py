"""Why sandboxes cannot be made on this machine, and what to change."""

from __future__ import annotations

from trainshed.cluster.node.runtime.model import RuntimeUnavailable


def unavailable(step: str, detail: str) -> RuntimeUnavailable:
    """Return the error for a step that the kernel refused."""
    return RuntimeUnavailable(f"{step}: {detail}", "")
