"""What the runtime is told, what is reported as not honoured, and who gets which GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.images.directories import Image
from trainshed.cluster.node.devices import gpu
from trainshed.cluster.node.pod.images import RunImage
from trainshed.cluster.node.pod.sandboxspec import (
    ClusterNetwork,
    ContainerParts,
    container_spec,
    host_searches,
    hostname,
    is_unconfined,
    sandbox_spec,
)
from trainshed.cluster.node.pod.unsupported import Capabilities, dangerous_fields, unsupported_fields
from trainshed.cluster.sandbox.model import Layer

NETWORK = ClusterNetwork(host_searches=("corp.example",))


def paths(pod, **capabilities):
    return [path for path, _ in unsupported_fields(pod, Capabilities(**capabilities))]


def test_a_plain_pod_is_honoured_whole():
    assert paths(make_pod(make_container(resources={"requests": {"cpu": "1"}}))) == []


@pytest.mark.parametrize(
    "container, spec, expected",
    [
        ({"resources": {"limits": {"memory": "1Gi"}}}, {}, None),
        ({"resources": {"limits": {"cpu": "1", "ephemeral-storage": "1Gi"}}}, {}, None),
        ({"resources": {"limits": {"nvidia.com/gpu": "1"}}}, {}, None),
        ({"securityContext": {"runAsUser": 1000}}, {}, None),
        ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, {}, None),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, {}, None),
        (
            {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"}}},
            {},
            "spec.containers[0].securityContext.seccompProfile",
        ),
        ({"securityContext": {"windowsOptions": {}}}, {}, None),
        (
            {"securityContext": {"windowsOptions": {"hostProcess": False}}},
            {},
            "spec.containers[0].securityContext.windowsOptions",
        ),
        ({"ports": [{"containerPort": 1}]}, {}, None),
        ({"ports": [{"containerPort": 1, "hostPort": 1}]}, {}, None),
        ({"ports": [{"containerPort": 1, "hostPort": 1, "hostIP": "0.0.0.0"}]}, {}, None),
        ({"ports": [{"containerPort": 1, "hostPort": 1}]}, {"hostNetwork": True}, None),
        (
            {"ports": [{"containerPort": 1, "hostPort": 1, "hostIP": "192.168.1.2"}]},
            {},
            "spec.containers[0].ports[0].hostIP",
        ),
        (
            {"readinessProbe": {"httpGet": {"port": 1, "host": "127.0.0.1"}}},
            {},
            "spec.containers[0].readinessProbe.httpGet.host",
        ),
        (
            {"livenessProbe": {"tcpSocket": {"port": 1, "host": "127.0.0.1"}}},
            {},
            "spec.containers[0].livenessProbe.tcpSocket.host",
        ),
        ({"livenessProbe": {"tcpSocket": {"port": 1, "host": "127.0.0.1"}}}, {"hostNetwork": True}, None),
        (
            {"lifecycle": {"preStop": {"httpGet": {"port": 1, "host": "127.0.0.1"}}}},
            {},
            "spec.containers[0].lifecycle.preStop.httpGet.host",
        ),
        ({}, {"hostUsers": False}, "spec.hostUsers"),
        ({}, {"hostUsers": True}, None),
        ({}, {"os": {"name": "windows"}}, "spec.os.name"),
        ({}, {"os": {"name": "linux"}}, None),
        ({}, {"overhead": {"cpu": "1"}, "setHostnameAsFQDN": True, "hostIPC": True}, None),
        (
            {},
            {"securityContext": {"sysctls": [{"name": "vm.swappiness", "value": "1"}]}},
            "spec.securityContext.sysctls[0]",
        ),
        ({}, {"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}}, None),
        ({}, {"resources": {"limits": {"cpu": "1"}}}, "spec.resources"),
        ({}, {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, "spec.dnsPolicy"),
        ({}, {"dnsPolicy": "ClusterFirstWithHostNet"}, None),
        ({}, {"securityContext": {"fsGroup": 5, "fsGroupChangePolicy": "Always"}}, None),
        ({"livenessProbe": {"grpc": {"port": 1}}}, {}, None),
        ({}, {"volumes": [{"name": "n", "nfs": {}}]}, "spec.volumes[0].nfs"),
        (
            {},
            {"volumes": [{"name": "n", "emptyDir": {"medium": "HugePages"}}]},
            "spec.volumes[0].emptyDir.medium",
        ),
        ({}, {"volumes": [{"name": "n", "emptyDir": {"medium": "Memory"}}]}, None),
        ({}, {"imagePullSecrets": [{"name": "x"}]}, "spec.imagePullSecrets"),
        ({}, {"hostPID": True}, "spec.hostPID"),
        ({}, {"hostNetwork": True}, None),
    ],
)
def test_fields_that_are_not_honoured(container, spec, expected):
    assert paths(make_pod(make_container(**container), **spec)) == ([expected] if expected else [])


NOBODY_KNOWS = "securityContext.runAsNonRoot"


@pytest.mark.parametrize(
    ("shared", "own", "expected"),
    [
        ({"runAsNonRoot": True}, {}, [f"spec.{NOBODY_KNOWS}"]),
        ({"runAsNonRoot": True, "runAsUser": 5}, {}, []),
        ({"runAsNonRoot": True}, {"runAsUser": 5}, []),
        ({"runAsNonRoot": True}, {"runAsUser": 0}, []),  # refused
        ({"runAsNonRoot": True}, {"runAsNonRoot": False}, []),
        ({"runAsUser": 5}, {"runAsNonRoot": True}, []),
        ({}, {"runAsNonRoot": True}, [f"spec.containers[0].{NOBODY_KNOWS}"]),
    ],
)
def test_who_runs_a_container_is_unknown_where_nothing_says_so(shared, own, expected):
    assert paths(make_pod(make_container(securityContext=own), securityContext=shared)) == expected


def test_a_plain_process_sees_those_of_the_machine():
    assert paths(make_pod(hostPID=True), plain=True) == []


def test_a_profile_in_an_annotation_is_not_honoured():
    pod = make_pod()
    name = "container.apparmor.security.beta.kubernetes.io/main"
    pod["metadata"]["annotations"] = {name: "localhost/mine", "note": "x"}
    assert paths(pod) == [f"metadata.annotations[{name}]"]


def test_what_privileged_means_depends_on_whose_cluster_it_is():
    pod = make_pod(make_container(securityContext={"privileged": True}))
    assert dangerous_fields(pod, Capabilities()) == []
    ((path, why),) = dangerous_fields(pod, Capabilities(of_root=True))
    assert path == "spec.containers[0].securityContext.privileged"
    assert "close to root on this machine" in why
    for name in ("SYS_ADMIN", "CAP_SYS_ADMIN", "ALL", "NET_ADMIN"):
        pod = make_pod(make_container(securityContext={"capabilities": {"add": [name]}}))
        found = [path for path, _ in dangerous_fields(pod, Capabilities(of_root=True))]
        expected = ["spec.containers[0].securityContext.capabilities.add"] if name != "NET_ADMIN" else []
        assert found == expected


def test_capabilities_decide():
    pod = make_pod(
        make_container(securityContext={"runAsUser": 1000}, resources={"limits": {"cpu": "1"}}),
    )
    assert paths(pod, user_mapping=False) == ["spec.containers[0].securityContext.runAsUser"]
    assert paths(pod, user_mapping=True) == []
    assert paths(make_pod(securityContext={"fsGroup": 5}), user_mapping=False) == [
        "spec.securityContext.fsGroup"
    ]


def test_a_user_who_cannot_run_the_nodes_python_is_told():
    pod = make_pod(make_container(securityContext={"runAsUser": 1000}))
    ((path, why),) = unsupported_fields(pod, Capabilities(python_of="/root/venv"))
    assert path == "spec.containers[0].securityContext.runAsUser"
    assert "/root/venv are root's alone to run" in why
    assert paths(make_pod(make_container()), python_of="/root/venv") == []


def test_dns_policies():
    cluster = sandbox_spec(make_pod(), NETWORK)
    assert cluster.nameservers == ("10.88.0.1",)
    assert cluster.searches == (
        "default.svc.cluster.local",
        "svc.cluster.local",
        "cluster.local",
        "corp.example",
    )
    assert cluster.dns_options == ("ndots:5",)
    assert sandbox_spec(make_pod(dnsPolicy="ClusterFirstWithHostNet"), NETWORK) == cluster
    default = sandbox_spec(make_pod(dnsPolicy="Default"), NETWORK)
    assert (default.nameservers, default.searches, default.dns_options) == (
        ("10.88.0.1",),
        ("corp.example",),
        (),
    )
    on_host = make_pod(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    assert sandbox_spec(on_host, NETWORK).nameservers == ()
    assert sandbox_spec(make_pod(hostNetwork=True), NETWORK).nameservers == ()
    config = {"nameservers": ["1.1.1.1"], "searches": ["x"], "options": [{"name": "ndots", "value": "2"}]}
    own = sandbox_spec(make_pod(dnsPolicy="None", dnsConfig=config), NETWORK)
    assert (own.nameservers, own.searches, own.dns_options) == (("1.1.1.1",), ("x",), ("ndots:2",))
    merged = sandbox_spec(make_pod(dnsConfig=config), NETWORK)
    assert merged.dns_options == ("ndots:2",) and merged.nameservers == ("10.88.0.1", "1.1.1.1")


@pytest.mark.parametrize(
    "text, found",
    [
        ("nameserver 1.1.1.1\nsearch a.example b.example\n", ("a.example", "b.example")),
        ("search a.example\ndomain b.example\n", ("b.example",)),
        ("search .\n\n# search x\n", ()),
        (None, ()),
    ],
)
def test_search_domains_of_the_machine(tmp_path, text, found):
    path = tmp_path / "resolv.conf"
    if text is not None:
        path.write_text(text)
    assert host_searches(str(path)) == found


def test_long_hostnames():
    named = make_pod(subdomain="job")
    assert sandbox_spec(named, NETWORK).hostname == "web"
    assert sandbox_spec(named, NETWORK).fqdn == "web.job.default.svc.cluster.local"
    assert sandbox_spec(make_pod(setHostnameAsFQDN=True), NETWORK).hostname == "web", "without a subdomain"
    whole = make_pod(subdomain="job", setHostnameAsFQDN=True)
    assert sandbox_spec(whole, NETWORK).hostname == "web.job.default.svc.cluster.local"
    with pytest.raises(
        ValueError, match=r"is too long \(64 characters is the max, 70 characters requested\)"
    ):
        sandbox_spec(make_pod(subdomain="j" * 40, setHostnameAsFQDN=True), NETWORK)


def test_what_containers_of_a_pod_share():
    assert not sandbox_spec(make_pod(), NETWORK).share_memory
    two = make_pod(make_container("a"), init=(make_container("i"),), hostIPC=True)
    assert sandbox_spec(two, NETWORK).share_memory and sandbox_spec(two, NETWORK).host_ipc
    own = make_pod(securityContext={"sysctls": [{"name": "kernel.sem", "value": "1 2 3 4"}]})
    assert sandbox_spec(own, NETWORK).sysctls == (("kernel/sem", "1 2 3 4"),)
    assert not sandbox_spec(make_pod(), NETWORK).share_processes
    for field in ("shareProcessNamespace", "hostPID"):
        assert sandbox_spec(make_pod(**{field: True}), NETWORK).share_processes


def test_hostnames():
    assert hostname(make_pod()) == "web"
    assert hostname(make_pod(hostname="h")) == "h"
    assert len(hostname(make_pod(metadata={"name": "x" * 80}))) == 63


def test_a_containers_spec():
    context = {
        "runAsUser": 7,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["CAP_NET_ADMIN"]},
    }
    container = make_container(securityContext=context, workingDir="/w", tty=True)
    pod = make_pod(container, securityContext={"runAsUser": 1, "runAsGroup": 2})
    image = RunImage(image=Image(layers=(Layer("/src", "/app"),), workdir="/app"))
    parts = ContainerParts(
        attempt=3,
        argv=("x",),
        env={"A": "1"},
        mounts=[],
        image=image,
        devices=(),
        log_path=Path("/l"),
        masked=("/m",),
    )
    spec = container_spec(pod, container, parts)
    assert (spec.uid, spec.gid, spec.cwd, spec.attempt, spec.tty) == (7, 2, "/w", 3, True)
    assert spec.read_only_root and spec.no_new_privs and not spec.privileged
    assert (spec.drop_caps, spec.add_caps, spec.layers) == (("ALL",), ("NET_ADMIN",), image.image.layers)
    inherited = container_spec(pod, make_container(), parts)
    assert (inherited.uid, inherited.gid, inherited.cwd) == (1, 2, "/app")
    plain = container_spec(make_pod(), make_container(), parts)
    assert (plain.uid, plain.gid, plain.unconfined) == (None, None, False)


@pytest.mark.parametrize(("priority", "milli"), [(0, 10), (999_999_999, 10), (1_000_000_000, 1000)])
def test_who_comes_before_all_others_has_a_share_like_a_whole_core(priority: int, milli: int) -> None:
    container = make_container(resources={"requests": {"cpu": "10m"}})
    pod = make_pod(container, priority=priority)
    parts = ContainerParts(
        attempt=0,
        argv=("true",),
        env={},
        mounts=[],
        image=RunImage(image=Image()),
        devices=(),
        log_path=Path("/l"),
        masked=(),
    )
    assert container_spec(pod, container, parts).cpu_request == milli


@pytest.mark.parametrize(
    ("shared", "own", "unconfined"),
    [
        ({}, {"seccompProfile": {"type": "Unconfined"}}, True),
        ({"seccompProfile": {"type": "Unconfined"}}, {}, True),
        ({"seccompProfile": {"type": "Unconfined"}}, {"seccompProfile": {"type": "RuntimeDefault"}}, False),
        ({}, {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}, False),
        ({}, {"privileged": True}, True),
        ({"seccompProfile": {"type": "RuntimeDefault"}}, {"privileged": True}, True),
    ],
)
def test_who_runs_without_a_filter_of_system_calls(shared, own, unconfined):
    assert is_unconfined(shared, own) is unconfined


def gpus(name, count, **fields):
    return make_container(name, resources={"limits": {"nvidia.com/gpu": str(count)}}, **fields)


def test_gpus_are_detected(tmp_path):
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert gpu.detect(tmp_path) == (0, 2, 10)
    files = [str(tmp_path / n) for n in ("nvidia2", "nvidiactl", "nvidia-uvm")]
    assert gpu.device_files((2,), tmp_path) == tuple(files)
    assert gpu.device_files((), tmp_path) == ()
    assert gpu.environment((0, 2))["CUDA_VISIBLE_DEVICES"] == "0,2"
    assert gpu.environment(())["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_containers_in_images_get_the_drivers_libraries(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    for directory in (first, second):
        directory.mkdir()
    (first / "libcuda.so.560.1").touch()
    (first / "libcuda.so.1").symlink_to("libcuda.so.560.1")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libc.so.6", "libnvidia-evil.so.1.bak"):
        (second / name).touch()
    found = gpu.driver_mounts([first, second, tmp_path / "none"])
    assert [(each.source, each.path) for each in found] == [
        (str(first / "libcuda.so.560.1"), "/usr/local/nvidia/lib64/libcuda.so.1"),
        (str(first / "libcuda.so.560.1"), "/usr/local/nvidia/lib64/libcuda.so.560.1"),
        (str(second / "libnvidia-ml.so.1"), "/usr/local/nvidia/lib64/libnvidia-ml.so.1"),
    ]
    assert all(each.read_only for each in found)
    assert gpu.library_path("/x") == {"LD_LIBRARY_PATH": "/x:/usr/local/nvidia/lib64"}
    assert gpu.library_path("") == {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}


def test_init_containers_lend_their_gpus_to_the_main_ones():
    pod = make_pod(gpus("a", 1), gpus("b", 1), init=(gpus("i", 2),))
    assert gpu.allocate(pod, (0, 1, 2), (0,)) == {"i": (1, 2), "a": (1,), "b": (2,)}
    with pytest.raises(gpu.NotEnoughDevices, match="Requested: 2, Available: 1"):
        gpu.allocate(pod, (0, 1), (0,))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(0, 8))
def test_no_gpu_is_given_twice(counts, present):
    pod = make_pod(*(gpus(f"c{n}", count) for n, count in enumerate(counts)))
    try:
        allocation = gpu.allocate(pod, range(present), ())
    except gpu.NotEnoughDevices:
        assert sum(counts) > present
        return
    given_out = [index for indexes in allocation.values() for index in indexes]
    assert len(given_out) == len(set(given_out)) == sum(counts)


def test_an_allocation_is_remembered(tmp_path):
    assert gpu.load(tmp_path / "d.json") == {}
    gpu.save(tmp_path / "d.json", {"main": (1, 2)})
    assert gpu.load(tmp_path / "d.json") == {"main": (1, 2)}
