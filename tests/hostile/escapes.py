"""A program that runs attempts in sandboxes of their own: `python escapes.py HOME SECONDS [UID]`, attempts on stdin.

Prints a JSON object: what each attempt printed. Beside those it tries what takes two: races and tracing of processes
that join. Run by root it becomes the user `UID` once it has mounted the state directory at a second place, which takes
root. It needs the package only, so that it can be given to another user as a string.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from trainshed.cluster.sandbox.api import (
    ContainerSpec,
    ExecSpec,
    Mount,
    Runtime,
    RuntimePaths,
    SandboxSpec,
    StartError,
)
from trainshed.cluster.sandbox.linux import syscalls

_PR_SET_DUMPABLE = 4
ENV = (("PATH", "/usr/local/bin:/usr/bin:/bin"),)
DEADLINE = 60.0
WRITTEN = (
    "/trainshed-was-here",
    "/usr/trainshed-was-here",
    "/etc/trainshed-was-here",
    "/tmp/trainshed-was-here",
)
EXCHANGER = """
import ctypes
libc = ctypes.CDLL(None)
print("up", flush=True)
while True:
    libc.renameat2(-100, b"/data/sub", -100, b"/data/link", 2)
"""
TRACER = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print("up", flush=True)
while True:
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in (1, os.getpid()):
            continue
        try:
            for fd in os.listdir(f"/proc/{name}/fd"):
                target = os.readlink(f"/proc/{name}/fd/{fd}")
                if target.startswith(("user:", "net:")) or target.endswith((".log", "lock")):
                    print("got hold of", target, flush=True)
            program = os.readlink(f"/proc/{name}/exe")
            if "python" in program:
                print("traces", program, flush=True)
        except OSError:
            pass
        libc.ptrace(0x4206, int(name), 0, 0)
"""


class Pods:
    """Pods of a runtime, by name."""

    def __init__(self, runtime: Runtime, home: Path) -> None:
        self.runtime = runtime
        self.home = home
        self._ends: dict[tuple[str, int], asyncio.Future[None]] = {}
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for uid, state in self.runtime.events():
            self._end(uid, state.attempt).set_result(None)

    def _end(self, uid: str, attempt: int) -> asyncio.Future[None]:
        return self._ends.setdefault((uid, attempt), asyncio.get_running_loop().create_future())

    async def start(self, uid: str, argv: tuple[str, ...], /, attempt: int = 0, **fields: Any) -> None:
        """Start a container in a sandbox of that name."""
        await self.runtime.run_sandbox(SandboxSpec(uid=uid, namespace="d", name=uid, hostname="pod"))
        log = str(self.home / f"{uid}.log")
        masked = (str(self.home),)
        fields = {"env": ENV, "log_path": log, "masked": masked, "attempt": attempt, **fields}
        await self.runtime.start_container(uid, ContainerSpec(name="c", argv=argv, **fields))

    async def end(self, uid: str, attempt: int = 0) -> None:
        async with asyncio.timeout(DEADLINE):
            await self._end(uid, attempt)

    def output(self, uid: str) -> str:
        log = self.home / f"{uid}.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return "\n".join(line.split(" ", 3)[3] for line in lines)

    async def said(self, uid: str, word: str) -> None:
        """Wait until the pod has printed `word`."""
        async with asyncio.timeout(DEADLINE):
            while word not in self.output(uid):
                await asyncio.sleep(0.01)

    async def exec(self, uid: str, argv: tuple[str, ...]) -> str:
        """Return what a command printed that joined the pod."""
        session = await self.runtime.exec(uid, ExecSpec(container="c", argv=argv))
        async with asyncio.timeout(DEADLINE):
            printed = b"".join([data async for _, data in session.output()])
            await session.wait()
        await session.close()
        return printed.decode(errors="replace").strip()


async def one(pods: Pods, number: int, attempt: dict[str, Any]) -> str:
    """Return what an attempt printed, also by exec where that is another way in."""
    uid, argv = f"attempt-{number}", ("python3", "-I", "-c", attempt["program"])
    if not attempt["joins"]:
        await pods.start(uid, argv, **attempt["fields"])
        await pods.end(uid)
        return pods.output(uid)
    await pods.start(uid, argv, **attempt["fields"])
    await pods.end(uid)
    joined = f"{uid}-joined"
    await pods.start(joined, ("sleep", "1000"), **attempt["fields"])
    return "\n".join(text for text in (pods.output(uid), await pods.exec(joined, argv)) if text)


async def interpreter(pods: Pods) -> str:
    """CVE-2019-5736: the script's interpreter is the program that was about to become the script."""
    script = pods.home / "script"
    look = "import os; print('writable' if not os.statvfs('/proc/self/exe').f_flag & os.ST_RDONLY else '')"
    script.write_text(f"#!/proc/self/exe\n{look}\n")
    script.chmod(0o755)
    mounts = (Mount(str(script), "/script"),)
    await pods.start("exe", ("/script",), mounts=mounts)
    await pods.end("exe")
    await pods.start("exe-joined", ("sleep", "1000"), mounts=mounts)
    return (pods.output("exe") + await pods.exec("exe-joined", ("/script",))).strip()


