"""Addresses of Services, translated by the kernel (nf_tables) in the cluster's network, as kube-proxy has it done.

    table ip trainshed-services
      map services    address . protocol . port  ▸ the chain of a Service's port
      chain arriving  (prerouting)  too many connections of one client: as they are, so nobody listens
                                    else where `services` says
      chain leaving   (output)      the same for processes in the cluster's own network
      chain asking, answering       questions to the DNS server are no connections: there are many
      chain guarding  nobody has so many connections that others get none; what is too much is lost
      chain sending   (postrouting) what is translated comes from the bridge, or answers would pass it by
      chain port-N    one endpoint, or one of several at random
      chain end-N-K   of Services with session affinity: remember the client, then to endpoint K
      map   at-N      of ports whose clients are in groups: a pod's address ▸ the chain of its group, port-N.G
      set   met-M     clients of such an endpoint, each for its time

All addresses of Services are local to the network, so the kernel refuses what is not translated, as where there are
no endpoints. A change is one transaction: a new chain, and `services` leads there.
"""

from __future__ import annotations

import socket
import struct

from trainshed.cluster.sandbox.addresses import DNS_PORT, GATEWAY, POD_PREFIX, is_pod
from trainshed.cluster.sandbox.linux import nftables
from trainshed.cluster.sandbox.linux.conntrack import Connections
from trainshed.cluster.sandbox.linux.nftables import REGISTERS, VERDICT, Table, Transactions
from trainshed.cluster.sandbox.net.budget import MAX_OF_CLIENT, MAX_REMEMBERED
from trainshed.cluster.sandbox.net.groups import groups_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from trainshed.cluster.sandbox.linux.nftables import Command
    from trainshed.cluster.sandbox.net.groups import Groups
    from trainshed.cluster.sandbox.wire import Message

    Place: TypeAlias = tuple[str, str, int]
    """Protocol, IP address, port."""
    Address: TypeAlias = tuple[str, int]

TABLE = "trainshed-services"
_SERVICES, _CLIENTS, _GUESTS = "services", "clients", "guests"
_ARRIVING, _LEAVING, _SENDING = "arriving", "leaving", "sending"
_PROTOCOLS = {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP}
_MAX_CLIENTS = 65_536
MAX_TRACKED = 4096
"""Connections of one address that the kernel keeps track of, of TCP and of UDP each: its room for all is bounded."""
_MOST_ENDPOINTS = 128
"""Ports and endpoints that a transaction is about: each is up to a KiB, and a socket sends 208 KiB at a time."""
_FIRST, _SECOND, _THIRD = REGISTERS[:3]
_SOURCE, _DESTINATION, _PORT = 12, 16, 2
"""Offsets of addresses in the IP header, and of the port in those of TCP and UDP."""


def can_be_translated(route: Message) -> bool:
    """Return whether the kernel can lead there: from the cluster's network to pods alone."""
    ends = [*route["endpoints"], *(end for _, found in groups_of(route) for end in found)]
    return not route["host"] and bool(ends) and all(is_pod(ip) for ip, _ in ends)


