"""Objects that pods need and that do not exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainshed.kube.meta.objects import Object, objects, section
from trainshed.sdk.foresight.findings import Noted
from trainshed.sdk.foresight.templates import PodTemplate, templates
from trainshed.sdk.foresight.world import World

Reference = tuple[str, str, str, str]
"""(path, kind, name, key): an object that has to be there, and a key in it, empty for none in particular."""

_CODES = {
    "PersistentVolumeClaim": "TS101",
    "ConfigMap": "TS102",
    "Secret": "TS103",
    "ServiceAccount": "TS104",
    "PriorityClass": "TS105",
}
_BUILT_IN_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


def references(template: PodTemplate) -> Iterator[Reference]:
    """Yield what the pods cannot start without; optional references are left out."""
    spec, path = template.spec, f"{template.path}spec"
    for field, kind in (("serviceAccountName", "ServiceAccount"), ("priorityClassName", "PriorityClass")):
        name = spec.get(field)
        if isinstance(name, str) and name and name not in _BUILT_IN_CLASSES:
            yield f"{path}.{field}", kind, name, ""
    for where, volume in template.volumes():
        yield from _of_volume(where, volume)
    for where, container in template.containers():
        yield from _of_container(where, container)


def claims(objects: Sequence[Object]) -> Iterator[tuple[str, str, str]]:
    """Yield kind, namespace and name of every claim that the objects' pods use."""
    for obj in objects:
        for template in templates(obj):
            for _, kind, name, _ in references(template):
                if kind == "PersistentVolumeClaim":
                    yield kind, template.namespace, name


def storage_class(obj: Object) -> str:
    """Return the class that a claim names, empty for none and for other objects."""
    name = section(obj, "spec").get("storageClassName") if obj.get("kind") == "PersistentVolumeClaim" else ""
    return name if isinstance(name, str) else ""


def missing_class(obj: Object, world: World) -> Iterator[Noted]:
    """Yield the storage class that a claim names and that is not there, unless a volume of it comes along."""
    name = storage_class(obj)
    volumes = [found for (kind, _, _), found in world.found.items() if kind == "PersistentVolume" and found]
    if not name or not world.is_missing("StorageClass", "", name):
        return
    if any(section(volume, "spec").get("storageClassName") == name for volume in volumes):
        return
    fix = "leave it out for the default class"
    yield Noted(
        "TS108",
        "spec.storageClassName",
        f"there is no StorageClass {name}",
        f"{fix}, or let `trainshed run --adapt` do so" if world.is_local else fix,
    )


def missing(template: PodTemplate, world: World) -> Iterator[Noted]:
    """Yield each object once that is referred to and is not there, and each key that an object lacks."""
    seen: set[tuple[str, str, str]] = set()
    for path, kind, name, key in references(template):
        if (kind, name, key) in seen or (kind, name, "") in seen:
            continue
        if world.is_missing(kind, template.namespace, name):
            seen.add((kind, name, ""))
            yield Noted(_CODES[kind], path, f"there is no {kind} {name}", _remedy(kind, name, world))
        elif key and not _has(world.found.get(world.key(kind, template.namespace, name)), key):
            seen.add((kind, name, key))
            yield Noted("TS107", path, f"the {kind} {name} has no key {key}", f"add {key} to its data")


def _remedy(kind: str, name: str, world: World) -> str:
    if kind == "PersistentVolumeClaim":
        made = "add the claim to the manifest, or let `trainshed run --adapt` make it"
        return made if world.is_local else "add the claim to the manifest"
    if kind == "PriorityClass":
        return "leave it out, or create the class"
    if kind == "Secret":
        return f"kubectl create secret generic {name} --from-literal=KEY=VALUE"
    if kind == "ServiceAccount":
        return f"kubectl create serviceaccount {name}, or leave it out"
    return f"kubectl create configmap {name} --from-file=FILE"


def _has(obj: Object | None, key: str) -> bool:
    if obj is None:  # not known
        return True
    return any(key in section(obj, field) for field in ("data", "binaryData", "stringData"))


def _of_volume(path: str, volume: Object) -> Iterator[Reference]:
    claim = section(volume, "persistentVolumeClaim").get("claimName")
    if isinstance(claim, str) and claim:
        yield f"{path}.persistentVolumeClaim", "PersistentVolumeClaim", claim, ""
    yield from _files(f"{path}.configMap", "ConfigMap", section(volume, "configMap"), "name")
    yield from _files(f"{path}.secret", "Secret", section(volume, "secret"), "secretName")
    for index, source in enumerate(objects(section(volume, "projected"), "sources")):
        where = f"{path}.projected.sources[{index}]"
        yield from _files(f"{where}.configMap", "ConfigMap", section(source, "configMap"), "name")
        yield from _files(f"{where}.secret", "Secret", section(source, "secret"), "name")


def _files(path: str, kind: str, source: Object, field: str) -> Iterator[Reference]:
    name = source.get(field)
    if not isinstance(name, str) or not name or source.get("optional") is True:
        return
    yield path, kind, name, ""
    for item in objects(source, "items"):
        if isinstance(item.get("key"), str):
            yield path, kind, name, item["key"]


def _of_container(path: str, container: Object) -> Iterator[Reference]:
    for index, each in enumerate(objects(container, "envFrom")):
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            yield from _one(f"{path}.envFrom[{index}].{field}", kind, section(each, field))
    for index, variable in enumerate(objects(container, "env")):
        for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            source = section(variable, "valueFrom", field)
            yield from _one(f"{path}.env[{index}].valueFrom.{field}", kind, source)


def _one(path: str, kind: str, source: Object) -> Iterator[Reference]:
    name, key = source.get("name"), source.get("key")
    if isinstance(name, str) and name and source.get("optional") is not True:
        yield path, kind, name, key if isinstance(key, str) else ""
