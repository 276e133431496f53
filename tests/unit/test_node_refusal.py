"""What the node refuses for good, and kernel parameters of a pod's own."""

from __future__ import annotations

import pytest

from tests.unit.node_builders import make_pod
from trainshed.cluster.node.pod.refusal import refusal, sysctls


def with_sysctl(name: str, **spec):
    return make_pod(securityContext={"sysctls": [{"name": name, "value": "1"}]}, **spec)


@pytest.mark.parametrize(
    "name, path",
    [
        ("net.ipv4.ip_unprivileged_port_start", "net/ipv4/ip_unprivileged_port_start"),
        ("net/ipv4/conf/eth0.1/forwarding", "net/ipv4/conf/eth0.1/forwarding"),
        ("net.ipv4.conf.eth0/1.forwarding", "net/ipv4/conf/eth0.1/forwarding"),
    ],
)
def test_a_parameter_s_path(name, path):
    assert list(sysctls(with_sysctl(name))) == [(path, "1")]


@pytest.mark.parametrize(
    "pod, why",
    [
        (make_pod(), None),
        (make_pod(os={"name": "linux"}), None),
        (make_pod(os={"name": "windows"}), "Failed to admit pod as the OS field doesn't match node OS"),
        (with_sysctl("net.core.somaxconn"), None),
        (with_sysctl("kernel.shm_rmid_forced"), None),
        (with_sysctl("kernel.sem"), None),
        (with_sysctl("kernel.msgmax", hostNetwork=True), None),
        (with_sysctl("vm.swappiness"), 'forbidden sysctl: "vm.swappiness" not allowlisted'),
        (with_sysctl("kernel.core_pattern"), 'forbidden sysctl: "kernel.core_pattern" not allowlisted'),
        (
            with_sysctl("net/../kernel/core_pattern"),
            'forbidden sysctl: "net....kernel.core_pattern" not allowlisted',
        ),
        (
            with_sysctl("net.//.kernel.core_pattern"),
            'forbidden sysctl: "net....kernel.core_pattern" not allowlisted',
        ),
        (with_sysctl("net.core."), 'forbidden sysctl: "net.core." not allowlisted'),
        (with_sysctl("kernel.semaphore"), 'forbidden sysctl: "kernel.semaphore" not allowlisted'),
        (
            with_sysctl("net.core.somaxconn", hostNetwork=True),
            'forbidden sysctl: "net.core.somaxconn" not allowed with host net enabled',
        ),
        (
            with_sysctl("fs.mqueue.msg_max", hostIPC=True),
            'forbidden sysctl: "fs.mqueue.msg_max" not allowed with host ipc enabled',
        ),
    ],
)
def test_what_a_pod_may_have(pod, why):
    found = refusal(pod)
    assert (found and found.message) == (why and f"Pod was rejected: {why}")
