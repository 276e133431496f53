"""Plain processes: what stands for paths and addresses that they do not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainshed.cluster.node.pod import plainfields
from trainshed.cluster.node.pod.unsupported import Capabilities, unsupported_fields
from trainshed.cluster.sandbox.addresses import MACHINE
from trainshed.cluster.sandbox.client import doctor
from trainshed.cluster.sandbox.daemon.plain.places import Places
from trainshed.cluster.sandbox.daemon.plain.steering import Network, named
from trainshed.cluster.sandbox.linux import landlock, notify

PLACES = Places({"/data": "/v/one", "/data/sub/": "/v/two", "/etc/mpi": "/v/three", "/": "/never"})
POD = "127.70.0.9"
NETWORK = Network(
    "127.70.",
    5353,
    {("10.96.0.1", 443): 6443},
    {
        ("tcp", "10.96.3.4", 80): [("127.70.0.5", 8080)],
        ("udp", "10.96.3.4", 80): [("127.70.0.6", 9090)],
        ("tcp", "10.96.3.5", 80): [(MACHINE, 8000)],
    },
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/data", "/v/one"),
        ("cat /data/x '/data' \"/data/y\"", "cat /v/one/x '/v/one' \"/v/one/y\""),
        ("--out=/data/x:/data", "--out=/v/one/x:/v/one"),
        ("/data/sub/x /data/subs", "/v/two/x /v/one/subs"),
        ("echo x>/data/f;ls /data;", "echo x>/v/one/f;ls /v/one;"),
        ('{"path": "/data/x"}', '{"path": "/v/one/x"}'),
        ("/etc/mpi/hostfile", "/v/three/hostfile"),
        ("/database /data-2 /data.csv", "/database /data-2 /data.csv"),
        ("/mnt/data s3://data http://host/data", "/mnt/data s3://data http://host/data"),
        ("$HOME/data ${ROOT}/data $(pwd)/data ~/data", "$HOME/data ${ROOT}/data $(pwd)/data ~/data"),
        ("data ./data ../data", "data ./data ../data"),
        ("", ""),
    ],
)
def test_paths_in_text(text: str, wanted: str) -> None:
    assert PLACES.in_text(text) == wanted


def test_paths() -> None:
    assert PLACES.of_path("/data") == "/v/one"
    assert PLACES.of_path("/data/sub/deep/../x") == "/v/two/x"
    assert PLACES.of_path("/other/data") is None
    assert Places({}).in_text("/data") == "/data"


def test_a_real_path_is_not_taken_for_a_mounted_one() -> None:
    places = Places({"/a": "/b/x", "/b": "/a/y"})
    assert places.in_text("/a /b") == "/b/x /a/y"


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (("0.0.0.0", 23456), (POD, 23456)),
        (("127.0.0.1", 8080), (POD, 8080)),
        (("127.0.0.1", 0), (POD, 0)),
        (("0.0.0.0", 0), None),
        ((POD, 80), None),
        (("192.0.2.7", 80), None),
    ],
)
def test_where_a_pod_listens(asked: tuple[str, int], wanted: tuple[str, int] | None) -> None:
    assert NETWORK.bound(asked, POD) == wanted


@pytest.mark.parametrize(
    ("asked", "protocol", "wanted"),
    [
        (("127.0.0.1", 8080), "tcp", (POD, 8080)),
        (("0.0.0.0", 8080), "tcp", (POD, 8080)),
        (("127.70.0.5", 8080), "tcp", None),
        (("192.0.2.7", 443), "tcp", None),
        (("10.96.0.1", 443), "tcp", ("127.70.0.1", 6443)),
        (("10.96.3.4", 80), "tcp", ("127.70.0.5", 8080)),
        (("10.96.3.4", 80), "udp", ("127.70.0.6", 9090)),
        (("10.96.3.5", 80), "tcp", ("127.0.0.1", 8000)),
        (("10.96.3.4", 81), "tcp", ("127.70.0.1", 0)),
        (("127.0.0.53", 53), "udp", ("127.70.0.1", 5353)),
        (("192.0.2.53", 53), "udp", ("127.70.0.1", 5353)),
        (("192.0.2.54", 53), "udp", None),
    ],
)
def test_where_a_connection_leads(
    asked: tuple[str, int], protocol: str, wanted: tuple[str, int] | None
) -> None:
    assert NETWORK.reached(asked, protocol, POD, ["192.0.2.53"]) == wanted


def test_a_pod_on_the_machines_network_reaches_the_machine_and_services() -> None:
    assert NETWORK.reached(("127.0.0.1", 8080), "tcp", "", []) is None
    assert NETWORK.reached(("10.96.3.4", 80), "tcp", "", []) == ("127.70.0.5", 8080)


def test_the_name_of_the_machine() -> None:
    fields = named("a" * 80)
    assert len(fields) == 6 * 65 and fields[65:130] == b"a" * 64 + b"\0"


def test_filters_are_made_for_machines_that_are_known() -> None:
    for machine in ("x86_64", "aarch64", "riscv64"):
        some = notify.program(machine, names=(notify.CONNECT,), refuse_ipv6=False)
        more = notify.program(machine, names=(notify.BIND, notify.CONNECT), refuse_ipv6=True)
        assert len(some) % 8 == 0 and len(more) > len(some) > 0
    assert notify.program("s390x", names=(notify.CONNECT,), refuse_ipv6=False) == b""


def test_files_around_what_is_hidden(tmp_path: Path) -> None:
    top = tmp_path
    for name in ("state/pki", "state2", "home/mine/state/pki", "home/mine/notes", "home/other"):
        (top / name).mkdir(parents=True)
    found = set(landlock.around([str(top / "home/mine/state"), str(top / "elsewhere")], str(top)))
    assert found == {str(top / name) for name in ("state", "state2", "home/mine/notes", "home/other")}
    assert list(landlock.around([], str(top))) == [str(top)]
    assert list(landlock.around([str(top)], str(top / "home"))) == [str(top / "home")]


def test_the_doctor_says_what_plain_processes_have(tmp_path: Path) -> None:
    files, network = doctor.plain_checks(7, "", tmp_path)
    assert (files.ok, network.ok) == (True, True) and "other users of this machine reach" in network.detail
    files, network = doctor.plain_checks(0, "Device or resource busy", tmp_path)
    assert not files.ok and "change all of your files" in files.detail and "landlock" in files.remedy
    assert not network.ok and "device or resource busy" in network.detail


@pytest.mark.parametrize(("scope", "named_"), [("0", False), ("1", False), ("2", True), ("3", True)])
def test_the_doctor_names_the_command_where_yama_is_in_the_way(
    scope: str, named_: bool, tmp_path: Path
) -> None:
    yama = tmp_path / "proc/sys/kernel/yama"
    yama.mkdir(parents=True)
    (yama / "ptrace_scope").write_text(f"{scope}\n")
    _, network = doctor.plain_checks(7, "permission denied", tmp_path)
    assert network.remedy.startswith("sudo sysctl -w kernel.yama.ptrace_scope=1") is named_
    assert (f"ptrace_scope is {scope}" in network.detail) is named_


def test_what_a_pod_of_plain_processes_does_without() -> None:
    container = {
        "name": "c",
        "image": "x",
        "volumeMounts": [{"name": "v", "mountPath": "/data"}],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "OMPI_MCA_plm_rsh_agent", "value": "/etc/mpi/kubexec.sh"},
        ],
        "securityContext": {"privileged": True, "runAsUser": 1000, "capabilities": {"add": ["SYS_ADMIN"]}},
    }
    volumes = [{"name": "v", "emptyDir": {"medium": "Memory"}}]
    spec = {"containers": [container], "volumes": volumes, "hostAliases": [{"ip": "192.0.2.1"}]}
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    found = dict(unsupported_fields(pod, Capabilities(user_mapping=False, plain=True)))
    assert found["spec.containers[0].volumeMounts"] == plainfields.MOUNTS
    assert found["spec.hostAliases"] == plainfields.NAMES
    assert found["spec.containers[0].env[1]"] == plainfields.OPEN_MPI
    assert found["spec.volumes[0].emptyDir.medium"] == plainfields.MEMORY
    assert found["spec.containers[0].securityContext.privileged"] == plainfields.RIGHTS
    assert found["spec.containers[0].securityContext.capabilities.add"] == plainfields.RIGHTS
    assert "spec.containers[0].securityContext.runAsUser" in found
    apart = dict(unsupported_fields(pod, Capabilities(user_mapping=True)))
    assert not {plainfields.MOUNTS, plainfields.RIGHTS} & set(apart.values())
