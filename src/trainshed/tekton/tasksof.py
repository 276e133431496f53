"""What a task of a pipeline becomes when it starts: a TaskRun, CustomRun or PipelineRun, or one a combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object, labels_of, name_of, objects, section, texts
from trainshed.kube.meta.ownership import controller_reference
from trainshed.tekton.conditions import Refused
from trainshed.tekton.matrix import Combination, combinations, is_fanned_out
from trainshed.tekton.pipelinetasks import Node
from trainshed.tekton.resources import (
    LABEL_MEMBER_OF,
    LABEL_PIPELINE,
    LABEL_PIPELINE_RUN,
    LABEL_PIPELINE_RUN_UID,
    LABEL_PIPELINE_TASK,
    MANAGED_BY,
    ON_ERROR_ANNOTATION,
    V1,
    V1BETA1,
    child_name,
)
from trainshed.tekton.variables import Scope, replace
from trainshed.tekton.versions import is_custom
from trainshed.tekton.workspaces import bindings_of, with_claims

_ABOVE_ANNOTATION = "trainshed.dev/pipelines-above"
"""Of the run of a pipeline in a pipeline: the names of those around it, so that none is within itself."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Making(msgspec.Struct, frozen=True):
    """What all children of one run have in common. `spec` is the run's, as v1; `pipeline` its resolved PipelineSpec."""

    run: Object
    spec: Object
    pipeline: Object
    tasks: Mapping[str, Object]
    """Tasks that are referred to, by name."""


def names_of(run: Object, node: Node, count: int) -> list[str]:
    """Return the names of a task's runs."""
    parent = name_of(run)
    if is_fanned_out(node.task):
        return [child_name(parent, f"-{node.name}-{index}") for index in range(count)]
    return [child_name(parent, f"-{node.name}")]


def children(making: Making, node: Node, scope: Scope) -> list[Object]:
    """Return the runs of a task that starts now. `scope` has the results that it may read.

    Raises:
        WorkspaceError: it names a workspace that the pipeline does not have.
    """
    fanned = is_fanned_out(node.task)
    combos: list[Combination] = combinations(node.task, scope) if fanned else [{}]
    names = names_of(making.run, node, len(combos))
    return [_child(making, node, name, combo, scope) for name, combo in zip(names, combos, strict=True)]


def _child(making: Making, node: Node, name: str, combo: Combination, scope: Scope) -> Object:
    task = node.task
    given = [p for p in objects(task, "params") if p.get("name") not in combo]
    params: list[Object] = [{"name": p["name"], "value": replace(p.get("value"), scope)} for p in given]
    params += [{"name": key, "value": value} for key, value in combo.items()]
    inline = task.get("taskSpec")
    spec: Object = {}
    if params:
        spec["params"] = params
    own = next(
        (o for o in objects(making.spec, "taskRunSpecs") if o.get("pipelineTaskName") == node.name), {}
    )
    template = section(making.spec, "taskRunTemplate")
    spec["serviceAccountName"] = (
        own.get("serviceAccountName") or template.get("serviceAccountName") or "default"
    )
    bindings = with_claims(making.run, objects(making.spec, "workspaces"))
    bound = bindings_of(
        replace(task, scope),
        None if node.is_custom else node.task.get("pipelineSpec") or inline,
        bindings,
        objects(making.pipeline, "workspaces"),
    )
    if bound:
        spec["workspaces"] = bound
    if task.get("retries"):
        spec["retries"] = int(task["retries"])
    timeout = own.get("timeout") or task.get("timeout")
    if timeout:
        spec["timeout"] = timeout
    elif section(making.spec, "timeouts").get("pipeline") in ("0", "0s", "0h0m0s"):
        spec["timeout"] = "0s"  # whoever lifts the limit of all means that of each as well
    if node.is_pipeline:
        return _pipeline_run(making, node, name, spec, scope, own)
    return (
        _custom_run(making, node, name, spec, scope)
        if node.is_custom
        else _task_run(making, node, name, spec, scope, own)
    )


def _task_run(making: Making, node: Node, name: str, spec: Object, scope: Scope, own: Object) -> Object:
    inline = node.task.get("taskSpec")
    reference = node.task.get("taskRef")
    meta: Object = {}
    if inline:
        meta = section(inline, "metadata")
        body = {
            key: value
            for key, value in inline.items()
            if key not in ("metadata", "apiVersion", "kind", "spec")
        }
        spec["taskSpec"] = replace(body, scope)
    else:
        spec["taskRef"] = {"kind": "Task", **replace(reference, scope)}
        referred = making.tasks.get(str(spec["taskRef"].get("name"))) or {}
        meta = {"labels": labels_of(referred)}
    template = section(making.spec, "taskRunTemplate")
    pod = {**section(template, "podTemplate"), **section(own, "podTemplate")}
    if pod:
        spec["podTemplate"] = pod
    for key in ("stepSpecs", "sidecarSpecs", "computeResources"):
        if own.get(key):
            spec[key] = own[key]
    made = _metadata(making, node, name, meta, own)
    return {"apiVersion": V1, "kind": "TaskRun", "metadata": made, "spec": spec}


