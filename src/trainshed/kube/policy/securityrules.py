"""The rules of the Pod Security standards `baseline` and `restricted`, one function each, in two tables.

Source: the tables of "Pod Security Standards". A rule gets a pod's metadata and spec, a template's likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object, section, texts


class Violation(msgspec.Struct, frozen=True):
    """What a pod does that a rule forbids."""

    reason: str
    detail: str = ""


Check = Callable[[Object, Object], Violation | None]


class Rule(msgspec.Struct, frozen=True):
    """A rule, and the rules of the level below that it says more strictly."""

    check: Check
    replaces: tuple[str, ...] = ()


_CAPABILITIES = frozenset(
    """AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID
    SYS_CHROOT""".split()  # noqa: SIM905
)
_SELINUX_TYPES = frozenset(("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"))
_SYSCTLS = frozenset(
    """kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports
    net.ipv4.ip_unprivileged_port_start net.ipv4.ping_group_range net.ipv4.tcp_syncookies net.ipv4.tcp_fin_timeout
    net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes net.ipv4.tcp_keepalive_time net.ipv4.tcp_rmem
    net.ipv4.tcp_wmem""".split()  # noqa: SIM905
)
_VOLUMES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_ALLOWED_SECCOMP = frozenset(("RuntimeDefault", "Localhost"))


def containers(spec: Object) -> Iterator[Object]:
    """Yield all containers of a pod."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def _context(owner: Mapping[str, Any]) -> Object:
    return section(owner, "securityContext")


def _named(spec: Object, bad: Callable[[Object], object]) -> list[str]:
    return [str(c.get("name", "")) for c in containers(spec) if bad(c)]


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _who(names: list[str]) -> str:
    return f"{_plural('container', len(names))} {_quoted(names)}"


def _pod_and(pod: bool, names: list[str]) -> str:
    return " and ".join([*(["pod"] if pod else []), *([_who(names)] if names else [])])


def _is_windows(spec: Object) -> bool:
    return section(spec, "os").get("name") == "windows"


# Baseline.


def _apparmor(metadata: Object, spec: Object) -> Violation | None:
    def forbidden(owner: Mapping[str, Any]) -> str:
        kind = section(_context(owner), "appArmorProfile").get("type", "")
        return "" if kind in ("", "RuntimeDefault", "Localhost") else kind

    names = _named(spec, forbidden)
    notes = {
        key: value
        for key, value in texts(metadata, "annotations").items()
        if key.startswith(_APPARMOR)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    }
    setters = [*(["pod"] if forbidden(spec) else []), *([_who(names)] if names else [])]
    if notes:
        setters.append(f"{_plural('annotation', len(notes))} {_quoted(sorted(notes))}")
    values = {v for v in (*map(forbidden, (spec, *containers(spec))), *notes.values()) if v}
    if not setters:
        return None
    text = f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(sorted(values))}"
    return Violation(_plural("forbidden AppArmor profile", len(values)), text)


def _added(container: Mapping[str, Any]) -> set[str]:
    return set(section(_context(container), "capabilities").get("add") or ())


def _capabilities(metadata: Object, spec: Object) -> Violation | None:
    names = _named(spec, lambda c: _added(c) - _CAPABILITIES)
    if not names:
        return None
    extra = sorted(set().union(*map(_added, containers(spec))) - _CAPABILITIES)
    text = f"{_who(names)} must not include {_quoted(extra)} in securityContext.capabilities.add"
    return Violation("non-default capabilities", text)


def _host_namespaces(metadata: Object, spec: Object) -> Violation | None:
    found = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def _host_paths(metadata: Object, spec: Object) -> Violation | None:
    names = [str(v.get("name", "")) for v in spec.get("volumes") or () if v.get("hostPath") is not None]
    return (
        Violation("hostPath volumes", f"{_plural('volume', len(names))} {_quoted(names)}") if names else None
    )


