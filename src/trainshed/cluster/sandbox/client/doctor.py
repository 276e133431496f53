"""Why sandboxes cannot be made on this machine, and what to change.

The kernel says EPERM to many things. Which of them it was is told by switches that distributions and
container engines set; each is looked at here, and named with its remedy.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from trainshed.cluster.sandbox import bootstrap
from trainshed.cluster.sandbox.client import scope
from trainshed.cluster.sandbox.linux import cgroups
from trainshed.cluster.sandbox.model import RuntimeUnavailable
from trainshed.cluster.sandbox.net import egress

_OLDEST = (5, 11)  # overlayfs in user namespaces
_TIMEOUT = 30.0

_TITLES = {
    "user": "user namespaces",
    "map": "ids in a user namespace",
    "mount": "mount namespaces",
    "overlay": "overlayfs on the state directory",
    "proc": "/proc in a sandbox",
    "network": "network namespaces",
    "bridge": "bridge and veth interfaces",
}
# Steps without which pods still run, in the way that the text says.
_DEGRADED = {
    "overlay": "what pods write is kept in memory, or their root is read-only",
    "proc": "pods see the /proc of this machine, with all its processes",
}


# Steps that a setting of the kernel or of AppArmor may refuse, and the kinds of namespaces that the kernel counts.
_SWITCHED = ("user", "map", "mount", "network")
_COUNTED = {"user": "user", "mount": "mnt", "network": "net"}
_SYS_ADMIN = 21  # CAP_SYS_ADMIN, capabilities(7)


class Check(msgspec.Struct, frozen=True):
    """One finding of `trainshed doctor`. `remedy` is empty when `ok`, and when nothing needs to be done.

    `vital`: pods do not run where it is not `ok`.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    vital: bool = True


def is_linux() -> bool:
    """Return whether this is Linux, WSL included. A function, for a type checker takes `sys.platform` as known."""
    return sys.platform.startswith("linux")


def diagnose(state: Path | None = None) -> list[Check]:
    """Try everything that sandboxes need; `state` is a directory where the state directory is (default: a temporary
    one)."""
    checks = [_platform()]
    if not checks[0].ok:
        return checks
    checks.append(_kernel())
    with tempfile.TemporaryDirectory(dir=state if state and state.is_dir() else None) as directory:
        results = _probe(directory)
        runs_programs = not os.statvfs(directory).f_flag & os.ST_NOEXEC
    confinement = results.get("confinement")
    for step, title in _TITLES.items():
        detail = results.get(step)
        if detail is None:
            continue
        if not detail:
            checks.append(Check(name=title, ok=True, detail="works"))
        else:
            message, remedy = explain(step, detail, confinement=confinement)
            if step in _DEGRADED:
                message = f"{message}: {_DEGRADED[step]}"
            vital = step not in _DEGRADED
            checks.append(Check(name=title, ok=False, detail=message, remedy=remedy, vital=vital))
    checks += _programs(runs_programs)
    checks += _limits(results.get("keepers"))
    checks += _services(results.get("services"))
    checks.append(_subordinate_ids())
    checks.append(_egress())
    return checks


def _programs(run: bool) -> list[Check]:
    """Return what there is to say of programs in the state directory: nothing where they run."""
    if run:
        return []
    text = "its file system is mounted noexec: programs that pods put into /tmp or volumes do not run"
    remedy = "set TRAINSHED_HOME to a directory elsewhere"
    return [Check(name="programs on the state directory", ok=False, detail=text, remedy=remedy, vital=False)]


LIMITS = "limits of "
"""How the names of checks of limits begin."""
PLAIN = "trainshed up --isolation plain"
"""What does without namespaces."""


def diagnose_plain() -> list[Check]:
    """Try what pods have where they are plain processes, and what keeps their limits. None of it is needed for a
    process to run."""
    if not is_linux():
        return []
    found = _run_probe("trainshed.cluster.sandbox.daemon.plain.probe", [])
    obstacle = str(found.get("steering", found.get("user", "")))
    return [
        *plain_checks(int(found.get("landlock", 0)), obstacle),
        *limit_checks(found.get("keepers") or {}, ""),
    ]


