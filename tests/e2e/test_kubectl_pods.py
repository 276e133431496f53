"""Pods as every kubectl shows and handles them, on a real cluster: the oldest and the newest.

Rows 016-029, 037-042, 079-105, 111, 112, 120, 121, 127 of the conformance list. Left out: what needs no node
(test_kubectl_api_*), transports of streams one by one (test_streams_kubectl), workloads (test_kubectl_workloads).
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.e2e.cluster_fixture import Cluster, as_list, read_line, read_rest, until
from tests.e2e.pods import WAITS, container, make_pod, rows

pytestmark = pytest.mark.timeout(120)

WEB = make_pod("web", f"seq -f 'main %g' 5; {WAITS}", f"echo side >&2; {WAITS}")
DONE = make_pod("done", "echo finished")


@contextmanager
def started(kube: Cluster, *arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a kubectl that goes on, killed at the end; stdout is line by line."""
    command = [
        kube.kubectl_path,
        "--cache-dir",
        str(kube.scratch / "cache"),
        "-n",
        kube.namespace,
        *arguments,
    ]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        command, text=True, bufsize=1, env=kube.environment, **{**pipes, **options}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ready(kube: Cluster, *pods: str) -> None:
    kube.kubectl("wait", "--for=condition=Ready", "--timeout=30s", *(f"pod/{p}" for p in pods)).ok()


def status_of(kube: Cluster, pod: str) -> str:
    return rows(kube.kubectl("get", "pod", pod).ok())[1][2]


def test_a_memory_limit(kube: Cluster) -> None:
    script = "python3 -c 'import time; held = bytearray(150 << 20); time.sleep(60)'"
    hog = make_pod("hog", script)
    hog["spec"]["containers"][0]["resources"] = {"limits": {"memory": "100Mi"}}
    kube.apply(hog)
    kube.kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "--timeout=30s", "pod/hog").ok()
    assert status_of(kube, "hog") == "OOMKilled"
    ended = kube.get("pods", "hog", kube.namespace)["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    until(
        lambda: "its memory limit is 100Mi" in kube.kubectl("describe", "pod", "hog").ok(),
        "the event of the limit",
    )


def test_get(kube: Cluster, tmp_path: Path) -> None:
    manifest = tmp_path / "web.json"
    manifest.write_text(json.dumps(WEB))
    assert kube.kubectl("create", "-f", str(manifest)).ok() == "pod/web created\n"
    kube.apply(DONE)
    kube.kubectl("create", "-f", str(manifest)).failed("(AlreadyExists)", 'pods "web" already exists')
    assert "condition met" in kube.kubectl("wait", "--for=condition=Ready", "pod/web").ok()
    phase = "--for=jsonpath={.status.phase}="
    assert "condition met" in kube.kubectl("wait", phase + "Running", "pod/web").ok()
    kube.kubectl("wait", phase + "Succeeded", "pod/done").ok()
    kube.kubectl("wait", "--for=condition=Foo", "pod/web", "--timeout=1s").failed("timed out waiting")

    table = rows(kube.kubectl("get", "pods").ok())
    assert table[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in table[1:]] == [
        ["done", "0/1", "Completed", "0"],
        ["web", "2/2", "Running", "0"],
    ]
    wide = rows(kube.kubectl("get", "pods", "-o", "wide").ok())
    assert wide[0][5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    assert re.fullmatch(r"10\.88\.\d+\.\d+", wide[2][5])
    assert kube.kubectl("get", "pods", "-A").ok().startswith("NAMESPACE")
    assert kube.kubectl("get", "-f", str(manifest), "-o", "name").ok() == "pod/web\n"
    assert kube.kubectl("get", "pods", "-o", "name").ok() == "pod/done\npod/web\n"
    names = kube.kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}").ok()
    assert names == "done web"
    assert kube.kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name").ok() == "N\ndone\nweb\n"
    assert kube.kubectl("get", "pods", "-o", "name", "-l", "app in (web,x)").ok() == "pod/web\n"
    running = kube.kubectl("get", "pods", "-o", "name", "--field-selector=status.phase=Running").ok()
    assert running == "pod/web\n"
    assert "managedFields" not in kube.kubectl("get", "pod", "web", "-o", "yaml").ok()
    shown = json.loads(kube.kubectl("get", "pod", "web", "-o", "json", "--show-managed-fields").ok())[
        "metadata"
    ]
    assert shown["managedFields"][0]["manager"] == "kubectl-create"
    assert {"uid", "resourceVersion", "creationTimestamp"} <= shown.keys()


