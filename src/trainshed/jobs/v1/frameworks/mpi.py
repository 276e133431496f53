"""MPI: a launcher whose `mpirun` starts its processes in the workers by `kubectl exec`, not by ssh.

The launcher finds its workers in a hostfile. Its remote shell is a script that calls kubectl, which an init container
delivers into a volume; a service account of its own may run programs in its workers and in no other pod. The workers
sleep until they are told what to run.
Source: the MPI objects of the Kubeflow training operator v1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trainshed.api.v1.mpi import LAUNCHER, MPIJOB, WORKER
from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.children import Children, Tally, count_in, exit_code
from trainshed.jobs.engine.conditions import is_true
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import Flag, OperatorOptions
from trainshed.jobs.engine.owned import Grant, Owned, Owns
from trainshed.jobs.v1 import restart
from trainshed.jobs.v1.frameworks.base import ContainerPatch, Failing, Framework, PodPatch, Seen
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of, status_of
from trainshed.kube.meta.plan import Event, Told
from trainshed.kube.meta.pods import FINISHED
from trainshed.kube.meta.pods import phase as pod_phase
from trainshed.kube.meta.resources import CONFIGMAPS, ROLEBINDINGS, ROLES, SERVICEACCOUNTS, Resource

_IMAGE = "mpi-kubectl-delivery-image"
_KUBECTL, _CONFIG = "mpi-job-kubectl", "mpi-job-config"
_KUBECTL_MOUNT = {"name": _KUBECTL, "mountPath": "/opt/kube"}
_CONFIG_MOUNT = {"name": _CONFIG, "mountPath": "/etc/mpi"}
_EXECUTABLE, _READABLE = 0o555, 0o444
_DELIVERY_RESOURCES = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
_DELIVERY: Object = {
    "name": "kubectl-delivery",
    "resources": {"limits": _DELIVERY_RESOURCES, "requests": _DELIVERY_RESOURCES},
}


class MPIOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator's flags say about MPIJobs: `image` copies kubectl into the directory `$TARGET_DIR`."""

    image: str = "kubeflow/kubectl-delivery:latest"


_DEFAULT = MPIOptions()


