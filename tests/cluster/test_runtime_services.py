"""Addresses of Services on this kernel: they lead to pods, whoever of the daemons is killed.

Translated by the kernel, where it can, and forwarded by a process: the same holds for both, but where a test says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.sandboxes import Sandboxes, until
from tests.cluster.service_programs import (
    CLIENT,
    CROWD,
    FLOOD,
    HOG,
    LASTING,
    SEGMENT,
    SERVER,
    SINK,
    TELLER,
    THROUGH,
    UDP_CLIENT,
)
from tests.processes import resident_bytes
from trainshed.cluster.sandbox import wire
from trainshed.cluster.sandbox.addresses import MACHINE
from trainshed.cluster.sandbox.api import ExecSpec, Route, Runtime, RuntimeLost, RuntimePaths
from trainshed.cluster.sandbox.client.keepers import services_by
from trainshed.cluster.sandbox.daemon.netd import SERVICES_BY
from trainshed.cluster.sandbox.linux.conntrack import Connections
from trainshed.cluster.sandbox.linux.netlink import NETLINK_NETFILTER
from trainshed.cluster.sandbox.model import Group

WEB = "10.96.7.7"


def ways() -> list[str]:
    """Return the ways that there are here, the one that is taken by itself first."""
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER).close()
    except OSError:
        return ["process"]
    return ["kernel", "process"]


def by(way: str) -> pytest.MarkDecorator:
    """Have a test in one of the ways alone."""
    return pytest.mark.parametrize("boxes", [one for one in ways() if one == way], indirect=True)


@pytest.fixture(params=ways())
async def boxes(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Sandboxes]:
    """A runtime with two servers, `a` and `b`."""
    monkeypatch.setenv(SERVICES_BY, "process" if request.param == "process" else "")
    runtime = Runtime(RuntimePaths.under(tmp_path))
    await runtime.start()
    made = Sandboxes(runtime, tmp_path)
    try:
        chosen = "the kernel (nftables)" if request.param == "kernel" else "a process"
        assert services_by(tmp_path / "run") == chosen
        for uid in ("a", "b"):
            await made.pod(uid)
            await made.start(uid, "python3", "-c", SERVER, uid)

        async def are_up() -> bool:
            return made.output("a") == made.output("b") == "up\n"

        await until("the servers", are_up)
        yield made
    finally:
        await made.close()


async def addresses(boxes: Sandboxes) -> dict[str, str]:
    return {state.uid: state.ip for state in await boxes.runtime.list()}


def tcp(*ips: str, port: int = 80, **fields: object) -> Route:
    fields = {"protocol": "tcp", "ip": WEB, "port": port, **fields}
    return Route(endpoints=tuple((ip, 8080) for ip in ips), **fields)  # type: ignore[arg-type]


async def visits(boxes: Sandboxes, port: int = 80, times: int = 1, size: int = 3) -> list[str]:
    """Return what pod `a` is told by the service, which it is behind itself."""
    command = ("python3", "-c", CLIENT, WEB, str(port), str(times), str(size))
    code, output = await boxes.exec("a", *command)
    assert code == 0, output
    return output.decode().splitlines()


async def test_ports_lead_to_endpoints_of_another_number_and_back_to_the_pod_itself(boxes: Sandboxes) -> None:
    ip = await addresses(boxes)
    assert await visits(boxes) == ["ConnectionRefusedError"]
    assert await boxes.runtime.set_routes([tcp(ip["a"], ip["b"]), tcp(ip["b"], port=443)]) == {}
    assert set(await visits(boxes, times=40)) == {"a 3", "b 3"}
    assert await visits(boxes, 443, times=3, size=30_000_000) == ["b 30000000"] * 3
    assert await visits(boxes, 81) == ["ConnectionRefusedError"]
    await boxes.runtime.set_routes([tcp(ip["a"], affinity_seconds=60)])
    assert await visits(boxes) == ["a 3"]
    await boxes.runtime.set_routes([tcp(ip["a"], ip["b"], affinity_seconds=60)])
    assert await visits(boxes, times=20) == ["a 3"] * 20
    await boxes.runtime.set_routes([tcp(ip["b"], affinity_seconds=60)])
    assert await visits(boxes, times=2) == ["b 3"] * 2
    await boxes.runtime.set_routes([])
    assert await visits(boxes) == ["ConnectionRefusedError"]


@by("process")
async def test_an_endpoint_that_has_gone_is_passed_over(boxes: Sandboxes) -> None:
    ip = await addresses(boxes)
    await boxes.runtime.set_routes([tcp("10.88.200.200", ip["b"], affinity_seconds=1)])
    await boxes.runtime.set_routes(
        [Route(protocol="tcp", ip=WEB, port=80, endpoints=((ip["b"], 1), (ip["b"], 8080)))]
    )
    assert await visits(boxes, times=8) == ["b 3"] * 8
    await boxes.runtime.set_routes([Route(protocol="tcp", ip=WEB, port=80, endpoints=((ip["b"], 1),))])
    assert await visits(boxes) == ["ConnectionResetError"]


async def test_datagrams(boxes: Sandboxes) -> None:
    ip = await addresses(boxes)
    for uid in ("a", "b"):
        route = Route(protocol="udp", ip=WEB, port=53, endpoints=((ip[uid], 5353),))
        await boxes.runtime.set_routes([route])
        code, output = await boxes.exec("a", "python3", "-c", UDP_CLIENT, WEB, "53")
        assert (code, output.decode().split("\n")) == (0, [f"{uid} one", f"{uid} two", ""])


async def test_one_socket_of_a_client_is_led_anew_when_its_endpoint_has_gone_or_there_was_none(
    boxes: Sandboxes,
) -> None:
    ip = await addresses(boxes)
    await boxes.pod("teller")
    await boxes.start("teller", "python3", "-c", TELLER, WEB)

    async def last_is(word: str) -> bool:
        return boxes.output("teller").endswith(f"{word} x\n")

    for uid in ("a", "b", "a"):
        route = Route(protocol="udp", ip=WEB, port=53, endpoints=((ip[uid], 5353),))
        await boxes.runtime.set_routes([route])
        await until(f"an answer of {uid}", lambda uid=uid: last_is(uid))  # type: ignore[misc]


async def test_a_client_is_led_elsewhere_once_it_has_stayed_away_for_longer_than_it_is_remembered(
    boxes: Sandboxes,
) -> None:
    ip = await addresses(boxes)
    await boxes.runtime.set_routes([tcp(ip["a"], ip["b"], affinity_seconds=2)])
    first = await visits(boxes, times=10)
    assert len(set(first)) == 1, "remembered"
    await boxes.runtime.set_routes([tcp(ip["a"], ip["b"], affinity_seconds=2), tcp(ip["b"], port=81)])
    assert set(await visits(boxes, times=10)) == set(first), "another port has changed"

    async def is_elsewhere() -> bool:
        await asyncio.sleep(2.2)
        return set(await visits(boxes)) != set(first)

    await until("another endpoint", is_elsewhere)


async def test_processes_in_the_network_of_the_cluster_are_led_on_too(boxes: Sandboxes) -> None:
    ip = await addresses(boxes)
    await boxes.runtime.set_routes([tcp(ip["b"])])
    code, output = await boxes.exec("a", "python3", "-c", THROUGH, WEB)
    assert code == 0, output
    assert output.splitlines()[-1] == b"b'b 4'", output


@by("kernel")
async def test_an_endpoint_that_refuses_is_a_refusal_and_one_outside_goes_by_the_process(
    boxes: Sandboxes,
) -> None:
    ip = await addresses(boxes)
    refusing = Route(protocol="tcp", ip=WEB, port=80, endpoints=((ip["b"], 1),))
    await boxes.runtime.set_routes([refusing])
    assert await visits(boxes) == ["ConnectionRefusedError"]
    mixed = Route(protocol="tcp", ip=WEB, port=81, endpoints=((ip["b"], 8080), (MACHINE, 1)))
    await boxes.runtime.set_routes([tcp(ip["a"]), mixed])
    assert processes(boxes, "daemon.serviceproxy") == []
    assert (await visits(boxes), await visits(boxes, 81)) == (["a 3"], ["b 3"])
    assert len(processes(boxes, "daemon.serviceproxy")) == 1


@by("kernel")
async def test_connections_and_routes_outlive_netd_and_its_successor_goes_on(boxes: Sandboxes) -> None:
    ip = await addresses(boxes)
    await boxes.runtime.set_routes([tcp(ip["b"], affinity_seconds=60)])
    session = await boxes.runtime.exec(
        "a", ExecSpec(container="c", argv=("python3", "-c", LASTING, WEB), stdin=True)
    )
    output = session.output()
    assert (await anext(output))[1] == b"joined\n"
    await session.write_stdin(b"\n")
    for pid in processes(boxes, "daemon.netd"):
        os.kill(pid, signal.SIGKILL)
    assert await visits(boxes, times=3) == ["b 3"] * 3, "with nobody there"

    async def is_back() -> bool:
        await boxes.runtime.start()
        return services_by(boxes.home / "run") == "the kernel (nftables)"

    await until("another netd", is_back)
    assert await visits(boxes, times=3) == ["b 3"] * 3
    await boxes.runtime.set_routes([tcp(ip["a"])])
    assert await visits(boxes, times=3) == ["a 3"] * 3
    await session.write_stdin(b"\n")
    await session.close_stdin()
    assert (await anext(output))[1] == b"b 2000\n", "it was joined to its endpoint for good"
    await session.close()


@by("kernel")
async def test_a_pod_has_no_more_connections_than_its_share_and_others_theirs(boxes: Sandboxes) -> None:
    for uid in ("crowd", "sink"):
        await boxes.pod(uid)
    ip = await addresses(boxes)
    await boxes.start("sink", "python3", "-c", SINK)
    await boxes.runtime.set_routes([tcp(ip["b"]), tcp(ip["sink"], port=443)])
    await until("the sink", lambda: says(boxes, "sink", "up\n"))
    await boxes.start("crowd", "python3", "-c", CROWD, WEB)
    await until("many connections", lambda: says(boxes, "crowd", "1024 76\n"))
    assert await visits(boxes, times=5) == ["b 3"] * 5
    await boxes.runtime.stop_sandbox("crowd")


def tracked(boxes: Sandboxes) -> int:
    """Return how many connections the kernel keeps track of in the cluster's network."""
    with wire.connect(str(boxes.home / "run/sandboxd.sock"), 10.0) as sock:
        _, descriptors = wire.ask(sock, {"op": "translate"})
    with socket.socket(fileno=descriptors[0]) as asking:
        return len(list(Connections(asking)._all()))


