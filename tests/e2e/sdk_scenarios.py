"""A program of a user of `kubeflow-training`, whichever version is installed: what its own end-to-end suites do.

    python sdk_scenarios.py NAMESPACE INDEX_URL

Makes all jobs, then looks at what became of each, and prints what it saw as one line of JSON. INDEX_URL is a package
index from which the job `packages` installs `greeting`. Nothing of this project is imported.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from kubeflow.training import TrainingClient, constants, models
from kubernetes.client import V1Container, V1ObjectMeta, V1PodSpec, V1PodTemplateSpec

NAMESPACE, INDEX_URL = sys.argv[1:]
SECONDS = 60
PLAIN = {
    "PyTorchJob": {"Master": 1, "Worker": 1},
    "TFJob": {"Worker": 1},
    "MPIJob": {"Launcher": 1, "Worker": 1},
    "XGBoostJob": {"Master": 1, "Worker": 1},
    "PaddleJob": {"Worker": 2},
    "JAXJob": {"Worker": 2},
    "MXJob": {"Scheduler": 1, "Server": 1, "Worker": 1},
}
"""The replicas of each kind's plain job in upstream's suites."""
REPLICAS_FIELD = {"PyTorchJob": "pytorch", "XGBoostJob": "xgb", "TFJob": "tf", "MXJob": "mx"}
POLICIES = {"PyTorchJob": "OnFailure", "PaddleJob": "OnFailure", "JAXJob": "OnFailure"}
KINDS = [kind for kind in PLAIN if kind in constants.JOB_PARAMETERS]
HAS_1_9 = hasattr(models.KubeflowOrgV1RunPolicy(), "managed_by")


def train(parameters):  # type: ignore[no-untyped-def]
    """Sent as text, for a shell to print: no annotations, since it imports what it uses, and no backquotes."""
    import os
    import time

    rank, world_size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    print("rank", rank, "of", world_size, "steps", parameters["steps"], flush=True)
    if rank == "0":
        time.sleep(
            10
        )  # the end of this rank is that of the job, and others that have not begun then never do


def use_package() -> None:
    """Use what was installed when the pod started."""
    import greeting

    print(greeting.TEXT, flush=True)


def tell_task() -> None:
    """Print which part of the cluster this pod of a TFJob is."""
    import json
    import os

    print(json.loads(os.environ["TF_CONFIG"])["task"], flush=True)


def make_job(
    kind: str, name: str, script: str, replicas: dict[str, int], restart: str = "", **policy: Any
) -> Any:
    """Return a job of the SDK's own models, whose containers run the script with sh."""
    container = V1Container(
        name=constants.JOB_PARAMETERS[kind]["container"],
        image="example.com/sh:1",
        command=["sh", "-c", script],
    )
    annotations = (
        {constants.ISTIO_SIDECAR_INJECTION: "false"} if hasattr(constants, "ISTIO_SIDECAR_INJECTION") else {}
    )
    template = V1PodTemplateSpec(
        metadata=V1ObjectMeta(annotations=annotations),
        spec=V1PodSpec(containers=[container], termination_grace_period_seconds=0),
    )
    specs = {
        type_: models.KubeflowOrgV1ReplicaSpec(
            replicas=count, restart_policy=restart or POLICIES.get(kind, "Never"), template=template
        )
        for type_, count in replicas.items()
    }
    field = REPLICAS_FIELD.get(kind, kind.removesuffix("Job").lower())
    extra = {"elastic_policy": policy.pop("elastic")} if "elastic" in policy else {}
    if kind == "MXJob":
        extra["job_mode"] = "MXTrain"
    run_policy = models.KubeflowOrgV1RunPolicy(clean_pod_policy="None", **policy)
    spec = getattr(models, f"KubeflowOrgV1{kind}Spec")(
        run_policy=run_policy, **{f"{field}_replica_specs": specs}, **extra
    )
    return getattr(models, constants.JOB_PARAMETERS[kind]["model"])(
        api_version=constants.API_VERSION,
        kind=kind,
        metadata=V1ObjectMeta(name=name, namespace=NAMESPACE),
        spec=spec,
    )