def _host_ports(metadata: Object, spec: Object) -> Violation | None:
    def ports(container: Mapping[str, Any]) -> list[int]:
        return [p["hostPort"] for p in container.get("ports") or () if p.get("hostPort")]

    names = _named(spec, ports)
    if not names:
        return None
    numbers = sorted({number for c in containers(spec) for number in ports(c)})
    verb = "uses" if len(names) == 1 else "use"
    word = _plural("hostPort", len(numbers))
    return Violation(word, f"{_who(names)} {verb} {word} {', '.join(map(str, numbers))}")


def _privileged(metadata: Object, spec: Object) -> Violation | None:
    names = _named(spec, lambda c: _context(c).get("privileged"))
    return (
        Violation("privileged", f"{_who(names)} must not set securityContext.privileged=true")
        if names
        else None
    )


def _proc_mount(metadata: Object, spec: Object) -> Violation | None:
    names = _named(spec, lambda c: _context(c).get("procMount") not in (None, "", "Default"))
    if not names:
        return None
    return Violation("procMount", f'{_who(names)} must not set securityContext.procMount to "Unmasked"')


def _seccomp_type(owner: Mapping[str, Any]) -> str:
    return str(section(_context(owner), "seccompProfile").get("type") or "")


def _seccomp(metadata: Object, spec: Object) -> Violation | None:
    def bad(owner: Mapping[str, Any]) -> bool:
        return _seccomp_type(owner) not in ("", *_ALLOWED_SECCOMP)

    names = _named(spec, bad)
    note = texts(metadata, "annotations").get(_SECCOMP_POD, "")
    if bad(spec) or names:
        values = sorted({_seccomp_type(o) for o in (spec, *containers(spec)) if bad(o)})
        text = f"{_pod_and(bad(spec), names)} must not set securityContext.seccompProfile.type to {_quoted(values)}"
        return Violation("seccompProfile", text)
    if note == "unconfined":
        return Violation("seccompProfile", f'annotation {_SECCOMP_POD} must not be set to "{note}"')
    return None


def _selinux(metadata: Object, spec: Object) -> Violation | None:
    def options(owner: Mapping[str, Any]) -> Object:
        return section(_context(owner), "seLinuxOptions")

    def bad(owner: Mapping[str, Any]) -> bool:
        held = options(owner)
        return held.get("type", "") not in _SELINUX_TYPES or bool(held.get("user")) or bool(held.get("role"))

    names = _named(spec, bad)
    if not bad(spec) and not names:
        return None
    everyone = [options(owner) for owner in (spec, *containers(spec)) if bad(owner)]
    kinds = sorted({o.get("type", "") for o in everyone} - _SELINUX_TYPES)
    details = [f"{_plural('type', len(kinds))} {_quoted(kinds)}"] if kinds else []
    details += [
        f"{field} may not be set" for field in ("user", "role") if any(o.get(field) for o in everyone)
    ]
    text = f"{_pod_and(bad(spec), names)} set forbidden securityContext.seLinuxOptions: {'; '.join(details)}"
    return Violation("seLinuxOptions", text)


def _sysctls(metadata: Object, spec: Object) -> Violation | None:
    names = sorted({str(s.get("name", "")) for s in _context(spec).get("sysctls") or ()} - _SYSCTLS)
    return Violation("forbidden sysctls", ", ".join(names)) if names else None


def _host_process(metadata: Object, spec: Object) -> Violation | None:
    def bad(owner: Mapping[str, Any]) -> bool:
        return bool(section(_context(owner), "windowsOptions").get("hostProcess"))

    names = _named(spec, bad)
    if not bad(spec) and not names:
        return None
    text = f"{_pod_and(bad(spec), names)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", text)


# Restricted.


def _escalation(metadata: Object, spec: Object) -> Violation | None:
    names = _named(spec, lambda c: _context(c).get("allowPrivilegeEscalation") is not False)
    if not names or _is_windows(spec):
        return None
    text = f"{_who(names)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", text)


