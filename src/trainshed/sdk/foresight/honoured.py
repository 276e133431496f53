"""Fields that are accepted and have no effect on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.cluster.node.pod.unsupported import unsupported_fields
from trainshed.sdk.foresight.findings import Noted
from trainshed.sdk.foresight.templates import PodTemplate
from trainshed.sdk.foresight.world import World


def not_honoured(template: PodTemplate, world: World) -> Iterator[Noted]:
    """Yield the fields with the reason, in the words of the node's own events."""
    if world.capabilities is None:
        return
    try:
        findings = unsupported_fields(template.pod, world.capabilities)
    except (AttributeError, KeyError, TypeError, ValueError):
        return  # a document that the API server refuses
    for field, why in findings:
        yield Noted("TS501", template.path + field, why)