class MPI(Framework):
    """The framework of MPIJob."""

    kind = MPIJOB
    owns = (
        Owns(resource=SERVICEACCOUNTS),
        Owns(resource=CONFIGMAPS, applied=True),
        Owns(resource=ROLES, applied=True),
        Owns(resource=ROLEBINDINGS),
    )
    grants = (Grant("", "pods/exec", ("create",)),)
    flags = (Flag(name=_IMAGE, default=_DEFAULT.image, help="image that brings kubectl to launchers"),)
    surplus_told = None
    set_word = "Setted"
    copies_finalizers = False

    def options(self, values: Mapping[str, Any]) -> MPIOptions:
        """Return what the flags say about the delivery of kubectl."""
        return MPIOptions(image=values[_IMAGE])

    # Shape.

    def leader(self, job: Job) -> Replica | None:
        """The launcher decides."""
        return job.replica(LAUNCHER)

    def service_ports(self, job: Job, replica: Replica, index: int) -> None:
        """Nothing listens: the launcher reaches its workers through the API server."""

    # Objects.

    def lookups(self, document: Object) -> tuple[tuple[Resource, str], ...]:
        """Only a job that runs needs its objects looked at; afterwards they stay until it goes."""
        conditions = objects(status_of(document), "conditions")
        over = any(is_true(conditions, type_) for type_ in (c.SUCCEEDED, c.FAILED))
        if over or section(document, "spec", "runPolicy").get("suspend"):
            return ()
        template = section(document, "spec", MPIJOB.replica_specs_field, LAUNCHER, "template", "spec")
        launcher = _launcher_name(name_of(document))
        return (
            (SERVICEACCOUNTS, _service_account(template) or launcher),
            (CONFIGMAPS, _config_name(name_of(document))),
            (ROLES, launcher),
            (ROLEBINDINGS, launcher),
        )

    def owned(self, job: Job, seen: Seen, options: OperatorOptions) -> tuple[Owned, ...] | None:
        """Return the launcher's identity and permissions, and the files that tell it where its workers are.

        Nothing is done about them any more once the launcher has ended.
        """
        if _has_ended(seen.children):
            return None
        launcher, account = _launcher_name(job.name), _account_of(job)
        data = {
            "hostfile": hostfile(job),
            "kubexec.sh": kubexec(job),
            "discover_hosts.sh": discover_hosts(job, seen.children),
        }
        binding = {
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": job.namespace}],
            "roleRef": {"apiGroup": ROLES.group, "kind": ROLES.kind, "name": launcher},
        }
        return (
            # One that is there already is good enough, whoever made it.
            msgspec.structs.replace(_owned(job, SERVICEACCOUNTS, account, {}), taken=None),
            _owned(job, CONFIGMAPS, _config_name(job.name), {"data": data}),
            _owned(job, ROLES, launcher, {"rules": _rules(job)}),
            _owned(job, ROLEBINDINGS, launcher, binding),
        )

    # Pods.

    def patch(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> PodPatch:
        """Return what makes a worker wait, and what the launcher needs to reach the workers."""
        if replica.type == WORKER:
            return _worker(job, replica)
        return _launcher(job, replica, _options(options))

    def creation(self, job: Job, replica: Replica, name: str) -> Told:
        """Return the events of the new pod `name` in upstream's words."""
        failed = Event("Warning", c.reason(MPIJOB.name, c.FAILED), f"{replica.slug} pod created failed: ")
        if replica.type == WORKER:
            done = Event("Normal", "SuccessfulCreatePod", f"Created worker pod: {name}")
            return Told((done,), failed)
        running = c.reason(MPIJOB.name, c.RUNNING)
        made = Event("Normal", running, f"launcher pod created success: {name}")
        if not spec_of(replica.template).get("restartPolicy"):
            return Told((made,), failed)
        message = c.RESTART_POLICY_OVERRIDDEN_MESSAGE
        return Told((Event("Warning", "SettedPodTemplateRestartPolicy", message), made), failed)

    # Judgement.

    def tallies(self, job: Job, children: Children) -> dict[str, Tally]:
        """Count the wanted pods by phase alone; workers count for nothing once the launcher has ended.

        A job without workers has a count of them, too.
        """
        ended = _has_ended(children)
        counts = {}
        for replica in job.replicas:
            phases = [] if ended and replica.type == WORKER else _phases(children, replica.type)
            counts[replica.type] = Tally(
                active=phases.count("Running"),
                succeeded=phases.count("Succeeded"),
                failed=phases.count("Failed"),
            )
        counts.setdefault(WORKER, Tally())
        return counts

    def failing(self, job: Job, seen: Seen) -> Iterator[Failing]:
        """Any failed pod fails the job, save under ExitCode, where it may be replaced."""
        for replica in job.replicas:
            failed = seen.tallies[replica.type].failed
            if failed:
                restarts = replica.restart_policy == "ExitCode"
                message = self.failing_message(job, replica, failed, restarts)
                reason = "" if restarts else c.reason(MPIJOB.name, c.reason(MPIJOB.name, c.FAILED))
                yield Failing(replica.type, failed, restarts, message, reason)

    def exit_code(self, pod: Object) -> int | None:
        """Return that of the first container: it runs the program, whatever its name."""
        containers = objects(spec_of(pod), "containers")
        return exit_code(pod, str(containers[0].get("name"))) if containers else None

    def restart(self, job: Job, replica: Replica, exit_code: int | None) -> restart.Restart:
        """A failed pod stays, save under ExitCode."""
        if replica.restart_policy != "ExitCode":
            return "leave"
        return restart.by_policy(replica.restart_policy, exit_code)

    def events(self, job: Job, seen: Seen) -> Iterator[Event]:
        """Yield that all of the job runs, how the launcher ended, and how many workers were evicted: each once."""
        launcher = seen.pod(LAUNCHER, 0)
        phase, called = pod_phase(launcher or {}), f"{MPIJOB.name} {job.namespace}/{job.name}"
        if phase == "Succeeded":
            yield Event("Normal", f"{MPIJOB.plural}{c.SUCCEEDED}", f"{called} successfully completed.")
        elif phase == "Failed":
            reason = status_of(launcher or {}).get("reason") or c.reason(MPIJOB.name, c.FAILED)
            yield Event("Warning", str(reason), f"{called} has failed")
        elif phase == "Running" and _runs_anew(job, seen):
            yield Event("Normal", c.reason(MPIJOB.name, c.RUNNING), f"{called} is running")
        yield from _evictions(job, seen)


def hostfile(job: Job) -> str:
    """Return the hosts with their slots: the workers, and before them a launcher that has GPUs."""
    hosts = [_launcher_name(job.name)] if _has_gpus(job) else []
    hosts += _worker_names(job)
    return "".join(f"{host} slots={_slots(job)}\n" for host in hosts)


def kubexec(job: Job) -> str:
    """Return the script that stands in for ssh: `kubexec.sh POD COMMAND...`."""
    container = f" --container {job.spec.main_container}" if job.spec.main_container else ""
    call = f'/opt/kube/kubectl exec ${{POD_NAME}}{container} -- /bin/sh -c "$*"'
    return "\n".join(("#!/bin/sh", "set -x", "POD_NAME=$1", "shift", call))


def discover_hosts(job: Job, children: Children) -> str:
    """Return the script in which elastic Horovod reads the workers that run now, by name."""
    # With a launcher among them there is an empty line after it, as upstream has it.
    text = f"#!/bin/sh\necho {_launcher_name(job.name)}:{_slots(job)}\n" if _has_gpus(job) else "#!/bin/sh"
    worker = WORKER.lower()
    running = [
        name_of(pod)
        for pod in children.pods
        if pod_phase(pod) == "Running"
        and section(pod, "metadata", "labels").get(c.LABEL_REPLICA_TYPE) == worker
    ]
    return text + "".join(f"\necho {name}:{_slots(job)}" for name in sorted(running))


def _worker(job: Job, replica: Replica) -> PodPatch:
    first = next(iter(objects(spec_of(replica.template), "containers")), {})
    waits = not first.get("command")
    container = ContainerPatch(
        of="first",
        mounts=(_CONFIG_MOUNT,),
        command=("sleep",) if waits else None,
        args=("365d",) if waits else None,
    )
    return PodPatch(containers=(container,), volumes=(_config_volume(job, {"kubexec.sh": _EXECUTABLE}),))


def _launcher(job: Job, replica: Replica, options: MPIOptions) -> PodPatch:
    template = spec_of(replica.template)
    container = ContainerPatch(
        of="first",
        env=tuple(_variable(name, value) for name, value in environment(job, template)),
        mounts=(_KUBECTL_MOUNT, _CONFIG_MOUNT),
    )
    delivery: Object = {
        **_DELIVERY,
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "env": [_variable("TARGET_DIR", _KUBECTL_MOUNT["mountPath"]), _variable("NAMESPACE", job.namespace)],
        "volumeMounts": [_KUBECTL_MOUNT, _CONFIG_MOUNT],
    }
    files = {"kubexec.sh": _EXECUTABLE, "hostfile": _READABLE, "discover_hosts.sh": _EXECUTABLE}
    return PodPatch(
        containers=(container,),
        init_containers=(delivery,),
        volumes=({"name": _KUBECTL, "emptyDir": {}}, _config_volume(job, files)),
        service_account=None if _service_account(template) else _launcher_name(job.name),
    )


def environment(job: Job, template: Object) -> Iterator[tuple[str, str]]:
    """Yield the variables of the launcher's first container: Open MPI's, then those of Intel MPI that it lacks."""
    script = f"{_CONFIG_MOUNT['mountPath']}/kubexec.sh"
    yield "OMPI_MCA_plm_rsh_agent", script
    yield "OMPI_MCA_orte_default_hostfile", f"{_CONFIG_MOUNT['mountPath']}/hostfile"
    if not _has_gpus(job):
        # A launcher that asked for no GPU must not see those of its node.
        yield "NVIDIA_VISIBLE_DEVICES", ""
        yield "NVIDIA_DRIVER_CAPABILITIES", ""
    first = next(iter(objects(template, "containers")), {})
    given = {variable.get("name") for variable in objects(first, "env")}
    for name, value in (("I_MPI_HYDRA_BOOTSTRAP", "rsh"), ("I_MPI_HYDRA_BOOTSTRAP_EXEC", script)):
        if name not in given:
            yield name, value


def _config_volume(job: Job, files: Mapping[str, int]) -> Object:
    items = [{"key": name, "path": name, "mode": mode} for name, mode in files.items()]
    return {"name": _CONFIG, "configMap": {"name": _config_name(job.name), "items": items}}


def _owned(job: Job, resource: Resource, name: str, content: Object) -> Owned:
    obj = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {"app": job.name},
            "ownerReferences": [job.owner_reference()],
        },
        **content,
    }
    what = f'Resource "{name}" of MPIJobKind "{resource.kind}"'
    message = f"{what} already exists and is not managed by {MPIJOB.name}"
    return Owned(resource=resource, object=obj, taken=Event("Warning", "ErrResourceExists", message))