def plain_checks(landlock: int, steering: str, root: Path = Path("/")) -> list[Check]:
    """Return what plain processes have with this version of Landlock (0: none) and this obstacle to steering."""
    files = Check(
        name="files of plain processes",
        ok=bool(landlock),
        detail=f"pods write to their volumes, to /tmp and to what is theirs (Landlock {landlock})"
        if landlock
        else "without Landlock pods can change all of your files, and read the cluster's keys",
        remedy=""
        if landlock
        else "Linux 5.13 or newer, with `landlock` in the `lsm=` of the kernel's command line",
    )
    name = "network of plain processes"
    if not steering:
        text = (
            "pods have addresses, ports and names of their own; other users of this machine reach those ports"
        )
        return [files, Check(name=name, ok=True, detail=text)]
    yama = _read(root / "proc/sys/kernel/yama/ptrace_scope")
    detail = (
        f"pods share this machine's ports, and names of pods and Services do not resolve ({steering.lower()})"
    )
    remedy = "Linux 5.9 or newer, outside of an engine that listens to system calls of its containers"
    if yama in ("2", "3"):
        detail = f"{detail}: kernel.yama.ptrace_scope is {yama}"
        remedy = "sudo sysctl -w kernel.yama.ptrace_scope=1"
        remedy += ", after a reboot: 3 cannot be changed" if yama == "3" else ""
    return [files, Check(name=name, ok=False, detail=detail, remedy=remedy)]


def unavailable(step: str, detail: str) -> RuntimeUnavailable:
    """Return the error for a step that the kernel refused."""
    return RuntimeUnavailable(*explain(step, detail))


def explain(
    step: str, detail: str, root: Path = Path("/"), confinement: str | None = None
) -> tuple[str, str]:
    """Return (one sentence, what to change) for a refused step.

    `root` is where /proc and /etc are, `confinement` the AppArmor profile of the process that was refused and its mode;
    by default that of this one, which differs where a script's first line has named the interpreter.
    """
    switched_off = _switch(step, root) if step in _SWITCHED else None
    if switched_off is not None:
        return switched_off
    if confinement is None:
        confinement = _read(root / "proc/self/attr/apparmor/current")
    profile, _, mode = confinement.partition(" ")
    if step in _SWITCHED and mode == "(enforce)" and not _in_container(root):
        return (
            f"the AppArmor profile {profile}, which this program runs in, refuses {_TITLES[step]} ({detail.lower()})",
            f"printf %s {shlex.quote(profile)} | sudo tee /sys/kernel/security/apparmor/.remove",
        )
    if step == "overlay":
        return (
            f"overlayfs refuses the file system of the state directory ({detail.lower()})",
            "set TRAINSHED_HOME to a directory on ext4, xfs or btrfs",
        )
    if step == "bridge":
        return (
            f"the kernel makes no bridge or veth interface ({detail.lower()})",
            "sudo modprobe bridge veth",
        )
    if step == "map":
        return (
            f"the ids of the user namespace were refused ({detail})",
            "check /etc/subuid and /etc/subgid, and that newuidmap is set-user-id root",
        )
    if step == "lock":
        return (detail, "end the process named trainshed-sandboxd and try again")
    if step == "start":
        return (f"the sandbox daemon did not start: {detail}", "see log/sandboxd.log in the state directory")
    if _in_container(root):
        what = "hides parts of /proc" if step == "proc" else "forbids namespaces by its seccomp profile"
        options, fields = "", ""
        if mode == "(enforce)":
            what += f", or by the AppArmor profile {profile}"
            options, fields = " --security-opt apparmor=unconfined", ", appArmorProfile Unconfined"
        return (
            f"this is a container whose engine {what} ({_TITLES.get(step, step)}: {detail.lower()})",
            "start the container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
            f"{options} (Kubernetes: seccompProfile Unconfined, procMount Unmasked{fields})",
        )
    return (
        f"the kernel refused {_TITLES.get(step, step)} ({detail.lower()})",
        "see `dmesg` for the security module that refused it; Linux 5.11 or newer is needed",
    )


def _switch(step: str, root: Path) -> tuple[str, str] | None:
    """Return what `explain` does where a setting of the kernel refuses this step to this user; else None."""
    name = f"user.max_{_COUNTED[step]}_namespaces" if step in _COUNTED else ""
    if name and _read(root / "proc/sys" / name.replace(".", "/")) == "0":
        return (f"this machine allows no {_TITLES[step]} ({name} is 0)", f"sudo sysctl -w {name}=15000")
    if may_administer(_read(root / "proc/self/status")):
        return None
    kernel = root / "proc/sys/kernel"
    if step == "user" and _read(kernel / "unprivileged_userns_clone") == "0":
        return (
            "this machine allows user namespaces to root only (kernel.unprivileged_userns_clone is 0)",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        )
    if _read(kernel / "apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor takes every right from user namespaces of ordinary programs, as Ubuntu does from 23.10 on"
            " (kernel.apparmor_restrict_unprivileged_userns is 1)",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile with"
            f" `userns,` for {os.path.realpath(sys.executable)}",
        )
    return None