def test_watch(kube: Cluster) -> None:
    kube.apply(WEB)
    ready(kube, "web")
    with (
        started(kube, "get", "pods", "-w") as table,
        started(kube, "get", "pods", "-w", "--output-watch-events") as events,
        started(kube, "get", "pods", "-w", "-o", "json") as stream,
    ):
        seen = [read_line(table), read_line(table)]
        assert seen[1].startswith("web"), seen
        changes = [read_line(events), read_line(events)]
        assert changes[0].split()[:2] == ["EVENT", "NAME"] and changes[1].startswith("ADDED")
        assert read_line(stream) == "{\n"
        kube.apply(make_pod("new", "true"))
        created = time.monotonic()
        seen.append(read_line(table))
        assert seen[-1].startswith("new") and time.monotonic() - created < 2
        while "Completed" not in seen[-1]:
            seen.append(read_line(table))
        kube.kubectl("delete", "pod", "new").ok()
        while not changes[-1].startswith("DELETED"):
            changes.append(read_line(events))
        assert all(process.poll() is None for process in (table, events, stream)), "the watches stay open"
    assert sum("NAME" in line for line in seen) == sum("NAME" in line for line in changes) == 1


def test_describe_and_events(kube: Cluster) -> None:
    kube.apply(make_pod("web", WAITS, WAITS, initContainers=[container("first", "true")]))
    ready(kube, "web")
    wanted = ["Scheduled", "ImageNotPulled", *["Created", "Started"] * 3]
    until(
        lambda: len(kube.events(name="web")) == len(wanted),
        "an event for each step, the scheduler's included",
    )
    text = kube.kubectl("describe", "pod", "web").ok()
    for part in ("Init Containers:", "Containers:", "State:          Running", "Conditions:", "QoS Class:"):
        assert part in text
    shown = [line.split()[1] for line in text.partition("Events:")[2].splitlines()[3:]]
    assert shown == wanted, "in the order in which they happened"
    table = rows(kube.kubectl("get", "events").ok())
    assert table[0] == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert [row[2] for row in table[1:]] == wanted
    assert {row[3] for row in table[1:]} == {"pod/web"}
    assert kube.kubectl("events").ok().count("Pod/web") == len(wanted)
    scheduled = [
        line for line in kube.kubectl("events", "--for", "pod/web").ok().splitlines() if "Sched" in line
    ]
    assert len(scheduled) == 1
    assert re.match(r"\d+s +Normal +Scheduled +Pod/web +Successfully assigned \S+/web to \S+", scheduled[0])


def test_logs(kube: Cluster) -> None:
    kube.apply(WEB, DONE)
    ready(kube, "web")
    logs = kube.kubectl("logs", "web")
    assert logs.ok() == "".join(f"main {n}\n" for n in range(1, 6))
    assert 'Defaulted container "main" out of: main, side' in logs.err
    assert kube.kubectl("logs", "web", "-c", "side").ok() == "side\n"
    assert set(kube.kubectl("logs", "web", "--all-containers").ok().splitlines()) == {
        "side",
        *logs.out.splitlines(),
    }
    main = ("logs", "web", "-c", "main")
    assert kube.kubectl(*main, "--tail=2").ok() == "main 4\nmain 5\n"
    assert kube.kubectl(*main, "--since=1h").ok() == logs.out
    assert kube.kubectl(*main, "--limit-bytes=10").ok() == "main 1\nmai"
    stamped = kube.kubectl(*main, "--timestamps", "--tail=1").ok()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z main 5\n", stamped)
    assert kube.kubectl("logs", "-l", "app=web", "--prefix", "-c", "side").ok() == "[pod/web/side] side\n"
    kube.kubectl(*main, "--previous").failed('previous terminated container "main" in pod "web" not found')
    kube.kubectl("logs", "nope").failed('pods "nope" not found')
    kube.kubectl("logs", "web", "-c", "zzz").failed("container zzz is not valid for pod web")
    status, _, body = kube.api("GET", f"/api/v1/namespaces/{kube.namespace}/pods/web/log")
    assert status == 400
    assert "a container name must be specified for pod web, choose one of: [main side]" in body.decode()


