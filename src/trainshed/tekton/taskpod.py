"""A task's steps as containers of one pod, each started by our entrypoint."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object, labels_of, name_of, objects, section, texts, uid_of
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.patch.types import merge_patch
from trainshed.tekton.durations import seconds
from trainshed.tekton.resources import LABEL_TASK_RUN, LABEL_TASK_RUN_UID, MANAGED_BY, READY, READY_ANNOTATION
from trainshed.tekton.workspaces import Mounted, named_in

ROOT = "/tekton"
RESULTS = f"{ROOT}/results"
HOME = f"{ROOT}/home"
WORKSPACE = "/workspace"
MESSAGE_PATH = "/dev/termination-log"
DEFAULT_SCRIPT = "#!/bin/sh\nset -e\n"
_PART_BYTES = 96_000
"""One argument of a program may have 128 KiB."""
_OWN_FIELDS = (
    "name",
    "script",
    "timeout",
    "workspaces",
    "onError",
    "results",
    "stdoutConfig",
    "stderrConfig",
    "when",
    "ref",
    "params",
    "displayName",
    "computeResources",
    "command",
    "args",
    "workingDir",
)
_POD_FIELDS = (
    "nodeSelector",
    "tolerations",
    "affinity",
    "securityContext",
    "runtimeClassName",
    "automountServiceAccountToken",
    "dnsPolicy",
    "dnsConfig",
    "enableServiceLinks",
    "priorityClassName",
    "schedulerName",
    "imagePullSecrets",
    "hostAliases",
    "hostNetwork",
    "hostUsers",
    "topologySpreadConstraints",
)


class Carried(msgspec.Struct, frozen=True):
    """The interpreter for images that may have none: this machine's, mounted with the libraries that it needs."""

    command: tuple[str, ...]
    directories: tuple[tuple[str, str], ...]
    """Where each lies on this machine, and where containers see it."""

    def volumes(self) -> list[Object]:
        """Return the volumes of a pod with such containers."""
        return [
            {"name": f"tekton-python-{i}", "hostPath": {"path": here, "type": "Directory"}}
            for i, (here, _) in enumerate(self.directories)
        ]

    def mounts(self) -> list[Object]:
        """Return the mounts of such a container."""
        return [
            {"name": f"tekton-python-{i}", "mountPath": there, "readOnly": True}
            for i, (_, there) in enumerate(self.directories)
        ]


class Entrypoint(msgspec.Struct, frozen=True):
    """How the program that starts each step is called on the node."""

    python: str
    program: tuple[str, ...]
    """A file, or `-c` and the program itself where users of pods cannot read the file."""
    carried: Carried | None = None
    roots: frozenset[str] = frozenset()
    """Images with a root of their own, in which nothing of this machine is but what is mounted."""

    def carried_into(self, image: str) -> Carried | None:
        """Return what containers of an image have mounted; None where this machine's root has the interpreter."""
        return self.carried if image in self.roots else None

    def command(self, what: Object, image: str = "") -> list[str]:
        """Return the command line up to where the step's own begins."""
        text = base64.b64encode(json.dumps(what).encode()).decode()
        parts = [text[i : i + _PART_BYTES] for i in range(0, len(text), _PART_BYTES)]
        carried = self.carried_into(image)
        start = carried.command if carried else (self.python, "-I", "-S", *self.program)
        return [*start, *parts, "--"]


class Task(msgspec.Struct, frozen=True):
    """A task ready to run: its spec with everything filled in, and its workspaces."""

    spec: Object
    workspaces: tuple[Mounted, ...] = ()