def _all_dropped(metadata: Object, spec: Object) -> Violation | None:
    if _is_windows(spec):
        return None

    def added(container: Mapping[str, Any]) -> set[str]:
        return _added(container) - {"NET_BIND_SERVICE"}

    keeping = _named(spec, lambda c: "ALL" not in (section(_context(c), "capabilities").get("drop") or ()))
    adding = _named(spec, added)
    details = [f'{_who(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    if adding:
        extra = _quoted(sorted(set().union(*map(added, containers(spec)))))
        details.append(f"{_who(adding)} must not include {extra} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _volume_types(metadata: Object, spec: Object) -> Violation | None:
    names, kinds = [], set()
    for volume in spec.get("volumes") or ():
        bad = sorted(volume.keys() - {"name"} - _VOLUMES)
        if bad:
            names.append(str(volume.get("name", "")))
            kinds.add(bad[0])
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    word = _plural("type", len(kinds))
    text = f"{_plural('volume', len(names))} {_quoted(names)} {verb} restricted volume {word} {_quoted(sorted(kinds))}"
    return Violation("restricted volume types", text)


def _non_root(metadata: Object, spec: Object) -> Violation | None:
    explicit = _named(spec, lambda c: _context(c).get("runAsNonRoot") is False)
    implicit = _named(spec, lambda c: _context(c).get("runAsNonRoot") is None)
    pod = _context(spec).get("runAsNonRoot")
    details = []
    bad_pod = pod is False and bool(implicit)
    if bad_pod:
        details.append("pod must not set securityContext.runAsNonRoot=false")
    if explicit:
        details.append(f"{_who(explicit)} must not set securityContext.runAsNonRoot=false")
    if details:
        return Violation("runAsNonRoot != true", "; ".join(details))
    if pod is None and implicit:
        text = f"pod or {_who(implicit)} must set securityContext.runAsNonRoot=true"
        return Violation("runAsNonRoot != true", text)
    return None


def _root_user(metadata: Object, spec: Object) -> Violation | None:
    pod = _context(spec).get("runAsUser") == 0
    names = _named(spec, lambda c: _context(c).get("runAsUser") == 0)
    return (
        Violation("runAsUser=0", f"{_pod_and(pod, names)} must not set runAsUser=0") if pod or names else None
    )


def _seccomp_set(metadata: Object, spec: Object) -> Violation | None:
    if _is_windows(spec):
        return None
    pod = _seccomp_type(spec)
    bad_pod = pod not in ("", *_ALLOWED_SECCOMP)
    explicit = _named(spec, lambda c: _seccomp_type(c) not in ("", *_ALLOWED_SECCOMP))
    implicit = _named(spec, lambda c: not _seccomp_type(c))
    if bad_pod or explicit:
        values = sorted(
            {t for o in (spec, *containers(spec)) if (t := _seccomp_type(o)) not in ("", *_ALLOWED_SECCOMP)}
        )
        text = f"{_pod_and(bad_pod, explicit)} must not set securityContext.seccompProfile.type to {_quoted(values)}"
        return Violation("seccompProfile", text)
    if not pod and implicit:
        text = (
            f'pod or {_who(implicit)} must set securityContext.seccompProfile.type to "RuntimeDefault" or'
            ' "Localhost"'
        )
        return Violation("seccompProfile", text)
    return None


BASELINE: Mapping[str, Rule] = {
    "appArmorProfile": Rule(_apparmor),
    "capabilities": Rule(_capabilities),
    "hostNamespaces": Rule(_host_namespaces),
    "hostPathVolumes": Rule(_host_paths),
    "hostPorts": Rule(_host_ports),
    "privileged": Rule(_privileged),
    "procMount": Rule(_proc_mount),
    "seLinuxOptions": Rule(_selinux),
    "seccompProfile": Rule(_seccomp),
    "sysctls": Rule(_sysctls),
    "windowsHostProcess": Rule(_host_process),
}
"""What known ways of gaining privileges are forbidden, in the order in which they are told."""
RESTRICTED: Mapping[str, Rule] = {
    "allowPrivilegeEscalation": Rule(_escalation),
    "capabilities": Rule(_all_dropped, ("capabilities",)),
    "restrictedVolumes": Rule(_volume_types, ("hostPathVolumes",)),
    "runAsNonRoot": Rule(_non_root),
    "runAsUser": Rule(_root_user),
    "seccompProfile": Rule(_seccomp_set, ("seccompProfile",)),
}
"""What else a hardened pod has to say, likewise."""
