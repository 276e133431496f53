"""What netd and the process that forwards (`serviceproxy`) know of each other: netd starts it where somebody connects.

netd itself has nothing of that process, which few clusters need.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Key: TypeAlias = tuple[bool, str, str, int]
    """Whether it is the machine's, protocol, IP address, port."""

MODULE = "trainshed.cluster.sandbox.daemon.serviceproxy"
ROUTES = "routes.json"
"""In the run directory."""
ON_MACHINE = "machine"
"""The argument that says so where that is the network of pods."""
CHANNEL, USER, NETWORK = 3, 4, 5
DESCRIPTORS = (CHANNEL, USER, NETWORK)
"""Where netd leaves its socket, the sandboxes' user namespace and the cluster's network."""
