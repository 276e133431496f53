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


def ask(name: str, kind: str = "A", zone: Zone = ZONE) -> tuple[str, list[str]]:
    """Return the response code and the records' data."""
    question = dnswire.parse_query(bytes(dnslib.DNSRecord.question(name, kind).pack()))
    parsed = dnslib.DNSRecord.parse(zone.answer(question))
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
        ("3.0.88.10.in-addr.arpa", "PTR", ("NOERROR", ["10-88-0-3.web.default.svc.cluster.local."])),
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


WHOLE = Zone(
    {
        "db.default.svc.cluster.local": ("10.96.3.3",),
        "job.default.svc.cluster.local": ("10.88.0.2", "10.88.0.3"),
        "first.job.default.svc.cluster.local": ("10.88.0.2",),
        "api.default.svc.cluster.local": ("10.88.0.2",),
    },
    ("later.default.svc.cluster.local",),
    {
        "db.default.svc.cluster.local": (("sql", "tcp", 80), ("stats", "udp", 81)),
        "job.default.svc.cluster.local": (("port", "tcp", 23456),),
        "later.default.svc.cluster.local": (("x", "tcp", 1),),
    },
    {
        "inner.default.svc.cluster.local": "job.default.svc.cluster.local.",
        "outer.default.svc.cluster.local": "Example.ORG",
        "round.default.svc.cluster.local": "round.default.svc.cluster.local",
    },
)


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("_sql._tcp.db", "SRV", ["0 100 80 db.default.svc.cluster.local."]),
        ("_stats._udp.db", "SRV", ["0 100 81 db.default.svc.cluster.local."]),
        ("_sql._udp.db", "SRV", None),
        ("_other._tcp.db", "SRV", None),
        ("_sql.db", "SRV", None),
        ("_sql._tcp.db", "A", []),
        ("db", "SRV", ["0 100 80 db.default.svc.cluster.local.", "0 100 81 db.default.svc.cluster.local."]),
        ("db", "A", ["10.96.3.3"]),
        (
            "_Port._tcp.job",
            "SRV",
            [
                "0 100 23456 first.job.default.svc.cluster.local.",
                "0 100 23456 10-88-0-3.job.default.svc.cluster.local.",
            ],
        ),
        ("_x._tcp.later", "SRV", []),
        ("later", "A", []),
        ("10-88-0-3.job", "A", ["10.88.0.3"]),
        ("10-88-0-3.job", "AAAA", []),
        ("10-88-0-4.job", "A", None),
        ("10-96-3-3.db", "A", None),
        ("inner", "A", ["job.default.svc.cluster.local.", "10.88.0.2", "10.88.0.3"]),
        ("inner", "CNAME", ["job.default.svc.cluster.local."]),
        ("round", "A", ["round.default.svc.cluster.local."] * 8),
    ],
)
def test_ports_aliases_and_pods_by_their_address(name: str, kind: str, expected: list[str] | None) -> None:
    found = ask(f"{name}.default.svc.cluster.local", kind, WHOLE)
    assert found == (("NXDOMAIN", []) if expected is None else ("NOERROR", expected))


def test_the_addresses_of_servers_come_with_their_names() -> None:
    query = dnslib.DNSRecord.question("_Port._tcp.job.default.svc.cluster.local", "SRV").pack()
    answer = dnslib.DNSRecord.parse(WHOLE.answer(dnswire.parse_query(bytes(query))))
    assert {str(record.rname): str(record.rdata) for record in answer.ar} == {
        "first.job.default.svc.cluster.local.": "10.88.0.2",
        "10-88-0-3.job.default.svc.cluster.local.": "10.88.0.3",
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("10-88-0-9.default.pod.cluster.local", ("NOERROR", ["10.88.0.9"])),
        ("10-88-0-9.pod.cluster.local", ("NXDOMAIN", [])),
        ("10-96-3-3.default.pod.cluster.local", ("NXDOMAIN", [])),
        ("10-88-0-009.default.pod.cluster.local", ("NXDOMAIN", [])),
        ("10-88-0.default.pod.cluster.local", ("NXDOMAIN", [])),
        ("10-88-0-999.default.pod.cluster.local", ("NXDOMAIN", [])),
        ("x.default.pod.cluster.local", ("NXDOMAIN", [])),
        ("pod.cluster.local", ("NOERROR", [])),
    ],
)
def test_pods_by_their_address(name: str, expected: tuple[str, list[str]]) -> None:
    assert ask(name, "A", WHOLE) == expected


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("10.96.3.3", ["db.default.svc.cluster.local."]),
        (
            "10.88.0.2",
            ["first.job.default.svc.cluster.local.", "10-88-0-2.api.default.svc.cluster.local."],
        ),
        ("10.88.0.3", ["10-88-0-3.job.default.svc.cluster.local."]),
    ],
)
def test_names_of_addresses(address: str, names: list[str]) -> None:
    reverse = ".".join(reversed(address.split("."))) + ".in-addr.arpa"
    assert ask(reverse, "PTR", WHOLE) == ("NOERROR", names)


def test_what_an_external_name_stands_for() -> None:
    assert WHOLE.canonical("outer", "default") == "example.org"
    assert WHOLE.canonical("outer", "elsewhere") == "outer"
    assert WHOLE.canonical("inner.default", "") == "job.default.svc.cluster.local"
    assert WHOLE.canonical("job", "default") == "job"
    assert WHOLE.canonical("example.com", "default") == "example.com"
