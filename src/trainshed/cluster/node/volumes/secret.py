"""secret volumes: each key of a Secret as a file. Pure."""

from __future__ import annotations

from trainshed.cluster.node.podfields import secret_bytes
from trainshed.cluster.node.volumes.keyed import KeyedVolume
from trainshed.kube.meta.objects import Object


class SecretVolume(KeyedVolume):
    """A Secret of the pod's namespace."""

    field = "secret"
    resource, word = "secrets", "secret"
    named_by = "secretName"

    def keys(self, obj: Object) -> dict[str, bytes]:
        return secret_bytes(obj)
