"""The Python API on a running cluster: the same tests for its blocking face, for that inside a running event loop
(as in a notebook), and for its asynchronous face.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster_fixture import Cluster, read_line, read_rest, until
from tests.e2e.jobs import UNTIL_TOLD, job, replica
from trainshed import ApiError, AsyncCluster, JobFailed, UserError
from trainshed import Cluster as BlockingCluster

TALKS = "echo 'Train Epoch: 1 [50/100 (50%)] loss=0.5'; echo hello from $(hostname); echo accuracy=0.75"
TELLS = f"{TALKS}; touch /out/$(hostname)"
LISTENS = f"until [ -e /out/train-worker-0 ] && [ -e /out/train-worker-1 ]; do sleep 0.05; done; {TALKS}"
"""A master that ends after its workers have said everything: its end is the job's."""
FAILS = "echo all is lost; exit 7"


class Blocking:
    """Calls return their results."""

    make: type = BlockingCluster

    def __call__(self, result: Any) -> Any:
        return list(result) if inspect.isgenerator(result) else result

    def close(self) -> None:
        pass


class Asynchronous:
    """Calls return what has to be awaited, or iterated."""

    make: type = AsyncCluster

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def __call__(self, result: Any) -> Any:
        if inspect.isasyncgen(result):

            async def collect() -> list[Any]:
                return [item async for item in result]

            return self.runner.run(collect())

        async def wait() -> Any:
            return await result

        return self.runner.run(wait())

    def close(self) -> None:
        self.runner.close()


@pytest.fixture(params=[Blocking, Asynchronous])
def do(request: pytest.FixtureRequest) -> Iterator[Any]:
    """What turns a call into its result; `do.make` is the class of clusters."""
    face = request.param()
    yield face
    face.close()


@pytest.fixture
def api(do: Any, cluster: Cluster) -> Iterator[Any]:
    """The tests' cluster through the Python API, in the test's namespace."""
    opened = do.make(home=str(cluster.home), namespace=cluster.namespace)
    yield opened
    do(opened.close())


def test_a_job_from_beginning_to_end(do: Any, api: Any, cluster: Cluster, shared_folder: Path) -> None:
    lines: list[str] = []
    notices: list[str] = []
    done = do(
        api.run(
            job(
                "train",
                replica(LISTENS, shared_folder),
                replica(TELLS, shared_folder, replicas=2),
                cleanPodPolicy="None",
            ),
            timeout=60,
            on_line=lambda line: lines.append(str(line)),
            on_notice=lambda notice: notices.append(str(notice)),
        )
    )
    assert (done.name, done.namespace, done.kind, done.state) == (
        *("train", cluster.namespace, "PyTorchJob", "Succeeded"),
    )
    assert done.is_finished
    assert {f"[worker-{i}] hello from train-worker-{i}" for i in (0, 1)} <= set(lines)
    assert any(notice.startswith("» Running: ") for notice in notices), notices
    assert [r.name for r in done.replicas] == ["master-0", "worker-0", "worker-1"]
    assert done.replicas[0].state == "Succeeded"
    assert [(c.type, c.holds) for c in done.conditions] == [
        *(("Created", True), ("Running", False), ("Succeeded", True)),
    ]
    assert repr(done).endswith(f"PyTorchJob {cluster.namespace}/train: Succeeded>")

    found = do(api.job("train"))
    assert [str(line) for line in do(found.logs("worker-1", tail=2))] == [
        "[worker-1] hello from train-worker-1",
        "[worker-1] accuracy=0.75",
    ]
    assert [line.replica for line in do(found.logs(tail=1))] == ["master-0", "worker-0", "worker-1"]
    progress = do(found.progress())
    assert (progress.part, progress.losses, progress.accuracy) == (0.5, (0.5,), 0.75)
    assert progress.fraction is None, "nobody says how many epochs there are"
    result = do(found.result())
    assert result.accuracy == 0.75 and result.seconds is not None
    until(
        lambda: "SuccessfulCreatePod" in {event.reason for event in do(found.events())},
        "the events of the pods, which are sent beside all else",
    )
    html = found._repr_html_()
    assert "Succeeded" in html and "worker-1" in html
    assert [each.name for each in do(api.jobs())] == ["train"]
    assert "train" in [each.name for each in do(api.jobs(all_namespaces=True)) if each.state == "Succeeded"]
    assert do(api.jobs("default")) == []

    do(found.delete())
    assert found.state == "Gone"
    assert cluster.get("pytorchjobs", "train") is None and cluster.pods("train") == {}
    with pytest.raises(ApiError, match="not found"):
        do(found.refresh())


def test_a_failed_job_raises_with_who_was_first_and_its_last_lines(do: Any, api: Any) -> None:
    with pytest.raises(JobFailed) as caught:
        do(api.run(job("train", replica("sleep 100"), replica(FAILS)), timeout=60))
    failure = caught.value.failure
    assert (failure.replica, failure.exit_code, failure.tail) == ("worker-0", 7, ("all is lost",))
    assert "worker-0 failed first: Error, exit code 7" in str(caught.value)
    assert do(do(api.job("train")).wait(20, check=False)).state == "Failed"
    with pytest.raises(UserError, match="has not succeeded but is Failed"):
        do(do(api.job("train")).result())


