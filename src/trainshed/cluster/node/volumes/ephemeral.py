"""ephemeral volumes: a claim of the pod's own, which the control plane makes from the template."""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.cluster.node.references import Reference
from trainshed.cluster.node.volumes.claim import claimed_directory
from trainshed.cluster.node.volumes.volume import DirectoryVolume, Setup, Source, Volume
from trainshed.kube.meta.objects import Object


class EphemeralVolume(DirectoryVolume):
    """The claim `<pod>-<volume>` (KEP-1698)."""

    field = "ephemeral"

    def referenced(self, pod: Object, name: str, source: Source) -> Iterable[Reference]:
        yield "persistentvolumeclaims", _claim(pod, name)

    def directory(self, setup: Setup) -> Volume:
        return claimed_directory(_claim(setup.pod, setup.name), setup.references)


def _claim(pod: Object, name: str) -> str:
    return f"{pod['metadata'].get('name', '')}-{name}"
