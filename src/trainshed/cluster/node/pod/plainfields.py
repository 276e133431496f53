"""Fields of a pod that take namespaces, where it is plain processes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.parts.pod.admission import MOUNT_PATH
from trainshed.kube.meta.objects import Object, objects, section

MOUNTS = (
    "nothing is mounted in a plain process: these paths stand for the volumes in command, args, env, workingDir, exec "
    "and files of ConfigMaps, and TRAINSHED_MOUNTS says where they are; a path inside a program is the machine's"
)
NAMES = "the machine's /etc/hosts and /etc/resolv.conf are those of a plain process"
MEMORY = "a volume in memory is a directory on the disk for a plain process"
RIGHTS = "a plain process has your rights, and no further ones"
OPEN_MPI = (
    "Open MPI asks the machine for its interfaces, and finds one loopback for all plain processes: ranks in different "
    "pods start, and wait for each other for ever"
)
SHARED = "plain processes have the machine's IPC"

_MPI_RANKS_ELSEWHERE = "OMPI_MCA_plm_rsh_agent"
"""By what Open MPI starts its ranks in other pods: of the launcher of an MPIJob."""
_RIGHTS = ("privileged", "capabilities.add")


def unsupported(spec: Object) -> Iterator[tuple[str, str]]:
    """Yield what plain processes do without: (field path, why)."""
    if spec.get("hostAliases"):
        yield "spec.hostAliases", NAMES
    if section(spec, "dnsConfig").get("nameservers"):
        yield "spec.dnsConfig.nameservers", NAMES
    if spec.get("hostIPC") is False:
        yield "spec.hostIPC", SHARED
    for index, volume in enumerate(spec.get("volumes") or ()):
        if section(volume, "emptyDir").get("medium") == "Memory":
            yield f"spec.volumes[{index}].emptyDir.medium", MEMORY
    for group in ("initContainers", "containers"):
        for index, container in enumerate(objects(spec, group)):
            path = f"spec.{group}[{index}]"
            if any(mount["mountPath"] != MOUNT_PATH for mount in container.get("volumeMounts") or ()):
                yield f"{path}.volumeMounts", MOUNTS
            for number, variable in enumerate(objects(container, "env")):
                if variable["name"] == _MPI_RANKS_ELSEWHERE:
                    yield f"{path}.env[{number}]", OPEN_MPI
            context = section(container, "securityContext")
            for name in _RIGHTS:
                first, _, last = name.partition(".")
                asked = section(context, first).get(last) if last else context.get(first)
                if asked:
                    yield f"{path}.securityContext.{name}", RIGHTS
