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
    parsed = dnslib.DNSRecord.parse(
        dnswire.answer(
            dnswire.parse_query(query), records=[dnswire.address_record(one) for one in found], zone="zone"
        )
    )
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
    response = dnswire.answer(
        question, records=[dnswire.address_record(f"10.88.0.{number}") for number in range(100)]
    )
    parsed = dnslib.DNSRecord.parse(dnswire.truncate(response, 512))
    assert (parsed.header.tc, len(parsed.rr), str(parsed.q.qname)) == (1, 0, "a.b.")
    assert dnswire.truncate(response, 4096) == response


def test_a_resolvers_answer_is_read_as_far_as_it_matters() -> None:
    reply = dnslib.DNSRecord.question("www.example.org").reply()
    for record in (
        dnslib.RR("www.example.org", dnslib.QTYPE.CNAME, rdata=dnslib.CNAME("far.example.org")),
        dnslib.RR("far.example.org", rdata=dnslib.A("192.0.2.1")),
        dnslib.RR("far.example.org", dnslib.QTYPE.AAAA, rdata=dnslib.AAAA("2001:db8::1")),
        dnslib.RR("far.example.org", dnslib.QTYPE.TXT, rdata=dnslib.TXT("nothing to us")),
    ):
        reply.add_answer(record)
    code, records = dnswire.read_answer(reply.pack())
    question = dnswire.parse_query(make_query("db.zone"))
    alias = dnswire.alias_record("www.example.org")
    parsed = dnslib.DNSRecord.parse(dnswire.answer(question, code, [alias, *records]))
    assert [(str(record.rname), str(record.rdata)) for record in parsed.rr] == [
        ("db.zone.", "www.example.org."),
        ("www.example.org.", "far.example.org."),
        ("far.example.org.", "192.0.2.1"),
        ("far.example.org.", "2001:db8::1"),
    ]


@given(st.binary(max_size=80))
def test_no_bytes_of_a_resolver_break_it(data: bytes) -> None:
    for response in (data, b"\0\0\x80\0\0\1\0\1\0\0\0\0" + data):
        try:
            dnswire.read_answer(response)
        except ValueError:
            continue


def test_failures_repeat_the_question() -> None:
    parsed = dnslib.DNSRecord.parse(dnswire.failure(make_query("a.b"), dnswire.SERVFAIL))
    assert (parsed.header.rcode, str(parsed.q.qname)) == (dnswire.SERVFAIL, "a.b.")
