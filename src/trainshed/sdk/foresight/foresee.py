"""The rules, applied to every object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from trainshed.kube.meta.objects import Object, name_of, namespace_of
from trainshed.sdk.foresight import commands, honoured, placement, references, refused, training
from trainshed.sdk.foresight.findings import RULES, Finding, Noted
from trainshed.sdk.foresight.templates import PodTemplate, templates
from trainshed.sdk.foresight.world import CLUSTER_SCOPED, World

OfTemplate: TypeAlias = Callable[[PodTemplate, World], Iterator[Noted]]
OfJob: TypeAlias = Callable[[Sequence[PodTemplate], World], Iterator[Noted]]

OF_TEMPLATE: tuple[OfTemplate, ...] = (
    refused.refused_pods,
    references.missing,
    commands.unknown_images,
    commands.installs,
    placement.foreign_schedulers,
    placement.unplaceable,
    training.small_shared_memory,
    training.port_elsewhere,
    training.injected_sidecars,
    honoured.not_honoured,
)
"""What is asked of each template of pods."""
OF_JOB: tuple[OfJob, ...] = (placement.not_all_at_once, training.colliding_ports)
"""What is asked of all templates of a training job together."""


def of_object(obj: Object, world: World) -> Iterator[Finding]:
    """Yield what is foreseen of one object, of whatever shape: of one that an API server would refuse less is said.

    What objects bring along counts as there when the world is one `with_objects`.
    """
    found = templates(obj)
    noted = [*_of_namespace(obj, world), *references.missing_class(obj, world)]
    noted += _of_templates(found, world)
    if str(obj["apiVersion"]).startswith("kubeflow.org/"):
        noted += [each for rule in OF_JOB for each in rule(found, world)]
    for each in dict.fromkeys(noted):
        severity = RULES[each.code].severity
        yield Finding(each.code, severity, str(obj["kind"]), name_of(obj), each.path, each.message, each.fix)


def _of_templates(found: Sequence[PodTemplate], world: World) -> Iterator[Noted]:
    """Yield what is said of the templates, once where it is the same for several replica types."""
    said: dict[Noted, list[PodTemplate]] = {}
    for template in found:
        for each in (noted for rule in OF_TEMPLATE for noted in rule(template, world)):
            bare = msgspec.structs.replace(each, path=each.path.removeprefix(template.owner_path))
            said.setdefault(bare, []).append(template)
    for noted, of in said.items():
        first = of[0]
        replicas = ",".join(dict.fromkeys(template.replica for template in of))
        path = first.owner_path
        if first.replica:
            path = path.replace(f"[{first.replica}]", f"[{replicas}]", 1)
        yield msgspec.structs.replace(noted, path=path + noted.path)


def _of_namespace(obj: Object, world: World) -> Iterator[Noted]:
    namespace = namespace_of(obj) or world.namespace
    if obj["kind"] not in CLUSTER_SCOPED and world.is_missing("Namespace", "", namespace):
        yield Noted(
            "TS106",
            "metadata.namespace" if namespace_of(obj) else "",
            f"there is no namespace {namespace}",
            f"kubectl create namespace {namespace}",
        )
