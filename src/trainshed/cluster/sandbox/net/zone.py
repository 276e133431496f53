"""The cluster zone: which answer a name has. Pure.

Behaviour follows the Kubernetes DNS specification (kubernetes/dns, docs/specification.md) for the names that
the node agent pushes; reverse lookups answer for the addresses in it.
"""

from __future__ import annotations

from trainshed.cluster.sandbox.addresses import DOMAIN, is_cluster
from trainshed.cluster.sandbox.net import dnswire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed.cluster.sandbox.net.dnswire import Question

_REVERSE = ".in-addr.arpa"


class Zone:
    """One state of the records. Names are lower case without trailing dot."""

    def __init__(self, services: Mapping[str, Sequence[str]], pending: Sequence[str]) -> None:
        self._services = {name.lower(): tuple(addresses) for name, addresses in services.items()}
        self._pending = {name.lower() for name in pending}
        self._parents: set[str] = {DOMAIN}
        for name in (*self._services, *self._pending):
            labels = name.split(".")
            self._parents.update(".".join(labels[cut:]) for cut in range(1, len(labels)))
        self._names: dict[str, str] = {}
        for name, addresses in self._services.items():
            for address in addresses:
                self._names.setdefault(address, name)

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
        name = host.lower().removesuffix(".")
        domains = () if host.endswith(".") else (f".{namespace}.svc.{DOMAIN}", f".svc.{DOMAIN}", f".{DOMAIN}")
        for domain in ("", *domains):
            candidate = name + domain
            if candidate in self._services or candidate in self._pending:
                return self._services.get(candidate, ())
        return () if self.covers(name) else None

    def must_wait(self, question: Question) -> bool:
        """Return whether an address may arrive soon: the name is known and has none yet."""
        if question.kind not in (dnswire.TYPE_A, dnswire.TYPE_ANY):
            return False
        return question.name in self._pending and not self._services.get(question.name)

    def answer(self, question: Question) -> bytes:
        """Return the response for a name that the zone covers."""
        address = _reversed_address(question.name)
        if address is not None:
            name = self._names.get(address)
            if name is None:
                return dnswire.answer(question, dnswire.NXDOMAIN)
            wanted = question.kind in (dnswire.TYPE_PTR, dnswire.TYPE_ANY)
            return dnswire.answer(question, pointers=(name,) if wanted else ())
        addresses = self._services.get(question.name)
        if addresses is None:
            # A parent of a name exists without records (RFC 8020); a pending name exists without an address.
            exists = question.name in self._parents or question.name in self._pending
            return dnswire.answer(question, dnswire.NOERROR if exists else dnswire.NXDOMAIN, zone=DOMAIN)
        if question.kind not in (dnswire.TYPE_A, dnswire.TYPE_ANY):
            addresses = ()
        return dnswire.answer(question, addresses=addresses, zone=DOMAIN)


def _reversed_address(name: str) -> str | None:
    if not name.endswith(_REVERSE):
        return None
    return ".".join(reversed(name.removesuffix(_REVERSE).split(".")))
