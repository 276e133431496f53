"""downwardAPI volumes: fields of the pod as files. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainshed.cluster.node import podfields
from trainshed.cluster.node.podfields import FieldError, NodeFacts
from trainshed.cluster.node.volumes.files import DEFAULT_MODE, File, check_path
from trainshed.cluster.node.volumes.volume import FileVolume, MountError, Setup, Source
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.pods import find_container


class DownwardApiVolume(FileVolume):
    """Fields of the pod itself."""

    field = "downwardAPI"

    def files(self, setup: Setup) -> dict[str, File]:
        return downward_files(setup.source, setup.pod, setup.node)


def downward_files(
    source: Source, pod: Object, node: NodeFacts, default_mode: int = DEFAULT_MODE
) -> dict[str, File]:
    """Return the files of a downwardAPI source, in a volume or projected. Raises MountError."""
    mode = source.get("defaultMode", default_mode)
    out = {}
    for item in source.get("items") or ():
        try:
            check_path(item["path"])
            text = _value(item, pod, node)
        except (FieldError, ValueError) as error:
            raise MountError(str(error)) from error
        out[item["path"]] = File(text.encode(), item.get("mode", mode))
    return out


def _value(item: Mapping[str, Any], pod: Object, node: NodeFacts) -> str:
    if item.get("fieldRef"):
        # A pod's IP is not offered to volumes: they exist before the pod has one.
        return podfields.field_value(pod, item["fieldRef"]["fieldPath"], node, "")
    reference = section(item, "resourceFieldRef")
    container = find_container(pod, reference.get("containerName", ""))
    if container is None:
        raise FieldError(f"resourceFieldRef names no container: {reference.get('containerName', '')!r}")
    return podfields.resource_value(container, reference, node)
