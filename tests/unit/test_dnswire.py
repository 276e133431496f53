"""DNS messages against dnslib, an independent implementation."""

from __future__ import annotations

import dnslib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.cluster.sandbox.net import dnswire

labels = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=20)
names = st.lists(labels, min_size=1, max_size=6).map(".".join)
addresses = st.lists(st.ip_addresses(v=4).map(str), max_size=20).map(tuple)


def make_query(name: str, kind: str = "A", size: int = 0) -> bytes:
    query = dnslib.DNSRecord.question(name, kind)
    if size:
        query.add_ar(dnslib.EDNS0(udp_len=size))
    return bytes(query.pack())


@given(names, st.sampled_from(["A", "AAAA", "PTR", "SRV"]), st.sampled_from([0, 512, 1232, 4096]))
def test_queries_are_read(name: str, kind: str, size: int) -> None:
    question = dnswire.parse_query(make_query(name, kind, size))
    assert (question.name, question.kind) == (name, dnslib.QTYPE.reverse[kind])
    assert question.size == max(512, size)


@given(names, addresses)
def test_answers_are_read_by_others(name: str, found: tuple[str, ...]) -> None:
    query = make_query(name)
    parsed = dnslib.DNSRecord.parse(dnswire.answer(dnswire.parse_query(query), addresses=found, zone="zone"))
    assert parsed.header.id == dnslib.DNSRecord.parse(query).header.id
    assert (parsed.header.qr, parsed.header.rcode, str(parsed.q.qname)) == (1, 0, f"{name}.")
    assert [str(record.rdata) for record in parsed.rr] == list(found)
    assert [dnslib.QTYPE[record.rtype] for record in parsed.auth] == ([] if found else ["SOA"])


def test_names_are_lower_case_and_the_question_comes_back_as_it_was() -> None:
    """Resolvers that mix upper and lower case against forgery compare the question (0x20)."""
    query = make_query("WwW.Example.ORG")
    question = dnswire.parse_query(query)
    assert question.name == "www.example.org"
    assert b"\x03WwW\x07Example\x03ORG" in dnswire.answer(question)


@given(st.binary(max_size=80))
def test_garbage_is_refused(data: bytes) -> None:
    try:
        dnswire.parse_query(data)
    except ValueError:
        response = dnswire.failure(data, dnswire.FORMERR)
        assert len(response) in (0, 12)


@pytest.mark.parametrize(
    "query",
    [b"", bytes(12), make_query("a")[:-3], make_query("a.b")[:14]],
    ids=["empty", "no question", "no type", "half a name"],
)
def test_what_is_not_a_query(query: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        dnswire.parse_query(query)


def test_long_answers_are_truncated() -> None:
    question = dnswire.parse_query(make_query("a.b"))
    response = dnswire.answer(question, addresses=tuple(f"10.88.0.{number}" for number in range(100)))
    parsed = dnslib.DNSRecord.parse(dnswire.truncate(response, 512))
    assert (parsed.header.tc, len(parsed.rr), str(parsed.q.qname)) == (1, 0, "a.b.")
    assert dnswire.truncate(response, 4096) == response


def test_failures_repeat_the_question() -> None:
    parsed = dnslib.DNSRecord.parse(dnswire.failure(make_query("a.b"), dnswire.SERVFAIL))
    assert (parsed.header.rcode, str(parsed.q.qname)) == (dnswire.SERVFAIL, "a.b.")
