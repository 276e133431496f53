"""Which answer a name of the cluster has."""

from __future__ import annotations

import dnslib
import pytest

from trainshed.cluster.sandbox.net import dnswire
from trainshed.cluster.sandbox.net.zone import Zone

ZONE = Zone(
    {"web.default.svc.cluster.local": ("10.88.0.2", "10.88.0.3"), "None.default.svc.cluster.local": ()},
    ("slow.default.svc.cluster.local",),
)


@pytest.mark.parametrize(
    ("host", "namespace", "expected"),
    [
        ("web", "default", ("10.88.0.2", "10.88.0.3")),
        ("WEB", "default", ("10.88.0.2", "10.88.0.3")),
        ("web.default", "other", ("10.88.0.2", "10.88.0.3")),
        ("web.default.svc", "other", ("10.88.0.2", "10.88.0.3")),
        ("web.default.svc.cluster.local", "", ("10.88.0.2", "10.88.0.3")),
        ("web.default.svc.cluster.local.", "", ("10.88.0.2", "10.88.0.3")),
        ("slow", "default", ()),
        ("nobody.default.svc.cluster.local", "default", ()),
        ("web", "other", None),
        ("web", "", None),
        ("web.", "default", None),
        ("web.default.", "default", None),
        ("example.org", "default", None),
        ("10.88.0.2", "default", None),
    ],
)
def test_a_name_is_found_along_the_search_path_of_a_namespace(
    host: str, namespace: str, expected: tuple[str, ...] | None
) -> None:
    assert ZONE.find(host, namespace) == expected


def ask(name: str, kind: str = "A") -> tuple[str, list[str]]:
    """Return the response code and the records' data."""
    question = dnswire.parse_query(bytes(dnslib.DNSRecord.question(name, kind).pack()))
    parsed = dnslib.DNSRecord.parse(ZONE.answer(question))
    return dnslib.RCODE[parsed.header.rcode], [str(record.rdata) for record in parsed.rr]


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("web.default.svc.cluster.local", "A", ("NOERROR", ["10.88.0.2", "10.88.0.3"])),
        ("WEB.default.svc.cluster.local", "A", ("NOERROR", ["10.88.0.2", "10.88.0.3"])),
        ("web.default.svc.cluster.local", "AAAA", ("NOERROR", [])),
        ("none.default.svc.cluster.local", "A", ("NOERROR", [])),
        ("slow.default.svc.cluster.local", "A", ("NOERROR", [])),
        ("default.svc.cluster.local", "A", ("NOERROR", [])),
        ("cluster.local", "A", ("NOERROR", [])),
        ("other.default.svc.cluster.local", "A", ("NXDOMAIN", [])),
        ("web.other.svc.cluster.local", "AAAA", ("NXDOMAIN", [])),
        ("3.0.88.10.in-addr.arpa", "PTR", ("NOERROR", ["web.default.svc.cluster.local."])),
        ("9.0.88.10.in-addr.arpa", "PTR", ("NXDOMAIN", [])),
    ],
)
def test_answers(name: str, kind: str, expected: tuple[str, list[str]]) -> None:
    assert ask(name, kind) == expected


@pytest.mark.parametrize(
    ("name", "covered"),
    [
        ("cluster.local", True),
        ("a.b.cluster.local", True),
        ("1.0.96.10.in-addr.arpa", True),
        ("1.0.168.192.in-addr.arpa", False),
        ("notcluster.local", False),
        ("example.org", False),
        ("", False),
    ],
)
def test_what_the_zone_answers_for(name: str, covered: bool) -> None:
    assert ZONE.covers(name) is covered


@pytest.mark.parametrize(
    ("name", "kind", "waits"),
    [
        ("slow.default.svc.cluster.local", "A", True),
        ("slow.default.svc.cluster.local", "AAAA", False),
        ("web.default.svc.cluster.local", "A", False),
    ],
)
def test_only_addresses_of_pending_names_are_waited_for(name: str, kind: str, waits: bool) -> None:
    question = dnswire.parse_query(bytes(dnslib.DNSRecord.question(name, kind).pack()))
    assert ZONE.must_wait(question) is waits
