"""Tekton: a PipelineRun, inline or with a Pipeline of its own.

Data lies in a claim that the run makes and owns, so that deleting the run leaves nothing behind. A step's program is in
an annotation of its pod and reaches the container as a file; nothing of it passes through Tekton's substitution. A
distributed step is a custom task of our kind `DistributedStep`, which carries a job; or, on request, N tasks.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.meta.objects import Object
from trainshed.pipelines.emit import shared
from trainshed.pipelines.emit.job import DATA, DATA_PATH, distributed_step
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.emit.pod import PROGRAM_ANNOTATION, arguments, container, placement, pod_volumes
from trainshed.pipelines.emit.program import RUNNER, is_exposed, parameter_text, program_text
from trainshed.pipelines.ir import Pipeline, Step
from trainshed.pipelines.notebook.stepnames import resource_name

_POD_TEMPLATE = {"v1": "podTemplate", "v1beta1": "taskPodTemplate"}
RUN_PARAMETER = "trainshed-run"
"""The parameter of each task that holds the run's name."""


def emit(pipeline: Pipeline, options: Options) -> list[Object]:
    """Return the objects that run the pipeline once."""
    spec = _pipeline_spec(pipeline, options)
    labels = {"trainshed.dev/pipeline": pipeline.name}
    run: Object = {
        "apiVersion": f"tekton.dev/{options.api}",
        "kind": "PipelineRun",
        "metadata": {**_run_name(pipeline, options), **_namespace(options), "labels": labels},
        "spec": {**_run_spec(pipeline, options)},
    }
    if pipeline.settings.description:
        run["metadata"]["annotations"] = {"trainshed.dev/description": pipeline.settings.description}
    if not options.split:
        run["spec"]["pipelineSpec"] = spec
        return [run]
    run["spec"]["pipelineRef"] = {"name": pipeline.name}
    definition: Object = {
        "apiVersion": f"tekton.dev/{options.api}",
        "kind": "Pipeline",
        "metadata": {"name": pipeline.name, **_namespace(options), "labels": labels},
        "spec": spec,
    }
    return [definition, run]


def _run_name(pipeline: Pipeline, options: Options) -> Object:
    return {"name": options.run_name} if options.run_name else {"generateName": f"{pipeline.name}-"}


def _namespace(options: Options) -> Object:
    return {"namespace": options.namespace} if options.namespace else {}


def _run_spec(pipeline: Pipeline, options: Options) -> Object:
    settings = pipeline.settings
    spec: Object = {}
    if options.parameters:
        spec["params"] = [
            {"name": name, "value": value} for name, value in sorted(options.parameters.items())
        ]
    if settings.timeout is not None:
        spec["timeouts"] = {"pipeline": f"{settings.timeout}s"}
    template: Object = {}
    if options.service_account:
        template["serviceAccountName"] = options.service_account
    if settings.run_as_user is not None or settings.run_as_group is not None:
        security = {"runAsUser": settings.run_as_user, "runAsGroup": settings.run_as_group}
        template["podTemplate"] = {"securityContext": {k: v for k, v in security.items() if v is not None}}
    if template:
        spec.update(template if options.api == "v1beta1" else {"taskRunTemplate": template})
    per_task = [
        {"pipelineTaskName": name, _POD_TEMPLATE[options.api]: {**template.get("podTemplate", {}), **placed}}
        for step in pipeline.steps
        if (placed := placement(step)) and (step.distribution is None or options.workers_as_tasks)
        for name in _task_names(step, options)
    ]
    if per_task:
        spec["taskRunSpecs"] = per_task
    spec["workspaces"] = [
        {
            "name": DATA,
            "volumeClaimTemplate": _claim(_data_mode(pipeline), settings.data_size, settings.storage_class),
        },
        *(
            {
                "name": v.name,
                "volumeClaimTemplate": _claim(
                    v.access_mode or "ReadWriteOnce", v.size, v.storage_class, dict(v.annotations)
                ),
            }
            for v in settings.volumes
            if v.size is not None
        ),
    ]
    return spec


def _data_mode(pipeline: Pipeline) -> str:
    """Pods of a job run on several nodes at once; Tekton keeps those of plain tasks with one claim on one node."""
    several = any(step.distribution is not None for step in pipeline.steps)
    return pipeline.settings.access_mode or ("ReadWriteMany" if several else "ReadWriteOnce")


def _claim(
    mode: str, size: str, storage_class: str | None, annotations: dict[str, str] | None = None
) -> Object:
    spec: Object = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {**({"metadata": {"annotations": annotations}} if annotations else {}), "spec": spec}


