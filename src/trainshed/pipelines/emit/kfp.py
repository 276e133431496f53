"""Kubeflow Pipelines v2, made with `kfp` itself.

A step is a container component; each name that crosses is an artifact, each metric an output parameter and a number of
the step's metrics artifact. What the pod gets besides (claims, secrets, labels) cannot be said there; it is left out
with a warning.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import yaml

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic
from trainshed.pipelines.emit import shared
from trainshed.pipelines.emit.environment import environment
from trainshed.pipelines.emit.options import DEFAULT_IMAGE, Options
from trainshed.pipelines.emit.program import RUNNER, program_text, too_large
from trainshed.pipelines.ir import Pipeline, Step
from trainshed.pipelines.notebook.literals import Parameter
from trainshed.pipelines.notebook.stepnames import resource_name

_TYPES = {"int": int, "float": float, "str": str, "bool": bool}
_ACCELERATORS = ("nvidia.com/gpu", "amd.com/gpu")
_LARGEST = 120 * 1024
"""Bytes of a program: it is one argument of a command, of which Linux takes 128 KiB."""
_METRICS = "trainshed_metrics"
"""The artifact in which a run shows what a step measured; its numbers are in the artifact's metadata."""
_EXECUTOR_OUTPUT = "{{$.outputs.output_file}}"
"""Stands for the file in which a container says what its artifacts' metadata are."""
_WRITE_PROGRAM = 'printf %s "$0" > /tmp/trainshed-program.json && exec "$@"'
"""The program is the shell's `$0`; all that follows is the command."""


def emit(pipeline: Pipeline, options: Options) -> str:
    """Return the pipeline as the YAML that KFP takes. Raises ImportError without the package `kfp`."""
    from google.protobuf import json_format
    from kfp import dsl

    components = {step.name: _component(pipeline, step, options) for step in pipeline.steps}
    parameters = [_parameter(p) for p in pipeline.parameters]

    def build(*values: Any) -> None:
        given = {p.name: value for p, value in zip(parameters, values, strict=True)}
        tasks: dict[str, Any] = {}
        for step in pipeline.steps:
            arguments: dict[str, Any] = {p: given[p] for p in step.parameters}
            for wanted in step.inputs:
                arguments[f"in_{wanted.name}"] = tasks[wanted.step].outputs[f"out_{wanted.output}"]
            task = components[step.name](**arguments).set_display_name(step.name)
            task.after(*(tasks[name] for name in step.previous))
            _set_up(pipeline, step, task)
            tasks[step.name] = task

    _sign(build, parameters)
    made = dsl.pipeline(name=pipeline.name, description=pipeline.settings.description or None)(build)
    content: dict[str, Any] = json_format.MessageToDict(made.pipeline_spec)
    return yaml.safe_dump(content, sort_keys=True, width=1 << 20)


def limits(pipeline: Pipeline) -> list[Diagnostic]:
    """Say what of the pipeline KFP v2 cannot express without extensions."""
    found = too_large(pipeline, _LARGEST)
    for step in pipeline.steps:
        settings = step.settings
        lost = {
            "labels": settings.labels,
            "annotations": settings.annotations,
            "secrets": settings.secrets,
            "a timeout": settings.timeout,
            "tolerations": settings.tolerations,
            "pull secrets": settings.pull_secrets,
            "several workers": step.distribution,
            **{
                f"the limit {name}": name
                for name in settings.limits
                if name not in ("cpu", "memory", *_ACCELERATORS)
            },
        }
        for what, value in lost.items():
            if value:
                found.append(
                    diagnostic(
                        "NB501",
                        f"Kubeflow Pipelines: {what} of step {step.name} left out",
                        step=step.name,
                        fix="compile --to tekton",
                    )
                )
    if pipeline.settings.volumes:
        found.append(
            diagnostic("NB501", "Kubeflow Pipelines: volumes are left out", fix="compile --to tekton")
        )
    directory = shared.path(pipeline)
    if directory is not None:
        found.append(
            diagnostic(
                "NB501",
                f"Kubeflow Pipelines: files below {directory} do not go from step to step",
                fix="hand on their content by a name",
            )
        )
    return found


def _parameter(parameter: Parameter) -> inspect.Parameter:
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=parameter.default,
        annotation=_TYPES[parameter.type],
    )


