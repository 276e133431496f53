"""The cluster zone: which answer a name has. Pure.

Behaviour follows the Kubernetes DNS specification (kubernetes/dns, docs/specification.md) for the names that
the node agent pushes:

    A      Services; pods behind headless ones by hostname or address (`10-88-0-2.web.default.svc…`); pods by address
           (`10-88-0-2.default.pod…`)
    SRV    `_port._protocol.service`, and all named ports of a Service
    PTR    cluster IPs and pods behind headless Services
    CNAME  ExternalName
"""

from __future__ import annotations

from trainshed.cluster.sandbox.addresses import DOMAIN, is_cluster, is_pod, is_service
from trainshed.cluster.sandbox.net import dnswire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from trainshed.cluster.sandbox.net.dnswire import Question

    Port: TypeAlias = tuple[str, str, int]

_REVERSE = ".in-addr.arpa"
_PODS = f"pod.{DOMAIN}"
_POD_DOTS = 3
_SERVICE_LABELS = 5
_MAX_ALIASES = 8
_MAX_POINTERS = 16
_ADDRESSES = (dnswire.TYPE_A, dnswire.TYPE_ANY)
_SERVICES = (dnswire.TYPE_SRV, dnswire.TYPE_ANY)


class Zone:
    """One state of the records. Names are lower case without trailing dot.

    `ports` are those with a name of each Service: (name, protocol, number); `aliases` lead from a Service of type
    ExternalName to the name that it stands for.
    """

    def __init__(
        self,
        services: Mapping[str, Sequence[str]],
        pending: Sequence[str],
        ports: Mapping[str, Sequence[Port]] | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self._services = {name.lower(): tuple(addresses) for name, addresses in services.items()}
        self._pending = {name.lower() for name in pending}
        self._ports = {name.lower(): found for name, found in (ports or {}).items()}
        self._aliases = {name.lower(): to.lower().rstrip(".") for name, to in (aliases or {}).items()}
        self._parents: set[str] = {DOMAIN, f"svc.{DOMAIN}", _PODS}
        self._hosts: dict[tuple[str, str], str] = {}
        """Pods with names of their own, by their Service and address."""
        for name in (*self._services, *self._pending, *self._aliases):
            labels = name.split(".")
            self._parents.update(".".join(labels[cut:]) for cut in range(1, len(labels)))
            if len(labels) > _SERVICE_LABELS:
                for address in self._services.get(name, ()):
                    self._hosts[".".join(labels[1:]), address] = name
        self._names: dict[str, list[str]] = {}
        for name, addresses in self._services.items():
            if name.count(".") < _SERVICE_LABELS:
                for address in addresses:
                    self._names.setdefault(address, []).append(self._target(name, address))

    def covers(self, name: str) -> bool:
        """Return whether this zone answers for `name`; anything else is asked upstream."""
        if name == DOMAIN or name.endswith(f".{DOMAIN}"):
            return True
        address = _reversed_address(name)
        return address is not None and is_cluster(address)

    def find(self, host: str, namespace: str) -> tuple[str, ...] | None:
        """Return the addresses that `host` has for a pod of `namespace`, along its search path.

        Empty: the name is the cluster's and has none; None: whoever resolves other names knows.
        """
        known = self.full_name(host, namespace)
        if known:
            return self._services.get(known, ())
        name = host.lower().removesuffix(".")
        address = self._dashed(name)
        if address:
            return (address,)
        return () if self.covers(name) else None

    def canonical(self, host: str, namespace: str) -> str:
        """Return the name that `host` stands for, for a pod of `namespace`; itself unless an ExternalName says more."""
        known = self.full_name(host, namespace)
        return ([host, *self.aliases(known)] if known else [host])[-1]

    def full_name(self, host: str, namespace: str) -> str:
        """Return the full name of a Service or pod along the search path; empty when there is none."""
        name = host.lower().removesuffix(".")
        domains = () if host.endswith(".") else (f".{namespace}.svc.{DOMAIN}", f".svc.{DOMAIN}", f".{DOMAIN}")
        for domain in ("", *domains):
            candidate: str = name + domain
            if candidate in self._services or candidate in self._pending or candidate in self._aliases:
                return candidate
        return ""

    def aliases(self, name: str) -> list[str]:
        """Return the names that `name` leads to, one after the other; none unless it is an ExternalName."""
        chain: list[str] = []
        while name in self._aliases and len(chain) < _MAX_ALIASES:
            name = self._aliases[name]
            chain.append(name)
        return chain

    def must_wait(self, question: Question) -> bool:
        """Return whether an address may arrive soon: the name is known and has none yet."""
        if question.kind not in (dnswire.TYPE_A, dnswire.TYPE_ANY):
            return False
        return question.name in self._pending and not self._services.get(question.name)

    def answer(self, question: Question) -> bytes:
        """Return the response for a name that the zone covers."""
        kind, name = question.kind, question.name
        reverse = _reversed_address(name)
        if reverse is not None:
            return self._answer_reverse(question, self._names.get(reverse, []))
        chain = self.aliases(name)
        if chain:
            found = self._services.get(chain[-1], ()) if kind in _ADDRESSES else ()
            records = alias_records(chain) if kind != dnswire.TYPE_SOA else []
            records += [dnswire.address_record(address, chain[-1]) for address in found]
            return dnswire.answer(question, records=records, zone=DOMAIN)
        ports = self._ports_named(name)
        if ports is not None and (kind == dnswire.TYPE_SRV or name not in self._services):
            return self._answer_ports(question, ports) if kind in _SERVICES else self._empty(question)
        addresses = self._services.get(name) or tuple(filter(None, (self._dashed(name),)))
        if not addresses:
            # A parent of a name exists without records (RFC 8020); a pending name exists without an address.
            exists = name in self._parents or name in self._pending or name in self._services
            return self._empty(question, dnswire.NOERROR if exists else dnswire.NXDOMAIN)
        if kind not in _ADDRESSES:
            return self._empty(question)
        records = [dnswire.address_record(address) for address in addresses]
        return dnswire.answer(question, records=records, zone=DOMAIN)

    def _empty(self, question: Question, code: int = dnswire.NOERROR) -> bytes:
        return dnswire.answer(question, code, zone=DOMAIN)

    def _answer_reverse(self, question: Question, names: list[str]) -> bytes:
        if not names:
            return dnswire.answer(question, dnswire.NXDOMAIN)
        wanted = question.kind in (dnswire.TYPE_PTR, dnswire.TYPE_ANY)
        records = [dnswire.pointer_record(name) for name in names[:_MAX_POINTERS]] if wanted else []
        return dnswire.answer(question, records=records)

    def _ports_named(self, name: str) -> list[tuple[str, int]] | None:
        """Return (Service, number) of the ports that `_port._protocol.service`, or a Service, has; None when `name` is
        neither."""
        if name in self._ports:
            return [(name, number) for _, _, number in self._ports[name]]
        if not name.startswith("_"):
            return None
        port, _, rest = name.partition(".")
        protocol, _, service = rest.partition(".")
        found = [
            (service, number)
            for one, of, number in self._ports.get(service, ())
            if f"_{one}" == port and f"_{of}" == protocol
        ]
        return found or None

    def _answer_ports(self, question: Question, ports: list[tuple[str, int]]) -> bytes:
        records: list[dnswire.Record] = []
        hosts: list[dnswire.Record] = []
        for service, number in ports:
            for address in self._services.get(service, ()):
                target = self._target(service, address)
                records.append(dnswire.service_record(number, target))
                host = dnswire.address_record(address, target)
                if all(one.name != target for one in hosts):
                    hosts.append(host)
        return dnswire.answer(question, records=records, additional=hosts, zone=DOMAIN)

    def _target(self, service: str, address: str) -> str:
        """Return the name of one address of a Service: its own, or of a headless one that of the pod."""
        if is_service(address):
            return service
        return self._hosts.get((service, address)) or f"{address.replace('.', '-')}.{service}"

    def _dashed(self, name: str) -> str:
        """Return the address that a name spells: of a pod, or of one behind a headless Service; else nothing."""
        label, _, rest = name.partition(".")
        address = label.replace("-", ".")
        if rest.count(".") == _POD_DOTS and rest.endswith(f".{_PODS}"):
            octets = address.split(".")
            written = [str(int(octet) & 255) for octet in octets if octet.isascii() and octet.isdigit()]
            return address if is_pod(address) and octets == written and len(octets) == 4 else ""
        addresses = self._services.get(rest, ())
        return address if address in addresses and not is_service(address) else ""


def alias_records(chain: Sequence[str]) -> list[dnswire.Record]:
    """Return the records of a chain of aliases; the first one is the question's name."""
    return [dnswire.alias_record(target, name) for name, target in zip(("", *chain[:-1]), chain, strict=True)]


def _reversed_address(name: str) -> str | None:
    if not name.endswith(_REVERSE):
        return None
    return ".".join(reversed(name.removesuffix(_REVERSE).split(".")))
