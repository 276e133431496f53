"""kubeconfig as kubectl reads it: merging, relative paths, contexts, credentials, and errors that help."""

from __future__ import annotations

import base64
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainshed.client import config
from trainshed.client.config import ConfigError
from trainshed.client.credentials import ExecPlugin, parse_exec_credential
from trainshed.client.transport import TransportError


def write(path: Path, **document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def make_kubeconfig(path: Path, **changes: Any) -> Path:
    document: dict[str, Any] = {
        "clusters": [{"name": "c", "cluster": {"server": "https://example:6443"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "ctx", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "current-context": "ctx",
    }
    return write(path, **{**document, **changes})


def test_plain_token(tmp_path: Path) -> None:
    found = config.load_kubeconfig(make_kubeconfig(tmp_path / "config"))
    assert (found.server, found.namespace, found.token, found.context) == (
        "https://example:6443",
        "team",
        "secret",
        "ctx",
    )


def test_data_beats_files_and_files_are_relative_to_their_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "ca.pem").write_text("FILE CA")
    (tmp_path / "a" / "key.pem").write_text("FILE KEY")
    path = make_kubeconfig(
        tmp_path / "a" / "config",
        clusters=[{"name": "c", "cluster": {"server": "https://x", "certificate-authority": "ca.pem"}}],
        users=[
            {
                "name": "u",
                "user": {
                    "client-certificate-data": base64.b64encode(b"DATA CERT").decode(),
                    "client-certificate": "missing.pem",
                    "client-key": "key.pem",
                    "tokenFile": "token",
                },
            }
        ],
    )
    found = config.load_kubeconfig(path)
    assert (found.ca, found.client_cert, found.client_key) == ("FILE CA", "DATA CERT", "FILE KEY")
    assert found.token_file == str(tmp_path / "a" / "token")


def test_several_files_the_first_definition_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(
        tmp_path / "1",
        clusters=[{"name": "c", "cluster": {"server": "https://first"}}],
        contexts=[{"name": "one", "context": {"cluster": "c"}}],
    )
    second = make_kubeconfig(tmp_path / "2")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}:{first}:{second}")
    assert config.load_kubeconfig().server == "https://first", "the cluster of the first file"
    assert config.load_kubeconfig().token == "secret", "the user of the second"
    one = config.load_kubeconfig(context="one")
    assert (one.server, one.namespace, one.token) == ("https://first", "default", None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"current-context": ""}, "no current-context"),
        ({"current-context": "other"}, "no context 'other'; it has: ctx"),
        ({"clusters": []}, "names the cluster 'c', which is not defined"),
        ({"users": []}, "names the user 'u', which is not defined"),
        ({"users": [{"name": "u", "user": {"auth-provider": {"name": "oidc"}}}]}, "kubelogin"),
        ({"users": [{"name": "u", "user": {"client-key": "nowhere"}}]}, "kubeconfig client-key: .*nowhere"),
        ({"clusters": [{"cluster": {}}]}, "cannot read kubeconfig"),
    ],
)
def test_errors_name_what_is_wrong(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.load_kubeconfig(make_kubeconfig(tmp_path / "config", **changes))


def test_proxies_of_the_environment_are_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert config.environment_proxy("https://outside.example:6443") == "http://proxy:3128"
    assert config.environment_proxy("http://outside.example") is None
    for direct in (
        "https://127.0.0.1:6443",
        "https://[::1]:1",
        "https://localhost:1",
        "https://a.inside.example",
    ):
        assert config.environment_proxy(direct) is None, direct


def test_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        config.load_kubeconfig(tmp_path / "nope")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nope"))
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*nope"):
        config.load_kubeconfig()


def test_in_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="not in a pod"):
        config.in_cluster(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ConfigError, match="no service account token"):
        config.in_cluster(tmp_path)
    for name, text in (("token", "t"), ("ca.crt", "CA"), ("namespace", "kubeflow\n")):
        (tmp_path / name).write_text(text)
    found = config.in_cluster(tmp_path)
    assert (found.server, found.ca, found.namespace) == ("https://[fd00::1]:443", "CA", "kubeflow")
    assert found.token_file == str(tmp_path / "token"), "by file, so that rotation is followed"


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!{sys.executable}\n" + textwrap.dedent(body))
    path.chmod(0o755)
    return path


def test_in_a_pod_of_plain_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is mounted there: a variable says where the account's files are."""
    for name, text in (("token", "secret"), ("ca.crt", "PEM"), ("namespace", "team")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv(config.MOUNTS, f'{{"{config.SERVICE_ACCOUNT}": "{tmp_path}"}}')
    found = config.in_cluster()
    assert (found.namespace, found.ca, found.token_file) == ("team", "PEM", str(tmp_path / "token"))
    monkeypatch.setenv(config.MOUNTS, "no JSON")
    with pytest.raises(config.ConfigError):
        config.in_cluster()


async def test_exec_plugin_is_asked_once_until_it_expires(tmp_path: Path) -> None:
    count = tmp_path / "count"
    command = script(
        tmp_path / "plugin",
        f"""
        import json, os, pathlib, sys
        info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        assert info["kind"] == "ExecCredential" and info["apiVersion"] == "client.authentication.k8s.io/v1"
        count = pathlib.Path({str(count)!r})
        number = int(count.read_text()) + 1 if count.exists() else 1
        count.write_text(str(number))
        expiry = "2000-01-01T00:00:00Z" if number == 2 else "2999-01-01T00:00:00Z"
        token = sys.argv[1] + os.environ["MORE"] + str(number)
        print(json.dumps({{"kind": "ExecCredential", "status": {{"token": token, "expirationTimestamp": expiry}}}}))
        """,
    )
    plugin = ExecPlugin(str(command), ["a"], {"MORE": "b"})
    assert await plugin.authorization() == "Bearer ab1"
    assert await plugin.authorization() == "Bearer ab1"
    assert await plugin.renew(), "the server refused the token: another one, whatever its expiry"
    assert await plugin.authorization() == "Bearer ab3", "the second had expired"


async def test_exec_plugin_failures_say_why(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=r"(?s)cannot run .*install it from"):
        await ExecPlugin("no-such-plugin", install_hint="install it from example.org").authorization()
    failing = script(tmp_path / "failing", "import sys; sys.exit('please log in')")
    with pytest.raises(TransportError, match="exited with 1: please log in"):
        await ExecPlugin(str(failing)).authorization()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (b"oops", "no ExecCredential"),
        (b"{}", "no ExecCredential"),
        (b'{"status": {"clientCertificateData": "x"}}', "client certificates are not supported"),
        (b'{"status": {"token": "t", "expirationTimestamp": "soon"}}', "no ExecCredential"),
    ],
)
def test_unusable_exec_credentials(output: bytes, message: str) -> None:
    with pytest.raises(TransportError, match=message):
        parse_exec_credential(output, "plugin")


def test_a_kubeconfig_that_is_no_yaml_is_said_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("a: [b\nc: d: e\n")
    with pytest.raises(ConfigError) as refused:
        config.load_kubeconfig(str(file))
    assert str(refused.value).startswith(f"{file}:2: not YAML: ") and "\n" not in str(refused.value)