def test_a_job_is_suspended_and_resumed(do: Any, api: Any, cluster: Cluster, shared_folder: Path) -> None:
    running = do(api.run(job("train", replica(UNTIL_TOLD, shared_folder)), wait=False))
    cluster.until_condition("train", "Running")
    with pytest.raises(TimeoutError, match=r"is not finished after 0\.2 s; it goes on"):
        do(running.wait(0.2))
    do(running.suspend())
    cluster.until_condition("train", "Suspended")
    assert do(running.refresh()).state == "Suspended"
    until(lambda: not cluster.pods("train"), "the pods of the suspended job gone")
    do(running.resume())
    cluster.until_condition("train", "Running")
    (shared_folder / "finish").touch()
    assert do(running.wait(60)).state == "Succeeded"


def test_following_the_log_ends_with_the_job(do: Any, api: Any, shared_folder: Path) -> None:
    script = "for i in 1 2 3; do echo line $i; sleep 0.2; done; touch /out/finish"
    # A master that is through before a worker has found it leaves the worker waiting.
    spec = job("train", replica(UNTIL_TOLD, shared_folder), replica(script, shared_folder))
    running = do(api.run(spec, wait=False))
    lines = do(running.logs("worker-0", follow=True))
    assert [str(line) for line in lines] == [f"[worker-0] line {i}" for i in (1, 2, 3)]
    assert running.state == "Succeeded"


def test_a_finished_job_trains_again_and_what_is_refused_changes_nothing(do: Any, api: Any) -> None:
    manifest = job("train", replica("true"))
    first = do(api.run(manifest, timeout=60)).manifest["metadata"]["uid"]
    wrong = job("train", replica("true"))
    wrong["spec"]["nosuch"] = 1
    with pytest.raises(ApiError, match="nosuch"):
        do(api.run(wrong))
    assert do(api.job("train")).manifest["metadata"]["uid"] == first
    assert do(api.run(manifest, timeout=60)).manifest["metadata"]["uid"] != first


def test_apply_and_check(do: Any, api: Any, tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    verdicts = do(api.check([text, {"apiVersion": "v1", "kind": "Nosuch", "metadata": {"name": "x"}}]))
    assert [(v.name, v.accepted) for v in verdicts] == [("settings", True), ("x", False)]
    assert 'no matches for kind "Nosuch"' in verdicts[1].refusal.message
    limited = job("train", replica("true", securityContext={"appArmorProfile": {"type": "RuntimeDefault"}}))
    (verdict,) = do(api.check(limited))
    assert verdict.accepted and "securityContext.appArmorProfile" in verdict.not_honoured[0].path
    assert [each.change for each in do(api.apply(text))] == ["created"]
    assert [(each.name, each.change) for each in do(api.apply(file))] == [("configmap/settings", "unchanged")]
    assert [each.change for each in do(api.apply(text.replace("a: b", "a: c")))] == ["configured"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda api: api.job("nosuch"), 'no job "nosuch"'),
        (lambda api: api.job("x", kind="nosuch"), 'no job kind "nosuch"'),
        (
            lambda api: api.run([job("a", replica("true")), job("b", replica("true"))]),
            "there are 2 training jobs",
        ),
        (lambda api: api.run("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n"), "no training job"),
    ],
)
def test_what_is_wrong(do: Any, api: Any, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        do(call(api))


def test_a_replica_that_is_not_there(do: Any, api: Any) -> None:
    done = do(api.run(job("train", replica("true")), timeout=60))
    with pytest.raises(UserError, match="has no replica 'worker-0'") as caught:
        do(done.logs("worker-0"))
    assert caught.value.hint == "it has: master-0"


def test_the_cluster_itself(do: Any, make_cluster: Callable[..., Cluster]) -> None:
    home = make_cluster().home
    local = do.make(home=str(home))
    assert not do(local.status()).running
    with pytest.raises(UserError, match="there is no local cluster"):
        do(local.jobs())
    found = do(local.up(nodes=2))
    assert found.running and found.state == str(home) and found.rss_bytes > 0
    assert do(local.up()).pid == found.pid, "a cluster that runs is left alone"
    assert do(local.jobs(all_namespaces=True)) == []

    elsewhere = do.make(kubeconfig=str(home / "kubeconfig"))
    assert do(elsewhere.status()).running
    with pytest.raises(UserError, match="up is for the local cluster"):
        do(elsewhere.up())

    do(local.down())
    assert not do(local.status()).running and home.is_dir()
    assert not do(elsewhere.status()).running
    do(elsewhere.close())
    do(local.down(purge=True))
    assert not home.exists()


def test_inside_a_running_event_loop(cluster: Cluster) -> None:
    """As in a notebook, whose cells run in the loop of its kernel."""

    async def cell() -> None:
        with BlockingCluster(home=str(cluster.home), namespace=cluster.namespace) as local:
            lines: list[str] = []
            done = local.run(
                job("train", replica(TALKS)), timeout=60, on_line=lambda line: lines.append(line.text)
            )
            assert done.state == "Succeeded" and "hello from train-master-0" in lines
            assert "hello from train-master-0" in done._repr_html_()

    asyncio.run(cell())


def test_a_script_that_is_interrupted_or_ends_leaves_no_warning(cluster: Cluster) -> None:
    """A connection that nobody closed is closed at the end of the process; Ctrl-C ends the wait, not the job."""
    script = f"""
        import trainshed
        job = trainshed.run({job("train", replica("echo started; sleep 1000"))!r}, namespace={cluster.namespace!r},
                            on_line=lambda line: print(line, flush=True))
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    with subprocess.Popen(
        command,
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
    ) as process:
        assert read_line(process) == "[master-0] started\n"
        process.send_signal(signal.SIGINT)
        said = read_rest(process)
    assert said.rstrip().endswith("KeyboardInterrupt"), said
    assert "Unclosed" not in said and "never" not in said, said
    assert cluster.pods("train")["train-master-0"]["status"]["phase"] == "Running"