def _rules(job: Job) -> list[Object]:
    """Return what the launcher may do. Without workers it may run nothing: no names would mean every pod."""
    rules: list[Object] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    if workers := _worker_names(job):
        allowed = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}
        rules.append({**allowed, "resourceNames": workers})
    return rules


def _runs_anew(job: Job, seen: Seen) -> bool:
    """Return whether launcher and all workers run, and the stored counts do not know it yet."""
    stored = section(job.status, "replicaStatuses")
    counts = [(replica, count_in(section(stored, replica.type), "active")) for replica in job.replicas]
    all_run = all(seen.tallies[replica.type].active >= replica.count for replica, _ in counts)
    return all_run and any(known < replica.count for replica, known in counts)


def _evictions(job: Job, seen: Seen) -> Iterator[Event]:
    """Yield one event where evicted workers are among the failures that the stored counts do not know yet."""
    stored = section(job.status, "replicaStatuses", WORKER)
    workers = [s.pod for s in seen.children.slots if s.replica.type == WORKER and s.wanted and s.pod]
    evicted = [pod for pod in workers if status_of(pod).get("reason") == "Evicted"]
    tally = seen.tallies.get(WORKER, Tally())
    if evicted and tally.failed > count_in(stored, "failed"):
        message = f"{len(evicted)}/{len(workers)} workers are evicted"
        yield Event("Warning", c.reason(MPIJOB.name, "Evicted"), message)


