"""An ordinary user of the machine, with no rights but an account: a job runs, volumes work, nothing is left.

The user is made for the test and removed after it, which takes root. The package is the installed one, copied to a
virtual environment of the user's, for a checkout of root's is nobody else's to read. Where that cannot be done the
tests are skipped with the reason; with CI=true they fail with it.

Left out: subordinate ids (needs newuidmap).
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import trainshed
from tests.e2e.cluster_fixture import Cluster, as_list, until
from tests.e2e.jobs import job, pod, replica

PACKAGE = "trainshed"


def cannot(reason: str) -> NoReturn:
    """Skip, or fail in CI: there the account has to be possible."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"cannot test as an ordinary user: {reason}")
    pytest.skip(f"cannot test as an ordinary user: {reason}")


def as_user(account: pwd.struct_passwd) -> tuple[str, ...]:
    """Return what goes before a command. setpriv itself still finds programs with the rights of root; env does not."""
    ids = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups")
    return ("setpriv", *ids, "--", "env")


class UsersCluster(Cluster):
    """A cluster whose every command is the user's."""

    def __init__(self, account: pwd.struct_passwd, python: Path) -> None:
        home = Path(account.pw_dir)
        super().__init__(home / ".local/state/trainshed", home, enter=as_user(account))
        self.account, self.python = account, python

    @property
    def environment(self) -> dict[str, str]:
        inherited = super().environment
        kept = {k: v for k, v in inherited.items() if k in ("LANG", "TERM", "COLUMNS", "KUBECONFIG")}
        return {**kept, "HOME": self.account.pw_dir, "USER": self.account.pw_name, "PATH": "/usr/bin:/bin"}

    def trainshed_command(self, *arguments: str) -> list[str]:
        return [*self.enter, str(self.python.with_name("trainshed")), *arguments]

    def python_says(self, code: str) -> str:
        """Return what the code prints, run by the user's interpreter."""
        return self._run([*self.enter, str(self.python), "-c", code], ("python",), None, 60).ok()


@pytest.fixture(scope="module")
def account() -> Iterator[pwd.struct_passwd]:
    """A new user without groups or rights, whose home others may not enter."""
    if os.geteuid() != 0:
        cannot("only root can make an account")
    for program in ("useradd", "userdel", "setpriv"):
        if shutil.which(program) is None:
            cannot(f"there is no {program}")
    root = Path(tempfile.mkdtemp(prefix="ts-"))
    root.chmod(0o711)
    name = f"ts{os.urandom(3).hex()}"
    home = root / "home"
    made = subprocess.run(
        ["useradd", "--create-home", "--home-dir", str(home), "--shell", "/bin/sh", name],
        capture_output=True,
        text=True,
    )
    try:
        if made.returncode != 0:
            cannot(f"useradd: {made.stderr.strip()}")
        home.chmod(0o700)
        yield pwd.getpwnam(name)
    finally:
        for pid in processes_of(pwd.getpwnam(name).pw_uid) if made.returncode == 0 else ():
            os.kill(pid, signal.SIGKILL)
        subprocess.run(["userdel", "--force", name], capture_output=True)
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def users_python(account: pwd.struct_passwd) -> Path:
    """The interpreter of a virtual environment of the user's that has the package and what it needs."""
    environment = Path(account.pw_dir) / "venv"
    base = interpreter_for(account)
    subprocess.run([base, "-m", "venv", "--without-pip", environment], check=True, timeout=60)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = environment / "lib" / version / "site-packages"
    for distribution in needed(PACKAGE).values():
        if distribution.name == PACKAGE:
            source = Path(trainshed.__file__).parent
            shutil.copytree(source, packages / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
            continue
        for file in distribution.files or ():
            target = packages / file
            if ".." not in file.parts and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(distribution.locate_file(file)), target)
    command = environment / "bin" / PACKAGE
    command.write_text(f"#!{environment}/bin/python\nfrom trainshed.cli.main import main\nmain()\n")
    command.chmod(0o755)
    subprocess.run(["chown", "-R", f"{account.pw_uid}:{account.pw_gid}", account.pw_dir], check=True)
    return environment / "bin" / "python"


