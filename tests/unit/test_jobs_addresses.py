"""Over all pods of a job of any kind: each rank is there once, and who is where is the same to everyone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.examples import times
from tests.unit.jobs_builders import NOW, made
from tests.unit.jobs_strategies import valid_jobs
from trainshed.jobs.engine.model import Observed
from trainshed.jobs.engine.plan import Plan
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.objects import Object
from trainshed.testing.builders import JOB_KINDS

Environments: TypeAlias = Mapping[str, Mapping[str, str]]
"""By the name of a pod: the variables of its container; None where the value comes from the pod itself."""
Check: TypeAlias = Callable[[Object, Plan, Environments], None]
MOST = 12


def environments(plan: Plan) -> Environments:
    def variables(pod: Object) -> dict[str, str]:
        (container,) = pod["spec"]["containers"]
        return {v["name"]: v.get("value", "") for v in container.get("env", ())}

    return {pod["metadata"]["name"]: variables(pod) for pod in made(plan, "Pod")}


def counts(job: Object) -> dict[str, int]:
    return {type_: spec["replicas"] for type_, spec in job["spec"][field(job)].items()}


def field(job: Object) -> str:
    return JOB_KINDS[job["kind"]].replica_specs_field


def said(envs: Environments, name: str) -> set[str | None]:
    """Return the values that the pods have for a variable; None where one has none."""
    return {env.get(name) for env in envs.values()}


def pytorch(job: Object, plan: Plan, envs: Environments) -> None:
    elastic = "elasticPolicy" in job["spec"]
    if "Master" in counts(job):
        processes = job["spec"].get("nprocPerNode", "1")
        processes = int(processes) if processes.isdecimal() else 1
        assert sorted(int(env["RANK"]) for env in envs.values()) == list(range(len(envs)))
        assert all(env["RANK"] == env["PET_NODE_RANK"] for env in envs.values())
        assert said(envs, "WORLD_SIZE") == {str(len(envs) * processes)}
        assert said(envs, "MASTER_ADDR") == said(envs, "PET_MASTER_ADDR") == {"train-master-0"}
        assert said(envs, "MASTER_PORT") == said(envs, "PET_MASTER_PORT") == {"23456"}
        assert envs["train-master-0"]["RANK"] == "0"
    if elastic:
        policy = job["spec"]["elasticPolicy"]
        (endpoint,), (nodes,) = said(envs, "PET_RDZV_ENDPOINT"), said(envs, "PET_NNODES")
        assert endpoint == f"train-worker-0:{policy.get('rdzvPort', 23456)}" and "train-worker-0" in envs
        least, most = map(int, str(nodes).split(":"))
        assert policy.get("minReplicas", least) == least and policy.get("maxReplicas", most) == most
    else:
        assert said(envs, "PET_NNODES") == {str(len(envs))}


def tensorflow(job: Object, plan: Plan, envs: Environments) -> None:
    """Dense, all know the same cluster, which is all pods; sparse, each knows a part of it. All know themselves."""
    told = {name: json.loads(env["TF_CONFIG"]) for name, env in envs.items() if env}
    assert len(told) == (0 if len(envs) == 1 else len(envs))
    for name, config in told.items():
        task, cluster = config["task"], config["cluster"]
        assert name == f"train-{task['type']}-{task['index']}"
        if job["spec"].get("enableDynamicWorker"):
            own = cluster["worker"] if task["type"] == "worker" else dict(enumerate(cluster["ps"]))
            if task["type"] in ("worker", "ps"):
                assert set(own.values()) == {f"{name}.ns.svc:2222"}
        else:
            assert cluster[task["type"]][task["index"]] == f"{name}.ns.svc:2222"
            assert {host.partition(".")[0] for hosts in cluster.values() for host in hosts} == set(envs)


def mpi(job: Object, plan: Plan, envs: Environments) -> None:
    """The hostfile, and what the launcher may run programs in, are the workers."""
    workers = [name for name in envs if name.startswith("train-worker-")]
    (files,), (role,) = made(plan, "ConfigMap"), made(plan, "Role")
    slots = job["spec"].get("slotsPerWorker", 1)
    assert files["data"]["hostfile"] == "".join(f"{name} slots={slots}\n" for name in workers)
    assert [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule] == (
        [workers] if workers else []
    )
    assert envs["train-launcher"]["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"


def xgboost(job: Object, plan: Plan, envs: Environments) -> None:
    assert sorted(int(env["RANK"]) for env in envs.values()) == list(range(len(envs)))
    assert said(envs, "WORLD_SIZE") == {str(len(envs))}
    for env in envs.values():
        assert {env["MASTER_ADDR"], *filter(None, env.get("WORKER_ADDRS", "").split(","))} == set(envs)
    assert envs[envs["train-master-0"]["MASTER_ADDR"]]["RANK"] == "0"


def paddle(job: Object, plan: Plan, envs: Environments) -> None:
    """All meet at the first, which alone finds its own address by itself."""
    assert said(envs, "PADDLE_NNODES") == {str(len(envs))}
    first = f"train-{'master' if 'Master' in counts(job) else 'worker'}-0"
    meet = {name: env["PADDLE_MASTER"] for name, env in envs.items()}
    own = meet.pop(first, None)
    assert own in (None, "$(POD_IP_DUMMY):36543")
    assert set(meet.values()) <= {f"{first}:36543"}


def jax(job: Object, plan: Plan, envs: Environments) -> None:
    assert sorted(int(env["PROCESS_ID"]) for env in envs.values()) == list(range(len(envs)))
    assert said(envs, "NUM_PROCESSES") == {str(len(envs))}
    assert (
        said(envs, "COORDINATOR_ADDRESS") == {"train-worker-0"}
        and envs["train-worker-0"]["PROCESS_ID"] == "0"
    )
    assert said(envs, "COORDINATOR_PORT") == {"6666"}


def mxnet(job: Object, plan: Plan, envs: Environments) -> None:
    wanted = counts(job)
    for name, env in envs.items():
        config = json.loads(env["MX_CONFIG"])
        task, cluster = config["task"], config["cluster"]
        assert name == f"train-{task['type']}-{task['index']}" and env["DMLC_ROLE"] == task["type"]
        assert {place["url"] for places in cluster.values() for place in places} == set(envs)
        assert {place["port"] for places in cluster.values() for place in places} == {9091}
        assert cluster[task["type"]][task["index"]]["url"] == name
    assert said(envs, "DMLC_NUM_WORKER") == {str(wanted.get("Worker", 0))}
    assert said(envs, "DMLC_NUM_SERVER") == {str(wanted.get("Server", 0))}
    assert said(envs, "DMLC_PS_ROOT_URI") == {"train-scheduler-0" if "Scheduler" in wanted else ""}
    ids = [int(env["DMLC_WORKER_ID"]) for env in envs.values() if env["DMLC_ROLE"] == "worker"]
    assert ids == list(range(wanted.get("Worker", 0)))


CHECKS: dict[str, Check] = {
    "PyTorchJob": pytorch,
    "TFJob": tensorflow,
    "MPIJob": mpi,
    "XGBoostJob": xgboost,
    "PaddleJob": paddle,
    "JAXJob": jax,
    "MXJob": mxnet,
}


def test_every_kind_says_what_its_pods_have_to_agree_on() -> None:
    assert set(CHECKS) == set(JOB_KINDS)


@pytest.mark.parametrize("kind", JOB_KINDS.values(), ids=list(JOB_KINDS))
@times(0.6)
@given(data=st.data())
def test_pods_agree_on_who_is_where(data: st.DataObject, kind: object) -> None:
    job = data.draw(valid_jobs(kinds=st.just(kind), most=MOST, run_policies=st.just({})))
    plan = decide(Observed(job=job, now=NOW))
    envs = environments(plan)
    assert len(envs) == sum(counts(job).values()) == len(made(plan, "Pod")), "a pod for each replica"
    if envs:
        CHECKS[job["kind"]](job, plan, envs)
    services = {service["metadata"]["name"] for service in made(plan, "Service")}
    assert services == (set() if job["kind"] == "MPIJob" else set(envs)), "every address is one of a service"