def pod(
    run: Object,
    run_spec: Object,
    task: Task,
    name: str,
    entrypoint: Entrypoint,
    images: Mapping[str, Sequence[str]],
    *,
    ready: bool = True,
) -> Object:
    """Return the pod of a TaskRun.

    `images` has the command of each image that is known to have one. Without `ready` its turn is still to come.
    """
    steps = merged_steps(task.spec, run_spec)
    declared = [str(r["name"]) for r in objects(task.spec, "results") if not r.get("value")]
    containers = []
    for index, step in enumerate(steps):
        container = _step(step, index, task, declared, entrypoint, images)
        container["volumeMounts"] = [*container["volumeMounts"], *_run_mounts(index, len(steps))]
        containers.append(container)
    sidecars = [
        _sidecar(
            _with_resources(s, str(s.get("name")), objects(run_spec, "sidecarSpecs")), i, task, entrypoint
        )
        for i, s in enumerate(objects(task.spec, "sidecars"))
    ]
    _share(containers, section(run_spec, "computeResources"))
    template = section(run_spec, "podTemplate")
    carried = next(
        (c for one in (*containers, *sidecars) if (c := entrypoint.carried_into(one["image"])) is not None),
        None,
    )
    spec: Object = {
        "restartPolicy": "Never",
        "serviceAccountName": run_spec.get("serviceAccountName") or "default",
        "containers": containers,
        "volumes": [
            *({"name": _run_volume(i), "emptyDir": {}} for i in range(len(steps)) if len(steps) > 1),
            *_volumes(task, template),
            *(carried.volumes() if carried else ()),
        ],
    }
    if sidecars:
        spec["initContainers"] = sidecars
    for key in _POD_FIELDS:
        if key in template:
            spec[key] = template[key]
    if template.get("env"):
        for one in (*containers, *sidecars):
            one["env"] = _by_name(objects(template, "env"), objects(one, "env"))
    metadata = section(run, "metadata")
    labels = {
        **labels_of(run),
        **MANAGED_BY,
        LABEL_TASK_RUN: name_of(run),
        LABEL_TASK_RUN_UID: uid_of(run),
    }
    annotations = {**texts(metadata, "annotations"), **({READY_ANNOTATION: READY} if ready else {})}
    annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": metadata.get("namespace"),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [controller_reference(run)],
        },
        "spec": spec,
    }


def step_name(step: Object, index: int) -> str:
    """Return the name of a step; one that has none is called by its place."""
    return str(step.get("name") or f"unnamed-{index}")


_MERGED_LISTS = (("env", "name"), ("volumeMounts", "mountPath"), ("volumeDevices", "devicePath"))
"""Lists of a container that Kubernetes merges, and by what; all others are replaced as a whole."""


def merged_steps(spec: Object, run_spec: Object) -> list[Object]:
    """Return the steps with the template under each and the run's own resources over it, merged as Kubernetes does."""
    template = section(spec, "stepTemplate")
    out = []
    for index, step in enumerate(objects(spec, "steps")):
        merged: Object = {**template, **step}
        for key, field in _MERGED_LISTS:
            both = [*objects(template, key), *objects(step, key)]
            if both:
                merged[key] = list({one.get(field, i): one for i, one in enumerate(both)}.values())
        for key in ("securityContext", "computeResources"):
            both_of = merge_patch(section(template, key), section(step, key))
            if both_of:
                merged[key] = both_of
        out.append(_with_resources(merged, step_name(step, index), objects(run_spec, "stepSpecs")))
    return out


def _with_resources(container: Object, name: str, specs: Sequence[Object]) -> Object:
    """Return a step or sidecar with what the run says of its resources laid over its own."""
    over = next((section(s, "computeResources") for s in specs if s.get("name") == name), {})
    merged = merge_patch(section(container, "computeResources"), over)
    return {**container, "computeResources": merged} if merged else container


def _step(
    step: Object,
    index: int,
    task: Task,
    results: Sequence[str],
    entrypoint: Entrypoint,
    images: Mapping[str, Sequence[str]],
) -> Object:
    name = f"step-{step_name(step, index)}"
    what: Object = {"index": index, "name": name, "message": MESSAGE_PATH, "results": list(results)}
    optional: Object = {
        "script": _script(step),
        "onError": step.get("onError"),
        "timeout": seconds(step.get("timeout"), None),
        "cwd": _directory(step.get("workingDir")),
        "stdout": section(step, "stdoutConfig").get("path"),
        "stderr": section(step, "stderrConfig").get("path"),
        "when": objects(step, "when"),
        "stepResults": [str(r["name"]) for r in objects(step, "results")],
    }
    what |= {key: value for key, value in optional.items() if value}
    return _container(step, name, what, task, entrypoint, images)


def _run_volume(index: int) -> str:
    return f"tekton-internal-run-{index}"


def _run_mounts(index: int, count: int) -> list[Object]:
    """Return the mounts of all steps' directories, of which a step may write to its own; a lone step needs none."""
    return [
        {
            "name": _run_volume(other),
            "mountPath": f"{ROOT}/run/{other}",
            **({} if other == index else {"readOnly": True}),
        }
        for other in range(count)
        if count > 1
    ]


def _sidecar(sidecar: Object, index: int, task: Task, entrypoint: Entrypoint) -> Object:
    """Return a sidecar as an init container that keeps running: the steps start once its probe says so."""
    name = f"sidecar-{sidecar.get('name') or f'unnamed-{index}'}"
    script = _script(sidecar)
    out = _container(sidecar, name, {"sidecar": True, "name": name, "script": script}, task, entrypoint, {})
    if not script:
        out.pop("command", None)
        out.pop("args", None)
        for key in ("command", "args"):
            if key in sidecar:
                out[key] = sidecar[key]
    out["restartPolicy"] = "Always"
    if "readinessProbe" in out:
        out.setdefault("startupProbe", out["readinessProbe"])
    return out