def test_logs_follow_as_they_are_written(kube: Cluster, shared_folder: Path) -> None:
    """No line is written before the one before it was seen: what is held back is never seen."""
    script = "for i in $(seq 20); do echo $i; until [ -e /turn/$i ]; do sleep 0.02; done; done"
    pod = make_pod("ticks", script, volumes=[{"name": "turn", "hostPath": {"path": str(shared_folder)}}])
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "turn", "mountPath": "/turn"}]
    kube.apply(pod)
    ready(kube, "ticks")
    with started(kube, "logs", "-f", "ticks") as logs:
        for number in range(1, 21):
            assert read_line(logs) == f"{number}\n"
            (shared_folder / str(number)).touch()
        assert read_rest(logs) == "" and logs.returncode == 0, "it ends with the container"


def test_exec(kube: Cluster, tmp_path: Path) -> None:
    kube.apply(WEB, DONE)
    ready(kube, "web")
    kube.until_phase("Succeeded", "done")
    assert kube.kubectl("exec", "web", "--", "echo", "hi").ok() == "hi\n"
    failed = kube.kubectl("exec", "web", "-c", "side", "--", "sh", "-c", "echo no >&2; exit 3")
    assert failed.rc == 3 and "no\n" in failed.err and "terminated with exit code 3" in failed.err
    assert kube.kubectl("exec", "-i", "web", "--", "cat", stdin="x\n").ok() == "x\n"
    kube.kubectl("exec", "done", "--", "ls").failed("completed pod; current phase is Succeeded")
    kube.kubectl("exec", "web", "--", "no-such-program").failed("executable file not found in $PATH")
    source = tmp_path / "source"
    source.write_bytes(os.urandom(300_000))
    kube.kubectl("cp", str(source), "web:/tmp/inside", "-c", "side").ok()
    kube.kubectl("cp", "web:/tmp/inside", str(tmp_path / "back"), "-c", "side").ok()
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    (tmp_path / "folder" / "sub" / "file").write_text("deep\n")
    kube.kubectl("cp", str(tmp_path / "folder"), "web:/srv").ok()
    assert kube.kubectl("exec", "web", "--", "cat", "/srv/folder/sub/file").ok() == "deep\n"
    assert not Path("/srv/folder").exists(), "what a pod is given stays in the pod"


def test_terminal(kube: Cluster) -> None:
    kube.apply(make_pod("web", WAITS))
    ready(kube, "web")
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
    with started(kube, "exec", "-it", "web", "--", "sh", stdin=slave, stdout=slave, stderr=slave) as shell:
        os.close(slave)
        killer = threading.Timer(30, shell.kill)
        killer.start()
        try:
            type_until(master, "stty size", "33 111")
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 61, 0, 0))
            shell.send_signal(signal.SIGWINCH)
            type_until(master, "stty size", "20 61")
            type_until(master, "echo $TERM-$(hostname)", "xterm-web")
            type_until(master, "echo $((40 + 2)); sleep 100", "42")
            os.write(master, b"\x03")
            type_until(master, "echo $((50 + 3)); exit 6", "53")
            assert shell.wait(30) == 6
        finally:
            killer.cancel()
            os.close(master)


