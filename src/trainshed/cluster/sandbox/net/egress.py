"""A route out of the cluster network, where a user-mode network stack is installed.

`slirp4netns` or `pasta` joins the cluster's namespace as an interface and speaks for it from an ordinary
process on the host's network. Pods are behind one more hop, so the namespace has to forward and to
masquerade, for which `nft` or `iptables` is needed. Without all that the proxy is the way out.
"""

from __future__ import annotations

import os
import signal

from trainshed.cluster.sandbox.addresses import POD_NETWORK
from trainshed.cluster.sandbox.linux import syscalls

_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
TAP = "tap0"
_RULES = (
    "add table ip trainshed",
    "add chain ip trainshed out { type nat hook postrouting priority 100 ; }",
    f"add rule ip trainshed out ip saddr {POD_NETWORK} oifname {TAP} masquerade",
)


def find(name: str) -> str:
    """Return the path of a program; empty when it is not installed. /usr/sbin counts for users, too."""
    for directory in (*os.environ.get("PATH", "").split(":"), *_DIRECTORIES):
        if directory and os.access(f"{directory}/{name}", os.X_OK):
            return f"{directory}/{name}"
    return ""


def forward() -> None:
    """Forward and masquerade what pods send; run inside the cluster network. Raises OSError."""
    with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
        file.write("1")
    nft, iptables = find("nft"), find("iptables")
    if nft:
        _run([nft, " ; ".join(_RULES)])
    elif iptables:
        where = ["-t", "nat", "-A", "POSTROUTING", "-s", POD_NETWORK, "-o", TAP]
        _run([iptables, *where, "-j", "MASQUERADE"])
    else:
        raise OSError("neither nft nor iptables is installed")


def _run(command: list[str]) -> None:
    """Run a program in this process's namespaces. Raises OSError when it fails."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = os.spawnv(os.P_WAIT, command[0], command)
    if status:
        raise OSError(f"{command[0]} ended with status {status}")


def command(user: str, network: str) -> list[str]:
    """Return the command that joins the namespaces at the paths given; empty without a program for it.

    Neither maps an address to the host's loopback: what listens there often trusts every caller.
    """
    slirp, pasta = find("slirp4netns"), find("pasta")
    if slirp:
        options = ["--configure", "--mtu=65520", "--disable-host-loopback", "--disable-dns"]
        return [slirp, *options, "--netns-type=path", f"--userns-path={user}", network, TAP]
    if pasta:
        quiet = ["--foreground", "--quiet", "--no-map-gw", "--ns-ifname", TAP, "--config-net"]
        closed = ["-t", "none", "-u", "none", "-T", "none", "-U", "none"]
        return [pasta, *quiet, *closed, "--userns", user, "--netns", network]
    return []


def spawn(arguments: list[str]) -> int:
    """Start the program, ending with this process; return its pid. Its output goes to the log file."""
    pid = os.fork()
    if pid == 0:
        try:
            syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGTERM)
            os.dup2(2, 1)
            os.execv(arguments[0], arguments)
        finally:
            os._exit(127)
    return pid
