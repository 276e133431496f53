"""Rules for Services on this kernel's nf_tables, in a network of their own."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from trainshed.cluster.sandbox.net.translation import Port, can_be_translated

CHANGES = """
import random, sys
from trainshed.cluster.sandbox.linux import syscalls
syscalls.unshare(syscalls.CLONE_NEWUSER)
from trainshed.cluster.sandbox.net import clusternet
from trainshed.cluster.sandbox.net.translation import Translation
clusternet.enter_new_cluster_network()
translation = Translation(clusternet.open_translator())
chance = random.Random(int(sys.argv[1]))
def route(number):
    ends = [[f"10.88.0.{end}", 80] for end in range(2, 7) if chance.random() < 0.5] or [["10.88.0.9", 1]]
    groups = [
        {"clients": [f"10.88.3.{n}", f"10.88.3.{n + 7}"], "endpoints": [["10.88.0.7", n], *ends[n:]]}
        for n in range(chance.choice([0, 0, 1, 3]))
    ]
    return {
        "groups": groups,
        "protocol": chance.choice(["tcp", "udp"]), "ip": f"10.96.1.{number % 3 + 1}", "port": 80 + number // 3,
        "endpoints": ends, "affinity_seconds": chance.choice([0, 0, 5, 10800]), "host": False,
    }
for _ in range(40):
    routes = {(one["protocol"], one["ip"], one["port"]): one for one in map(route, chance.sample(range(9), 5))}
    translation.apply(list(routes.values()))
ends = [[f"10.88.1.{number}", 80] for number in range(20)]
many = [dict(route(0), ip=f"10.96.7.{number % 250}", port=number, endpoints=ends) for number in range(1, 301)]
translation.apply(many)
assert len(translation._rules.ports) == 300
translation.apply([])
rules = translation._rules
assert not rules.ports and not rules._met
translation._transactions.commit([rules._table.delete_set("services")] if "busy" in sys.argv else [])
print("done")
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHANGES, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_kernel_takes_every_change_whatever_came_before() -> None:
    done = run(str(random.randrange(1 << 30)))
    assert done.stdout == "done\n", done.stderr


def test_what_the_kernel_refuses_is_an_error() -> None:
    done = run("1", "busy")
    assert "Device or resource busy" in done.stderr


REFUSED = """
import asyncio, struct, sys
from pathlib import Path
from trainshed.cluster.sandbox.linux import syscalls
from trainshed.cluster.sandbox.linux.seccomp import MACHINES
import os
architecture, column = MACHINES[os.uname().machine]
steps = [
    (0x20, 0, 0, 0), (0x15, 0, 3, (41, 198)[column]),  # socket
    (0x20, 0, 0, 32), (0x15, 0, 1, 12),  # of protocol NETLINK_NETFILTER
    (0x06, 0, 0, 0x00050000 | 93), (0x06, 0, 0, 0x7FFF0000),
]
syscalls.prctl(38, 1)
syscalls.filter_calls(b"".join(struct.pack("=HBBI", *step) for step in steps))
from trainshed.cluster.sandbox.api import Runtime, RuntimePaths
from trainshed.cluster.sandbox.client.keepers import services_by
async def main():
    home = Path(sys.argv[1])
    runtime = Runtime(RuntimePaths.under(home))
    await runtime.start()
    try:
        print(services_by(home / "run"), flush=True)
    finally:
        await runtime.stop_all()
asyncio.run(main())
"""


def test_a_process_forwards_where_the_kernel_does_not_translate(tmp_path) -> None:
    command = [sys.executable, "-c", REFUSED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "a process\n", done.stderr
    assert "Protocol not supported" in (tmp_path / "log/netd.log").read_text()


@pytest.mark.parametrize(
    "endpoints, host, expected",
    [
        ([["10.88.0.2", 80]], False, True),
        ([["10.88.0.2", 80], ["machine", 80]], False, False),
        ([["192.0.2.1", 80]], False, False),
        ([["10.88.0.2", 80]], True, False),
        ([], False, False),
    ],
)
def test_what_the_kernel_can_lead_to(endpoints, host, expected) -> None:
    assert can_be_translated({"endpoints": endpoints, "host": host}) is expected


def test_a_route_with_an_endpoint_outside_for_some_clients_is_not_translated() -> None:
    groups = [{"clients": ["10.88.0.3"], "endpoints": [["machine", 80]]}]
    assert not can_be_translated({"endpoints": [["10.88.0.2", 80]], "host": False, "groups": groups})


def test_ports_are_equal_by_what_they_are() -> None:
    place = ("tcp", "10.96.1.1", 80)
    assert Port(place, [("10.88.0.2", 1)], 0) == Port(place, (("10.88.0.2", 1),), 0)
    assert len({Port(place, (), 0), Port(place, (), 1), Port(place, (), 0)}) == 2
