"""The command line by its words: jobs, `check`, several nodes, plain output, and what keeps a job from going on.

Left out: help, usage and errors where there is no cluster (test_cli_help), up, down, status, run and its exit codes
(test_must_hold_lifecycle), what the server refuses (test_must_hold_input), the live view (tests/unit).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.e2e.cluster_fixture import Cluster, as_list, read_line, read_rest, until
from tests.e2e.jobs import COUNT_UNTIL_TOLD, UNTIL_TOLD, job, pod, replica
from tests.e2e.terminal import on_a_terminal

EXAMPLE = Path(__file__).parents[2] / "examples/fashion-mnist/pytorchjob.yaml"
CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"}, "data": {"a": "b"}}


def completed(cluster: Cluster, *words: str) -> set[str]:
    """Return what bash is offered for the last of the words."""
    asked = {
        "_TRAINSHED_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("trainshed", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        cluster.trainshed_command(),
        env={**cluster.environment, **asked},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == "", done
    return set(done.stdout.split())


def test_jobs_that_are_not_there(cluster: Cluster) -> None:
    scope = ("-n", cluster.namespace)
    cluster.trainshed("follow", "nosuch", *scope).failed(f'no job "nosuch" in namespace {cluster.namespace}')
    cluster.trainshed("suspend", "horovodjob/x", *scope).failed(
        'no job kind "horovodjob"', "one of: ", "PyTorchJob"
    )


def test_run_without_a_training_job_applies_nothing(cluster: Cluster) -> None:
    done = cluster.trainshed("run", "-", "-n", cluster.namespace, stdin=as_list(CONFIGMAP))
    done.failed("there is no training job to follow, so nothing was applied", "kubectl apply -f")
    assert cluster.get("configmaps", "plain") is None


def test_run_from_standard_input(cluster: Cluster) -> None:
    objects = as_list(CONFIGMAP, job("train", replica("echo hello")))
    done = cluster.trainshed("run", "-", "-n", cluster.namespace, stdin=objects)
    assert done.rc == 0, done
    assert done.out.startswith("[master-0] hello\nPyTorchJob train succeeded in ")
    assert "configmap/plain created\npytorchjob.kubeflow.org/train created\n" in done.err
    assert cluster.get("configmaps", "plain")["data"] == {"a": "b"}


def test_suspend_and_resume(cluster: Cluster, shared_folder: Path) -> None:
    scope = ("-n", cluster.namespace)
    objects = as_list(job("train", replica(UNTIL_TOLD, shared_folder)))
    detached = cluster.trainshed("run", "--detach", "-", *scope, stdin=objects)
    assert (detached.rc, detached.out) == (0, ""), detached
    assert f"trainshed follow pytorchjob/train {' '.join(scope)}" in detached.err
    cluster.until_phase("Running", "train-master-0")
    assert "suspended" in cluster.trainshed("suspend", "train", *scope).err
    until(lambda: not cluster.pods(), "the suspended job has no pods")
    assert "resumed" in cluster.trainshed("resume", "PyTorchJob/train", *scope).err
    (shared_folder / "finish").touch()
    cluster.until_condition("train", "Succeeded")
    cluster.trainshed("suspend", "train", *scope).failed("finished already")
    assert "deleted" in cluster.trainshed("delete", "train", *scope).err


def test_a_job_that_no_operator_takes_up(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    cluster.up()
    cluster.until_operator()
    cluster.kubectl("scale", "-n", "kubeflow", "deploy/training-operator", "--replicas=0").ok()
    until(lambda: not cluster.get("pods", namespace="kubeflow"), "the operator is gone")
    file = cluster.scratch / "job.yaml"
    file.write_text(as_list(job("train", replica("echo hello"))))
    with cluster.started("run", str(file)) as running:
        assert "train created" in read_line(running)
        assert "no training operator has taken up the job, and none is to be seen" in read_line(running)
        cluster.kubectl("scale", "-n", "kubeflow", "deploy/training-operator", "--replicas=1").ok()
        shown = read_rest(running)
    assert running.returncode == 0, shown
    assert "[master-0] hello" in shown


def test_a_follow_without_an_api_server_says_so_and_goes_on(
    make_cluster: Callable[..., Cluster], shared_folder: Path
) -> None:
    cluster = make_cluster()
    cluster.up()
    file = cluster.scratch / "job.yaml"
    file.write_text(as_list(job("train", replica(COUNT_UNTIL_TOLD, shared_folder))))
    with cluster.started("run", str(file)) as running:
        while "line 3" not in read_line(running):
            pass
        cluster.kill_control_plane()
        while "the API server does not answer" not in (line := read_line(running)):
            assert "list-watch" not in line and "Traceback" not in line
        cluster.up()
        (shared_folder / "finish").touch()
        shown = read_rest(running)
    assert running.returncode == 0, shown
    assert "PyTorchJob train succeeded" in shown


def test_check_of_the_example(cluster: Cluster) -> None:
    done = cluster.trainshed("check", str(EXAMPLE))
    assert done.rc == 0, done
    assert done.out == "✓ PersistentVolumeClaim fashion-mnist: valid\n✓ PyTorchJob fashion-mnist: valid\n"


def test_check_of_bad_manifests(cluster: Cluster) -> None:
    unknown = job("unknown", replica("exit 0"))
    unknown["spec"]["foo"] = 1
    misspelt = {**job("misspelt", replica("exit 0")), "kind": "PyTorchJop"}
    done = cluster.trainshed("check", "-", stdin=as_list(CONFIGMAP, unknown, misspelt))
    assert (done.rc, done.out) == (1, "✓ ConfigMap plain: valid\n"), done
    lines = done.err.splitlines()
    assert lines[0] == "✗ PyTorchJob unknown: spec.foo: unknown field"
    assert lines[1].startswith('✗ PyTorchJop misspelt: no matches for kind "PyTorchJop"')
    assert lines[2].strip() == "did you mean PyTorchJob?"
    assert cluster.get("configmaps", "plain", "default") is None


def test_check_of_what_the_node_cannot_honour(cluster: Cluster) -> None:
    profiled = {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}
    demanding = job("demanding", replica("exit 0", **profiled))
    spec = demanding["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    spec["securityContext"] = {"sysctls": [{"name": "vm.swappiness", "value": "1"}]}
    bare = pod("bare", "exit 0", **profiled)
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {"spec": bare["spec"]}}}},
    }
    done = cluster.trainshed("check", "-", stdin=as_list(demanding, bare, cron))
    assert done.rc == 0, done
    found = re.findall(r"^! (\S+): (.+)$", done.out, re.MULTILINE)
    template = "spec.pytorchReplicaSpecs[Master].template.spec"
    assert sorted(path for path, _ in found) == [
        "spec.containers[0].securityContext.appArmorProfile",
        "spec.jobTemplate.spec.template.spec.containers[0].securityContext.appArmorProfile",
        f"{template}.containers[0].securityContext.appArmorProfile",
        f"{template}.securityContext.sysctls[0]",
    ]
    why = dict(found)[f"{template}.containers[0].securityContext.appArmorProfile"]
    assert why.startswith("profiles of AppArmor and SELinux are not applied")


def test_three_nodes_share_the_pods_and_are_kept(
    make_cluster: Callable[..., Cluster], shared_folder: Path
) -> None:
    cluster = make_cluster()
    assert cluster.trainshed("up", "--nodes", "3").rc == 0

    def nodes() -> list[str]:
        return cluster.kubectl("get", "nodes", "-o", "name").ok().split()

    assert len(nodes()) == 3
    workers = replica(UNTIL_TOLD, shared_folder, replicas=5, restart="OnFailure")
    cluster.apply(job("spread", replica(UNTIL_TOLD, shared_folder, restart="OnFailure"), workers))
    names = [f"spread-{name}" for name in ("master-0", *(f"worker-{n}" for n in range(5)))]
    cluster.until_phase("Running", *names)
    placed = [p["spec"]["nodeName"] for p in cluster.pods("spread").values()]
    assert sorted({placed.count(node) for node in placed}) in ([2], [1, 2, 3]), (
        placed
    )  # the operator counts, too
    noted = cluster.trainshed("up", "--nodes", "2")
    assert noted.rc == 0 and "options are for the next start" in noted.err

    cluster.trainshed("down").ok()
    cluster.up()
    assert len(nodes()) == 3, "as many as last time"
    cluster.trainshed("down").ok()
    assert cluster.trainshed("up", "--nodes", "1").rc == 0
    (only,) = nodes()
    # Pods of the nodes that are gone are made again on the one that is left.
    cluster.until_phase("Running", *names, seconds=60)
    assert {p["spec"]["nodeName"] for p in cluster.pods("spread").values()} == {only.removeprefix("node/")}


def test_the_plugin_of_kubectl(cluster: Cluster) -> None:
    folder = Path(sys.executable).parent
    done = subprocess.run(
        [cluster.kubectl_path, "trainshed", "status", "-o", "json"],
        env={**cluster.environment, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["running"] is True


def test_a_path_with_spaces_can_be_evaluated(make_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = make_cluster()
    spaced = Cluster(cluster.scratch / "my state", cluster.scratch)
    try:
        done = subprocess.run(
            ["sh", "-c", 'eval "$(trainshed up)" && printf %s "$KUBECONFIG"'],
            env={**spaced.environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout == str(spaced.kubeconfig), done
    finally:
        spaced.purge()


def test_jobs_are_listed_their_logs_merged_and_their_names_completed(
    cluster: Cluster, shared_folder: Path
) -> None:
    scope = ("-n", cluster.namespace)
    talk = "echo one; until [ -e /out/hi ]; do sleep 0.05; done; echo two"
    first = job("first", replica(talk, shared_folder), replica("echo hi; touch /out/hi", shared_folder))
    done = cluster.trainshed(
        "run", "-f", "-", *scope, stdin=as_list(first, job("another", replica("echo other")))
    )
    assert done.rc == 0, done
    assert "[another/master-0] other\n" in done.out and "[first/worker-0]   hi\n" in done.out
    ends = [line.partition(" in ")[0] for line in done.out.splitlines()]
    assert {"PyTorchJob first succeeded", "PyTorchJob another succeeded"} <= set(ends)

    listed = json.loads(cluster.trainshed("list", "-o", "json", *scope).ok())
    assert [(each["name"], each["state"], each["replicas"]) for each in listed] == [
        ("another", "Succeeded", {"Master": "1"}),
        ("first", "Succeeded", {"Master": "1", "Worker": "1"}),
    ]
    text = cluster.trainshed("list", "-A").ok().splitlines()
    assert text[0].split() == ["NAMESPACE", "KIND", "NAME", "STATE", "REPLICAS", "TOOK", "AGE"]
    assert any(line.split()[:4] == [cluster.namespace, "PyTorchJob", "first", "Succeeded"] for line in text)

    lines = cluster.trainshed("logs", "first", *scope).ok().splitlines()
    assert lines == ["[master-0] one", "[worker-0] hi", "[master-0] two"], "merged by time"
    last = cluster.trainshed("logs", "first", "master-0", "--tail", "1", "--no-prefix", *scope)
    assert last.ok() == "two\n"
    assert cluster.trainshed("logs", "-f", "another", *scope).ok() == "[master-0] other\n"
    nobody = cluster.trainshed("logs", "first", "worker-99", *scope)
    nobody.failed("has no replica 'worker-99'", "hint: it has: master-0")

    assert completed(cluster, "follow", *scope, "f") == {"first"}
    assert completed(cluster, "delete", *scope, "pytorchjob/a") == {"pytorchjob/another"}
    assert completed(cluster, "logs", *scope, "first", "master") == {"master-0"}

    nothing = cluster.trainshed("delete", "first", "nobody", *scope)
    nothing.failed('no job "nobody" in namespace')
    assert "deleted" not in nothing.err
    said = cluster.trainshed("delete", "first", "pytorchjob/another", *scope).err
    assert {f"pytorchjob.kubeflow.org/{name} deleted" for name in ("first", "another")} <= set(
        said.splitlines()
    )


def test_a_job_that_runs_is_followed_or_replaced_and_it_is_said(
    cluster: Cluster, shared_folder: Path
) -> None:
    scope = ("-n", cluster.namespace)
    running = job("busy", replica(UNTIL_TOLD, shared_folder))
    cluster.trainshed("run", "-d", "-", *scope, stdin=as_list(running)).ok()
    cluster.until_phase("Running", "busy-master-0")
    again = cluster.trainshed("run", "-d", "-", *scope, stdin=as_list(running))
    assert "busy unchanged: it runs already (--replace starts it anew)" in again.err
    edited = job("busy", replica("echo edited"))
    said = cluster.trainshed("run", "-d", "-", *scope, stdin=as_list(edited))
    assert "busy configured: it runs already, and its pods stay as they are" in said.err
    replaced = cluster.trainshed("run", "--replace", "-", *scope, stdin=as_list(edited))
    assert replaced.rc == 0 and "busy of an earlier run is still running: ending its pods" in replaced.err
    assert "[master-0] edited\n" in replaced.out
    assert "finished: replacing it" in cluster.trainshed("run", "-", *scope, stdin=as_list(edited)).err


def test_a_job_that_is_being_deleted_is_waited_for(cluster: Cluster) -> None:
    scope = ("-n", cluster.namespace)
    going = job("going", replica("echo old"))
    going["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.apply(going)
    cluster.kubectl("delete", "pytorchjob", "going", "--wait=false").ok()
    file = cluster.scratch / "job.yaml"
    file.write_text(as_list(job("going", replica("echo new"))))
    with cluster.started("run", str(file), *scope) as running:
        assert "going of an earlier run is being deleted: waiting until it is gone" in read_line(running)
        release = '{"metadata":{"finalizers":null}}'
        cluster.kubectl("patch", "pytorchjob", "going", "--type=merge", "-p", release).ok()
        shown = read_rest(running)
    assert running.returncode == 0 and "[master-0] new\n" in shown, shown


def test_down_says_which_jobs_it_stops(make_cluster: Callable[..., Cluster], shared_folder: Path) -> None:
    cluster = make_cluster()
    cluster.up()
    busy = job("busy", replica(UNTIL_TOLD, shared_folder))
    cluster.trainshed("run", "-d", "-", stdin=as_list(busy, job("over", replica("exit 0")))).ok()
    cluster.until_condition("over", "Succeeded")
    with cluster.started("follow", "busy") as following:
        while "Running" not in read_line(following):
            pass
        asked = on_a_terminal(cluster, "down", types="n\n", rc=1)
        assert "jobs that have not finished: default/busy\r\nStop them? [y/N]: nothing was done\r\n" in asked
        assert cluster.trainshed("status").rc == 0
        stopped = cluster.trainshed("down")
        assert (
            stopped.rc == 0 and stopped.err == "jobs that have not finished: default/busy\ncluster stopped\n"
        )
        while "the cluster was stopped, and with it the job's pods" not in read_line(following):
            pass
        following.kill()