def _container(
    step: Object,
    name: str,
    what: Object,
    task: Task,
    entrypoint: Entrypoint,
    images: Mapping[str, Sequence[str]],
) -> Object:
    image = str(step.get("image") or "")
    out = {key: value for key, value in step.items() if key not in _OWN_FIELDS}
    own = [str(part) for part in step.get("command") or ()]
    arguments = [str(part) for part in step.get("args") or ()]
    if not own and not what.get("script"):
        known = list(images.get(image, ()))
        own = known
    out |= {
        "name": name,
        "image": image or "scratch",
        "command": entrypoint.command(what, image),
        "args": [*own, *arguments],
    }
    resources = section(step, "computeResources")
    if resources:
        out["resources"] = resources
    out["env"] = _by_name([{"name": "HOME", "value": HOME}], objects(step, "env"))
    mounts = [
        {"name": "tekton-internal", "mountPath": ROOT},
        {"name": "tekton-internal-workspace", "mountPath": WORKSPACE},
    ]
    isolated = {str(w.get("name")): w for w in objects(step, "workspaces")}
    only = _isolated(task.spec)
    for workspace in task.workspaces:
        if workspace.volume is None or (workspace.name in only and workspace.name not in isolated):
            continue
        mount = workspace.mount
        asked = isolated.get(workspace.name, {})
        # Tekton reads the names of fields in any case, and one of its examples relies on that.
        path = asked.get("mountPath") or asked.get("mountpath")
        mounts.append({**mount, "mountPath": path} if path else mount)
    carried = entrypoint.carried_into(image)
    mounts += carried.mounts() if carried else ()
    given = objects(step, "volumeMounts")
    taken = {m.get("mountPath") for m in given}
    out["volumeMounts"] = [*(m for m in mounts if m["mountPath"] not in taken), *given]
    return out


def _isolated(spec: Object) -> set[str]:
    """Return the workspaces that single steps or sidecars ask for: others do not see them."""
    return {
        str(w.get("name"))
        for field in ("steps", "sidecars")
        for one in objects(spec, field)
        for w in objects(one, "workspaces")
    }


def _script(step: Object) -> str:
    script = str(step.get("script") or "")
    return script if not script or script.startswith("#!") else DEFAULT_SCRIPT + script


def _directory(path: Any) -> str:
    """Return the working directory; a relative one is under the workspace."""
    if not path:
        return ""
    return str(path) if str(path).startswith("/") else f"{WORKSPACE}/{path}"


def _by_name(first: Sequence[Object], then: Sequence[Object]) -> list[Object]:
    return list({str(one.get("name")): one for one in (*first, *then)}.values())


def _share(containers: Sequence[Object], resources: Object) -> None:
    """Give the resources of the whole task to its steps: they run one after another, and are asked for together."""
    for kind in ("limits", "requests"):
        for container in containers if section(resources, kind) else ():
            container["resources"] = {**section(container, "resources"), kind: section(resources, kind)}
        if kind == "requests":
            for container in containers[1:] if section(resources, kind) else ():
                container["resources"][kind] = {}


def _volumes(task: Task, template: Object) -> list[Object]:
    out: list[Object] = [
        {"name": "tekton-internal", "emptyDir": {}},
        {"name": "tekton-internal-workspace", "emptyDir": {}},
    ]
    own = [*objects(template, "volumes"), *objects(task.spec, "volumes")]
    taken = {str(v.get("name")) for v in own}
    for workspace in task.workspaces:
        if workspace.volume is not None and workspace.volume_name not in taken:
            taken.add(workspace.volume_name)
            out.append({"name": workspace.volume_name, **workspace.volume})
    return [*out, *own]


def propagated(spec: Object, bindings: Sequence[Object]) -> list[Object]:
    """Return a spec's workspaces, with those that its texts refer to without a declaration."""
    declared = objects(spec, "workspaces")
    known = {str(w.get("name")) for w in declared}
    bound = {str(b.get("name")) for b in bindings}
    wanted = named_in({k: v for k, v in spec.items() if k != "metadata"}) | {
        str(w.get("name"))
        for field in ("steps", "sidecars")
        for one in objects(spec, field)
        for w in objects(one, "workspaces")
    }
    return [*declared, *({"name": name} for name in sorted((wanted - known) & bound))]
