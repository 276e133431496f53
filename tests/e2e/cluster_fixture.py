"""A whole cluster, started the way a user starts it: the `trainshed` command in a state directory of its own.

The fixture `cluster` is one cluster for all tests, in a fresh namespace per test; `make_cluster` makes more. Whatever
a test did to it, the next test finds it up, and it is purged at the end. When a test fails, what the cluster looks
like is printed with it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.e2e.conftest import KUBECTLS, MISSING, Api, Result
from tests.processes import is_running, processes_with
from trainshed.testing import until
from trainshed.testing.homes import namespace_for, temporary_home
from trainshed.testing.waiting import WAIT_SECONDS

COMMAND_SECONDS = 60.0
KEPT_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "kubeflow")


def kubectl_path(which: int = -1) -> str:
    """Return an executable: the newest, or with 0 the oldest."""
    if not KUBECTLS:
        pytest.fail(MISSING)
    return KUBECTLS[
        sorted(KUBECTLS, key=lambda v: [int(part) for part in v.split(".") if part.isdigit()])[which]
    ]


class Cluster:
    """One state directory and the commands that work on it. `enter` runs before each, e.g. `nsenter …`."""

    def __init__(self, home: Path, scratch: Path, *, enter: Sequence[str] = ()) -> None:
        self.home, self.scratch, self.enter = home, scratch, tuple(enter)
        self.namespace = "default"
        self.kubectl_path = kubectl_path()

    @property
    def kubeconfig(self) -> Path:
        return self.home / "kubeconfig"

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "PYTHONPATH", "TMPDIR")}
        return {
            **kept,
            "HOME": str(self.scratch),
            "TRAINSHED_HOME": str(self.home),
            "KUBECONFIG": str(self.kubeconfig),
            "TERM": "dumb",
            "COLUMNS": "200",
        }

    def trainshed_command(self, *arguments: str) -> list[str]:
        return [*self.enter, str(Path(sys.executable).with_name("trainshed")), *arguments]

    def trainshed(self, *arguments: str, stdin: str = "", timeout: float = COMMAND_SECONDS) -> Result:
        """Run the command line to its end."""
        return self._run(self.trainshed_command(*arguments), arguments, stdin, timeout)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command that goes on, killed at the end; stdout and stderr are one stream, line by line."""
        with subprocess.Popen(
            self.trainshed_command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            env=self.environment,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def kubectl(
        self, *arguments: str, stdin: str | None = None, timeout: float = COMMAND_SECONDS, path: str = ""
    ) -> Result:
        """Run kubectl in the test's namespace; `-n` or `-A` among the arguments wins."""
        scope = [] if {"-n", "-A"} & set(arguments) else ["-n", self.namespace]
        cache = ["--cache-dir", str(self.scratch / "cache")]
        command = [*self.enter, path or self.kubectl_path, *cache, *scope, *arguments]
        return self._run(command, arguments, stdin, timeout)

    def _run(self, command: list[str], arguments: Sequence[str], stdin: str | None, timeout: float) -> Result:
        done = subprocess.run(
            command, input=stdin or "", capture_output=True, text=True, env=self.environment, timeout=timeout
        )
        return Result(list(arguments), done.returncode, done.stdout, done.stderr)

    @property
    def api(self) -> Api:
        return Api(self.kubeconfig)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects with kubectl; they must be accepted."""
        self.kubectl("apply", "-f", "-", stdin=as_list(*objects)).ok()

    def get(self, what: str, name: str = "", namespace: str = "") -> Any:
        """Return an object, None when there is none, or the items of a list. By plain HTTPS: cheap to repeat."""
        groups = {"pytorchjobs": "kubeflow.org/v1", "jobs": "batch/v1", "taskruns": "tekton.dev/v1"}
        group = f"/apis/{groups[what]}" if what in groups else "/api/v1"
        path = f"{group}/namespaces/{namespace or self.namespace}/{what}" + (f"/{name}" if name else "")
        status, _, body = self.api("GET", path)
        if status == 404:
            return None
        assert status == 200, (path, status, body)
        document = json.loads(body)
        return document if name else document["items"]

    def pods(self, job: str = "") -> dict[str, Any]:
        """Return the pods of the namespace, or of a job, by name."""
        found = self.get("pods")
        key = "training.kubeflow.org/job-name"
        return {
            p["metadata"]["name"]: p
            for p in found
            if not job or (p["metadata"].get("labels") or {}).get(key) == job
        }

    def until_phase(self, phase: str, *pods: str, seconds: float = WAIT_SECONDS) -> None:
        """Wait until every pod is in the phase."""

        def reached() -> bool:
            found = self.pods()
            return all(found.get(pod, {}).get("status", {}).get("phase") == phase for pod in pods)

        until(reached, f"pods {', '.join(pods)} {phase}", seconds)

    def until_condition(self, job: str, condition: str, *, seconds: float = WAIT_SECONDS) -> None:
        """Wait, with `kubectl wait`, until the job's condition is True."""
        timeout = f"--timeout={seconds:.0f}s"
        self.kubectl(
            "wait", f"--for=condition={condition}", f"pytorchjob/{job}", timeout, timeout=seconds + 10
        ).ok()

    def conditions(self, job: str) -> dict[str, Any]:
        """Return the job's conditions by type; empty while it has none or is gone."""
        found = self.get("pytorchjobs", job) or {}
        return {c["type"]: c for c in found.get("status", {}).get("conditions", ())}

    def logs(self, pod: str) -> list[str]:
        return self.kubectl("logs", pod).ok().splitlines()

    def events(self, reason: str = "", name: str = "") -> list[str]:
        """Return `reason: message` of the namespace's events."""
        return [
            f"{e['reason']}: {e.get('message', '')}"
            for e in self.get("events")
            if reason in ("", e["reason"]) and name in ("", e["involvedObject"].get("name"))
        ]

    @property
    def is_up(self) -> bool:
        """Return whether its control plane lives; quicker than `trainshed status`."""
        try:
            return is_running(json.loads((self.home / "controlplane.json").read_bytes())["pid"])
        except FileNotFoundError:
            return False

    def until_alone(self) -> None:
        """Wait until the namespaces of earlier tests are gone."""

        def alone() -> bool:
            found = self.api.json("GET", "/api/v1/namespaces")["items"]
            return {n["metadata"]["name"] for n in found} <= {*KEPT_NAMESPACES, self.namespace}

        until(alone, "the namespaces of earlier tests are gone")

    @property
    def facts(self) -> Any:
        """Return what `trainshed status -o json` says."""
        return json.loads(self.trainshed("status", "-o", "json").out)

    @property
    def pids(self) -> dict[str, list[int]]:
        """Return the cluster's own processes by role, as `trainshed status` lists them."""
        found: dict[str, list[int]] = {}
        for process in self.facts["processes"]:
            found.setdefault(process["role"], []).append(process["pid"])
        return found

    def kill_control_plane(self) -> None:
        """`kill -9` it, and wait until it is gone."""
        pid = self.facts["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_running(pid), f"process {pid} ended")

    def up(self) -> Result:
        done = self.trainshed("up")
        done.ok()
        return done

    def until_operator(self) -> None:
        """Wait until the operator's pod runs."""

        def running() -> bool:
            return any(p["status"].get("phase") == "Running" for p in self.get("pods", namespace="kubeflow"))

        until(running, "the operator's pod Running in namespace kubeflow")

    def purge(self) -> None:
        """Stop the cluster and forget it, whatever state it is in."""
        if not self.home.exists() and not self.enter:
            return
        done = self.trainshed("down", "--purge", "--yes")
        left = processes_with(str(self.home))
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        done.ok()
        assert not left, f"`trainshed down --purge` left processes behind: {left}"

    def diagnostics(self) -> str:
        """Return pods, events, jobs and the ends of the logs, as text."""
        parts = [self.trainshed("status")]
        for line in (
            "get pods -A -o wide",
            "get pytorchjobs -A -o yaml",
            "get events -A --sort-by=.metadata.resourceVersion",
            "describe pods",
            "logs -n kubeflow -l control-plane=kubeflow-training-operator --tail=40",
        ):
            try:
                parts.append(self.kubectl(*line.split(), timeout=15))
            except subprocess.TimeoutExpired:
                parts.append(Result(line.split(), -1, "", "no answer in 15 s\n"))
        if self.trainshed("status").rc == 0:
            parts += [self.kubectl("logs", pod, "--tail=20", "--all-containers") for pod in self.pods()]
        text = [repr(part)[-6000:] for part in parts]
        for log in sorted((self.home / "log").glob("*.log")) if (self.home / "log").is_dir() else ():
            text.append(f"--- {log.name}\n" + log.read_text(errors="replace")[-4000:])
        return "\n".join(text)


def as_list(*objects: dict[str, Any]) -> str:
    """Return the objects as one manifest."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def read_line(process: subprocess.Popen[str], seconds: float = WAIT_SECONDS) -> str:
    """Return the next line of its output; fail when there is none within the time, or it has ended."""
    line = _killed_after(seconds, process, lambda stdout: stdout.readline())
    assert line, f"{process.args} said nothing more; it ended, or {seconds:.0f} s are over"
    return line


def read_rest(process: subprocess.Popen[str], seconds: float = WAIT_SECONDS) -> str:
    """Return the output up to its end and leave its exit code; it is killed when the time is over."""
    rest = _killed_after(seconds, process, lambda stdout: stdout.read())
    process.wait()
    return rest


def _killed_after(seconds: float, process: subprocess.Popen[str], read: Callable[[IO[str]], str]) -> str:
    assert process.stdout is not None
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        return read(process.stdout)
    finally:
        timer.cancel()


@pytest.fixture
def make_cluster(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """Make clusters for one test, not started; all are purged afterwards."""
    made: list[Cluster] = []
    failed_before = request.session.testsfailed
    with ExitStack() as purging:

        def make(**options: Any) -> Cluster:
            home = purging.enter_context(temporary_home())
            made.append(Cluster(options.pop("home", None) or home, home.parent, **options))
            return made[-1]

        yield make
        for cluster in made:
            if request.session.testsfailed > failed_before:
                print(cluster.diagnostics())
            cluster.purge()


@pytest.fixture(scope="session")
def session_cluster(trainshed_home: Path) -> Iterator[Cluster]:
    cluster = Cluster(trainshed_home, trainshed_home.parent)
    yield cluster
    cluster.purge()


@pytest.fixture
def cluster(session_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The tests' cluster, up, with the operator running, in a namespace of the test's own."""
    cluster = session_cluster
    failed_before = request.session.testsfailed
    try:
        if not cluster.is_up:
            cluster.up()
        cluster.until_operator()
        cluster.namespace = namespace_for(request.node.name)
        cluster.kubectl("create", "namespace", cluster.namespace).ok()
        yield cluster
    except BaseException:
        print(cluster.diagnostics())
        raise
    if request.session.testsfailed > failed_before:
        print(cluster.diagnostics())
    if cluster.is_up:
        cluster.api("DELETE", f"/api/v1/namespaces/{cluster.namespace}")


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A directory of the host that pods mount at /out, to tell the test what they do, and to be told."""
    folder = Path(tempfile.mkdtemp(prefix="ts-out-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
