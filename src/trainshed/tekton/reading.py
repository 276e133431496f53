"""Tekton's objects as v1, whatever version they were written in.

Both versions are served from one store without conversion, so an object keeps the spelling in which it came. Source:
the migration guide from v1beta1 to v1.
"""

from __future__ import annotations

from trainshed.kube.meta.objects import Object, copy_tree, objects, spec_of


def run_spec(run: Object) -> Object:
    """Return the spec of a PipelineRun or TaskRun as v1 has it; a copy."""
    spec: Object = copy_tree(spec_of(run))
    template = dict(spec.get("taskRunTemplate") or {})
    if run.get("kind") == "PipelineRun":
        for name in ("serviceAccountName", "podTemplate"):
            if name in spec:
                template.setdefault(name, spec.pop(name))
        spec["taskRunTemplate"] = template
        if spec.get("timeout"):
            spec.setdefault("timeouts", {}).setdefault("pipeline", spec.pop("timeout"))
        for one in objects(spec, "taskRunSpecs"):
            _rename(one, {"taskServiceAccountName": "serviceAccountName", "taskPodTemplate": "podTemplate"})
            _rename(one, {"stepOverrides": "stepSpecs", "sidecarOverrides": "sidecarSpecs"})
        if spec.get("pipelineSpec"):
            spec["pipelineSpec"] = pipeline_spec(spec["pipelineSpec"])
    else:
        _rename(spec, {"stepOverrides": "stepSpecs", "sidecarOverrides": "sidecarSpecs"})
        if spec.get("taskSpec"):
            spec["taskSpec"] = task_spec(spec["taskSpec"])
    return spec


def pipeline_spec(spec: Object) -> Object:
    """Return a PipelineSpec as v1 has it; a copy."""
    spec = copy_tree(spec)
    for field in ("tasks", "finally"):
        for task in objects(spec, field):
            inline = task.get("taskSpec")
            if inline and not is_custom(inline):
                task["taskSpec"] = task_spec(inline)
    return spec


def task_spec(spec: Object) -> Object:
    """Return a TaskSpec as v1 has it; a copy."""
    spec = copy_tree(spec)
    for field in ("steps", "sidecars"):
        for container in objects(spec, field):
            _rename(container, {"resources": "computeResources"})
    if spec.get("stepTemplate"):
        _rename(spec["stepTemplate"], {"resources": "computeResources"})
    return spec


def is_custom(reference: Object) -> bool:
    """Return whether a taskRef or taskSpec is that of a custom task: of a group that is not Tekton's own."""
    api = str(reference.get("apiVersion") or "")
    return bool(api) and not api.startswith("tekton.dev/")


def _rename(obj: Object, names: dict[str, str]) -> None:
    for old, new in names.items():
        if old in obj:
            obj.setdefault(new, obj.pop(old))