def may_administer(status: str) -> bool:
    """Return whether a process has CAP_SYS_ADMIN, by its `status` of /proc: root of a container mostly has not."""
    _, _, rest = status.partition("CapEff:")
    word = rest.split(maxsplit=1)[:1]
    return bool(word and int(word[0], 16) >> _SYS_ADMIN & 1)


def _platform() -> Check:
    if is_linux():
        return Check(name="platform", ok=True, detail=f"Linux {platform.release()} on {platform.machine()}")
    return Check(
        name="platform",
        ok=False,
        detail=f"sandboxes are made of Linux namespaces, which {sys.platform} does not have",
        remedy="run Trainshed on Linux, or in a Linux virtual machine",
    )


def _kernel() -> Check:
    release = platform.release()
    numbers = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    ok = numbers >= _OLDEST
    remedy = "" if ok else "Linux 5.11 or newer is needed for overlayfs without root"
    return Check(name="kernel", ok=ok, detail=release, remedy=remedy)


def _limits(found: dict[str, str] | None) -> list[Check]:
    """Return what keeps each limit. All of them work; without cgroups some more roughly."""
    return limit_checks(found or {}, scope.remedy())


def limit_checks(found: dict[str, str], remedy: str) -> list[Check]:
    """Return a check of each limit by its keeper; `remedy` is the command that gives cgroups, if there is one."""
    checks = []
    for name, keeper in found.items():
        could = name in cgroups.CONTROLLERS and not keeper.startswith(("cgroup", "pid namespace"))
        hint = f"; `{remedy}` lets the kernel keep it" if remedy and could else ""
        checks.append(Check(name=f"{LIMITS}{name}", ok=True, detail=keeper + hint))
    return checks


def _services(failure: str | None) -> list[Check]:
    """Return what leads to Services; both ways work. `failure` is what the kernel said, None if it was not asked."""
    if failure is None:
        return []
    detail = "translated by the kernel (nftables)"
    if failure:
        detail = f"forwarded by a process, at some cost: the kernel has no nf_tables here ({failure.lower()})"
    return [Check(name="addresses of Services", ok=True, detail=detail)]


def _probe(directory: str) -> dict[str, Any]:
    return _run_probe("trainshed.cluster.sandbox.daemon.probe", [directory])


def _run_probe(module: str, arguments: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-I", "-S", bootstrap.__file__, module, *arguments]
    try:
        scoped = scope.scoped(command)
        env = {**os.environ, **scope.environment()} if scoped is not command else None
        done = subprocess.run(scoped, capture_output=True, timeout=_TIMEOUT, check=False, env=env)
        if done.returncode and scoped is not command:
            done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False)
        results: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"user": f"the probe failed: {error}"}
    return results


def _subordinate_ids() -> Check:
    name = "subordinate ids"
    if os.geteuid() == 0:
        return Check(name=name, ok=True, detail="not needed: every id is available to root")
    user = os.environ.get("USER", str(os.geteuid()))
    has_range = any(
        line.startswith((f"{user}:", f"{os.geteuid()}:")) for line in _read(Path("/etc/subuid")).splitlines()
    )
    if has_range and shutil.which("newuidmap"):
        return Check(name=name, ok=True, detail="pods may have files of several users")
    more = "sudo apt-get install uidmap" if not shutil.which("newuidmap") else ""
    if not has_range:
        add = f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
        more = f"{more} && {add}" if more else add
    return Check(
        name=name,
        ok=True,
        detail="none: all users of a pod stand for you; setgroups and chown to other users fail in pods; "
        f"`{more}` gives some",
    )


def _egress() -> Check:
    found = [tool for tool in ("slirp4netns", "pasta") if egress.find(tool)]
    if found and not (egress.find("nft") or egress.find("iptables")):
        return Check(
            name="network of pods",
            ok=True,
            detail=f"pods reach the outside through an HTTP proxy; {found[0]} needs nft or iptables as well",
        )
    if found and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return Check(
            name="network of pods",
            ok=True,
            detail=f"pods reach the outside through an HTTP proxy; {found[0]} may not open /dev/net/tun",
        )
    if found:
        return Check(name="network of pods", ok=True, detail=f"pods have a route, through {found[0]}")
    return Check(
        name="network of pods",
        ok=True,
        detail="pods reach the outside through an HTTP proxy; install passt or slirp4netns for other protocols",
    )


def _in_container(root: Path) -> bool:
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        return True
    return "KUBERNETES_SERVICE_HOST" in os.environ or "container" in os.environ


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