def type_until(terminal: int, line: str, expected: str) -> None:
    """Type the line until the terminal shows the text."""
    seen = ""

    def shown() -> bool:
        nonlocal seen
        os.write(terminal, line.encode() + b"\n")
        seen += os.read(terminal, 65536).decode()
        return expected in seen

    until(shown, f"{expected!r} on the terminal")


def test_run_and_attach(kube: Cluster) -> None:
    sh = ("--image=example.com/r:1", "--restart=Never", "--", "sh", "-c")
    assert kube.kubectl("run", "r", *sh, "echo hi").ok() == "pod/r created\n"
    kube.until_phase("Succeeded", "r")
    assert kube.logs("r") == ["hi"]
    script = "echo early; sleep 0.5; read word; echo got $word"
    done = kube.kubectl("run", "-i", "--rm", "i", *sh, script, stdin="word\n")
    assert done.ok() == 'early\ngot word\npod "i" deleted\n'
    failed = kube.kubectl("run", "-i", "--rm", "f", *sh, "sleep 0.5; exit 4")
    assert failed.rc == 4, failed
    assert kube.pods().keys() == {"r"}
    reader = make_pod("reader", "")
    reader["spec"]["containers"] = [
        container("main", "while read x; do echo got $x; done", stdin=True, stdinOnce=True)
    ]
    kube.apply(reader)
    ready(kube, "reader")
    assert kube.kubectl("attach", "-i", "reader", stdin="one\ntwo\n").ok() == "got one\ngot two\n"
    kube.until_phase("Succeeded", "reader")


def test_debug(kube: Cluster) -> None:
    """A container beside a running one, in its pid namespace; a copy of the pod; a pod with the node's root."""
    kube.apply(make_pod("web", f"sleep 1001 & {WAITS}", grace=1))
    ready(kube, "web")
    image = "--image=example.com/tools:1"
    inside = ("debug", "-i", "web", image, "--target=main", "-c", "dbg", "--", "sh")
    script = (
        "until grep -qs 1001 /proc/2/cmdline; do sleep 0.1; done; echo seen; echo in $(hostname); exit 3\n"
    )
    done = kube.kubectl(*inside, stdin=script)
    assert "seen\nin web" in done.out, done
    ended = "{.status.ephemeralContainerStatuses[0].state.terminated.exitCode}"
    until(lambda: kube.kubectl("get", "pod", "web", "-o", f"jsonpath={ended}").ok() == "3", "the end is told")
    assert "in web" in kube.kubectl("logs", "web", "-c", "dbg").ok()
    assert status_of(kube, "web") == "Running"
    refused = kube.kubectl("debug", "web", image, "--target=nope", "-c", "d2", "--", "true")
    assert 'spec.ephemeralContainers[1].targetContainerName: Not found: "nope"' in refused.err
    copy = ("debug", "-i", "web", image, "--copy-to=twin", "--share-processes", "-c", "dbg", "--", "sh", "-c")
    done = kube.kubectl(*copy, "until grep -qs 1001 /proc/[0-9]*/cmdline; do sleep 0.1; done; echo found")
    assert "found" in done.out, done
    node = kube.kubectl("get", "nodes", "-o", "name").ok().split()[0]
    done = kube.kubectl("debug", "-i", node, image, "--", "sh", "-c", "ls -d /host/etc")
    assert "/host/etc" in done.out, done
    kube.kubectl("delete", "pod", "--all", "--now").ok()


