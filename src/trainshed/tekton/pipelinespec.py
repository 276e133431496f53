"""The pipeline of a run, resolved once: checked, with parameters and names filled in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from trainshed.kube.meta.objects import (
    Object,
    copy_tree,
    name_of,
    namespace_of,
    objects,
    section,
    spec_of,
    uid_of,
)
from trainshed.tekton.conditions import Refused
from trainshed.tekton.params import Given, ParamError, declared_in, resolve, values_of
from trainshed.tekton.pipelinetasks import GraphError, Node, graph, reference_of, uses_resolver
from trainshed.tekton.tasksof import pipeline_name
from trainshed.tekton.variables import Value, replace, unknown_indexes
from trainshed.tekton.versions import is_custom
from trainshed.tekton.workspaces import WorkspaceError, require


def resolved(run: Object, spec: Object, found: Object | None, tasks: Collection[str]) -> Object:
    """Return the pipeline of a run with parameters and names filled in. Raises Refused.

    `found` is the Pipeline that it refers to, `tasks` are the names of the Tasks that there are.
    """
    where = f"{namespace_of(run)}/{name_of(run)}"
    pipeline = _pipeline(found, spec, where)
    try:
        given = resolve(declared_in(pipeline), values_of(objects(spec, "params")))
    except ParamError as error:
        raise Refused(error.reason, f"PipelineRun {where} parameters are invalid: {error}") from error
    try:
        nodes = graph(pipeline)
    except GraphError as error:
        raise Refused(error.reason, f"PipelineRun {where}'s pipeline is invalid: {error}") from error
    bindings = objects(spec, "workspaces")
    try:
        require(objects(pipeline, "workspaces"), bindings, "pipeline", "pipelinerun")
    except WorkspaceError as error:
        text = (
            f"PipelineRun {where} doesn't bind Pipeline {pipeline_name(run)}'s Workspaces correctly: {error}"
        )
        raise Refused("InvalidWorkspaceBindings", text) from error
    _check_tasks(tasks, nodes, where)
    scope = {**_context(run), **given.scope(), **_bound(pipeline, bindings)}
    if wrong := unknown_indexes({k: v for k, v in pipeline.items() if k != "params"}, scope):
        text = f"PipelineRun {where}: these references are out of an array's bounds: {', '.join(wrong)}"
        raise Refused("ParamArrayIndexingInvalid", text)
    return _filled(pipeline, scope, given)


def _pipeline(found: Object | None, spec: Object, where: str) -> Object:
    inline = spec.get("pipelineSpec")
    if inline:
        return dict(inline)
    reference = section(spec, "pipelineRef")
    resolver = uses_resolver({"pipelineRef": reference}, "pipelineRef")
    if resolver:
        raise Refused(
            "CouldntGetPipeline", f"PipelineRun {where}: the resolver {resolver} is not served here"
        )
    if found is None:
        name = reference.get("name", "")
        text = f'Error retrieving pipeline for pipelinerun {where}: pipelines.tekton.dev "{name}" not found'
        raise Refused("CouldntGetPipeline", text)
    copied: Object = copy_tree(spec_of(found))
    return copied


def _check_tasks(tasks: Collection[str], nodes: Mapping[str, Node], where: str) -> None:
    for node in nodes.values():
        resolver = uses_resolver(node.task) or uses_resolver(node.task, "pipelineRef")
        if resolver:
            raise Refused(
                "CouldntGetTask",
                f"PipelineRun {where} can't be Run: the resolver {resolver} of task {node.name} is not served here",
            )
        name = reference_of(node.task)
        if name and not node.is_custom and name not in tasks:
            raise Refused(
                "CouldntGetTask",
                f"Pipeline {where} can't be Run; it contains Tasks that don't exist: Couldn't retrieve Task "
                f'"{name}": tasks.tekton.dev "{name}" not found',
            )


def _context(run: Object) -> dict[str, Value]:
    return {
        "context.pipelineRun.name": name_of(run),
        "context.pipelineRun.namespace": namespace_of(run),
        "context.pipelineRun.uid": uid_of(run),
        "context.pipeline.name": pipeline_name(run),
    }


def _bound(pipeline: Object, bindings: Sequence[Object]) -> dict[str, Value]:
    names = {str(b.get("name")) for b in bindings}
    return {
        f"workspaces.{w['name']}.bound": str(w["name"] in names).lower()
        for w in objects(pipeline, "workspaces")
    }


def _filled(pipeline: Object, scope: Mapping[str, Value], given: Given) -> Object:
    """Return the pipeline with references replaced; a task's own parameters hide the pipeline's of the same name."""
    out = {
        key: replace(value, scope)
        for key, value in pipeline.items()
        if key not in ("tasks", "finally", "params")
    }
    if "params" in pipeline:
        out["params"] = pipeline["params"]
    for field in ("tasks", "finally"):
        if field in pipeline:
            out[field] = [_filled_task(task, scope, given) for task in objects(pipeline, field)]
    return out


def _filled_task(task: Object, scope: Mapping[str, Value], given: Given) -> Object:
    retries = {"context.pipelineTask.retries": str(task.get("retries") or 0)}
    outer = {**scope, **retries}
    out = {
        key: replace(value, outer) for key, value in task.items() if key not in ("taskSpec", "pipelineSpec")
    }
    if "pipelineSpec" in task:
        out["pipelineSpec"] = task["pipelineSpec"]  # with parameters of its own
    inline = task.get("taskSpec")
    if not inline:
        return out
    if is_custom(inline):
        out["taskSpec"] = inline  # whose parameters are its controller's business
        return out
    own = {str(p.get("name")) for p in (*objects(inline, "params"), *objects(task, "params"))}
    own |= {str(p.get("name")) for p in objects(section(task, "matrix"), "params")}
    for entry in objects(section(task, "matrix"), "include"):
        own |= {str(p.get("name")) for p in objects(entry, "params")}
    inner = {
        key: value
        for key, value in outer.items()
        if not key.startswith("workspaces.") and not (key.startswith("params.") and key[7:] in own)
    }
    kept = {key: inline[key] for key in ("metadata", "description", "params", "results") if key in inline}
    defaults = [
        {**p, "default": replace(p["default"], inner)} if "default" in p else p
        for p in objects(inline, "params")
    ]
    if "params" in kept:
        kept["params"] = defaults
    rest = {key: value for key, value in inline.items() if key not in kept}
    out["taskSpec"] = {**kept, **replace(rest, inner)}
    if "results" in kept:
        out["taskSpec"]["results"] = replace(kept["results"], inner)
    return out
