"""configMap volumes: each key of a ConfigMap as a file. Pure."""

from __future__ import annotations

from trainshed.cluster.node.podfields import configmap_bytes
from trainshed.cluster.node.volumes.keyed import KeyedVolume
from trainshed.kube.meta.objects import Object


class ConfigMapVolume(KeyedVolume):
    """A ConfigMap of the pod's namespace."""

    field = "configMap"
    resource, word = "configmaps", "configmap"

    def keys(self, obj: Object) -> dict[str, bytes]:
        return configmap_bytes(obj)
