"""Every kubectl there is, and an API server to point it at.

kubectl executables come from `KUBECTLS` (paths separated by colons) and from PATH: `kubectl`, `kubectl.1.27`,
`kubectl-1.27`, and versioned siblings of what a `kubectl` link points to. Without any, tests that need one fail.
Tests of every command take those in `KUBECTLS` only, where it is set: seven versions take minutes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

TIMEOUT_SECONDS = 30.0
_VERSIONED = re.compile(r"kubectl[.-]v?(\d+\.\d+)(?:\.\d+)?")


def _named() -> list[str]:
    return [path for path in os.environ.get("KUBECTLS", "").split(os.pathsep) if path]


def find_kubectls() -> dict[str, str]:
    """Return minor version (or `kubectl` when the name does not tell) → executable."""
    candidates = [Path(p) for p in _named()]
    plain = shutil.which("kubectl")
    folders = [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep) if p]
    if plain:
        folders.append(Path(plain).resolve().parent)
    for folder in folders:
        candidates += sorted(folder.glob("kubectl[.-]*"))
    found: dict[str, str] = {}
    for path in candidates:
        match = _VERSIONED.fullmatch(path.name)
        if match and os.access(path, os.X_OK):
            found.setdefault(match[1], str(path))
    if plain and not found:
        found["kubectl"] = plain
    return found


def versions_of_every_command(found: dict[str, str], named: Sequence[str]) -> list[str]:
    """Return the versions, oldest first, that every command is tested with: those named, or all where none is."""
    chosen = [version for version, path in found.items() if not named or path in named]
    return sorted(chosen, key=lambda v: [int(p) if p.isdigit() else 0 for p in v.split(".")])


KUBECTLS = find_kubectls()
MISSING = (
    "no kubectl found: install one (https://kubernetes.io/docs/tasks/tools/), or name executables in KUBECTLS,"
    " separated by colons"
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kubectl_executable" in metafunc.fixturenames:
        versions = versions_of_every_command(KUBECTLS, _named())
        metafunc.parametrize(
            "kubectl_executable",
            [KUBECTLS[v] for v in versions] or [""],
            ids=versions or ["none"],
            scope="session",
        )


class Result:
    """What a kubectl command came to."""

    def __init__(self, arguments: list[str], rc: int, out: str, err: str) -> None:
        self.arguments, self.rc, self.out, self.err = arguments, rc, out, err

    def __repr__(self) -> str:
        command = " ".join(self.arguments)
        return f"$ kubectl {command}\n[exit {self.rc}]\n{self.out}{self.err}"

    def ok(self) -> str:
        """Return stdout; the command must have succeeded."""
        assert self.rc == 0, repr(self)
        return self.out

    def failed(self, *texts: str) -> str:
        """Return stderr; the command must have failed with exit code 1, saying all of `texts`."""
        assert self.rc == 1, repr(self)
        for text in texts:
            assert text in self.err, f"{text!r} is not in the message of\n{self!r}"
        return self.err


class Kubectl:
    """One kubectl with its own discovery cache, bound to a namespace of the test."""

    def __init__(self, path: str, kubeconfig: Path, cache: Path, namespace: str) -> None:
        self.path, self.kubeconfig, self.cache, self.namespace = path, kubeconfig, cache, namespace

    @property
    def minor(self) -> int:
        match = _VERSIONED.fullmatch(Path(self.path).name)
        return int(match[1].split(".")[1]) if match else 99

    def command(self, *arguments: str, namespace: bool = True) -> list[str]:
        scope = ["-n", self.namespace] if namespace else []
        return [self.path, "--cache-dir", str(self.cache), *scope, *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.cache),
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(self.kubeconfig),
            "TERM": "dumb",
        }

    def __call__(
        self,
        *arguments: str,
        stdin: str | None = None,
        namespace: bool = True,
        environment: dict[str, str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Result:
        done = subprocess.run(
            self.command(*arguments, namespace=namespace),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            env={**self.environment, **(environment or {})},
            timeout=timeout,
        )
        return Result(list(arguments), done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command that runs until it is killed; stdout is line by line."""
        return subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=self.environment,
        )

    def apply(self, document: Any) -> None:
        """Create an object, given as a dict, for a test to work with."""
        self("create", "-f", "-", stdin=json.dumps(document)).ok()

    def get(self, *what: str) -> Any:
        """Return an object as decoded JSON."""
        return json.loads(self("get", *what, "-o", "json").ok())


class Api:
    """The same server by plain HTTPS, as curl would see it."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        import base64

        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.server: str = cluster["server"]
        self.token: str = user["token"]
        self._context = ssl.create_default_context(cadata=ca)

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        token: str | None = None,
        content_type: str | None = "application/json",
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers (lower case) and body. An empty `token` sends none."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data=data, method=method)
        token = self.token if token is None else token
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        if data is not None:
            # urllib would add a form's type; an empty one stands for a client that sends none.
            request.add_header("Content-Type", content_type or "")
        for key, value in (headers or {}).items():
            request.add_header(key, value)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=self._context) as reply:
                return reply.status, _lower(reply.headers), reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _lower(error.headers), error.read()

    def json(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Return the decoded body of a request that must succeed."""
        status, _, data = self(method, path, body, **options)
        assert status < 300, (method, path, status, data)
        return json.loads(data)


def _lower(headers: Any) -> dict[str, str]:
    return {key.lower(): value for key, value in headers.items()}


@pytest.fixture(scope="session")
def api_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state directory of an API server that runs for the whole session."""
    home = tmp_path_factory.mktemp("cluster")
    home.chmod(0o700)
    script = Path(__file__).with_name("api_process.py")
    with (home / "server.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(script), str(home)], stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == "ready\n", (home / "server.log").read_text()
    yield home
    process.terminate()
    process.wait(10)
    process.stdout.close()


@pytest.fixture(scope="session")
def api(api_home: Path) -> Api:
    return Api(api_home / "kubeconfig")


@pytest.fixture(scope="session")
def kubectl_cache(kubectl_executable: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


_counter = 0


@pytest.fixture
def kubectl(
    kubectl_executable: str, kubectl_cache: Path, api_home: Path, api: Api, request: pytest.FixtureRequest
) -> Iterator[Kubectl]:
    """A kubectl in a namespace of its own, which is deleted afterwards."""
    if not kubectl_executable:
        pytest.fail(MISSING)
    global _counter
    _counter += 1
    namespace = f"t{_counter}"
    api.json("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    yield Kubectl(kubectl_executable, api_home / "kubeconfig", kubectl_cache, namespace)
    api("DELETE", f"/api/v1/namespaces/{namespace}")


def eventually(check: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    """Return when `check` holds; fail after `seconds` saying `what` did not happen."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"after {seconds} s still not: {what}"
        time.sleep(0.05)
