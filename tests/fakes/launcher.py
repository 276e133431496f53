"""A job kind that exists in tests only: a launcher that runs programs in its workers, as MPI does.

It wants what the interface of kinds offers beyond the ones we have: a pod without index, further objects, changes of
single containers, flags, a judgement by exit code. `gang` is a phase of all kinds in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import pytest

from trainshed.api.fields import doc
from trainshed.api.registry import KINDS
from trainshed.api.replicated import JobKind, ReplicaType
from trainshed.api.v1 import validation as rules
from trainshed.api.v1.common import AGE, GROUP, STATE, VERSION
from trainshed.api.v1.defaults import default_job
from trainshed.api.v1.jobstatus import JobStatus
from trainshed.api.v1.replicas import ReplicaSpec
from trainshed.api.v1.runpolicy import RunPolicy
from trainshed.api.verdict import Verdict
from trainshed.jobs.engine.children import exit_code
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import Flag, OperatorOptions
from trainshed.jobs.engine.owned import Grant, Owned, Owns
from trainshed.jobs.v1 import phases
from trainshed.jobs.v1.frameworks import FRAMEWORKS
from trainshed.jobs.v1.frameworks.base import (
    ContainerPatch,
    Failing,
    Framework,
    Phase,
    PodPatch,
    Seen,
)
from trainshed.jobs.v1.job import Job
from trainshed.jobs.v1.restart import Restart
from trainshed.kube.meta.objects import Object, name_of, objects, section
from trainshed.kube.meta.plan import Event, Tells, Told
from trainshed.kube.meta.pods import phase as pod_phase
from trainshed.kube.meta.resources import CONFIGMAPS, ROLES, SERVICEACCOUNTS, Resource

IMAGE_FLAG = "launch-delivery-image"


class LaunchJobSpec(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Desired state of a LaunchJob."""

    run_policy: Annotated[RunPolicy | None, doc("runPolicy says when the job ends.")] = None
    launch_replica_specs: Annotated[
        dict[str, ReplicaSpec], doc("launchReplicaSpecs are the pods by replica type: Launcher and Worker.")
    ]


