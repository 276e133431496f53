"""/etc/hosts, /etc/hostname and /etc/resolv.conf of a pod: written once, bound into its containers."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainshed.cluster.sandbox.wire import Message

_LOCAL = """\
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def hosts(spec: Message, ip: str, host_file: str) -> str:
    """Return /etc/hosts: the pod's own name, then `spec["hosts"]`. On the host's network: `host_file` first."""
    lines = [host_file if spec["host_network"] else _LOCAL]
    if ip:
        long = spec["fqdn"]
        names = f"{long}\t{long.partition('.')[0]}" if long else spec["hostname"]
        lines.append(f"{ip}\t{names}\n")
    lines += [f"{address}\t{' '.join(names)}\n" for address, names in spec["hosts"]]
    return "".join(lines)


def resolv_conf(spec: Message, host_file: str) -> str:
    """Return /etc/resolv.conf; without nameservers the host's."""
    if not spec["nameservers"]:
        return host_file
    lines = []
    if spec["searches"]:
        lines.append(f"search {' '.join(spec['searches'])}\n")
    lines += [f"nameserver {address}\n" for address in spec["nameservers"]]
    if spec["dns_options"]:
        lines.append(f"options {' '.join(spec['dns_options'])}\n")
    return "".join(lines)


def write(directory: str, spec: Message, ip: str) -> list[Message]:
    """Write the files to `directory` and return their mounts. Raises OSError."""
    contents = {
        "hosts": hosts(spec, ip, _read("/etc/hosts") if spec["host_network"] else ""),
        "hostname": f"{spec['hostname']}\n",
        "resolv.conf": resolv_conf(spec, "" if spec["nameservers"] else _read("/etc/resolv.conf")),
    }
    mounts: list[Message] = []
    for name, text in contents.items():
        path = f"{directory}/{name}"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644), "wb") as file:
            file.write(text.encode())
            os.fchmod(file.fileno(), 0o644)
        mounts.append({"source": path, "path": f"/etc/{name}"})
    return mounts


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""
