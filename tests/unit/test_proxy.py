"""Requests to the pods' HTTP proxy, and where it lets them go."""

from __future__ import annotations

import pytest

from trainshed.cluster.sandbox.net.proxy import Refused, is_forbidden, is_inside, parse_request


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        (b"example.org:443", "example.org", 443),
        (b"example.org:8443", "example.org", 8443),
        (b"[2001:db8::1]:443", "2001:db8::1", 443),
        (b"example.org", "example.org", 443),
    ],
)
def test_connect(url: bytes, host: str, port: int) -> None:
    target = parse_request(b"CONNECT " + url + b" HTTP/1.1\r\nHost: x")
    assert (target.host, target.port, target.head, target.tunnel) == (host, port, b"", True)


def test_plain_http_is_sent_on_with_a_relative_path_for_one_request() -> None:
    head = b"GET http://example.org:8080/a?b=c HTTP/1.1\r\nHost: example.org:8080\r\nProxy-Connection: keep-alive"
    target = parse_request(head)
    assert (target.host, target.port, target.tunnel) == ("example.org", 8080, False)
    assert target.head == b"GET /a?b=c HTTP/1.1\r\nHost: example.org:8080\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1",
        b"nonsense",
        b"CONNECT :x HTTP/1.1",
        b"CONNECT a:b HTTP/1.1",
        b"CONNECT a:65536 HTTP/1.1",
        b"CONNECT a:\xb2 HTTP/1.1",
    ],
)
def test_bad_requests(line: bytes) -> None:
    with pytest.raises(Refused) as caught:
        parse_request(line)
    assert caught.value.status == "400 Bad Request"


@pytest.mark.parametrize(
    ("address", "forbidden"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("0.0.0.0", True),
        ("169.254.169.254", True),
        ("10.88.0.5", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("fe80::1", True),
        ("93.184.215.14", False),
        ("10.0.0.1", False),
        ("2001:db8::1", False),
    ],
)
def test_the_host_itself_is_out_of_reach(address: str, forbidden: bool) -> None:
    assert is_forbidden(address) is forbidden


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.88.0.1:8080", True),  # a pod on the machine's network
        ("10.88.0.5", True),
        ("10.88.255.254", True),
        ("10.96.0.1", True),
        ("10.88.0.1:53", False),  # the gateway is DNS and the proxy itself
        ("10.88.0.1:3128", False),
        ("10.96.0.2", True),
        ("10.89.0.5", False),
        ("110.88.0.5", False),
        ("127.0.0.1", False),
        ("93.184.215.14", False),
    ],
)
def test_pods_and_the_api_are_reached_inside_the_cluster_network(address: str, inside: bool) -> None:
    ip, _, port = address.partition(":")
    assert is_inside(ip, int(port or 80)) is inside