class LaunchJob(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """LaunchJob runs one program in many pods."""

    spec: Annotated[LaunchJobSpec | None, doc("spec is the desired state.")] = None
    status: Annotated[JobStatus | None, doc("status is the observed state.")] = None


def default_launchjob(obj: Object) -> Object:
    return default_job(obj, LAUNCHJOB)


def validate_launchjob(obj: Object, old: Object | None) -> Verdict:
    return rules.verdict(rules.replica_errors(obj, LAUNCHJOB, container='"launch"'), ["LaunchJobs are new"])


LAUNCHJOB = JobKind(
    group=GROUP,
    version=VERSION,
    name="LaunchJob",
    singular="launchjob",
    plural="launchjobs",
    root=LaunchJob,
    spec=LaunchJobSpec,
    printer_columns=(AGE, STATE),
    defaults=default_launchjob,
    validate=validate_launchjob,
    deletion_warnings=("LaunchJobs go",),
    controller_name="launchjob-controller",
    framework="launch",
    replica_specs_field="launchReplicaSpecs",
    replica_types=(
        ReplicaType(name="Launcher", exactly=1, indexed=False),
        ReplicaType(name="Worker", default_replicas=0, any_case=False),
    ),
    container_name="launch",
    port=None,
    default_restart_policy="Never",
    reports_selector=False,
    deletion_word="Job",
)


class LaunchOptions(msgspec.Struct, frozen=True):
    image: str = "delivery:1"


class Launch(Framework):
    kind = LAUNCHJOB
    owns = (
        Owns(resource=CONFIGMAPS, applied=True),
        Owns(resource=SERVICEACCOUNTS),
        Owns(resource=ROLES, tells=Tells("Role", "role")),
    )
    grants = (Grant("", "pods/exec", ("create",)),)
    flags = (
        Flag(name=IMAGE_FLAG, default="delivery:1", variable="LAUNCH_IMAGE", help="copies the program"),
        Flag(name="launch-attempts", default=3, type="count", help="how often it tries"),
    )

    def options(self, values: Mapping[str, Any]) -> LaunchOptions:
        if values["launch-attempts"] > 9:
            raise ValueError("--launch-attempts: at most 9")
        return LaunchOptions(values[IMAGE_FLAG])

    def service_ports(self, job: Job, replica: Replica, index: int) -> None:
        return None

    def lookups(self, document: Object) -> tuple[tuple[Resource, str], ...]:
        name = name_of(document)
        return (
            (CONFIGMAPS, f"{name}-config"),
            (SERVICEACCOUNTS, f"{name}-launcher"),
            (ROLES, f"{name}-launcher"),
        )

    def owned(self, job: Job, seen: Seen, options: OperatorOptions) -> tuple[Owned, ...]:
        workers = (slot.pod for slot in seen.children.slots if slot.replica.type == "Worker" and slot.pod)
        running = [name_of(pod) for pod in workers if pod_phase(pod) == "Running"]
        files = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": {"hosts": "".join(f"{n}\n" for n in running)},
        }
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        role = {
            "apiVersion": ROLES.api_version,
            "kind": "Role",
            "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}],
        }
        return (
            self._own(job, CONFIGMAPS, f"{job.name}-config", files),
            self._own(job, SERVICEACCOUNTS, f"{job.name}-launcher", account),
            self._own(job, ROLES, f"{job.name}-launcher", role),
        )

    def _own(self, job: Job, resource: Resource, name: str, obj: Object) -> Owned:
        metadata = {"name": name, "namespace": job.namespace, "ownerReferences": [job.owner_reference()]}
        taken = Event("Warning", "ErrResourceExists", f'Resource "{name}" is not managed by LaunchJob')
        return Owned(resource=resource, object={**obj, "metadata": metadata}, taken=taken)

    def patch(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> PodPatch:
        volume = {"name": "launch-config", "configMap": {"name": f"{job.name}-config"}}
        mount = {"name": "launch-config", "mountPath": "/etc/launch"}
        if replica.type == "Worker":
            container = (objects(section(replica.template, "spec"), "containers") or [{}])[0]
            command = None if container.get("command") else ("sleep", "365d")
            waiting = ContainerPatch(of="first", command=command, mounts=(mount,))
            return PodPatch(containers=(waiting,), volumes=(volume,))
        chosen = options.by_kind.get(LAUNCHJOB.name, LaunchOptions())
        assert isinstance(chosen, LaunchOptions)
        return PodPatch(
            containers=(
                ContainerPatch(of="training", env=({"name": "HOSTS", "value": "/etc/launch/hosts"},)),
                ContainerPatch(of="training", args=("--all",), mounts=(mount,)),
                ContainerPatch(of="init", env=({"name": "EARLY", "value": "1"},)),
            ),
            init_containers=({"name": "delivery", "image": chosen.image},),
            volumes=(volume,),
            service_account=f"{job.name}-launcher",
            annotations={"launch/role": "launcher"},
        )

    def failing(self, job: Job, seen: Seen) -> Iterator[Failing]:
        pod = seen.pod("Launcher", 0)
        code = None if pod is None else exit_code(pod, LAUNCHJOB.container_name)
        if pod is not None and pod_phase(pod) == "Failed":
            text = f"LaunchJob {job.name} ended with {code}"
            yield Failing("Launcher", 1, code == 75, text, "LaunchJobLaunchJobFailed")

    def restart(self, job: Job, replica: Replica, exit_code: int | None) -> Restart:
        return "replace" if exit_code == 75 else "leave"

    def creation(self, job: Job, replica: Replica, name: str) -> Told:
        return Told((Event("Normal", "LaunchJobRunning", f"{replica.slug} pod: {name}"),))


PODGROUPS = Resource("scheduling.example.org", "v1", "podgroups", "PodGroup")


class Gang(Phase):
    """All pods of a job are placed together, or none."""

    owns = (
        Owns(
            resource=PODGROUPS,
            watched="",
            applied=True,
            tells=Tells("PodGroup", "PodGroup"),
            while_suspended=False,
            after_finish=False,
        ),
    )

    def is_enabled(self, options: OperatorOptions) -> bool:
        return options.legacy_labels

    def owned(self, job: Job, seen: Seen, options: OperatorOptions) -> tuple[Owned, ...]:
        group = {
            "apiVersion": PODGROUPS.api_version,
            "kind": "PodGroup",
            "metadata": {
                "name": job.name,
                "namespace": job.namespace,
                "ownerReferences": [job.owner_reference()],
            },
            "spec": {"minMember": job.total_replicas},
        }
        return (Owned(resource=PODGROUPS, object=group),)

    def holds(self, job: Job, seen: Seen, options: OperatorOptions) -> bool:
        (group,) = seen.owned.get(PODGROUPS) or [{}]
        return section(group, "status").get("phase") in (None, "Pending")

    def patch(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> PodPatch:
        return PodPatch(labels={"gang": job.name}, scheduler_name="gangs")


@contextmanager
def registered(*common: Phase) -> Iterator[None]:
    """Have the kind for as long as the context lasts: the two registry lines that a kind costs. And common phases."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KINDS, LAUNCHJOB.name, LAUNCHJOB)
        patch.setitem(FRAMEWORKS, LAUNCHJOB.name, Launch())
        phases.COMMON.extend(common)
        try:
            yield
        finally:
            for phase in common:
                phases.COMMON.remove(phase)


def make_launchjob(workers: int = 2, **run_policy: Any) -> Object:
    """Return a LaunchJob `job` in the namespace `ns`."""

    def template(*more: Object, **container: Any) -> Object:
        return {"spec": {"containers": [{"name": "launch", "image": "i:1", **container}, *more]}}

    launcher = template({"name": "sidecar", "image": "s:1"}, command=["run"])
    launcher["spec"]["initContainers"] = [{"name": "mine", "image": "m:1"}]
    return {
        "apiVersion": LAUNCHJOB.api_version,
        "kind": LAUNCHJOB.name,
        "metadata": {"name": "job", "namespace": "ns", "uid": "job-uid"},
        "spec": {
            "runPolicy": run_policy,
            "launchReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": launcher},
                "Worker": {"replicas": workers, "template": template()},
            },
        },
    }