def _has_ended(children: Children) -> bool:
    """Return whether the launcher has."""
    return any(phase in FINISHED for phase in _phases(children, LAUNCHER))


def _phases(children: Children, type_: str) -> list[str]:
    slots = (s for s in children.slots if s.replica.type == type_ and s.wanted)
    return [pod_phase(slot.pod) for slot in slots if slot.pod is not None]


def _has_gpus(job: Job) -> bool:
    """Return whether the launcher asked for GPUs: then it is one of the hosts."""
    launcher = job.replica(LAUNCHER)
    containers = objects(spec_of({} if launcher is None else launcher.template), "containers")
    names = [name for one in containers for name in section(one, "resources", "limits")]
    return any("gpu" in name for name in names)


def _slots(job: Job) -> int:
    slots: int | None = job.spec.slots_per_worker
    return 1 if slots is None else slots


def _worker_names(job: Job) -> list[str]:
    worker = job.replica(WORKER)
    return [job.child_name(WORKER, index) for index in range(0 if worker is None else worker.count)]


def _account_of(job: Job) -> str:
    launcher = job.replica(LAUNCHER)
    template = spec_of({} if launcher is None else launcher.template)
    return _service_account(template) or _launcher_name(job.name)


def _service_account(template: Object) -> str:
    return str(template.get("serviceAccountName") or "")


def _launcher_name(job: str) -> str:
    return f"{job}-{LAUNCHER.lower()}"


def _config_name(job: str) -> str:
    return f"{job}-config"


def _options(options: OperatorOptions) -> MPIOptions:
    chosen = options.by_kind.get(MPIJOB.name)
    return chosen if isinstance(chosen, MPIOptions) else _DEFAULT


def _variable(name: str, value: str) -> Object:
    """Return an EnvVar; the wire form of an empty value is no value."""
    return {"name": name, "value": value} if value else {"name": name}
