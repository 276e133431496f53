"""A distributed step: a custom task that carries the job which does the work.

`DistributedStep` of `trainshed.dev/v1alpha1` is not stored by itself: Tekton makes a CustomRun of it. Whoever
reconciles that CustomRun creates `spec.job` with these replaced in every string: `$(params.NAME)` by the CustomRun's
parameters, `$(workspaces.NAME.claim)` by the claim of its workspace, `$(context.task.retry-count)` by the attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainshed.kube.meta.objects import Object
from trainshed.pipelines.emit import shared
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.emit.pod import PROGRAM_ANNOTATION, arguments, container, placement, pod_volumes
from trainshed.pipelines.emit.program import RUNNER, program_text
from trainshed.pipelines.ir import Pipeline, Step
from trainshed.pipelines.notebook.stepnames import resource_name
from trainshed.pipelines.notebook.stepsettings import Distribution
from trainshed.pipelines.notebook.strategies import STRATEGIES

if TYPE_CHECKING:
    from trainshed.api.kind import ProgramPods

API_VERSION = "trainshed.dev/v1alpha1"
KIND = "DistributedStep"
DATA = "data"
DATA_PATH = "/trainshed/data"


def distributed_step(pipeline: Pipeline, step: Step, options: Options, exposed: Sequence[str]) -> Object:
    """Return the `taskSpec` of a distributed step."""
    assert step.distribution is not None
    labels = {**step.settings.labels, "trainshed.dev/step": resource_name(step.name)}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"labels": labels},
        "spec": {
            "strategy": step.distribution.strategy,
            "numWorkers": step.distribution.workers,
            "job": _job(pipeline, step, step.distribution, options, exposed, labels),
        },
    }


def _job(
    pipeline: Pipeline,
    step: Step,
    distribution: Distribution,
    options: Options,
    exposed: Sequence[str],
    labels: dict[str, str],
) -> Object:
    from trainshed.api.kind import Program  # with the kinds of all jobs, which few pipelines have
    from trainshed.api.registry import KINDS

    strategy = STRATEGIES[distribution.strategy]
    launcher = ["-m", "torch.distributed.run"] if strategy.torchrun else []
    command = [options.python, *launcher, "-m", RUNNER]
    args = arguments(
        pipeline,
        step,
        options,
        exposed,
        data=DATA_PATH,
        run="$(params.trainshed-run)",
        attempt="$(context.task.retry-count)",
    )
    if step.metrics:
        args += ["--message", "/dev/termination-log"]
    claims = [v.name for v in pipeline.settings.volumes if v.size is not None]
    volumes = [
        *pod_volumes(pipeline, options),
        *(
            {"name": n, "persistentVolumeClaim": {"claimName": f"$(workspaces.{n}.claim)"}}
            for n in (DATA, *claims)
        ),
    ]
    metadata = {
        "labels": labels,
        "annotations": {
            **step.settings.annotations,
            "sidecar.istio.io/inject": "false",
            PROGRAM_ANNOTATION: program_text(pipeline, step),
        },
    }

    def template(pods: ProgramPods) -> Object:
        made = container(pipeline, step, options, pods.container, pods.command, args)
        made["volumeMounts"].append({"name": DATA, "mountPath": DATA_PATH})
        made["volumeMounts"] += [
            {"name": v.name, "mountPath": v.mount_path}
            for v in pipeline.settings.volumes
            if v.size is not None
        ]
        own = shared.in_job(pipeline, made, pods, DATA)
        return {"metadata": metadata, "spec": {"containers": [own], "volumes": volumes, **placement(step)}}

    program = Program(
        command=tuple(command),
        pods=distribution.workers,
        processes=distribution.nproc_per_node if strategy.torchrun else None,
        template=template,
    )
    kind = KINDS[strategy.kind]
    spec = {"runPolicy": {"cleanPodPolicy": "None", "backoffLimit": 0}, **kind.running(program)}
    return {"apiVersion": kind.api_version, "kind": kind.name, "spec": spec}
