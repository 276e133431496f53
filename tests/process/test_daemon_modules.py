"""What the daemons hold for as long as a cluster runs: modules of theirs are in several at once, and in every pod.

A module that an idle daemon does without is imported with its first use. One that it does need is added here.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from trainshed.cluster.sandbox import bootstrap

SANDBOX = "trainshed.cluster.sandbox"
BOTH = """
    addresses daemon.launching daemon.peers files linux.keyring linux.netlink linux.syscalls logfile
    loop net.clusternet net.egress net.ipam net.senders wire
"""
SANDBOXD = """
    daemon.accounting daemon.container daemon.crilog daemon.dialling daemon.exec daemon.joining
    daemon.keepers daemon.output daemon.pause daemon.podfiles daemon.podmemory daemon.sandboxd
    daemon.shim daemon.spare daemon.zygote fresh linux.beneath linux.cgroups linux.credentials linux.imageroot
    linux.limits linux.memory linux.mountinfo linux.process linux.pseudofs linux.rootfs linux.seccomp
    linux.sysctls linux.union linux.userns linux.users measure ownership pids podlock
"""
"""And of every shim, which is a fork of sandboxd."""
NETD = """
    bootstrap daemon.netd daemon.servicenet daemon.servicepost linux.conntrack linux.nftables net.budget
    net.dnswire net.groups net.inside net.nameserver net.proxy net.translation net.zone
"""
LEFT = "zlib asyncio contextlib msgspec pathlib platform random typing threading subprocess logging"
"""What the standard library and others would bring."""


def _loaded(*names: str) -> set[str]:
    """Return the modules that a daemon has once these of its own are imported: with `python -I -S`, as it runs."""
    script = (
        f"import sys; sys.path.insert(0, {str(Path(bootstrap.__file__).parent)!r}); import bootstrap\n"
        f"bootstrap.enter_packages({bootstrap.source_directory()!r}); bootstrap.leave_selectors()\n"
        f"for name in {names!r}: __import__(name)\n"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("daemon", "expected"),
    [
        (("sandboxd", "zygote"), BOTH + SANDBOXD),
        (("netd",), BOTH + NETD),
    ],
    ids=["sandboxd", "netd"],
)
def test_an_idle_daemon_holds_these_modules_and_no_others(daemon: tuple[str, ...], expected: str) -> None:
    loaded = _loaded(*(f"{SANDBOX}.daemon.{name}" for name in daemon))
    ours = {name for name in loaded if name.startswith("trainshed.")} - set(bootstrap._PACKAGES)
    assert ours == {f"{SANDBOX}.{name}" for name in expected.split()}
    assert not loaded & set(LEFT.split())


@pytest.mark.parametrize("name", ["readonly", "sandboxd", "zygote", "netd"])
def test_daemons_import_the_standard_library_only(name: str) -> None:
    """And the launchers nothing of what only the daemons need."""
    loaded = _loaded(f"{SANDBOX}.daemon.{name}")
    launcher = {"readonly": {"json", f"{SANDBOX}.daemon.sandboxd"}, "sandboxd": {f"{SANDBOX}.daemon.zygote"}}
    assert not loaded & {*launcher.get(name, set()), "msgspec", "typing"}
    ours = {name for name in loaded if name.startswith("trainshed")}
    assert f"{SANDBOX}.daemon.{name}" in ours
    for each in ours:
        importlib.import_module(each)


def test_selectors_are_there_when_they_are_asked_for() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(Path(bootstrap.__file__).parent)!r}); import bootstrap\n"
        "bootstrap.leave_selectors(); import socket, tempfile\n"
        "assert 'PollSelector' not in vars(sys.modules['selectors'])\n"
        "ours, theirs = socket.socketpair()\n"
        "with tempfile.TemporaryFile() as file:\n"
        "    file.write(b'all of it'); file.seek(0); ours.settimeout(5)\n"
        "    print(ours.sendfile(file), theirs.recv(20).decode())\n"
        "import selectors; print(selectors.PollSelector.__name__)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["9 all of it", "PollSelector"]
