"""Runs the commands of the table, and takes out of their output what differs from run to run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
from pathlib import Path

from trainshed.kube.meta.objects import Object

FOLDER = Path(__file__).parent
NAMESPACE = "recorded-kubectl"
_DEADLINE = 20.0
_AGE = re.compile(r"(?<=\s)(<invalid>|<unknown>|\d+[smhd](\d+[smhd])?)(?=\s|$)")
_VARYING = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"https?://127\.0\.0\.1:\d+"), "<server>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<server>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}"), "<time>"),
    (re.compile(r"Invalid value: \"\{.*\}\": "), 'Invalid value: "<object>": '),
    (re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"\b10(\.\d+){3}\b"), "<address>"),
    (re.compile(r'(resourceVersion"?: )"\d+"'), r'\1"<version>"'),
    (re.compile(r"\b[EIW]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [a-z_]+\.go:\d+\]"), "<logged>"),
    (re.compile(r"/tmp/\S+"), "<file>"),
    (re.compile(r"eyJ[\w.-]+"), "<token>"),
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL), "<pem>"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-<random>"),
    (re.compile(r"\b(trainshed-admin|admin)\b(?=\s*$)", re.MULTILINE), "<user>"),
    (re.compile(r"[ \t]{2,}"), "  "),
    (re.compile(r" +$", re.MULTILINE), ""),
]
_FIELD = re.compile(r"^(GROUP|KIND|VERSION|RESOURCE|FIELD)\b|\t<")
_THROTTLED = re.compile(r"^.*due to client-side throttling.*\n?", re.MULTILINE)
"""What a kubectl says that had to wait for itself, on a slow machine."""
_OPENSHIFT = re.compile(r"^.*openshift.*\n(.*Optional.*\n)?", re.MULTILINE)


def commands() -> list[str]:
    """Return the commands of the table."""
    lines = (FOLDER / "commands.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


async def play(kubectl: str, home: Path, server: list[str]) -> dict[str, Object]:
    """Return exit code and output of each command, by its number and text; `home` is where kubectl keeps its cache."""
    manifests = json.loads((FOLDER / "manifests.json").read_text())
    editor = home / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/a: b/a: edited/' \"$1\"\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    (home / "kubeconfig").touch()
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "KUBE_EDITOR": str(editor),
        "KUBECONFIG": str(home / "kubeconfig"),
    }
    out: dict[str, Object] = {}
    for number, line in enumerate(commands()):
        text, _, manifest = line.partition(" <<")
        words = [word.replace("NS", NAMESPACE).replace("*_", "* ") for word in text.split(" ")]
        process = await asyncio.create_subprocess_exec(
            kubectl,
            *server,
            "-n",
            NAMESPACE,
            *words,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        sent = json.dumps(manifests[manifest]).encode() if manifest else None
        try:
            async with asyncio.timeout(_DEADLINE):
                said, wrong = await process.communicate(sent)
        except TimeoutError:
            process.kill()
            raise TimeoutError(f"kubectl {line} has not ended after {_DEADLINE:.0f} s") from None
        out[f"{number} {line}"] = {
            "code": process.returncode,
            "out": _comparable(words[0], normal(said.decode())),
            "err": normal(wrong.decode()),
        }
    return out


def _comparable(command: str, lines: list[str]) -> list[str]:
    """Return what `explain` says of fields without the prose, which is Kubernetes' own; `describe` without order.

    kubectl 1.33 describes the data of a ConfigMap in the order of a Go map, which is another each time.
    """
    if command == "explain":
        return [line for line in lines if _FIELD.search(line)]
    return sorted(lines) if command == "describe" else lines


def normal(text: str) -> list[str]:
    """Return the lines of an output without what differs from run to run."""
    text = _AGE.sub("<age>", _OPENSHIFT.sub("", _THROTTLED.sub("", text)))
    for pattern, stand_in in _VARYING:
        text = pattern.sub(stand_in, text)
    return text.splitlines()
