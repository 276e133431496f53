"""Documents as `trainshed` reads them against `kubectl create --dry-run=client -o json` of the same text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.cluster_fixture import Cluster, kubectl_path
from trainshed.sdk.documents import Unreadable, documents

WORDS = """
1e-3 1E3 .5e2 5. .5 1.0 1.10 +1 -1 +1.5 0x1F 0X1F -0x1F 0o17 0O17 017 -017 08 09 018 0b101 0B101 -0b101 1_000 1_000.5
0x1_F _1 1_ 12:30 22:22 12:30:45 1:1.5 190:20:30 2026-01-02 2026-01-02T03:04:05Z 2001-1-1 y Y n N yes Yes YES yEs no No
NO nO on On ON off Off OFF true True TRUE tRue false FALSE ~ null Null NULL nULL = << 1e400 -1e400 1e-400
9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616 -9223372036854775808
-9223372036854775809 1e20 1e21 1e-7 0.1 -0 00 0.0 1e+3 1.e3 .e3 e3 1e 1e+ 0x 0b 0o 0b2 0xg +.5 + . .. +. 1.2.3 1,000
1__0 0.1_0 0_1 0x_1 0o1_7 0o8 inf NaN Infinity 0x1p-2 1p3 0777 0xFFFFFFFFFFFFFFFF 1e05 0e0 00.5 0.5. 1d5 "1" 'yes'
[] [1,a] {} é a:b a#b -a ?a
"""
TAGGED = (
    "!!str 1",
    "!!int '3'",
    "!!float '1.5'",
    "!!bool yes",
    "!!null ''",
    "!!binary aGVsbG8=",
    "!own x",
    "!!str",
)
BLOCKS = (
    "{1: a, true: b, 0x10: c, yes: d}",
    "&a [1, 2]\nz: *a",
    "&a {k: 1, l: 2}\nz: {k: 3, <<: *a}",
    "&a {k: 1}\nv: &b {k: 2, l: 5}\nz: {<<: [*a, *b], m: 3}",
    "{a: 1, a: 2}",
    "|\n  a\n    ---\n  b\n",
    ">-\n  a\n  b\n",
    "a\n  b",
    '"a\\u0001\\x41"',
    "!!set {a, b}",
)
REFUSED = (".inf", "-.Inf", ".nan", "!!int 1.0", "*nope", "{[a]: b}", "{~: a}", "[", "{<<: 3}")
JSON = (
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":1.0,"y":1e3,"z":12345678901234567890}\n'
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"x":"\\/\\ud83d\\ude00","x":2}'
)


def document(number: int, value: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: n{number}}}\nx: {value}\n"


def as_kubectl(cluster: Cluster, text: str, which: int) -> list[Any]:
    done = cluster.kubectl(
        *("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-"),
        stdin=text,
        path=kubectl_path(which),
    ).ok()
    decoder, found, at = json.JSONDecoder(), [], 0
    while done[at:].strip():
        value, at = decoder.raw_decode(done, at + len(done[at:]) - len(done[at:].lstrip()))
        found += value["items"] if value["kind"] == "List" else [value]
    for each in found:
        each["metadata"].pop("namespace", None)
        for key in ("x", "z"):  # beyond 64 bits, a float: Go writes fewer of its digits than Python
            if isinstance(each.get(key), int) and not -(2**63) <= each[key] < 2**63:
                each[key] = float(each[key])
    return found


@pytest.mark.parametrize("which", [0, -1], ids=["oldest", "newest"])
def test_every_word_is_read_alike(cluster: Cluster, which: int) -> None:
    values = (*WORDS.split(), *TAGGED, *BLOCKS)
    text = "---\n".join(document(n, value) for n, value in enumerate(values))
    theirs = as_kubectl(cluster, text, which)
    ours = list(documents(text))
    for value, mine, expected in zip(values, ours, theirs, strict=True):
        assert mine == expected, value
        assert type(mine["x"]) is type(expected["x"]), value


@pytest.mark.parametrize("which", [0, -1], ids=["oldest", "newest"])
def test_json_is_read_alike(cluster: Cluster, which: int) -> None:
    assert list(documents(JSON)) == as_kubectl(cluster, JSON, which)


def test_what_kubectl_cannot_read_is_refused(cluster: Cluster) -> None:
    for value in REFUSED:
        text = document(0, value)
        done = cluster.kubectl("create", "--dry-run=client", "--validate=false", "-f", "-", stdin=text)
        assert done.rc == 1 and "error" in done.err, value
        with pytest.raises(Unreadable):
            list(documents(text))
