"""What a client of Kubernetes says of an answer that is an error.

Source: `client-go/rest/request.go` and `NewGenericServerResponse` of apimachinery; texts as recorded from 1.33.
"""

from __future__ import annotations

import json

import msgspec

_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_SAID_BY_THE_SERVER = (403, 406, 415)
_SHOWN_CHARACTERS = 2048


class _Status(msgspec.Struct):
    kind: str = ""
    status: str = ""
    message: str = ""


def client_error(status: int, content_type: str, body: bytes) -> str:
    """Return the text of the error that the answer to a POST is; empty where it is none."""
    if 200 <= status <= 206:
        shown = f"0-length response with status code: {status} and content type: {content_type}"
        return "" if body else shown
    try:
        said = msgspec.json.decode(body, type=_Status)
        if said.kind == "Status" and said.status == "Failure" and said.message:
            return said.message
    except (msgspec.DecodeError, RecursionError):
        pass  # most are no Status
    text = body[:_SHOWN_CHARACTERS].decode(errors="replace").strip()
    is_text = content_type.partition(";")[0].strip().lower().startswith("text/")
    message = text if is_text else "unknown"
    if status in _TEXTS:
        return _TEXTS[status]
    if status in _SAID_BY_THE_SERVER:
        return message
    if status >= 500:
        shown = json.dumps(message, ensure_ascii=False)
        return f"an error on the server ({shown}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more details (post)"
