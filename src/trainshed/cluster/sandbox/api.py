"""The interface of the sandbox runtime, in one place: what the node agent imports.

Expected flow: `start` once; per pod `run_sandbox`, `start_container` for each attempt, `stop_sandbox`,
`remove_sandbox`. After a restart of the control plane: `start`, `list`, and go on.

Guarantees: sandboxes outlive the process that holds the `Runtime`. An ended container's log file is
complete before its end is reported. Every end is reported at least once: by `events()`, or by `list()`
after a restart.
"""

from trainshed.cluster.sandbox.client.runtime import Runtime
from trainshed.cluster.sandbox.model import (
    ContainerSpec,
    ContainerState,
    DnsRecords,
    ExecSpec,
    Isolation,
    Layer,
    Mount,
    Place,
    Route,
    RuntimeLost,
    RuntimePaths,
    RuntimeUnavailable,
    SandboxNotFound,
    SandboxSpec,
    SandboxState,
    StartError,
    Usage,
)

__all__ = [
    "ContainerSpec",
    "ContainerState",
    "DnsRecords",
    "ExecSpec",
    "Isolation",
    "Layer",
    "Mount",
    "Place",
    "Route",
    "Runtime",
    "RuntimeLost",
    "RuntimePaths",
    "RuntimeUnavailable",
    "SandboxNotFound",
    "SandboxSpec",
    "SandboxState",
    "StartError",
    "Usage",
]
