"""Workspaces: what a spec declares, what a run binds, and the volumes that come of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

import msgspec

from trainshed.kube.meta.objects import Object, objects, section
from trainshed.kube.meta.ownership import controller_reference
from trainshed.tekton.resources import claim_name
from trainshed.tekton.variables import Value, references

_SOURCES = ("persistentVolumeClaim", "configMap", "secret", "projected", "csi", "emptyDir")


class WorkspaceError(Exception):
    """Workspaces are not bound as the spec needs them."""


class Mounted(msgspec.Struct, frozen=True):
    """A workspace of a task with the volume behind it. `volume` is None for an optional one that is not bound."""

    name: str
    path: str
    read_only: bool = False
    sub_path: str = ""
    volume: Object | None = None

    @property
    def volume_name(self) -> str:
        """The name of the pod's volume: equal for equal volumes, so that two workspaces may share one."""
        text = json.dumps(self.volume, sort_keys=True)
        return f"ws-{hashlib.sha256(text.encode()).hexdigest()[:5]}"

    @property
    def mount(self) -> Object:
        """The mount of the workspace in a container."""
        out: Object = {"name": self.volume_name, "mountPath": self.path}
        if self.sub_path:
            out["subPath"] = self.sub_path
        if self.read_only:
            out["readOnly"] = True
        return out


def claims(owner: Object, bindings: Iterable[Object]) -> list[Object]:
    """Return the claims that a run makes for its `volumeClaimTemplate`s, owned by it."""
    out = []
    for binding in bindings:
        template = section(binding, "volumeClaimTemplate")
        if not template:
            continue
        metadata = section(template, "metadata")
        out.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    **{key: metadata[key] for key in ("labels", "annotations") if key in metadata},
                    "name": _claim_of(owner, binding),
                    "namespace": owner["metadata"]["namespace"],
                    "ownerReferences": [controller_reference(owner)],
                },
                "spec": section(template, "spec"),
            }
        )
    return out


def _claim_of(owner: Object, binding: Object) -> str:
    template = section(binding, "volumeClaimTemplate")
    given = str(section(template, "metadata").get("name") or "")
    return claim_name(given, str(binding.get("name")), str(owner["metadata"]["uid"]))


def with_claims(owner: Object, bindings: Iterable[Object]) -> list[Object]:
    """Return the bindings with each template replaced by the claim that was made of it."""
    out = []
    for binding in bindings:
        if binding.get("volumeClaimTemplate"):
            kept = {k: v for k, v in binding.items() if k != "volumeClaimTemplate"}
            binding = {**kept, "persistentVolumeClaim": {"claimName": _claim_of(owner, binding)}}
        out.append(binding)
    return out


def require(declared: Sequence[Object], bindings: Sequence[Object], who: str, by: str) -> None:
    """Check that every workspace that is not optional is bound, once. Raises WorkspaceError."""
    names = [str(b.get("name")) for b in bindings]
    for name in names:
        if names.count(name) > 1:
            raise WorkspaceError(f'workspace "{name}" is bound more than once')
    for one in declared:
        if not one.get("optional") and one.get("name") not in names:
            raise WorkspaceError(
                f'{who} requires workspace with name "{one.get("name")}" be provided by {by}'
            )


def mounted(declared: Sequence[Object], bindings: Sequence[Object]) -> list[Mounted]:
    """Return the workspaces of a task, in the order of their declaration."""
    by_name = {str(b.get("name")): b for b in bindings}
    out = []
    for one in declared:
        name = str(one.get("name"))
        path = str(one.get("mountPath") or f"/workspace/{name}")
        binding = by_name.get(name)
        if binding is None:
            out.append(Mounted(name, path))
            continue
        source = next((s for s in _SOURCES if s in binding), "emptyDir")
        volume = {source: binding.get(source) or {}}
        out.append(Mounted(name, path, bool(one.get("readOnly")), str(binding.get("subPath") or ""), volume))
    return out


def task_scope(workspaces: Iterable[Mounted]) -> dict[str, Value]:
    """Return what `$(workspaces.NAME.…)` stands for in a task."""
    out: dict[str, Value] = {}
    for one in workspaces:
        prefix = f"workspaces.{one.name}"
        bound = one.volume is not None
        out[f"{prefix}.bound"] = str(bound).lower()
        out[f"{prefix}.path"] = one.path if bound else ""
        out[f"{prefix}.volume"] = one.volume_name if bound else ""
        out[f"{prefix}.claim"] = str(
            section(one.volume or {}, "persistentVolumeClaim").get("claimName") or ""
        )
    return out


def named_in(value: object) -> set[str]:
    """Return the names of the workspaces that texts of a spec refer to."""
    out = set()
    for name in references(value):
        parts = name.split(".")
        if len(parts) == 3 and parts[0] == "workspaces":
            out.add(parts[1])
    return out


def bindings_of(
    task: Object, task_spec: Object | None, run_bindings: Sequence[Object], declared: Sequence[Object]
) -> list[Object]:
    """Return the bindings of one task of a pipeline.

    Those that the task names, and for a spec that stands in the pipeline also those that it only refers to.

    Raises:
        WorkspaceError: the task names a workspace that the pipeline does not declare.
    """
    by_name = {str(b.get("name")): b for b in run_bindings}
    known = {str(d.get("name")) for d in declared} | set(by_name)
    out = []
    for one in objects(task, "workspaces"):
        name = str(one.get("name"))
        wanted = str(one.get("workspace") or name)
        if wanted not in known:
            raise WorkspaceError(
                f'pipeline task "{task.get("name")}" expects workspace with name "{wanted}" '
                "but none exists in pipeline spec"
            )
        binding = by_name.get(wanted)
        if binding is not None:
            out.append({**binding, "name": name, **_sub_path(binding, one)})
    if task_spec is not None:
        bound = {str(b["name"]) for b in out}
        own = {str(d.get("name")) for d in objects(task_spec, "workspaces")}
        for name in sorted((named_in(task_spec) | own) - bound):
            if name in by_name:
                out.append(by_name[name])
    return out


def _sub_path(binding: Object, task_binding: Object) -> Object:
    parts = [str(p).strip("/") for p in (binding.get("subPath"), task_binding.get("subPath")) if p]
    return {"subPath": "/".join(parts)} if parts else {}
