"""The network daemon: lives on the host's network, with sockets that were opened inside the cluster's.

    10.88.0.1:53      DNS, `nameserver`
    10.88.0.1:3128    the way out for pods, `proxy`; where it can be had, also a route, `egress`
    Services          translated by the kernel, `translation`; where it cannot, forwarded by a process of its own,
                      `servicenet`: bytes do not wait for names; held here until somebody connects
    any other         listeners that the control plane asked for; kept here, so that a restarted one finds
                      its clients' connections waiting in the same socket

It also keeps the namespaces of the sandboxes open for a `sandboxd` that has to be started again.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import time

from trainshed.cluster.sandbox import files, logfile, wire
from trainshed.cluster.sandbox.addresses import DNS_PORT, GATEWAY, PROXY_PORT
from trainshed.cluster.sandbox.daemon import launching
from trainshed.cluster.sandbox.daemon.peers import Peer, Server
from trainshed.cluster.sandbox.daemon.servicenet import ServiceNet
from trainshed.cluster.sandbox.linux import syscalls
from trainshed.cluster.sandbox.loop import READ, Loop, record_crash
from trainshed.cluster.sandbox.net import egress, ipam
from trainshed.cluster.sandbox.net.inside import Inside
from trainshed.cluster.sandbox.net.nameserver import NameServer
from trainshed.cluster.sandbox.net.proxy import Proxy
from trainshed.cluster.sandbox.net.translation import Translation
from trainshed.cluster.sandbox.net.zone import Zone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from trainshed.cluster.sandbox.daemon.servicenet import Failed
    from trainshed.cluster.sandbox.wire import Message

NAME = "netd.sock"
RECORDS = "dns.json"
SERVICES_BY = "TRAINSHED_SERVICES"
"""With the value `process`, a variable of whoever starts the cluster that has it do what its kernel could."""
_TIMEOUT = 10.0
_EGRESS_TIMEOUT = 5.0
_EGRESS_POLL = 0.02


def main(argv: list[str]) -> int:
    """Launch the daemon: `netd <run directory> <pods directory>`. One line of JSON tells the outcome."""
    run, pods = argv
    return launch(run, lambda: Daemon(run, pods))


def launch(run: str, make: Callable[[], Daemon]) -> int:
    """Launch the daemon that `make` returns; print one line of JSON with the outcome."""
    answer = launching.launch(lambda report: _daemon(run, make, report))
    answer = answer or b'{"failure": "it ended without a word"}'
    print(answer.decode().strip())  # noqa: T201 - read by the control plane
    return 0


def _daemon(run: str, make: Callable[[], Daemon], report: int) -> NoReturn:
    try:
        os.setsid()
        syscalls.set_process_name("trainshed-netd")
        launching.detach_stdio()
        files.lock(f"{run}/netd.lock")  # until this process ends
        daemon = make()
        os.write(report, json.dumps({"pid": os.getpid()}).encode() + b"\n")
        os.close(report)
        daemon.run()
    except BaseException as error:
        record_crash()
        launching.tell(report, {"failure": str(error)})
    finally:
        os._exit(0)


class Daemon:
    """Serves `netd.sock`, DNS and the proxy."""

    def __init__(self, run: str, pods: str) -> None:
        self._run = run
        self._loop = Loop()
        self._listeners: dict[tuple[str, int], int] = {}
        self._route = False
        self._inside: Inside | None = None
        self._namespaces: list[int] = []
        udp, tcp = self._enter(pods)
        self._dns = NameServer(self._loop, wire.adopt(udp), wire.adopt(tcp))
        self._load(files.read_state(f"{run}/{RECORDS}") or {})
        translation = self._start_translation()
        self._services = ServiceNet(self._loop, run, self._namespaces, self._open, translation)
        self._server = Server(self._loop, f"{run}/{NAME}", self._request)

    def _enter(self, pods: str) -> tuple[int, int]:
        """Take up what is the cluster's network; return the sockets of its DNS server, of UDP and TCP."""
        self._namespaces = self._ask({"op": "namespaces"})
        self._inside = Inside(f"{self._run}/{ipam.DIRECTORY}", pods, lambda: self._ask({"op": "sockets"}))
        listener = wire.adopt(self._open(GATEWAY, PROXY_PORT, "tcp"))
        Proxy(self._loop, listener, self._inside)
        self._start_egress()
        return self._open(GATEWAY, DNS_PORT, "udp"), self._open(GATEWAY, DNS_PORT, "tcp")

    def run(self) -> None:
        """Serve until told to shut down."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        logfile.keep(self._loop)
        gc.collect()
        self._loop.run()

    def _ask(self, message: Message) -> list[int]:
        """Ask sandboxd for descriptors. Raises OSError."""
        with wire.connect(f"{self._run}/sandboxd.sock", _TIMEOUT) as sock:
            answer, descriptors = wire.ask(sock, message)
        if "failure" in answer:
            raise OSError(answer.get("errno", 0), answer["failure"])
        return descriptors

    def _open(self, ip: str, port: int, kind: str) -> int:
        return self._ask({"op": "listen", "ip": ip, "port": port, "kind": kind})[0]

    def _start_egress(self) -> None:
        """Give the cluster network a route out, if a program for it is installed."""
        user, cluster = (f"/proc/{os.getpid()}/fd/{fd}" for fd in self._namespaces)
        arguments = egress.command(user, cluster)
        if not arguments:
            return
        try:
            self._ask({"op": "forward"})
            pid = egress.spawn(arguments)
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            os.write(2, f"no route for pods, they have the proxy: {error}\n".encode())
            return
        self._route = self._wait_for_route(pidfd)

        def ended(events: int) -> None:
            self._loop.forget(pidfd)
            os.close(pidfd)
            os.waitpid(pid, 0)
            self._route = False
            os.write(2, f"{arguments[0]} has ended; pods have the proxy\n".encode())

        self._loop.watch(pidfd, READ, ended)

    def _wait_for_route(self, pidfd: int) -> bool:
        """Return whether the program has made its interface; it may also refuse, and end."""
        deadline = time.monotonic() + _EGRESS_TIMEOUT
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        while time.monotonic() < deadline:
            try:
                self._ask({"op": "interface", "name": egress.TAP})
                return True
            except OSError:
                if ended.poll(_EGRESS_POLL * 1000):
                    return False
        return False

    def _start_translation(self) -> Translation | None:
        """Return what has the kernel translate addresses of Services; None where it does not, or shall not."""
        if os.environ.get(SERVICES_BY) == "process":
            return None
        try:
            return Translation(self._ask({"op": "translate"})[0])
        except OSError as error:
            os.write(2, f"Services are forwarded by a process: {error}\n".encode())
            return None

    def _load(self, records: Message) -> None:
        ports, aliases = records.get("ports", {}), records.get("aliases", {})
        zone = Zone(records.get("services", {}), records.get("pending", ()), ports, aliases)
        if self._inside is not None:
            self._inside.zone = zone
        self._dns.set_zone(zone)

    def _request(self, peer: Peer, message: Message) -> None:
        operation = message.get("op")
        if operation == "ping":
            state = {"pid": os.getpid(), "protocol": wire.PROTOCOL, "route": self._route}
            peer.answer({**state, "services": self._services.by})
        elif operation == "namespaces":
            peer.answer({}, [os.dup(fd) for fd in self._namespaces])
        elif operation == "listen":
            self._listen(peer, message["ip"], message["port"])
        elif operation == "records":
            self._load(message["records"])
            try:
                files.write_state(f"{self._run}/{RECORDS}", message["records"])
            except OSError as error:
                peer.answer({"failure": f"cannot keep the DNS records: {error}"})
                return
            peer.answer({})
        elif operation == "routes":
            self._set_routes(peer, message["routes"])
        elif operation == "shutdown":
            self._server.close()
            self._services.close()
            peer.answer({})
            self._loop.stop()
        else:
            peer.answer({"failure": f"unknown operation {operation!r}"})

    def _set_routes(self, peer: Peer, routes: list[Message]) -> None:
        """Answer when the routes are in force: whoever is told that a pod is ready reaches it by its Service."""

        def done(failed: Failed | None) -> None:
            if failed is None:
                peer.answer({"failure": "the process that forwards has ended"})
            else:
                peer.answer({"failed": [{"place": place, "why": why} for place, why in failed]})

        try:
            self._services.set_routes(routes, done)
        except OSError as error:
            peer.answer({"failure": f"cannot route Services: {error}"})

    def _listen(self, peer: Peer, ip: str, port: int) -> None:
        try:
            if (ip, port) not in self._listeners:
                self._listeners[ip, port] = self._open(ip, port, "tcp")
        except OSError as error:
            peer.answer({"failure": str(error), "errno": error.errno})
            return
        peer.answer({}, [os.dup(self._listeners[ip, port])])