def test_port_forward(kube: Cluster) -> None:
    server = "mkdir /srv/www; cd /srv/www; echo hello > index.html; exec python3 -m http.server 8080"
    web = make_pod("web", server, grace=1)
    web["spec"]["containers"][0] |= {
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 1},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "front"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
    }
    kube.apply(web, service)
    ready(kube, "web")
    with started(kube, "port-forward", "pod/web", ":8080") as to_pod:
        url = forwarded(to_pod)
        answers: list[bytes] = []
        threads = [threading.Thread(target=lambda: answers.append(fetch(url))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert answers == [b"hello\n"] * 2
        assert fetch(url) == b"hello\n"
    with started(kube, "port-forward", "svc/front", ":80") as to_service:
        assert fetch(forwarded(to_service)) == b"hello\n"


def forwarded(process: subprocess.Popen[str]) -> str:
    line = read_line(process)
    found = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) -> 8080", line)
    assert found, line
    return f"http://127.0.0.1:{found[1]}/"


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return bytes(answer.read())


def test_delete(kube: Cluster) -> None:
    polite = make_pod("polite", WAITS)
    stubborn = make_pod("stubborn", "trap '' TERM; echo up; while :; do sleep 0.2; done", grace=2)
    others = [make_pod(name, WAITS) for name in ("a", "b", "c")]
    slow = make_pod("slow", "trap '' TERM; while :; do sleep 0.2; done", grace=30)
    kube.apply(polite, stubborn, slow, *others)
    ready(kube, "polite", "stubborn", "slow", "a", "b", "c")
    begin = time.monotonic()
    assert 'pod "polite" deleted' in kube.kubectl("delete", "pod", "polite").ok()
    assert time.monotonic() - begin < 10, "it ends when told to, long before its 30 s are over"
    assert "polite" not in kube.pods()
    begin = time.monotonic()
    kube.kubectl("delete", "pod", "stubborn").ok()
    assert 1.9 < time.monotonic() - begin < 15, "it is killed after its 2 s"

    kube.kubectl("delete", "pod", "slow", "--wait=false").ok()
    assert status_of(kube, "slow") == "Terminating"
    with started(kube, "wait", "--for=delete", "pod/slow", "--timeout=30s") as waiting:
        kube.kubectl("delete", "pod", "slow", "--force", "--grace-period=0").ok()
        assert "slow" not in kube.pods()
        assert waiting.wait(30) == 0
    assert kube.kubectl("delete", "pods", "-l", "app in (a,b)").ok().count("deleted") == 2
    assert kube.pods().keys() == {"c"}
    assert kube.kubectl("delete", "pods", "--all").ok().count("deleted") == 1
    assert not kube.pods()
    kube.kubectl("delete", "pod", "c").failed('pods "c" not found')


def test_delete_namespace_with_running_pods(kube: Cluster) -> None:
    namespace = f"{kube.namespace[:50]}-2"
    slow = make_pod("slow", "trap '' TERM; while :; do sleep 0.2; done", grace=2)
    slow["metadata"]["finalizers"] = ["example.com/not-before-it-was-seen"]
    objects = [{**p, "metadata": {**p["metadata"], "namespace": namespace}} for p in (slow, WEB)]
    kube.kubectl("create", "namespace", namespace).ok()
    kube.kubectl("apply", "-n", namespace, "-f", "-", stdin=as_list(*objects)).ok()
    kube.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod", "--all").ok()
    with started(kube, "delete", "namespace", namespace) as deleting:
        until(
            lambda: kube.kubectl("get", "ns", namespace).out.split()[-2] == "Terminating",
            "namespace Terminating",
        )
        refused = kube.kubectl("create", "-n", namespace, "configmap", "late")
        refused.failed("is forbidden", "because it is being terminated")
        freed = '{"metadata": {"finalizers": null}}'
        kube.kubectl("patch", "-n", namespace, "pod", "slow", "--type=merge", "-p", freed).ok()
        assert read_rest(deleting) == f'namespace "{namespace}" deleted\n'
    kube.kubectl("get", "ns", namespace).failed("not found")
    assert kube.get("pods", namespace=namespace) == []


def test_failures_are_shown(kube: Cluster) -> None:
    """What a user reads first when something is wrong."""
    broken = {
        "crash": make_pod("crash", "echo attempt; exit 4", restart="Always"),
        "exits": make_pod("exits", "exit 3"),
        "init": make_pod("init", "echo never", initContainers=[container("first", "exit 5")]),
        "missing": make_pod("missing", ""),
        "config": make_pod("config", WAITS),
        "big": make_pod("big", WAITS),
    }
    broken["missing"]["spec"]["containers"][0]["command"] = ["no-such-program"]
    env = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "nope", "key": "k"}}}
    broken["config"]["spec"]["containers"][0]["env"] = [env]
    broken["big"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "5000"}}
    kube.apply(*broken.values())
    wanted = {
        "crash": "CrashLoopBackOff",
        "exits": "Error",
        "init": "Init:Error",
        "missing": "StartError",
        "config": "CreateContainerConfigError",
        "big": "Pending",
    }

    def shown() -> dict[str, list[str]]:
        return {row[0]: row[1:] for row in rows(kube.kubectl("get", "pods").ok())[1:]}

    until(lambda: {name: row[1] for name, row in shown().items()} == wanted, f"statuses {wanted}")
    assert re.fullmatch(r"[1-9] \(\d+s ago\)", shown()["crash"][2]), shown()["crash"]
    assert kube.kubectl("logs", "crash", "--previous").ok() == "attempt\n"
    for reason, pod in (("BackOff", "crash"), ("Failed", "config"), ("FailedScheduling", "big")):
        until(lambda reason=reason, pod=pod: kube.events(reason, pod), f"an event {reason} of {pod}")
    text = kube.kubectl("describe", "pod", "crash").ok()
    assert re.search(r"Last State: +Terminated\n +Reason: +Error\n +Exit Code: +4\n", text)
    assert "Back-off restarting failed container main in pod crash_" in text
    text = kube.kubectl("describe", "pod", "missing").ok()
    assert re.search(
        r'Message: +exec: "no-such-program": executable file not found.*\n +Exit Code: +127\n', text
    )
    kube.kubectl("logs", "init", "-c", "main").failed(
        '"main" in pod "init" is waiting to start: PodInitializing'
    )
    assert 'configmap "nope" not found' in kube.kubectl("describe", "pod", "config").ok()
    text = kube.kubectl("describe", "pod", "big").ok()
    assert re.search(r"FailedScheduling .* 0/1 nodes are available: 1 Insufficient cpu", text)


