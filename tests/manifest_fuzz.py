"""Manifests with a few things wrong, made from the golden ones: what reads them answers in words, never in a traceback.

    .venv/bin/python -m tests.manifest_fuzz --documents 20000 [--seed 1]

Tests run a few hundred of them (tests/unit/test_sdk_check.py).
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[1] / "examples"
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 1e308, 0.5, -0.0),
    *(
        "",
        " ",
        "a",
        "yes",
        "1Gi",
        "-1Gi",
        "1e400",
        "ﬀ",
        "💥",
        "\x00",
        "a\nb",
        "a" * 300,
        "../..",
        "$(A)",
        "[bold]",
        ":100:",
    ),
    *([], {}, [[]], [None], [{}], {"": None}, {"a": {"a": {"a": []}}}, [1, "a", None], {"name": "x"}),
)


@cache
def seeds() -> tuple[Any, ...]:
    """Return the documents of the golden inputs and of the examples, which nobody changes."""
    files = [*sorted(GOLDEN.glob("*.input.yaml")), *sorted(EXAMPLES.glob("*/*job*.yaml"))]
    found = [doc for file in files for doc in yaml.load_all(file.read_text(), yaml.CSafeLoader)]
    return tuple(doc for doc in found if isinstance(doc, dict) and doc["kind"] != "Pod")


def texts(count: int, seed: int = 0) -> Iterator[str]:
    """Yield so many manifests; the same seed gives the same ones."""
    rng = random.Random(seed)
    whole = seeds()
    for _ in range(count):
        doc = copy.deepcopy(rng.choice(whole))
        for _ in range(rng.choice((1, 1, 1, 1, 2, 5))):
            _mutate(doc, rng, whole)
        yield _written(doc, rng)


def _written(doc: Any, rng: random.Random) -> str:
    """Return the document as text, sometimes with characters that are wrong."""
    if rng.random() < 0.5:
        text = json.dumps(doc)
    else:
        text = yaml.dump(
            doc,
            Dumper=yaml.CSafeDumper,
            allow_unicode=rng.random() < 0.5,
            default_flow_style=rng.random() < 0.2,
        )
    if rng.random() < 0.15:
        at = rng.randrange(len(text) + 1)
        cut = at + rng.choice((0, 1, 2, 20))
        text = (
            text[:at]
            + rng.choice(("\t", ":", "- ", "{", "]", "&a ", "*a", "!!int ", "---\n", "'", "\x01"))
            + text[cut:]
        )
    return text


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Return (parent, key) of every node."""
    found: list[tuple[Any, Any]] = []
    stack = [node]
    while stack:
        here = stack.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        for key in keys:
            found.append((here, key))
            stack.append(here[key])
    return found


def _mutate(doc: Any, rng: random.Random, whole: Sequence[Any]) -> None:
    places = _places(doc)
    if not places:
        return
    parent, key = rng.choice(places)
    value = parent[key]
    match rng.randrange(8):
        case 0:
            del parent[key]
        case 1 | 2:
            parent[key] = copy.deepcopy(rng.choice(ODD))
        case 3 if isinstance(parent, dict):
            parent[_misspelt(str(key), rng)] = parent.pop(key)
        case 4:
            parent[key] = [copy.deepcopy(value)] * rng.choice((1, 2, 3))
        case 5:
            other, name = rng.choice(_places(rng.choice(whole)))
            parent[key] = copy.deepcopy(other[name])
        case 6:
            parent[key] = {str(rng.choice(("a", "name", key))): copy.deepcopy(value)}
        case _:
            if isinstance(value, str) and value:
                parent[key] = _misspelt(value, rng)
            else:
                parent[key] = str(value)


def _misspelt(word: str, rng: random.Random) -> str:
    at = rng.randrange(len(word) + 1)
    return rng.choice((word[:at] + word[at + 1 :], word[:at] + "x" + word[at:], word.upper(), word * 2, ""))


@cache
def _world() -> Any:
    from trainshed.sdk.foresight.gather import of_machine

    return of_machine("default", {})


def check(text: str) -> str:
    """Return what `trainshed check --offline` makes of the text: taken, foreseen or refused. A bug is raised."""
    from trainshed.cli.check import print_json, print_verdict
    from trainshed.kube.meta.errors import ApiError
    from trainshed.sdk import manifests
    from trainshed.sdk.check import examine_offline
    from trainshed.sdk.errors import UserError

    try:
        objects = manifests.parse(text, "job.yaml", lambda said: None)
    except (UserError, ApiError):
        return "refused"
    verdicts = examine_offline(objects, _world())
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for verdict in verdicts:
            print_verdict(verdict)
        print_json(verdicts)
    if not all(verdict.accepted for verdict in verdicts):
        return "refused"
    return "taken" if all(verdict.can_start for verdict in verdicts) else "foreseen"


def try_all(count: int, seed: int, look: Callable[[str], str]) -> tuple[Counter[str], list[str]]:
    """Return how many manifests ended how, and the tracebacks of those that ended in one, with their text."""
    ends: Counter[str] = Counter()
    broken = []
    for text in texts(count, seed):
        try:
            ends[look(text)] += 1
        except Exception:
            broken.append(f"{traceback.format_exc()}\n{text}")
    return ends, broken


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ends, broken = try_all(options.documents, options.seed, check)
    print(f"{options.documents} documents: {dict(ends)}; {len(broken)} tracebacks")
    for each in broken[:5]:
        print(each)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
