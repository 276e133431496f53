"""The operator inside the embedded cluster: the same objects as on Kubernetes, with another command.

The only workload is the Deployment. Its pod is a sandboxed process on this machine that sees this Python
installation, so it runs the very code that installs it; the image name is only a label there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from trainshed.jobs.engine.model import OperatorOptions
from trainshed.kube.builtin.scheduling.priorityclass import HIGHEST_USER_PRIORITY
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.podgroups import VOLCANO_SCHEDULER
from trainshed.kube.schema.soundness import vouch

EMBEDDED_ARGS = (
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
    "--controller-threads=8",
    "--zap-encoder=json",
)
"""The API server is on this machine and serves one user: the limit only stops a runaway loop.

A job of 1 + 4 takes about 25 requests, most of which wait for the disk: jobs that come together are reconciled
together, so that they share its commits.
"""


AUTO = "auto"
"""On the embedded cluster: jobs with a `schedulingPolicy` are gangs of Volcano's, all others are placed pod by pod."""


def embedded_options(gang: str = AUTO) -> OperatorOptions:
    """Return what `trainshed up --gang-scheduler-name=<gang>` means: `auto`, or a value of the operator's own flag."""
    if gang == AUTO:
        return OperatorOptions(gang_scheduler=VOLCANO_SCHEDULER, gang_policy_only=True)
    from trainshed.operator.flags import gang_scheduler

    return OperatorOptions(gang_scheduler=gang_scheduler(gang))


def definitions() -> Iterator[Object]:
    """Yield the definitions of the job kinds. The caller owns them."""
    return _kept(DEFINITIONS)


def embedded_objects(
    *,
    python: str = sys.executable,
    args: Sequence[str] = EMBEDDED_ARGS,
    gang: str = AUTO,
    defined: bool = False,
) -> Iterator[Object]:
    """Yield everything to apply, in order. The caller owns the objects.

    `python` is the interpreter that the pod runs, with this package installed; `gang` is as for `embedded_options`;
    `defined` says that the definitions are there.
    """
    namespace, *others = _kept(EMBEDDED) if gang == AUTO else made(gang)
    yield namespace
    for definition in () if defined else definitions():
        for version in definition["spec"]["versions"]:
            vouch(version["schema"]["openAPIV3Schema"])
        yield definition
    (container,) = others[-1]["spec"]["template"]["spec"]["containers"]
    container["command"] = [python, "-m", "trainshed.operator"]
    container["args"] = [*args, *container["args"]]
    yield from others


def made(gang: str) -> list[Object]:
    """Return the objects but the definitions, with the Deployment last: as it is everywhere, but for its flags."""
    from trainshed.operator import objects  # what jobs of all kinds may own comes with it

    options = embedded_options(gang)
    flags = [f"--gang-scheduler-name={options.gang_scheduler}"] if options.gang_scheduler else []
    flags += ["--gang-policy-only"] if options.gang_policy_only else []
    deployment = objects.deployment(args=flags)
    _probe_soon(deployment)
    _as_this_user(deployment)
    _on_this_machine(deployment)
    wanted = [
        objects.namespace(),
        _PRIORITY,
        objects.service_account(),
        objects.cluster_role(options),
        objects.cluster_role_binding(),
        objects.election_role(),
        objects.election_role_binding(),
        objects.service(),
        deployment,
    ]
    copies: list[Object] = msgspec.json.decode(msgspec.json.encode(wanted))
    return copies


MANIFESTS = Path(__file__).parent / "manifests"
DEFINITIONS = "crds/definitions.jsonl"


EMBEDDED = "embedded.jsonl"


class _Metadata(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Metadata


def definition_names() -> list[str]:
    """Return the names of the definitions, which are the group resources of our kinds."""
    with (MANIFESTS / DEFINITIONS).open("rb") as lines:
        return [msgspec.json.decode(line, type=_Named).metadata.name for line in lines]


def _kept(name: str) -> Iterator[Object]:
    """Yield objects from the file of them: making them takes ten times as long, at every start, and all job kinds.

    Nor are schemas checked then: the tests do.
    """
    with (MANIFESTS / name).open("rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line)


_PRIORITY: Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "trainshed-operator"},
    "value": HIGHEST_USER_PRIORITY,
    "preemptionPolicy": "Never",
    "description": "The operator gives way to nobody, and nobody to it.",
}


def _on_this_machine(deployment: Object) -> None:
    """Keep the operator where it runs: not on nodes that are not there, and not away for a more important pod."""
    spec = deployment["spec"]["template"]["spec"]
    spec["priorityClassName"] = _PRIORITY["metadata"]["name"]
    real = {"matchExpressions": [{"key": "type", "operator": "NotIn", "values": ["fake"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [real]}}
    spec["affinity"] = {"nodeAffinity": required}


def _as_this_user(deployment: Object) -> None:
    """Ask for no other user than the one whose files the sandbox reads; the filter of system calls is the default."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container["securityContext"] = {"allowPrivilegeEscalation": False}


def _probe_soon(deployment: Object) -> None:
    """Look at once whether the operator is ready: here it takes half a second, with no image to pull."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    readiness = container["readinessProbe"]
    del readiness["initialDelaySeconds"]
    container["startupProbe"] = {**readiness, "periodSeconds": 1, "failureThreshold": 60}
