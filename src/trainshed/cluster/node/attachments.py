"""Which node has which volume: one that only a single node may have is not given to a second one.

On a cluster the attach/detach controller sees to it, for disks that are attached to machines. Directories that were
provisioned here stand for such disks; all nodes are one machine, so nothing but this would keep pods apart.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trainshed.cluster.node.references import References
from trainshed.cluster.node.volumes.claim import is_provisioned
from trainshed.kube.meta.objects import Object, name_of, namespace_of, uid_of
from trainshed.kube.meta.pods import claim_names

_SHARED_MODES = frozenset(("ReadWriteMany", "ReadOnlyMany"))


class _Holder(msgspec.Struct, frozen=True):
    """A pod on a node, and the claims whose volumes are attached there for it."""

    node: str
    namespace: str
    name: str
    claims: frozenset[str]


class Attachments:
    """The volumes of all nodes of a machine, by the pods that they were attached for."""

    def __init__(self) -> None:
        self._holders: dict[str, _Holder] = {}

    def hold(self, node: str, pod: Object) -> None:
        """Note that the volumes of all claims of the pod are attached to its node."""
        if claims := claim_names(pod):
            self._holders[uid_of(pod)] = _Holder(node, namespace_of(pod), name_of(pod), frozenset(claims))

    def take(self, node: str, pod: Object, references: References) -> str:
        """Attach the volumes of the pod's claims to its node; return why that cannot be, empty if it is done.

        In words of Kubernetes (pkg/volume/util/operationexecutor, v1.33: Multi-Attach error).
        """
        for claim in claim_names(pod):
            volume = _single(claim, references.objects)
            if volume and (others := self._others(node, namespace_of(pod), claim)):
                return (
                    f'Multi-Attach error for volume "{volume}" '
                    f"Volume is already used by pod(s) {', '.join(sorted(others))}"
                )
        self.hold(node, pod)
        return ""

    def let_go(self, uid: str) -> None:
        """Detach what was attached for a pod."""
        self._holders.pop(uid, None)

    def _others(self, node: str, namespace: str, claim: str) -> list[str]:
        return [
            holder.name
            for holder in self._holders.values()
            if holder.node != node and holder.namespace == namespace and claim in holder.claims
        ]


def _single(claim: str, objects: Mapping[tuple[str, str], Object | None]) -> str:
    """Return the name of the claim's volume where one node only may have it."""
    found = objects.get(("persistentvolumeclaims", claim))
    name = found["spec"].get("volumeName", "") if found else ""
    volume = objects.get(("persistentvolumes", name))
    if volume is None or not is_provisioned(volume):
        return ""
    return "" if _SHARED_MODES & set(volume["spec"].get("accessModes") or ()) else name