@by("kernel")
async def test_a_pod_that_floods_addresses_takes_no_room_for_connections_from_others(
    boxes: Sandboxes,
) -> None:
    ip = await addresses(boxes)
    routes = [Route(protocol="udp", ip=WEB, port=53, endpoints=((ip["b"], 5353),)), tcp(ip["b"])]
    await boxes.runtime.set_routes(routes)
    await boxes.pod("flood")
    await boxes.start("flood", "sleep", "600")
    code, output = await boxes.exec("flood", "python3", "-c", FLOOD)
    assert (code, output) == (0, b"")
    assert 3000 < tracked(boxes) < 4200, "it has what it may have"
    code, output = await boxes.exec("a", "python3", "-c", UDP_CLIENT, WEB, "53")
    assert (code, output) == (0, b"b one\nb two\n")
    assert await visits(boxes) == ["b 3"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def ask(port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"four")
    writer.write_eof()
    answer = (await asyncio.wait_for(reader.read(), 10)).decode()
    writer.close()
    return answer


async def test_ports_of_the_machines_loopback(boxes: Sandboxes) -> None:
    ip = await addresses(boxes)
    node_port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        routes = [
            tcp(ip["a"], ip="127.0.0.1", port=node_port, host=True),
            tcp(ip["b"], ip="127.0.0.1", port=number, host=True),
            tcp(ip["b"], ip="0.0.0.0", port=node_port, host=True),
        ]
        assert await boxes.runtime.set_routes(routes) == {
            ("tcp", "127.0.0.1", number): "Address already in use",
            ("tcp", "0.0.0.0", node_port): "0.0.0.0 is not the machine's loopback",
        }
        assert await ask(node_port) == "a 4"
    assert await boxes.runtime.set_routes(routes[:2]) == {}
    assert await ask(number) == "b 4"
    await boxes.runtime.set_routes([])
    with pytest.raises(ConnectionRefusedError):
        await ask(node_port)


async def test_endpoints_outside_are_reached_from_the_machine_but_not_its_loopback(boxes: Sandboxes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"out there")
        writer.close()

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        own = probe.getsockname()[0]
    async with await asyncio.start_server(serve, "0.0.0.0", 0) as server:
        port = server.sockets[0].getsockname()[1]
        outside = Route(protocol="tcp", ip=WEB, port=80, endpoints=((own, port),))
        loopback = Route(protocol="tcp", ip=WEB, port=81, endpoints=(("127.0.0.1", port),))
        of_a_pod = Route(protocol="tcp", ip=WEB, port=82, endpoints=((MACHINE, port),))
        await boxes.runtime.set_routes([outside, loopback, of_a_pod])
        assert await visits(boxes, size=0) == ["out there"]
        assert await visits(boxes, 81, size=0) == ["ConnectionResetError"]
        assert await visits(boxes, 82, size=0) == ["out there"], "a pod on the machine's network"


def processes(boxes: Sandboxes, name: str) -> list[int]:
    """Return the processes of this state directory whose command line has `name`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if name.encode() in line and str(boxes.home).encode() in line:
                found.append(int(entry.name))
    return found


@by("process")
@pytest.mark.parametrize("victim", ["daemon.serviceproxy", "daemon.netd"])
async def test_routes_come_back_when_a_daemon_was_killed(boxes: Sandboxes, victim: str) -> None:
    ip = await addresses(boxes)
    port = free_port()
    await boxes.runtime.set_routes([tcp(ip["b"]), tcp(ip["b"], ip="127.0.0.1", port=port, host=True)])
    assert await visits(boxes) == ["b 3"]
    (before,) = processes(boxes, "daemon.serviceproxy")
    for pid in processes(boxes, victim):
        os.kill(pid, signal.SIGKILL)

    async def is_answered() -> bool:
        try:
            await boxes.runtime.start()  # as the node does every two seconds
        except (OSError, RuntimeLost):
            return False
        return before not in processes(boxes, "daemon.serviceproxy") and await visits(boxes) == ["b 3"]

    await until("the route", is_answered)
    assert processes(boxes, "daemon.serviceproxy") not in ([], [before])
    assert await ask(port) == "b 4"
    await boxes.runtime.stop_all()
    assert processes(boxes, "sandbox") == []


@by("process")
async def test_the_process_is_there_from_the_first_connection_on(boxes: Sandboxes) -> None:
    """Or when many may be asked for. Until then what was asked for once may also go, or lead elsewhere."""
    ip, port = await addresses(boxes), free_port()
    host = tcp(ip["a"], ip="127.0.0.1", port=port, host=True)
    udp = Route(protocol="udp", ip=WEB, port=53, endpoints=((ip["a"], 5353),))

    async def routed(*routes: Route) -> None:
        assert await boxes.runtime.set_routes(list(routes)) == {}
        assert processes(boxes, "daemon.serviceproxy") == []

    await routed(tcp(ip["a"]), tcp(ip["a"], port=81), udp, host)
    await routed(tcp(ip["b"]), udp)
    assert await visits(boxes, 81) == ["ConnectionRefusedError"]
    with pytest.raises(ConnectionRefusedError):
        await ask(port)
    assert processes(boxes, "daemon.serviceproxy") == []
    assert await visits(boxes, times=3) == ["b 3"] * 3
    assert len(processes(boxes, "daemon.serviceproxy")) == 1
    code, output = await boxes.exec("a", "python3", "-c", UDP_CLIENT, WEB, "53")
    assert (code, output) == (0, b"a one\na two\n")

    await boxes.runtime.set_routes([])
    await routed(host)
    assert await ask(port) == "a 4"
    await boxes.runtime.set_routes([])
    await routed(udp)
    code, output = await boxes.exec("a", "python3", "-c", UDP_CLIENT, WEB, "53")
    assert (code, output) == (0, b"a one\na two\n")

    await boxes.runtime.set_routes([])
    assert await boxes.runtime.set_routes([tcp(ip["a"], port=number) for number in range(100, 105)]) == {}
    assert len(processes(boxes, "daemon.serviceproxy")) == 1


@by("process")
async def test_a_pod_that_opens_connections_without_end_uses_up_its_own_share(boxes: Sandboxes) -> None:
    """Nobody takes what it sends; the process that forwards keeps none of it."""
    for uid in ("hog", "sink"):
        await boxes.pod(uid)
    ip = await addresses(boxes)
    await boxes.start("sink", "python3", "-c", SINK)
    await boxes.runtime.set_routes([tcp(ip["b"]), tcp(ip["sink"], port=443)])
    assert await visits(boxes) == ["b 3"]
    (pid,) = processes(boxes, "daemon.serviceproxy")
    before = resident_bytes(pid)
    await until("the sink", lambda: says(boxes, "sink", "up\n"))
    await boxes.start("hog", "python3", "-c", HOG, WEB)
    await until("many connections", lambda: says(boxes, "hog", "1200\n"))
    assert await visits(boxes, times=5) == ["b 3"] * 5
    assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < 2 * 1024 + 64, "two descriptors each"
    assert resident_bytes(pid) - before < 16 << 20
    for uid in ("hog", "sink"):
        await boxes.runtime.stop_sandbox(uid)

    async def are_free() -> bool:
        return len(list(Path(f"/proc/{pid}/fd").iterdir())) < 64

    await until("the connections are closed", are_free)


async def says(boxes: Sandboxes, uid: str, text: str) -> bool:
    return boxes.output(uid) == text


@by("process")
async def test_pods_hand_over_more_than_a_packet_at_a_time(boxes: Sandboxes) -> None:
    code, output = await boxes.exec("a", "python3", "-c", SEGMENT)
    is_known = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 3)
    assert (code, output) == (0, b"200000\n" if is_known else b"")


@pytest.mark.parametrize("affinity", [0, 60])
async def test_pods_are_led_to_the_endpoints_of_their_group(boxes: Sandboxes, affinity: int) -> None:
    """As with `internalTrafficPolicy: Local`: near and far are of two nodes, the third is of one without endpoints."""
    servers = await addresses(boxes)
    clients = {uid: (await boxes.pod(uid)).ip for uid in ("near", "far", "third")}

    def grouped(protocol: str, port: int, target: int) -> Route:
        near, far = (servers["a"], target), (servers["b"], target)
        groups = (Group((clients["near"],), (near,)), Group((clients["far"],), (far,)))
        return Route(
            protocol=protocol,
            ip=WEB,
            port=port,
            endpoints=(near, far),
            affinity_seconds=affinity,
            groups=groups,
        )

    assert await boxes.runtime.set_routes([grouped("tcp", 80, 8080), grouped("udp", 53, 5353)]) == {}
    for uid, server in (("near", "a"), ("far", "b")):
        await boxes.start(uid, "python3", "-c", CLIENT, WEB, "80", "8", "5")
        assert (await boxes.end(uid)).exit_code == 0
        assert boxes.output(uid) == f"{server} 5\n" * 8
        await boxes.start(
            uid, "python3", "-c", UDP_CLIENT, WEB, "53", attempt=1, log_path=str(boxes.log(uid + "2"))
        )
        await boxes.end(uid, attempt=1)
        assert boxes.output(uid + "2") == f"{server} one\n{server} two\n"
    await boxes.start("third", "python3", "-c", CLIENT, WEB, "80", "3", "0")
    await boxes.end("third")
    assert {line.removesuffix("Error") for line in boxes.output("third").split()} <= {
        "ConnectionRefused",
        "ConnectionReset",
    }

    def from_outside() -> str:
        """Return who answers one that is in the cluster's network and no pod, as its proxy is."""
        with wire.connect(str(boxes.home / "run" / "sandboxd.sock"), timeout=5) as asked:
            _, descriptors = wire.ask(asked, {"op": "sockets"})
        ours, *others = [socket.socket(fileno=number) for number in descriptors]
        for one in others:
            one.close()
        with ours:
            ours.settimeout(10)
            ours.connect((WEB, 80))
            ours.shutdown(socket.SHUT_WR)
            return ours.recv(99).decode()

    assert await asyncio.to_thread(from_outside) in ("a 0", "b 0")
    # The far one's endpoint goes to the near one's node: it is refused from now on, and what was translated goes.
    only = (servers["a"], 8080), (servers["b"], 8080)
    route = Route(
        protocol="tcp", ip=WEB, port=80, endpoints=only, affinity_seconds=affinity,
        groups=(Group((clients["near"],), only),),
    )  # fmt: skip
    assert await boxes.runtime.set_routes([route]) == {}
    await boxes.start("far", "python3", "-c", CLIENT, WEB, "80", "2", "0", attempt=2)
    await boxes.end("far", attempt=2)
    assert "a 0" not in boxes.output("far") and "b 0" not in boxes.output("far")
