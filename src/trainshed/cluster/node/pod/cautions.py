"""What differs here from a cluster, and is told as an event before a pod starts."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.cluster.node.pod.nodecontext import NodeContext
from trainshed.cluster.node.pod.unsupported import dangerous_fields, unsupported_fields
from trainshed.kube.meta.objects import Object


def cautions(pod: Object, context: NodeContext) -> Iterator[tuple[str, str, str]]:
    """Yield (type, reason, message) of each event; fields that are not honoured for one reason stand in one."""
    fields: dict[str, list[str]] = {}
    for path, why in unsupported_fields(pod, context.options.capabilities):
        fields.setdefault(why, []).append(path)
    for why, paths in fields.items():
        yield "Warning", "FieldNotHonoured", f"{', '.join(paths)}: {why}"
    for path, why in dangerous_fields(pod, context.options.capabilities):
        yield "Warning", "PrivilegedContainer", f"{path}: {why}"
    spec = pod["spec"]
    named = [each["image"] for each in (*(spec.get("initContainers") or ()), *spec["containers"])]
    unregistered = [name for name in dict.fromkeys(named) if not context.images.is_known(name)]
    if unregistered and context.options.images == "machine":
        plain = context.options.capabilities.plain
        writes = "as plain processes of yours" if plain else "their writes stay private to the pod"
        message = (
            f"Nothing is pulled for {', '.join(unregistered)}: containers run on this machine's own root, "
            f"{writes}, with PATH={context.search_path}"
        )
        yield "Normal", "ImageNotPulled", message
