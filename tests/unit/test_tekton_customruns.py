"""What a CustomRun of a distributed step does next: its job."""

from __future__ import annotations

from typing import Any

from tests.unit.tekton_world import START, reason, stored
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.plan import Create, Delete, Plan
from trainshed.kube.meta.resources import PODS, Resource
from trainshed.tekton.customrun import Observed, decide, is_ours, job_name

TFJOBS = Resource("kubeflow.org", "v1", "tfjobs", "TFJob")
KINDS = {("kubeflow.org/v1", "TFJob"): TFJOBS}


def custom_run(name: str = "run-train", job: Any = None, **spec: Any) -> Object:
    template = job or {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "spec": {"lr": "$(params.lr)", "claim": ["$(workspaces.data.claim)"], "n": 3},
    }
    return stored(
        {
            "apiVersion": "tekton.dev/v1beta1",
            "kind": "CustomRun",
            "metadata": {"name": name, "labels": {"tekton.dev/pipelineTask": "train"}},
            "spec": {
                "customSpec": {
                    "apiVersion": "trainshed.dev/v1alpha1",
                    "kind": "DistributedStep",
                    "metadata": {"labels": {"trainshed.dev/step": "train"}},
                    "spec": {"job": template},
                },
                "params": [{"name": "lr", "value": "0.1"}],
                "workspaces": [{"name": "data", "persistentVolumeClaim": {"claimName": "pvc-1"}}],
                **spec,
            },
        }
    )


class World:
    def __init__(self, run: Object) -> None:
        self.run, self.jobs, self.pods, self.now = run, dict[str, Object](), list[Object](), START

    def step(self) -> Plan:
        plan = decide(Observed(self.run, list(self.jobs.values()), self.pods, KINDS, self.now))
        if plan.status is not None:
            self.run = {**self.run, "status": plan.status}
        for action in plan.actions:
            if isinstance(action, Create):
                assert action.object["metadata"]["name"] not in self.jobs
                self.jobs[action.object["metadata"]["name"]] = stored(action.object, "uid-job")
            elif isinstance(action, Delete):
                del self.jobs[action.name]
        return plan

    def job_is(self, kind: str, message: str = "") -> None:
        (*_, job) = self.jobs.values()
        job["status"] = {"conditions": [{"type": kind, "status": "True", "message": message}]}


def test_the_job_is_made_with_parameters_and_claims_and_its_end_is_the_runs() -> None:
    it = World(custom_run())
    it.step()
    job = it.jobs["run-train"]
    assert job["spec"] == {"lr": "0.1", "claim": ["pvc-1"], "n": 3}
    assert job["metadata"]["labels"]["trainshed.dev/step"] == "train"
    assert job["metadata"]["ownerReferences"][0]["kind"] == "CustomRun"
    it.job_is("Running", "TFJob run-train is running.")
    it.step()
    assert reason(it.run) == ("Unknown", "Running")
    it.job_is("Succeeded", "done")
    message = '[{"key": "accuracy", "value": "0.9", "type": 1}]'
    it.pods = [
        stored(
            {
                "metadata": {"name": "run-train-worker-0"},
                "status": {
                    "containerStatuses": [
                        {"name": "tensorflow", "state": {"terminated": {"message": message}}}
                    ]
                },
            }
        )
    ]
    it.step()
    assert reason(it.run) == ("True", "Succeeded")
    assert it.run["status"]["results"] == [{"name": "accuracy", "value": "0.9"}]
    assert it.step().status is None


def test_each_attempt_is_a_job_of_its_own() -> None:
    it = World(custom_run(retries=1))
    it.step()
    it.job_is("Failed", "worker 1 failed")
    it.step()
    assert reason(it.run) == ("Unknown", "ToBeRetried")
    it.step()
    assert list(it.jobs) == ["run-train", "run-train-retry1"]
    it.job_is("Failed", "again")
    it.step()
    assert reason(it.run) == ("False", "JobFailed")
    assert it.run["status"]["conditions"][0]["message"] == "again"


def pod(name: str, phase: str) -> Object:
    return stored({"metadata": {"name": name}, "status": {"phase": phase}}, f"uid-{name}")


def test_ranks_that_lost_a_peer_are_gone_before_the_next_attempt() -> None:
    it = World(custom_run(retries=1))
    it.step()
    it.job_is("Failed", "worker 1 failed")
    it.pods = [pod("worker-0", "Running"), pod("worker-1", "Failed")]
    plan = decide(Observed(it.run, list(it.jobs.values()), it.pods, KINDS, it.now))
    assert [(a.resource, a.name) for a in plan.actions if isinstance(a, Delete)] == [(PODS, "worker-0")]
    assert plan.status is None
    assert plan.requeue_after
    it.pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:05Z"
    assert not decide(Observed(it.run, list(it.jobs.values()), it.pods, KINDS, it.now)).actions
    it.pods.pop(0)
    it.step()
    assert reason(it.run) == ("Unknown", "ToBeRetried")


def test_ranks_carry_the_labels_of_the_run() -> None:
    template = {"metadata": {"labels": {"own": "1"}}, "spec": {}}
    spec = {
        "runPolicy": {"backoffLimit": 0},
        "tfReplicaSpecs": {"Worker": {"replicas": 2, "template": template}},
    }
    it = World(custom_run(job={"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "spec": spec}))
    it.step()
    made = it.jobs["run-train"]["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    assert made["metadata"]["labels"] == {"own": "1", "tekton.dev/pipelineTask": "train"}


def test_cancelling_deletes_the_job_first() -> None:
    it = World(custom_run())
    it.step()
    it.run["spec"]["status"] = "RunCancelled"
    assert it.step().status is None
    assert not it.jobs
    it.step()
    assert reason(it.run) == ("False", "CustomRunCancelled")


def test_out_of_time_deletes_the_job_first() -> None:
    it = World(custom_run(timeout="1m"))
    assert it.step().requeue_after == 60
    it.now += 60
    it.step()
    assert not it.jobs
    it.step()
    assert reason(it.run) == ("False", "CustomRunTimeout")


def test_a_job_that_was_seen_and_is_gone_is_not_made_again() -> None:
    it = World(custom_run())
    it.step()
    it.step()
    it.jobs.clear()
    it.step()
    assert reason(it.run) == ("False", "JobDeleted")


def test_a_kind_that_is_no_job_is_refused() -> None:
    it = World(custom_run(job={"apiVersion": "v1", "kind": "Pod"}))
    it.step()
    assert reason(it.run) == ("False", "InvalidJob")
    assert "Pod is none of TFJob" in it.run["status"]["conditions"][0]["message"]


def test_other_custom_tasks_are_not_ours() -> None:
    run = custom_run()
    assert is_ours(run)
    run["spec"]["customSpec"]["kind"] = "Wait"
    assert not is_ours(run)
    it = World(run)
    it.step()
    assert "status" not in it.run
    assert not it.jobs


def test_names_of_jobs_leave_room_for_their_pods() -> None:
    names = {job_name(custom_run("x" * 60 + end)) for end in ("a", "b")}
    assert len(names) == 2
    assert all(len(name) <= 44 for name in names)