def interpreter_for(account: pwd.struct_passwd) -> str:
    """Return an interpreter of this version that the account may run."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [str(Path(sys.executable).resolve())]
    candidates += [f"{folder}/python{version}" for folder in ("/usr/local/bin", "/usr/bin")]
    for candidate in candidates:
        found = subprocess.run(
            [*as_user(account), candidate, "-c", "import venv"],
            capture_output=True,
            cwd="/",
        )
        if found.returncode == 0:
            return candidate
    cannot(f"no Python {version} that other users may run, of {', '.join(candidates)}")


def needed(name: str) -> dict[str, importlib.metadata.Distribution]:
    """Return the distribution and all that it requires, without extras, by normalised name."""
    found: dict[str, importlib.metadata.Distribution] = {}

    def add(requirement: str) -> None:
        match = re.match(r"[A-Za-z0-9._-]+", requirement)
        key = re.sub(r"[-_.]+", "-", match[0] if match else "").lower()
        if key in found or "extra ==" in requirement:
            return
        try:
            found[key] = importlib.metadata.distribution(key)
        except importlib.metadata.PackageNotFoundError:
            return  # a marker said that this machine does not need it
        for each in found[key].requires or ():
            add(each)

    add(name)
    return found


@pytest.fixture
def users_cluster(
    account: pwd.struct_passwd, users_python: Path, request: pytest.FixtureRequest
) -> Iterator[UsersCluster]:
    """The user's cluster, not started; purged at the end."""
    cluster = UsersCluster(account, users_python)
    failed_before = request.session.testsfailed
    try:
        yield cluster
    finally:
        if request.session.testsfailed > failed_before:
            print(cluster.diagnostics())
        cluster.trainshed("down", "--purge", "--yes")