def test_from_a_signing_request_to_a_kubeconfig_with_a_certificate(kube: Cluster, tmp_path: Path) -> None:
    """kubectl 1.32 and later send the approval as protobuf."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = [(NameOID.ORGANIZATION_NAME, "devs"), (NameOID.COMMON_NAME, "anna")]
    holder = x509.Name([x509.NameAttribute(oid, text) for oid, text in subject])
    signed = x509.CertificateSigningRequestBuilder().subject_name(holder).sign(key, hashes.SHA256())
    name = f"anna-{kube.namespace}"
    request = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(signed.public_bytes(Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "expirationSeconds": 3600,
            "usages": ["client auth"],
        },
    }
    kube.kubectl("apply", "-f", "-", stdin=json.dumps(request)).ok()
    assert kube.kubectl("certificate", "approve", name).ok().strip().endswith(f"{name} approved")

    def certificate() -> str:
        return kube.kubectl("get", "csr", name, "-o", "jsonpath={.status.certificate}").ok()

    until(certificate, "the certificate is issued")
    assert "Approved,Issued" in kube.kubectl("get", "csr", name).ok()
    (tmp_path / "anna.crt").write_bytes(base64.b64decode(certificate()))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "anna.key").write_bytes(private)
    files = (f"--client-certificate={tmp_path / 'anna.crt'}", f"--client-key={tmp_path / 'anna.key'}")
    config = f"--kubeconfig={tmp_path / 'config'}"
    (tmp_path / "config").write_bytes(kube.kubeconfig.read_bytes())
    kube.kubectl("config", "set-credentials", "anna", "--embed-certs", *files, config).ok()
    hers = (config, "--user=anna")
    kube.kubectl("get", "pods", *hers).failed('User "anna" cannot list resource "pods"')
    kube.kubectl("create", "rolebinding", "devs", "--clusterrole=view", "--group=devs").ok()
    kube.kubectl("get", "pods", *hers).ok()
    who = kube.kubectl("auth", "can-i", "--list", *hers).ok()
    assert "pods" in who and "secrets" not in who
    kube.kubectl("delete", "csr", name).ok()
