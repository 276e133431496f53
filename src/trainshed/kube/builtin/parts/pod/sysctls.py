"""Kernel parameters that a pod asks for: which namespace has them, and what the API refuses.

Sources: `component-helpers/node/util/sysctl` and `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section

MAX_LENGTH = 253
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_NAME = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
_LIKE_A_NAME = re.compile(_NAME.replace("$", r"\Z"))
_OF_IPC = ("kernel/shm", "kernel/msg", "fs/mqueue/")
_SEMAPHORES = "kernel/sem"
_OF_NETWORK = "net/"


def path_of(name: str) -> str:
    """Return the path below /proc/sys. Where the first separator is a dot, slashes are dots of names (`eth0.1`)."""
    slash, dot = name.find("/"), name.find(".")
    if slash >= 0 and (dot < 0 or slash < dot):
        return name
    return name.translate(str.maketrans("./", "/."))


def namespace_of(path: str) -> Literal["net", "ipc", ""]:
    """Return which of a pod's namespaces has the parameter at a path; empty for one of the machine."""
    if path.startswith(_OF_NETWORK):
        return "net"
    return "ipc" if path == _SEMAPHORES or path.startswith(_OF_IPC) else ""


def sysctl_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the parameters of a pod spec at `path`."""
    seen: set[str] = set()
    for index, each in enumerate(section(spec, "securityContext").get("sysctls") or ()):
        at, name = f"{path}.securityContext.sysctls[{index}].name", each.get("name") or ""
        if not name:
            yield causes.required(at)
        elif len(name) > MAX_LENGTH or not _LIKE_A_NAME.match(name):
            text = f"must have at most {MAX_LENGTH} characters and match regex {_NAME}"
            yield causes.invalid(at, name, text)
        elif name in seen:
            yield causes.duplicate(at, name)
        namespace = namespace_of(path_of(name))
        for field, taken in (("hostNetwork", "net"), ("hostIPC", "ipc")):
            if spec.get(field) and namespace == taken:
                yield causes.invalid(at, name, f"may not be specified when '{field}' is true")
        seen.add(name)