def _pipeline_spec(pipeline: Pipeline, options: Options) -> Object:
    spec: Object = {}
    exposed = [p for p in pipeline.parameters if is_exposed(p)]
    if pipeline.settings.description:
        spec["description"] = pipeline.settings.description
    if exposed:
        spec["params"] = [{"name": p.name, "type": "string", "default": parameter_text(p)} for p in exposed]
    spec["workspaces"] = [
        {"name": DATA},
        *({"name": v.name} for v in pipeline.settings.volumes if v.size is not None),
    ]
    spec["tasks"] = [task for step in pipeline.steps for task in _tasks(pipeline, step, options)]
    results = [
        {"name": m.key, "value": f"$(tasks.{_task_names(step, options)[0]}.results.{m.key})"}
        for step in pipeline.steps
        for m in step.metrics
    ]
    if results:
        spec["results"] = results
    return spec


def _task_names(step: Step, options: Options) -> list[str]:
    name = resource_name(step.name)
    if step.distribution is None or not options.workers_as_tasks:
        return [name]
    return [f"{name}{index + 1}" for index in range(step.distribution.workers)]


def _tasks(pipeline: Pipeline, step: Step, options: Options) -> Iterator[Object]:
    names = _task_names(step, options)
    for index, name in enumerate(names):
        task: Object = {"name": name}
        after = [n for p in step.previous for n in _task_names(pipeline.step(p), options)]
        if after:
            task["runAfter"] = after
        task["params"] = [
            {"name": RUN_PARAMETER, "value": "$(context.pipelineRun.name)"},
            *({"name": p, "value": f"$(params.{p})"} for p in _exposed(pipeline, step)),
        ]
        task["workspaces"] = [{"name": w, "workspace": w} for w in _workspaces(pipeline)]
        if step.settings.retries:
            task["retries"] = step.settings.retries
        if step.settings.timeout:
            task["timeout"] = step.settings.timeout
        if step.distribution is not None and not options.workers_as_tasks:
            task["taskSpec"] = distributed_step(pipeline, step, options, _exposed(pipeline, step))
        else:
            task["taskSpec"] = _task_spec(pipeline, step, options, index)
        yield task


def _exposed(pipeline: Pipeline, step: Step) -> list[str]:
    return [p.name for p in pipeline.parameters if p.name in step.parameters and is_exposed(p)]


def _workspaces(pipeline: Pipeline) -> list[str]:
    return [DATA, *(v.name for v in pipeline.settings.volumes if v.size is not None)]


def _task_spec(pipeline: Pipeline, step: Step, options: Options, index: int) -> Object:
    exposed = _exposed(pipeline, step)
    args = arguments(
        pipeline,
        step,
        options,
        exposed,
        data=f"$(workspaces.{DATA}.path)",
        run=f"$(params.{RUN_PARAMETER})",
        attempt="$(context.task.retry-count)",
    )
    annotations = {**step.settings.annotations, PROGRAM_ANNOTATION: program_text(pipeline, step)}
    saves = index == 0
    distribution = step.distribution
    if distribution is not None:
        args += [
            "--strategy",
            distribution.strategy,
            "--worker",
            str(index),
            "--workers",
            str(distribution.workers),
        ]
        args += ["--processes", str(distribution.nproc_per_node)]
        # A mesh's sidecar would answer for the other workers.
        annotations["sidecar.istio.io/inject"] = "false"
    results = [{"name": m.key, "type": "string"} for m in step.metrics] if saves else []
    # A file is written for each result that a task declares; one result's path tells the directory of all.
    if results:
        args += [f"--result={m.key}=$(results.{m.key}.path)" for m in step.metrics]
    made = container(pipeline, step, options, "main", [options.python, "-m", RUNNER], args)
    made["volumeMounts"] += shared.mounts(pipeline, f"$(workspaces.{DATA}.volume)", index)
    resources = made.pop("resources", None)
    if resources is not None:
        made["computeResources" if options.api == "v1" else "resources"] = resources
    spec: Object = {
        "metadata": {
            "labels": {**step.settings.labels, "trainshed.dev/step": resource_name(step.name)},
            "annotations": annotations,
        },
        "params": [{"name": p, "type": "string"} for p in (RUN_PARAMETER, *exposed)],
        "workspaces": [
            {"name": DATA, "mountPath": DATA_PATH},
            *(
                {"name": v.name, "mountPath": v.mount_path}
                for v in pipeline.settings.volumes
                if v.size is not None
            ),
        ],
    }
    if results:
        spec["results"] = results
    return {**spec, "steps": [made], "volumes": pod_volumes(pipeline, options)}