def _sign(function: Callable[..., Any], parameters: list[inspect.Parameter], returns: Any = None) -> None:
    """Give a function that takes everything the signature that kfp reads."""
    function.__signature__ = inspect.Signature(parameters, return_annotation=returns)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": returns}


def _component(pipeline: Pipeline, step: Step, options: Options) -> Any:
    from kfp import dsl

    by_name = {p.name: p for p in pipeline.parameters}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        *(inspect.Parameter(n, kind, annotation=_TYPES[by_name[n].type]) for n in step.parameters),
        *(inspect.Parameter(f"in_{i.name}", kind, annotation=dsl.Input[dsl.Artifact]) for i in step.inputs),
        *(inspect.Parameter(f"out_{n}", kind, annotation=dsl.Output[dsl.Artifact]) for n in step.outputs),
        *(inspect.Parameter(_metric(m.key), kind, annotation=dsl.OutputPath(float)) for m in step.metrics),
    ]
    if step.metrics:
        parameters.append(inspect.Parameter(_METRICS, kind, annotation=dsl.Output[dsl.Metrics]))
    if step.settings.report:
        parameters.append(inspect.Parameter("report", kind, annotation=dsl.Output[dsl.HTML]))

    def build(*values: Any) -> Any:
        given = {p.name: value for p, value in zip(parameters, values, strict=True)}
        args = [
            *("--program", "/tmp/trainshed-program.json", "--data", "/tmp/trainshed-data"),  # noqa: S108
            *("--run-name", dsl.PIPELINE_JOB_NAME_PLACEHOLDER, "--trust-data", "--work", "/tmp"),  # noqa: S108
        ]
        for name in step.parameters:
            args += ["--param", _joined(name, given[name])]
        for wanted in step.inputs:
            args += ["--input", _joined(wanted.name, given[f"in_{wanted.name}"].path)]
        for name in step.outputs:
            args += ["--output", _joined(name, given[f"out_{name}"].path)]
        for metric in step.metrics:
            args += ["--result", _joined(metric.key, given[_metric(metric.key)])]
        if step.metrics:
            artifact = given[_METRICS]
            args += ["--metrics-artifact", artifact.path, "--metrics-uri", artifact.uri]
            args += ["--metrics-name", _METRICS]
        if step.settings.report:
            args += ["--report", given["report"].path]
        # KFP itself takes what lies at the paths; its local runner only what is described.
        artifacts = [*(f"out_{name}" for name in step.outputs), *(["report"] if step.settings.report else [])]
        for name in artifacts:
            args += ["--artifact", _joined(name, given[name].uri)]
        if artifacts or step.metrics:
            args += ["--executor-output", _EXECUTOR_OUTPUT]
        return dsl.ContainerSpec(
            image=step.settings.image or options.image or pipeline.settings.image or DEFAULT_IMAGE,
            command=["sh", "-c", _WRITE_PROGRAM, program_text(pipeline, step), options.python, "-m", RUNNER],
            args=args,
        )

    build.__name__ = build.__qualname__ = resource_name(step.name)
    _sign(build, parameters, dsl.ContainerSpec)
    return dsl.container_component(build)


def _metric(key: str) -> str:
    return "metric_" + key.replace("-", "_")


def _joined(name: str, value: Any) -> Any:
    from kfp import dsl

    return dsl.ConcatPlaceholder([f"{name}=", value])


def _set_up(pipeline: Pipeline, step: Step, task: Any) -> None:
    settings = step.settings
    task.set_caching_options(pipeline.settings.caching if settings.caching is None else settings.caching)
    for key, value in sorted(environment(pipeline, step).items()):
        task.set_env_variable(key, value)
    for name, amount in settings.limits.items():
        if name == "cpu":
            task.set_cpu_limit(amount)
        elif name == "memory":
            task.set_memory_limit(amount)
        elif name in _ACCELERATORS:
            task.set_accelerator_type(name).set_accelerator_limit(amount)
    if "cpu" in settings.requests:
        task.set_cpu_request(settings.requests["cpu"])
    if "memory" in settings.requests:
        task.set_memory_request(settings.requests["memory"])
    if settings.retries:
        task.set_retry(settings.retries)
