"""What ends or occupies a process, each in one of its own: C parsers that recurse, patterns that go back and forth."""

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


@pytest.mark.parametrize(
    "fields",
    [
        {"pattern": "^(a+)+$"},
        {"x-kubernetes-validations": [{"rule": "self.matches('^(a+)+$')", "message": "no match"}]},
    ],
    ids=("pattern", "rule"),
)
def test_patterns_are_matched_in_time_linear_in_the_value(fields: dict[str, object]) -> None:
    """An engine that backtracks takes twice as long with each character, from 10 s with 29 of them."""
    program = (
        "import sys\n"
        "from trainshed.kube.schema.cel import evaluate_rules\n"
        "from trainshed.kube.schema.nodes import from_crd\n"
        "from trainshed.kube.schema.structural import validate\n"
        f"held = {{'type': 'string', 'maxLength': 99, **{fields!r}}}\n"
        "node = from_crd({'type': 'object', 'properties': {'v': held}})\n"
        "obj = {'v': 'a' * 60 + '!'}\n"
        "print(len(validate(obj, node) + evaluate_rules(obj, None, node)))\n"
        "obj = {'v': 'a' * 60}\n"
        "print(len(validate(obj, node) + evaluate_rules(obj, None, node)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "1\n0\n", done.stderr