def processes_of(uid: int) -> dict[int, str]:
    """Return the user's living processes: pid → command line."""
    found = {}
    for directory in Path("/proc").iterdir():
        try:
            if not directory.name.isdigit() or directory.stat().st_uid != uid:
                continue
            state = (directory / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z":
                found[int(directory.name)] = (directory / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has ended
    return found


CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "models"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}

TRAIN = """
set -e
echo "I am $(id -u) in $HOME"
touch "$HOME/.cache" /opt/mine /tmp/mine /scratch/mine
echo weights > /usr/local/lib/deep/models/model.pt
mkdir -p /usr/local/lib/deep/models/shut/in /scratch/shut/in
chmod 0 /usr/local/lib/deep/models/shut/in /usr/local/lib/deep/models/shut /scratch/shut/in /scratch/shut
getent hosts train-master-0
# The job is over with its master: let the worker have run by then.
for i in $(seq 400); do getent hosts train-worker-0 && break; sleep 0.05; done
"""


def training() -> dict[str, Any]:
    """A job that writes wherever jobs write, at mount points below directories of root's."""
    spec = replica(TRAIN, workingDir="/no/such/place/before")
    pod = spec["template"]["spec"]
    pod["containers"][0]["volumeMounts"] = [
        {"name": "models", "mountPath": "/usr/local/lib/deep/models"},
        {"name": "scratch", "mountPath": "/scratch"},
    ]
    pod["volumes"] = [
        {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
        {"name": "scratch", "emptyDir": {}},
    ]
    return job("train", spec, replica("echo I am a worker; sleep 2"))


@functools.cache
def manifest() -> str:
    return as_list(CLAIM, training())


def test_a_job_from_run_to_purge(users_cluster: UsersCluster) -> None:
    cluster, uid = users_cluster, users_cluster.account.pw_uid
    assert cluster.python_says("import os; print(os.getuid(), os.getgroups())") == f"{uid} []\n"
    done = cluster.trainshed("run", "-", stdin=manifest())
    assert done.rc == 0, done
    assert "[master-0] I am 0 in /root" in done.out
    assert "[worker-0] I am a worker" in done.out
    model = re.search(r"checkpoint +(\S+/model\.pt)", done.out)
    assert model is not None, done
    assert Path(model[1]).read_text() == "weights\n"
    assert Path(model[1]).stat().st_uid == uid

    processes = processes_of(uid)
    assert {pid for pids in cluster.pids.values() for pid in pids} <= set(processes)
    assert "STATE" in cluster.kubectl("get", "pytorchjobs").ok()
    assert cluster.logs("train-worker-0") == ["I am a worker"]
    cluster.kubectl("exec", "-n", "kubeflow", "deploy/training-operator", "--", "true").ok()

    # Only its owner enters the state directory, and it is all theirs.
    assert stat.S_IMODE(cluster.home.stat().st_mode) == 0o700
    for directory, _, files in os.walk(cluster.home):
        for path in (directory, *(f"{directory}/{name}" for name in files)):
            assert os.lstat(path).st_uid == uid, path

    uids = [pod["metadata"]["uid"] for pod in cluster.pods().values()]
    cluster.kubectl("delete", "pytorchjob/train").ok()
    left = lambda: [u for u in uids if (cluster.home / "pods" / u).exists()]  # noqa: E731
    until(lambda: not left(), "the job's pods leave nothing, directories of mode 0 included")
    cluster.kubectl("delete", "pvc/models").ok()
    until(lambda: not any((cluster.home / "volumes").iterdir()), "the claim's directory is gone")


def test_down_up_and_purge(users_cluster: UsersCluster) -> None:
    cluster, uid = users_cluster, users_cluster.account.pw_uid
    assert cluster.trainshed("run", "-", stdin=manifest()).rc == 0
    cluster.trainshed("down").ok()
    assert processes_of(uid) == {}
    cluster.up()
    assert "Succeeded" in cluster.conditions("train")
    refused = cluster.trainshed("down", "--purge")
    refused.failed("--purge deletes provisioned volumes", "add --yes")
    cluster.trainshed("down", "--purge", "--yes").ok()
    assert not cluster.home.exists()
    assert processes_of(uid) == {}


def test_root_of_the_machine_stays_out_of_reach(users_cluster: UsersCluster) -> None:
    """A pod's root is the user: what only root may read stays unread, and what it changes is the pod's alone."""
    before = Path("/etc/passwd").read_bytes()
    script = "cat /etc/shadow; echo changed >> /etc/passwd; touch /usr/here && ls /usr/here; exit 0"
    done = users_cluster.trainshed("run", "-", stdin=as_list(job("train", replica(script))))
    assert done.rc == 0, done
    assert "cat: /etc/shadow: Permission denied" in done.out
    assert "[master-0] /usr/here" in done.out
    assert not Path("/usr/here").exists()
    assert Path("/etc/passwd").read_bytes() == before


def test_a_user_that_is_asked_for_has_that_number(users_cluster: UsersCluster) -> None:
    """Without subordinate ids every user stands for the caller, and still is called what the manifest says."""
    cluster = users_cluster
    cluster.up()
    who = pod("who", "id -u; id -g; touch /scratch/mine /tmp/mine && echo wrote")
    who["spec"]["securityContext"] = {"runAsUser": 1500, "runAsGroup": 1600, "runAsNonRoot": True}
    who["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    who["spec"]["containers"][0]["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    cluster.apply(who)
    cluster.until_phase("Succeeded", "who")
    assert cluster.logs("who") == ["1500", "1600", "wrote"]
    until(
        lambda: any("the process sees this id" in text for text in cluster.events("FieldNotHonoured", "who")),
        "an event tells of runAsUser",
    )