def error_of(call: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """Return the type of what the call raises, with the status of the API's answer where there is one."""
    try:
        call(*arguments, **named)
    except Exception as error:
        cause = getattr(error.__cause__ or error.__context__, "status", "")
        return f"{type(error).__name__} {cause}".strip()
    return "nothing"


def plain_job(kind: str, name: str, **policy: Any) -> Any:
    """Return the job of a kind that upstream's suites run."""
    if kind != "MPIJob":
        return make_job(kind, name, "hostname", PLAIN[kind], **policy)
    job = make_job(kind, name, f"/etc/mpi/kubexec.sh {name}-worker-0 hostname", PLAIN[kind], **policy)
    # Workers without a command sleep until the launcher needs them.
    job.spec.mpi_replica_specs["Worker"].template = V1PodTemplateSpec(
        spec=V1PodSpec(
            containers=[V1Container(name="mpi", image="example.com/sh:1")],
            termination_grace_period_seconds=0,
        )
    )
    return job


def create(client: TrainingClient) -> None:
    """Make every job, so that they run beside each other."""
    for kind in KINDS:
        client.create_job(plain_job(kind, f"plain-{kind.lower()}"), namespace=NAMESPACE)
        never = models.KubeflowOrgV1SchedulingPolicy(min_available=10)
        job = plain_job(kind, f"gang-{kind.lower()}", scheduling_policy=never)
        client.create_job(job, namespace=NAMESPACE)
    workers = {"num_procs_per_worker": 1} if HAS_1_9 else {}
    client.create_job(name="function", train_func=train, parameters={"steps": 3}, num_workers=3, **workers)
    client.create_job(name="image", base_image="docker.io/hello-world", num_workers=1)
    client.create_job(
        name="packages",
        train_func=use_package,
        packages_to_install=["greeting"],
        pip_index_url=INDEX_URL,
        num_workers=1,
    )
    client.create_job(
        name="tf-function", job_kind="TFJob", train_func=tell_task, num_workers=1, num_chief_replicas=1
    )
    client.create_job(name="tf-image", job_kind="TFJob", base_image="docker.io/hello-world", num_workers=1)
    elastic = models.KubeflowOrgV1ElasticPolicy(
        min_replicas=1, max_replicas=2, rdzv_backend="c10d", max_restarts=3
    )
    script = 'echo "$PET_NNODES $PET_RDZV_BACKEND $PET_RDZV_ENDPOINT $PET_MAX_RESTARTS"'
    client.create_job(
        make_job("PyTorchJob", "elastic", script, {"Worker": 2}, elastic=elastic), namespace=NAMESPACE
    )
    client.create_job(
        make_job("PyTorchJob", "suspended", "hostname", {"Master": 1}, suspend=True), namespace=NAMESPACE
    )
    client.create_job(
        make_job("PyTorchJob", "failing", "exit 3", {"Master": 1}, "Never"), namespace=NAMESPACE
    )


def plain(client: TrainingClient) -> dict[str, Any]:
    """Return of each kind's plain job what upstream's `verify_job_e2e` asks, and its pods and logs."""
    seen = {}
    for kind in KINDS:
        name = f"plain-{kind.lower()}"
        own = TrainingClient(namespace=NAMESPACE, job_kind=kind)
        own.wait_for_job_conditions(name, wait_timeout=SECONDS, polling_interval=1)
        job = own.get_job(name)
        first = next(iter(PLAIN[kind])).lower()
        logs, _ = own.get_job_logs(name, is_master=False, replica_type=None if kind == "JAXJob" else first)
        flags = ("created", "running", "restarting", "succeeded", "failed")
        seen[kind] = {
            "conditions": [c.type for c in job.status.conditions if c.status == "True"],
            "is": [flag for flag in flags if getattr(own, f"is_job_{flag}")(job=job)],
            "listed": name in [one.metadata.name for one in own.list_jobs()],
            "pods": sorted(own.get_job_pod_names(name)),
            "logs": logs,
        }
    return seen


def functions(client: TrainingClient) -> dict[str, Any]:
    """Return what became of the jobs made of functions and images, and how their pods can be asked for."""
    for name in ("function", "image", "packages", "elastic"):
        client.wait_for_job_conditions(name, wait_timeout=SECONDS, polling_interval=1)
    tf = TrainingClient(namespace=NAMESPACE, job_kind="TFJob")
    for name in ("tf-function", "tf-image"):
        tf.wait_for_job_conditions(name, wait_timeout=SECONDS, polling_interval=1)
    deadline = time.monotonic() + SECONDS
    while any(pod.status.phase != "Succeeded" for pod in client.get_job_pods("function")):
        # The first rank's end is that of the job; the SDK passes over pods that are pending.
        assert time.monotonic() < deadline, "every rank has ended"
        time.sleep(0.2)
    names = client.get_job_pod_names
    followed = client.get_job_logs("function", follow=True)
    _, events = client.get_job_logs("function", verbose=True)
    return {
        "pods": sorted(names("function")),
        "master": names("function", is_master=True),
        "workers": sorted(names("function", replica_type="worker")),
        "worker 1": names("function", replica_type="worker", replica_index=1),
        "nobody": names("function", replica_type="launcher"),
        "unknown type": error_of(names, "function", replica_type="Worker"),
        "followed": str(followed),
        "events": sorted(key for key in events if key.startswith("pytorchjob/")),
        "worker log": client.get_job_logs(
            "function", is_master=False, replica_type="worker", replica_index=1
        )[0],
        "image": client.get_job_logs("image")[0],
        "packages": client.get_job_logs("packages")[0],
        "elastic": sorted(client.get_job_logs("elastic", is_master=False)[0].values()),
        "tf": {
            **tf.get_job_logs("tf-function", is_master=False)[0],
            **tf.get_job_logs("tf-image", is_master=False)[0],
        },
    }


def lives(client: TrainingClient) -> dict[str, Any]:
    """Return how jobs are suspended and resumed, fail, are refused and are deleted."""
    deadline = time.monotonic() + SECONDS
    while "Suspended" not in (before := [c.type for c in client.get_job_conditions("suspended")]):
        assert time.monotonic() < deadline, before
        time.sleep(0.2)
    none_yet = client.get_job_pod_names("suspended")
    job = client.get_job("suspended")
    job.spec.run_policy.suspend = False
    client.update_job(job, "suspended")
    client.wait_for_job_conditions("suspended", wait_timeout=SECONDS, polling_interval=1)
    failed = error_of(client.wait_for_job_conditions, "failing", wait_timeout=SECONDS, polling_interval=1)
    job = client.wait_for_job_conditions("failing", expected_conditions={"Failed"}, polling_interval=1)
    reasons = {c.type: c.reason for c in job.status.conditions if c.status == "True"}
    client.delete_job("failing")
    deadline = time.monotonic() + SECONDS
    while client.get_job_pod_names("failing"):
        assert time.monotonic() < deadline, "pods outlive the deleted job"
        time.sleep(0.2)
    kinds = [kind for kind in KINDS if kind not in ("PyTorchJob", "TFJob")]
    return {
        "suspended": before,
        "pods of a suspended job": none_yet,
        "resumed": [c.type for c in client.get_job_conditions("suspended") if c.status == "True"],
        "waiting for a failed job": failed,
        "failed": reasons,
        "get deleted": error_of(client.get_job, "failing"),
        "delete deleted": error_of(client.delete_job, "failing"),
        "not a label": error_of(
            client.create_job, name="Not_A_Label", train_func=train, parameters={}, num_workers=1
        ),
        "twice": error_of(client.create_job, make_job("PyTorchJob", "elastic", "true", {"Master": 1})),
        "function of another kind": {
            kind: error_of(client.create_job, name="x", job_kind=kind, train_func=train, num_workers=1)
            for kind in kinds
        },
    }


def managers(client: TrainingClient) -> dict[str, Any]:
    """Return whom a job may be managed by. Only from 1.9 on."""
    made = {}
    for name, manager in (
        ("managed-here", "kubeflow.org/training-operator"),
        ("managed-elsewhere", "kueue.x-k8s.io/multikueue"),
        ("managed-by-nobody", "kueue.x-k8s.io/other"),
    ):
        job = make_job("PyTorchJob", name, "hostname", {"Master": 1}, managed_by=manager)
        made[manager] = error_of(client.create_job, job, namespace=NAMESPACE)
    client.wait_for_job_conditions("managed-here", wait_timeout=SECONDS, polling_interval=1)
    jobs = [job.metadata.name for job in client.list_jobs() if job.metadata.name.startswith("managed-")]
    return {"made": made, "jobs": sorted(jobs), "left alone": client.get_job_conditions("managed-elsewhere")}


def gangs() -> dict[str, Any]:
    """Return of each kind how a gang that can never be complete waits, and how it ends when it is made smaller."""
    clients = {kind: TrainingClient(namespace=NAMESPACE, job_kind=kind) for kind in KINDS}
    seen = {}
    for kind, client in clients.items():
        name = f"gang-{kind.lower()}"
        held = [client.is_job_created(name), client.is_job_running(name)]
        job = client.get_job(name)
        job.spec.run_policy.scheduling_policy.min_available = sum(PLAIN[kind].values())
        client.update_job(job, name)
        seen[kind] = {"held": held}
    for kind, client in clients.items():
        name = f"gang-{kind.lower()}"
        client.wait_for_job_conditions(name, wait_timeout=SECONDS, polling_interval=1)
        pods = client.get_job_pods(name)
        seen[kind]["pods"] = {pod.metadata.name: pod.spec.scheduler_name for pod in pods}
        seen[kind]["marks"] = sorted({key for pod in pods for key in pod.metadata.annotations or {}})
    return seen


def fine_tuning(client: TrainingClient) -> dict[str, str]:
    """Return how `train`, which needs models from a hub, ends without its libraries and with names for them."""
    lacking = error_of(client.train, name="tune")
    sys.modules["peft"], sys.modules["transformers"] = libraries()
    from kubeflow.storage_initializer import hugging_face as hub

    client.train(
        name="tune",
        num_workers=1,
        num_procs_per_worker=1,
        model_provider_parameters=hub.HuggingFaceModelParams(
            "hf://google-bert/bert-base-cased", hub.transformers.AutoModelForSequenceClassification
        ),
        dataset_provider_parameters=hub.HuggingFaceDatasetParams(repo_id="yelp_review_full"),
        trainer_parameters=hub.HuggingFaceTrainerParams(),
        storage_config={"size": "1Mi", "storage_class": None, "access_modes": ["ReadWriteOnce"]},
    )
    deadline = time.monotonic() + SECONDS
    while not (said := init_container_waits_for(client, "tune")):
        assert time.monotonic() < deadline, "the master's init container says why it does not start"
        time.sleep(0.2)
    return {"without libraries": lacking, "with": said}


def libraries() -> tuple[ModuleType, ModuleType]:
    """Return what of peft and transformers the SDK looks at: large libraries, of which it wants names only."""
    peft, transformers = ModuleType("peft"), ModuleType("transformers")
    for kind in (
        "SequenceClassification",
        "TokenClassification",
        "QuestionAnswering",
        "CausalLM",
        "MaskedLM",
        "ImageClassification",
    ):
        setattr(transformers, f"AutoModelFor{kind}", type(f"AutoModelFor{kind}", (), {}))
    configuration = type("Configuration", (), {"to_dict": lambda self: {}})
    peft.LoraConfig, transformers.TrainingArguments = configuration, configuration  # type: ignore[attr-defined]
    return peft, transformers


def init_container_waits_for(client: TrainingClient, name: str) -> str:
    """Return why the init container of the job's only pod has not started, empty while that is not known."""
    states = [
        status.state.waiting
        for pod in client.get_job_pods(name)
        for status in pod.status.init_container_statuses or []
        if status.state and status.state.waiting
    ]
    return next((f"{state.reason}: {state.message}" for state in states if state.message), "")


def main() -> None:
    client = TrainingClient(namespace=NAMESPACE)
    create(client)
    seen = {
        "module": sys.modules["kubeflow.training"].__file__,
        "plain": plain(client),
        "functions": functions(client),
        "lives": lives(client),
        "managers": managers(client) if HAS_1_9 else None,
        "gangs": gangs(),
        "train": fine_tuning(client),
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
