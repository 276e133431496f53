"""Starting the daemons, detached: they outlive the process that starts them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.cluster.sandbox import bootstrap
from trainshed.cluster.sandbox.client import scope
from trainshed.cluster.sandbox.model import RuntimeLost

if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message

SANDBOXD = "trainshed.cluster.sandbox.daemon.readonly"
NETD = "trainshed.cluster.sandbox.daemon.netd"
PLAIN_SANDBOXD = "trainshed.cluster.sandbox.daemon.plain.daemon"
PLAIN_NETD = "trainshed.cluster.sandbox.daemon.plain.net"
_TIMEOUT = 30.0
# What the daemons read of the environment: where programs are, the way out of the machine, how Services are led to.
_KEPT = (
    "PATH",
    "HOME",
    "LANG",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
    "TRAINSHED_SERVICES",
)


async def launch(module: str, arguments: list[str], log: Path) -> Message:
    """Run the launcher of a daemon and return the line of JSON it prints. Raises RuntimeLost."""
    return await asyncio.to_thread(_launch, module, arguments, log)


def _launch(module: str, arguments: list[str], log: Path) -> Message:
    command = [sys.executable, "-I", "-S", bootstrap.__file__, module, *arguments]
    scoped = scope.scoped(command) if module == SANDBOXD else command
    answer = _run(scoped, log, scope.environment()) if scoped is not command else None
    answer = answer or _run(command, log, {})  # where systemd refused
    if answer is None:
        raise RuntimeLost(f"{module} did not start; see {log}")
    return answer


def _run(command: list[str], log: Path, more: dict[str, str]) -> Message | None:
    # Not by asyncio: uvloop lets the child inherit its copies of the pipe ends, so a daemon would hold open the
    # very pipe whose end is waited for.
    try:
        with log.open("ab") as errors:
            output = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
                env={name: os.environ[name] for name in _KEPT if name in os.environ} | more,
                start_new_session=True,
                timeout=_TIMEOUT,
            ).stdout
    except subprocess.TimeoutExpired:
        raise RuntimeLost(f"a daemon did not start within {_TIMEOUT:.0f} s; see {log}") from None
    try:
        answer: Message = json.loads(output)
    except ValueError:
        return None
    return answer