async def sub_path(pods: Pods, seconds: float) -> str:
    """CVE-2021-25741: a pod swaps a directory and a link to / while others mount it from the volume that they share."""
    volume = pods.home / "volume"
    (volume / "sub").mkdir(parents=True)
    (volume / "link").symlink_to("/")
    await pods.start("swapper", ("python3", "-c", EXCHANGER), mounts=(Mount(str(volume), "/data"),))
    await pods.said("swapper", "up")
    until, number = time.monotonic() + seconds, 0
    while number < 10 or time.monotonic() < until:
        number += 1
        with contextlib.suppress(StartError):
            mount = Mount(str(volume), "/data", sub_path="sub")
            await pods.start("victim", ("ls", "/data"), attempt=number, mounts=(mount,))
            await pods.end("victim", number)
    return pods.output("victim")


async def tracing(pods: Pods, seconds: float) -> str:
    """A pod that may trace gets hold of a process that joins it before that has become its command."""
    await pods.start("tracer", ("python3", "-c", TRACER), add_caps=("SYS_PTRACE",))
    await pods.said("tracer", "up")
    until, number = time.monotonic() + seconds, 0
    while number < 20 or time.monotonic() < until:
        number += 1
        session = await pods.runtime.exec("tracer", ExecSpec(container="c", argv=("sleep", "0")))
        await session.close()
    # What it has seized once it had become `sleep` does not end before the tracer does: the pod can be stopped yet.
    async with asyncio.timeout(DEADLINE):
        await pods.runtime.stop_sandbox("tracer")
    return pods.output("tracer").replace("up", "", 1).strip()


KEYS = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
if sys.argv[1] == "add":
    assert libc.syscall(add, b"user", b"of-a-pod", b"TICKET", 6, -3) > 0
elif libc.syscall(control, 10, -3, b"user", b"of-a-pod", 0) > 0:
    print("found the key of another pod")
"""


async def keys_of_pods(pods: Pods) -> str:
    """A session keyring of each pod's own: what one adds the other does not find."""
    for uid in ("add", "look"):
        await pods.start(uid, ("python3", "-c", KEYS, uid), unconfined=True)
        await pods.end(uid)
    return pods.output("add") + pods.output("look")


def add_key() -> None:
    """Put a key into a session keyring from which the cluster is then started."""
    libc = ctypes.CDLL(None)
    add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
    if libc.syscall(control, 1, None) < 0 or libc.syscall(add, b"user", b"trainshed-test", b"T", 1, -3) < 0:
        raise OSError("no key could be added to the session's keyring")


def show_elsewhere(home: Path) -> str:
    """Bind the state directory's parent to another place, for this process and what it starts; return the place."""
    if os.geteuid() != 0:
        return ""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount(str(home.parent), "/mnt", "", syscalls.MS_BIND)
    assert Path(f"/mnt/{home.name}").samefile(home)
    return f"/mnt/{home.name}"


def become(uid: int) -> None:
    """Go on as an ordinary user, in a process that its own may look into: like any that such a user started."""
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def listen_on_ipv6() -> socket.socket | None:
    """Return a listener on every IPv6 address of the machine, None where it has none."""
    with contextlib.suppress(OSError):
        return socket.create_server(("::", 0), family=socket.AF_INET6)
    return None


def link_local() -> list[str]:
    """Return the machine's link-local addresses (proc(5), `if_inet6`)."""
    with contextlib.suppress(OSError):
        words = [line.split()[0] for line in Path("/proc/net/if_inet6").read_text().splitlines()]
        return [
            socket.inet_ntop(socket.AF_INET6, bytes.fromhex(word))
            for word in words
            if word.startswith("fe80")
        ]
    return []


async def main(home: Path, seconds: float, attempts: list[dict[str, Any]], user: int | None = None) -> None:
    """Run all of them at once, then the races; print the results."""
    elsewhere = show_elsewhere(home)
    if user is not None:
        become(user)
    add_key()
    (home / "marker").write_text("SECRET")
    assert not elsewhere or list(Path(elsewhere).parent.iterdir()), "pods would not see it in any case"
    core_pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    name = f"trainshed-{os.getpid()}"
    unix = socket.socket(socket.AF_UNIX)
    unix.bind("\0" + name)
    unix.listen()
    tcp = socket.create_server(("127.0.0.1", 0))
    tcp6 = listen_on_ipv6()
    facts = {
        "port6": tcp6.getsockname()[1] if tcp6 is not None else 0,
        "link_local": link_local(),
        "marker": str(home / "marker"),
        "elsewhere": f"{elsewhere}/marker" if elsewhere else "",
        "pid": os.getpid(),
        "port": tcp.getsockname()[1],
        "abstract": name,
    }
    for attempt in attempts:
        attempt["program"] = attempt["program"].replace("@FACTS@", repr(facts))
    runtime = Runtime(RuntimePaths.under(home))
    results: dict[str, str] = {}
    try:
        await runtime.start()
        pods = Pods(runtime, home)
        outputs = await asyncio.gather(*(one(pods, *each) for each in enumerate(attempts)))
        results |= {attempt["name"]: output for attempt, output in zip(attempts, outputs, strict=True)}
        results["interpreter of a script"] = await interpreter(pods)
        results["keys of other pods"] = await keys_of_pods(pods)
        results["sub-path that is exchanged"] = await sub_path(pods, seconds)
        results["tracing what joins"] = await tracing(pods, seconds)
    finally:
        await runtime.stop_all()
    left = [path for path in WRITTEN if os.path.lexists(path)]
    results["files on the machine"] = " ".join(left)
    after = Path("/proc/sys/kernel/core_pattern").read_text()
    results["settings of the machine"] = "" if after == core_pattern else after
    print(json.dumps(results))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2]), json.load(sys.stdin), *map(int, sys.argv[3:])))
