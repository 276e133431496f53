"""The short form of the request fuzz; `python -m tests.hostile.fuzz` is the long one."""

from __future__ import annotations

import json

import pytest

from tests.hostile.fuzz import Reply, fuzz, judge

REQUESTS = 5_000


async def test_no_request_is_answered_wrongly() -> None:
    line = await fuzz(REQUESTS, seed=20_261_122)
    assert "0 violations" in line
    print(line)


@pytest.mark.parametrize(
    ("reply", "wrong"),
    [
        (Reply(200), ""),
        (Reply(404, {"content-type": "text/plain"}, b"404 page not found"), ""),
        (Reply(500, {"content-type": "text/plain"}, b"Internal Server Error"), "status 500"),
        (Reply(400, {"content-type": "application/json"}, b"{"), "cannot be read"),
        (Reply(400, {"content-type": "application/json"}, b"{}"), "no Status"),
        (Reply(500, {"content-type": "application/json"}, b'{"kind":"Status","code":500}'), "status 500"),
    ],
)
def test_what_counts_as_wrong(reply: Reply, wrong: str) -> None:
    assert wrong in judge(reply) and bool(wrong) == bool(judge(reply))


def test_a_timeout_with_its_reason_is_no_fault() -> None:
    status = {"kind": "Status", "code": 504, "reason": "Timeout"}
    assert judge(Reply(504, {"content-type": "application/json"}, json.dumps(status).encode())) == ""