class Port:
    """Where one port of a Service leads; `affinity` in seconds, 0 for none. A value."""

    __slots__ = ("affinity", "endpoints", "groups", "place")

    def __init__(
        self, place: Place, endpoints: Sequence[Address], affinity: int, groups: Groups = ()
    ) -> None:
        self.place = place
        self.endpoints = tuple(endpoints)
        self.affinity = affinity
        self.groups = groups

    @classmethod
    def of(cls, route: Message) -> Port:
        """Read a route."""
        endpoints = [(str(ip), int(port)) for ip, port in route["endpoints"]]
        place = route["protocol"], route["ip"], int(route["port"])
        return cls(place, endpoints, route["affinity_seconds"], groups_of(route))

    def _value(self) -> tuple[object, ...]:
        return self.place, self.endpoints, self.affinity, self.groups

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Port) and self._value() == other._value()

    def __hash__(self) -> int:
        return hash(self._value())

    @property
    def everywhere(self) -> set[Address]:
        """The endpoints of any client."""
        return set(self.endpoints).union(*(ends for _, ends in self.groups))

    @property
    def size(self) -> int:
        """How much of a transaction it takes, in endpoints."""
        grouped = sum(1 + len(clients) // 8 + len(endpoints) for clients, endpoints in self.groups)
        return 1 + len(self.endpoints) + grouped

    def parts(self) -> list[tuple[tuple[str, ...], Port]]:
        """Return for each group of clients what it is led to; the last are those who are no pods."""
        found = [(clients, Port(self.place, ends, self.affinity)) for clients, ends in self.groups]
        return [*found, ((GATEWAY,), Port(self.place, self.endpoints, self.affinity))]


class Rules:
    """What is in the table, and the commands that make it something else. Pure."""

    def __init__(self) -> None:
        self._table = Table(TABLE)
        self._ports: dict[Place, tuple[int, Port]] = {}
        self._met: dict[tuple[Place, Address, int], str] = {}
        self._number = 0

    @property
    def ports(self) -> dict[Place, Port]:
        """The ports that the kernel leads on."""
        return {place: port for place, (_, port) in self._ports.items()}

    def begin(self) -> list[Command]:
        """Return commands for an empty table, in place of what an earlier process left."""
        table = self._table
        lead = (
            nftables.load_network(_FIRST, _DESTINATION, 4),
            nftables.load_protocol(_SECOND),
            nftables.load_transport(_THIRD, _PORT, 2),
            nftables.look_up(_SERVICES, _FIRST, VERDICT),
        )
        client = nftables.load_network(_FIRST, _SOURCE, 4), nftables.load_protocol(_SECOND)
        guard = (
            *nftables.is_new(_FIRST),
            *client,
            nftables.has_more_connections(_GUESTS, _FIRST, MAX_TRACKED),
            nftables.load_value(VERDICT, nftables.drop()),
        )
        crowd = (
            nftables.load_network(_FIRST, _DESTINATION, 2),
            nftables.is_equal(_FIRST, bytes([10, 96])),
            *client,
            nftables.has_more_connections(_CLIENTS, _FIRST, MAX_OF_CLIENT),
            nftables.load_value(VERDICT, nftables.accept()),
        )
        return [
            table.add(),
            table.delete(),
            table.add(),
            table.add_map(_SERVICES, 12),
            table.add_set(_CLIENTS, 8, size=_MAX_CLIENTS),
            table.add_set(_GUESTS, 8, size=_MAX_CLIENTS),
            table.add_base_chain("asking", "filter", nftables.PREROUTING, nftables.RAW_PRIORITY),
            table.add_base_chain("answering", "filter", nftables.OUTPUT, nftables.RAW_PRIORITY),
            table.add_base_chain("guarding", "filter", nftables.PREROUTING, nftables.GUARD_PRIORITY),
            table.add_base_chain(_ARRIVING, "nat", nftables.PREROUTING, nftables.DNAT_PRIORITY),
            table.add_base_chain(_LEAVING, "nat", nftables.OUTPUT, nftables.DNAT_PRIORITY),
            table.add_base_chain(_SENDING, "nat", nftables.POSTROUTING, nftables.SNAT_PRIORITY),
            table.add_rule("asking", *_untracked(_DESTINATION, _PORT)),
            table.add_rule("answering", *_untracked(_SOURCE, 0)),
            table.add_rule("guarding", *guard),
            table.add_rule(_ARRIVING, *crowd),
            table.add_rule(_ARRIVING, *lead),
            table.add_rule(_LEAVING, *lead),
            table.add_rule(_SENDING, *nftables.is_translated(_FIRST), nftables.masquerade()),
        ]

    def change(self, wanted: Sequence[Port]) -> list[Command]:
        """Return commands that lead to these and nowhere else; they have to be committed."""
        ports = {port.place: port for port in wanted}
        old = [(number, port) for place, (number, port) in self._ports.items() if ports.get(place) != port]
        new = [
            port for place, port in ports.items() if place not in self._ports or self._ports[place][1] != port
        ]
        commands = [self._table.delete_element(_SERVICES, _key(port.place)) for _, port in old]
        for _, port in old:
            del self._ports[port.place]
        for port in new:
            self._number += 1
            self._ports[port.place] = self._number, port
            commands += self._add(self._number, port)
        for number, port in old:
            commands += self._delete(number, port)
        return commands + self._forget()

    def _add(self, number: int, port: Port) -> list[Command]:
        here = self._table.add_elements(_SERVICES, [(_key(port.place), nftables.goto(f"port-{number}"))])
        if not port.groups:
            return [*self._add_chain(str(number), port), here]
        table, chain, at = self._table, f"port-{number}", f"at-{number}"
        commands, ends = [], []
        for index, (clients, part) in enumerate(port.parts()):
            commands += self._add_chain(f"{number}.{index}", part)
            go = nftables.goto(f"port-{number}.{index}")
            ends += [(socket.inet_aton(client), go) for client in clients]
        # Processes in the cluster's own network are no pods, and come from the address that they go to.
        strangers = (
            nftables.load_network(_FIRST, _SOURCE, 2),
            nftables.differs(_FIRST, bytes(int(byte) for byte in POD_PREFIX.split(".")[:2])),
            nftables.load_value(VERDICT, go),
        )
        return [
            *commands,
            table.add_map(at, 4),
            table.add_elements(at, ends),
            table.add_chain(chain),
            table.add_rule(
                chain, nftables.load_network(_FIRST, _SOURCE, 4), nftables.look_up(at, _FIRST, VERDICT)
            ),
            table.add_rule(chain, *strangers),
            here,
        ]

    def _add_chain(self, number: str, port: Port) -> list[Command]:
        table, chain, count = self._table, f"port-{number}", len(port.endpoints)
        commands = [table.add_chain(chain)]
        if port.affinity:
            commands += self._add_affine(number, port)
        elif count == 1:
            commands.append(table.add_rule(chain, *_lead_to(port.endpoints[0])))
        else:
            ends = [
                (struct.pack("=I", index), nftables.value(_packed(one)))
                for index, one in enumerate(port.endpoints)
            ]
            pick = (nftables.load_random(_FIRST, count), nftables.look_up(_ends(number), _FIRST, _FIRST))
            commands += [
                table.add_map(_ends(number), 4, 8),
                table.add_elements(_ends(number), ends),
                table.add_rule(chain, *pick, nftables.lead_to(_FIRST, _SECOND)),
            ]
        return commands

    def _add_affine(self, number: str, port: Port) -> list[Command]:
        table, chain, client = self._table, f"port-{number}", nftables.load_network(_FIRST, _SOURCE, 4)
        commands, known, ends = [], [], []
        for index, endpoint in enumerate(port.endpoints):
            key, end = (port.place, endpoint, port.affinity), f"end-{number}-{index}"
            met = self._met.get(key)
            if met is None:
                self._number += 1
                met = self._met[key] = f"met-{self._number}"
                commands.append(table.add_set(met, 4, size=MAX_REMEMBERED, timeout=port.affinity))
            commands.append(table.add_chain(end))
            commands.append(table.add_rule(end, client, nftables.put(met, _FIRST)))
            commands.append(table.add_rule(end, *_lead_to(endpoint)))
            go = nftables.load_value(VERDICT, nftables.goto(end))
            known.append(table.add_rule(chain, client, nftables.is_in(met, _FIRST), go))
            ends.append((struct.pack("=I", index), nftables.goto(end)))
        pick = nftables.load_random(_FIRST, len(ends)), nftables.look_up(_ends(number), _FIRST, VERDICT)
        fresh = [table.add_map(_ends(number), 4), table.add_elements(_ends(number), ends)]
        return [*commands, *known, *fresh, table.add_rule(chain, *pick)]

    def _delete(self, number: int, port: Port) -> list[Command]:
        """Return commands that delete a port's chains: first what uses others."""
        if not port.groups:
            return self._delete_chain(str(number), port)
        table, chain = self._table, f"port-{number}"
        commands = [table.delete_rules(chain), table.delete_set(f"at-{number}"), table.delete_chain(chain)]
        for index, (_, part) in enumerate(port.parts()):
            commands += self._delete_chain(f"{number}.{index}", part)
        return commands

    def _delete_chain(self, number: str, port: Port) -> list[Command]:
        table, chain = self._table, f"port-{number}"
        commands = [table.delete_rules(chain)]
        if port.affinity or len(port.endpoints) > 1:
            commands.append(table.delete_set(_ends(number)))
        commands.append(table.delete_chain(chain))
        if port.affinity:
            ends = [f"end-{number}-{index}" for index in range(len(port.endpoints))]
            commands += [table.delete_rules(end) for end in ends]
            commands += [table.delete_chain(end) for end in ends]
        return commands

    def _forget(self) -> list[Command]:
        """Return commands that delete the sets of endpoints that nobody is led to any more."""
        kept = {
            (port.place, endpoint, port.affinity)
            for _, port in self._ports.values()
            if port.affinity
            for endpoint in port.everywhere
        }
        gone = [key for key in self._met if key not in kept]
        return [self._table.delete_set(self._met.pop(key)) for key in gone]


def _untracked(address: int, port: int) -> tuple[bytes, ...]:
    """Return a rule for datagrams whose address and port, at these offsets, are the DNS server's."""
    return (
        nftables.load_protocol(_FIRST),
        nftables.is_equal(_FIRST, bytes([socket.IPPROTO_UDP])),
        nftables.load_network(_FIRST, address, 4),
        nftables.is_equal(_FIRST, socket.inet_aton(GATEWAY)),
        nftables.load_transport(_FIRST, port, 2),
        nftables.is_equal(_FIRST, struct.pack("!H", DNS_PORT)),
        nftables.leave_untracked(),
    )


def _key(place: Place) -> bytes:
    protocol, ip, port = place
    return socket.inet_aton(ip) + bytes([_PROTOCOLS[protocol], 0, 0, 0]) + struct.pack("!HH", port, 0)


def _packed(endpoint: Address) -> bytes:
    return socket.inet_aton(endpoint[0]) + struct.pack("!HH", endpoint[1], 0)


def _lead_to(endpoint: Address) -> tuple[bytes, ...]:
    address = nftables.load_value(_FIRST, socket.inet_aton(endpoint[0]))
    port = nftables.load_value(_SECOND, struct.pack("!H", endpoint[1]))
    return address, port, nftables.lead_to(_FIRST, _SECOND)


def _ends(number: str) -> str:
    return f"ends-{number}"


class Translation:
    """Has the kernel translate. `descriptor` is of a netlink socket of the cluster's network, and closed at the end.

    Raises OSError where the kernel does not do all that is needed.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._rules = Rules()
        try:
            self._transactions = Transactions(self._socket)
            self._connections = Connections(self._socket)
            self._try()
        except BaseException:
            self._socket.close()
            raise

    def _try(self) -> None:
        """Have every kind of rule in force for a moment, and look at connections."""
        self._transactions.commit(self._rules.begin())
        nowhere = [("0.0.0.0", 1), ("0.0.0.0", 2)]  # noqa: S104 - nobody is led there
        ports = [Port(("tcp", "0.0.0.0", number), nowhere, number) for number in (0, 1)]  # noqa: S104
        groups = ((("0.0.0.1",), tuple(nowhere)),)
        self._apply([*ports, Port(("tcp", "0.0.0.0", 2), nowhere, 0, groups)])  # noqa: S104
        self._apply([])
        self._connections.forget_datagrams(lambda to, by: False)

    def apply(self, routes: Sequence[Message]) -> None:
        """Lead on by these routes, all of which `can_be_translated`. Raises OSError; then nothing is led on."""
        try:
            before = self._rules.ports
            self._apply([Port.of(route) for route in routes])
            self._forget_datagrams(before)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Translate nothing any more."""
        table = Table(TABLE)
        try:
            self._transactions.commit([table.add(), table.delete()])
        except OSError:
            pass  # the network has gone
        self._socket.close()

    def _apply(self, ports: Sequence[Port]) -> None:
        """Have these led on: each port in one transaction, and as many in one as a message to the kernel takes."""
        wanted = {port.place: port for port in ports}
        now = self._rules.ports
        changed = sorted(place for place in {*now, *wanted} if now.get(place) != wanted.get(place))
        while changed:
            room = _MOST_ENDPOINTS
            while changed and room > 0:
                place = changed.pop()
                room -= sum(port.size for port in (now.pop(place, None), wanted.get(place)) if port)
                if place in wanted:
                    now[place] = wanted[place]
            self._transactions.commit(self._rules.change(list(now.values())))

    def _forget_datagrams(self, before: dict[Place, Port]) -> None:
        """Have clients of endpoints that are no more, or of a port that had none, be led anew."""
        now = self._rules.ports
        changed = {
            place[1:]: now[place].everywhere if place in now else set()
            for place in {*before, *now}
            if place[0] == "udp" and before.get(place) != now.get(place)
        }
        if changed:
            self._connections.forget_datagrams(lambda to, by: to in changed and by not in changed[to])