def _pipeline_run(making: Making, node: Node, name: str, spec: Object, scope: Scope, own: Object) -> Object:
    """Return the run of a pipeline within the pipeline. Raises Refused for one that is within itself."""
    inline, reference = node.task.get("pipelineSpec"), node.task.get("pipelineRef")
    made = _metadata(making, node, name, {}, own)
    above = texts(section(making.run, "metadata"), "annotations").get(_ABOVE_ANNOTATION, "")
    names = [*above.split(), pipeline_name(making.run)]
    made["annotations"] = {**texts(made, "annotations"), _ABOVE_ANNOTATION: " ".join(names)}
    told: Object = {"pipelineSpec": inline} if inline else {"pipelineRef": replace(reference, scope)}
    referred = section(told, "pipelineRef").get("name")
    if referred in names:
        path = " -> ".join([*names[names.index(referred) :], str(referred)])
        raise Refused(
            "PipelineValidationFailed", f'task "{node.name}": the pipeline is within itself: {path}'
        )
    for key in ("params", "workspaces"):
        if key in spec:
            told[key] = spec[key]
    template = {**section(making.spec, "taskRunTemplate"), "serviceAccountName": spec["serviceAccountName"]}
    pod = {**section(template, "podTemplate"), **section(own, "podTemplate")}
    told["taskRunTemplate"] = {**template, **({"podTemplate": pod} if pod else {})}
    if spec.get("timeout"):
        told["timeouts"] = {"pipeline": spec["timeout"]}
    return {"apiVersion": V1, "kind": "PipelineRun", "metadata": made, "spec": told}


def _custom_run(making: Making, node: Node, name: str, spec: Object, scope: Scope) -> Object:
    inline = section(node.task, "taskSpec")
    if is_custom(inline):
        spec["customSpec"] = {
            "apiVersion": inline["apiVersion"],
            "kind": inline.get("kind", ""),
            "metadata": section(inline, "metadata"),
            "spec": replace(section(inline, "spec"), scope),
        }
    else:
        spec["customRef"] = replace(section(node.task, "taskRef"), scope)
    metadata = _metadata(making, node, name, section(inline, "metadata"), {})
    return {"apiVersion": V1BETA1, "kind": "CustomRun", "metadata": metadata, "spec": spec}


def _metadata(making: Making, node: Node, name: str, given: Object, own: Object) -> Object:
    run = making.run
    owned = section(run, "metadata")
    labels = {
        **texts(owned, "labels"),
        **texts(given, "labels"),
        **texts(section(own, "metadata"), "labels"),
        **MANAGED_BY,
        LABEL_PIPELINE: pipeline_name(run),
        LABEL_PIPELINE_RUN: name_of(run),
        LABEL_PIPELINE_RUN_UID: str(owned.get("uid")),
        LABEL_PIPELINE_TASK: node.name,
        LABEL_MEMBER_OF: "finally" if node.final else "tasks",
    }
    annotations = {
        **texts(owned, "annotations"),
        **texts(given, "annotations"),
        **texts(section(own, "metadata"), "annotations"),
    }
    annotations.pop(_LAST_APPLIED, None)
    if node.task.get("onError") == "continue":
        annotations[ON_ERROR_ANNOTATION] = "continue"
    out: Object = {
        "name": name,
        "namespace": owned.get("namespace"),
        "labels": labels,
        "ownerReferences": [controller_reference(run)],
    }
    if annotations:
        out["annotations"] = annotations
    return out


def pipeline_name(run: Object) -> str:
    """Return the value of the label `tekton.dev/pipeline`: the Pipeline, or the run that has its own."""
    return str(section(run, "spec", "pipelineRef").get("name") or name_of(run))


def child_reference(node: Node, child: Object, scope: Scope) -> Object:
    """Return the entry of a child in `status.childReferences`."""
    out: Object = {
        "apiVersion": child.get("apiVersion"),
        "kind": child.get("kind"),
        "name": name_of(child),
        "pipelineTaskName": node.name,
    }
    shown = node.task.get("displayName")
    if shown:
        params = {f"params.{p['name']}": p["value"] for p in objects(section(child, "spec"), "params")}
        out["displayName"] = replace(shown, {**scope, **params})
    when: Sequence[Any] = objects(node.task, "when")
    if when:
        out["whenExpressions"] = replace(list(when), scope)
    return out
