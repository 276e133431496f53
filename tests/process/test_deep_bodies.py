"""Bodies that are nested too deeply, each in a process of its own: a C parser that recurses ends its process."""

import subprocess
import sys

import pytest

from trainshed.kube.wire.body import MAX_DEPTH

DEEP = {
    "flow lists": (b"[" * 40_000 + b"]" * 40_000, "yaml"),
    "flow maps": (b"{a: " * 40_000 + b"}" * 40_000, "yaml"),
    "block lists": (b"- " * 40_000 + b"x", "yaml"),
    "block keys": (b"? " * 40_000 + b"x", "yaml"),
    "aliases": (b"".join(b"- &a%d [*a%d]\n" % (i, max(i - 1, 0)) for i in range(5_000)), "yaml"),
    "JSON as YAML": (b'{"a":' * 40_000 + b"1" + b"}" * 40_000, "yaml"),
    "JSON": (b'{"a":' * 40_000 + b"1" + b"}" * 40_000, "json"),
    "too deep by one": (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "json"),
    "too deep by one alias": (
        b"{a: &a " + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b", b: [*a]}",
        "yaml",
    ),
}


@pytest.mark.parametrize(("body", "kind"), DEEP.values(), ids=DEEP)
def test_bodies_that_are_nested_too_deeply(body, kind):
    program = (
        "import sys\n"
        "from trainshed.kube.wire.body import decode_body, decode_value\n"
        "from trainshed.kube.meta.errors import ApiError\n"
        "data = sys.stdin.buffer.read()\n"
        "for decode in decode_body, decode_value:\n"
        "    try:\n"
        f"        decode(data, 'application/{kind}')\n"
        "    except ApiError as error:\n"
        "        print(error.code, 'nested too deeply' in error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=body, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout.decode()) == (0, "400 True\n" * 2), done.stderr.decode()[-500:]
