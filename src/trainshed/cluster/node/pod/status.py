"""The pod's `status` as the kubelet would write it: a pure function of the pod and of what the node sees.

Sources: pkg/kubelet/kubelet_pods.go (`getPhase`, `generateAPIPodStatus`), pkg/kubelet/status/generate.go
(conditions). Conditions that others own are kept as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from trainshed.cluster.node.pod import resizing
from trainshed.cluster.node.pod.lifecycle import backoff_seconds, restart_at, should_restart
from trainshed.cluster.node.pod.observed import Attempt, Refusal, SeenContainer, SeenPod, StatusContext
from trainshed.kube.builtin.parts.pod.qos import qos_class
from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.pods import (
    ephemeral_containers,
    init_containers,
    is_finished,
    is_sidecar,
    main_containers,
    phase,
)
from trainshed.kube.meta.times import format_time

RUNTIME = "trainshed"
POD_INITIALIZING = "PodInitializing"
CONTAINER_CREATING = "ContainerCreating"
DISRUPTED = "DisruptionTarget"
OWNED_CONDITIONS = (
    resizing.PENDING,
    resizing.IN_PROGRESS,
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)


def pod_status(
    pod: Object, seen: SeenPod, now: float, context: StatusContext, refused: Refusal | None = None
) -> Object:
    """Return the whole status to write. Equal input gives equal output, so an unchanged status is seen.

    `refused`: as in `Observed`.
    """
    old: Object = status_of(pod)
    inits = [_container_status(pod, seen, c, True, now, context) for c in init_containers(pod)]
    mains = [_container_status(pod, seen, c, False, now, context) for c in main_containers(pod)]
    debugging = [_ephemeral_status(pod, seen, c, now, context) for c in ephemeral_containers(pod)]
    phase = pod_phase(pod, seen)
    conditions = _conditions(pod, seen, phase, inits, mains, now)
    if phase not in ("Succeeded", "Failed"):
        conditions = [*_resize_conditions(pod, seen, refused, now), *conditions]
    if phase == "Failed" and not any(known.attempts for known in seen.containers.values()):
        inits, mains = [], []  # refused, as by a kubelet: there is nothing that waits
    status: Object = {"phase": phase}
    if seen.verdict is not None and phase == "Failed":
        status["reason"] = seen.verdict.reason
        status["message"] = seen.verdict.message
    elif phase == old.get("phase"):
        status.update({key: old[key] for key in ("reason", "message") if old.get(key)})
    status["startTime"] = old.get("startTime") or format_time(seen.first_seen)
    status["hostIP"] = context.host_ip
    status["hostIPs"] = [{"ip": context.host_ip}]
    ip = seen.ip or old.get("podIP")
    if ip:
        status["podIP"] = ip
        status["podIPs"] = [{"ip": ip}]
    status["qosClass"] = old.get("qosClass") or qos_class(pod["spec"])
    if init_containers(pod):
        status["initContainerStatuses"] = inits
    status["containerStatuses"] = mains
    if debugging:
        status["ephemeralContainerStatuses"] = debugging
    status["conditions"] = conditions
    return status


def pod_phase(pod: Object, seen: SeenPod) -> str:
    """Return Pending, Running, Succeeded or Failed. A terminal phase never changes again."""
    recorded: str = phase(pod)
    if is_finished(pod):
        return recorded
    known = [seen.container(c["name"]) for c in main_containers(pod)]
    everything = [*known, *(seen.container(c["name"]) for c in init_containers(pod))]
    any_running = any(c.running for c in everything)
    policy = pod["spec"].get("restartPolicy", "Always")
    ending = seen.gone or bool(pod["metadata"].get("deletionTimestamp"))
    if seen.verdict is not None and not any_running:
        return "Failed"
    for container in init_containers(pod):
        state = seen.container(container["name"])
        newest = state.newest
        if is_sidecar(container):
            continue
        if any(c.attempts for c in known):
            if newest is not None and newest.running:
                return "Pending"  # again, in a new sandbox
            continue
        if newest is not None and newest.failed and policy == "Never":
            return "Pending" if any_running else "Failed"
        if newest is None or newest.running or newest.failed:
            return "Failed" if ending and not any_running and newest is not None else "Pending"
    if any(not c.attempts for c in known):
        return "Pending"
    if any_running:
        return "Running"  # sidecars, too: who reads of an end may count on it
    newest_of = [c.newest for c in known if c.newest is not None]
    final = ending or seen.verdict is not None or not any(should_restart(policy, n) for n in newest_of)
    if not final:
        return "Running"
    return "Failed" if any(n.failed for n in newest_of) else "Succeeded"


def container_id(pod: Object, name: str, attempt: int) -> str:
    """Return the id of one run of a container; the same for everyone who asks."""
    text = f"{pod['metadata']['uid']}/{name}/{attempt}"
    return f"{RUNTIME}://{hashlib.sha256(text.encode()).hexdigest()}"


def _ephemeral_status(
    pod: Object, seen: SeenPod, container: Object, now: float, context: StatusContext
) -> Object:
    """Return the status of a container that is started once, and whose readiness nobody asks for."""
    status = _container_status(pod, seen, container, False, now, context)
    known = seen.container(container["name"])
    if known.newest is not None and not known.newest.running:
        status["state"] = {"terminated": terminated(pod, container["name"], known.newest)}
        status["lastState"] = {}
    del status["started"]
    return {**status, "ready": False}


def _container_status(
    pod: Object, seen: SeenPod, container: Object, init: bool, now: float, context: StatusContext
) -> Object:
    name = container["name"]
    known = seen.container(name)
    newest = known.newest
    running = newest is not None and newest.running
    sidecar = init and is_sidecar(container)
    if init and not sidecar:
        # A regular init container is "ready" once it is through (kubelet: `ready` of a completed one).
        ready = newest is not None and not newest.running and not newest.failed
    else:
        ready = running and known.health.ready
    image = (newest.image if newest is not None else "") or container.get("image", "")
    status: Object = {
        "name": name,
        "image": image,
        "imageID": context.image_id(image) if newest is not None else "",
        "ready": ready,
        "started": running and (known.health.started or (init and not sidecar)),
        "restartCount": newest.number if newest is not None else 0,
        "state": _state(pod, seen, container, known, init, now),
        "lastState": {},
    }
    if mounts := [_mounted(mount) for mount in container.get("volumeMounts") or ()]:
        status["volumeMounts"] = mounts
    if newest is not None:
        status["containerID"] = container_id(pod, name, newest.number)
        if newest.user:
            uid, gid, *groups = newest.user
            status["user"] = {"linux": {"uid": uid, "gid": gid, "supplementalGroups": groups}}
        status |= resizing.shown(container, known)
    if "waiting" in status["state"] and newest is not None and not newest.running:
        status["lastState"] = {"terminated": terminated(pod, name, newest)}
    elif len(known.attempts) > 1:
        status["lastState"] = {"terminated": terminated(pod, name, known.attempts[-2])}
    return status


def _mounted(mount: Object) -> Object:
    """Return what the status says of a mount, as a kubelet whose runtime can mount what is below read-only, too."""
    out = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if not mount.get("readOnly"):
        return out
    below = mount.get("recursiveReadOnly") in ("IfPossible", "Enabled")
    return {**out, "readOnly": True, "recursiveReadOnly": "Enabled" if below else "Disabled"}


def _state(
    pod: Object, seen: SeenPod, container: Object, known: SeenContainer, init: bool, now: float
) -> Object:
    newest = known.newest
    if newest is None:
        return {"waiting": _never_started(pod, known)}
    if newest.running:
        return {"running": {"startedAt": format_time(newest.started_at)}}
    spec_policy = pod["spec"].get("restartPolicy", "Always")
    policy = spec_policy
    if init:
        policy = "Always" if is_sidecar(container) else ("Never" if spec_policy == "Never" else "OnFailure")
    ending = (
        seen.gone
        or seen.stopped
        or seen.verdict is not None
        or bool(pod["metadata"].get("deletionTimestamp"))
        or is_finished(pod)
    )
    if not ending and should_restart(policy, newest):
        if known.problem is not None:
            return {"waiting": {"reason": known.problem.reason, "message": known.problem.message}}
        if now < restart_at(known.attempts):
            metadata = pod["metadata"]
            whom = f"container={container['name']} pod={metadata['name']}_{metadata['namespace']}({metadata['uid']})"
            delay = _duration(backoff_seconds(known.attempts))
            return {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": f"back-off {delay} restarting failed {whom}",
                }
            }
    return {"terminated": terminated(pod, container["name"], newest)}


def _never_started(pod: Object, known: SeenContainer) -> Object:
    if known.problem is not None:
        return {"reason": known.problem.reason, "message": known.problem.message}
    if init_containers(pod):
        return {"reason": POD_INITIALIZING}
    waiting: Object = {"reason": CONTAINER_CREATING}
    return waiting


def terminated(pod: Object, name: str, attempt: Attempt) -> Object:
    """Return the `terminated` state of a run that ended."""
    assert attempt.finished_at is not None
    exit_code = 0 if attempt.exit_code is None else attempt.exit_code
    state: Object = {
        "exitCode": exit_code,
        "reason": attempt.reason or ("Completed" if exit_code == 0 else "Error"),
        "startedAt": format_time(attempt.started_at),
        "finishedAt": format_time(attempt.finished_at),
        "containerID": container_id(pod, name, attempt.number),
    }
    if attempt.message:
        state["message"] = attempt.message
    return state


def _conditions(
    pod: Object, seen: SeenPod, phase: str, inits: Sequence[Object], mains: Sequence[Object], now: float
) -> list[Object]:
    old = {c["type"]: c for c in status_of(pod).get("conditions") or ()}
    finished = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "")
    # A finished pod's sandbox is about to be stopped: saying so now saves a write.
    sandbox = seen.ip is not None and not seen.stopped and not finished

    waiting_for = [
        s["name"] for s, c in zip(inits, init_containers(pod), strict=True) if not _initialized(s, c)
    ]
    main_ran = any("waiting" not in s["state"] or s["lastState"] for s in mains)
    initialized = not waiting_for or main_ran or phase == "Succeeded"
    unready = [s["name"] for s in mains if not s["ready"]]
    unready = [
        s["name"]
        for s, c in zip(inits, init_containers(pod), strict=True)
        if is_sidecar(c) and not s["ready"]
    ] + unready

    gates = [g.get("conditionType", "") for g in pod["spec"].get("readinessGates") or ()]
    gates_open = all(section(old, gate).get("status") == "True" for gate in gates)
    all_ready = not finished and not unready
    not_ready = "" if all_ready else f"containers with unready status: [{' '.join(unready)}]"
    reason = finished or ("" if all_ready else "ContainersNotReady")
    message = "" if finished else not_ready
    ready = all_ready and gates_open
    if all_ready and not gates_open:
        texts = (_closed_gate(gate, section(old, gate).get("status")) for gate in gates)
        ready_reason, ready_message = "ReadinessGatesNotReady", ", ".join(text for text in texts if text)
    else:
        ready_reason, ready_message = reason, message

    rows: list[tuple[str, bool, str, str]] = [
        ("PodReadyToStartContainers", sandbox, "", ""),
        (
            "Initialized",
            initialized,
            "PodCompleted" if phase == "Succeeded" else "" if initialized else "ContainersNotInitialized",
            "" if initialized else f"containers with incomplete status: [{' '.join(waiting_for)}]",
        ),
        ("Ready", ready, ready_reason, ready_message),
        ("ContainersReady", all_ready, reason, message),
        ("PodScheduled", True, "", ""),
    ]
    if seen.verdict is not None and seen.verdict.disruption:
        rows.append((DISRUPTED, True, seen.verdict.disruption, seen.verdict.message))
    out = []
    for kind, holds, why, text in rows:
        condition: Object = {"type": kind, "status": "True" if holds else "False", "lastProbeTime": None}
        before = old.get(kind)
        same = before is not None and before.get("status") == condition["status"]
        condition["lastTransitionTime"] = (
            (before or {}).get("lastTransitionTime") if same else format_time(now)
        )
        if why:
            condition["reason"] = why
        if text:
            condition["message"] = text
        out.append(condition)
    written = {condition["type"] for condition in out}
    return out + [c for kind, c in old.items() if kind not in (*OWNED_CONDITIONS, *written)]


def _resize_conditions(pod: Object, seen: SeenPod, refused: Refusal | None, now: float) -> list[Object]:
    """Return the conditions that are there only while a pod is resized (`updatedPodResizeCondition`)."""
    old = {c["type"]: c for c in status_of(pod).get("conditions") or ()}
    out = []
    for kind, reason, message in resizing.conditions(pod, seen, refused):
        before: Object = old.get(kind) or {}
        same = bool(before) and before.get("reason", "") == reason
        since = before.get("lastTransitionTime") if same else format_time(now)
        condition: Object = {
            "type": kind,
            "status": "True",
            "lastProbeTime": since,
            "lastTransitionTime": since,
        }
        out.append(
            condition | {key: text for key, text in (("reason", reason), ("message", message)) if text}
        )
    return out


def _closed_gate(gate: str, status: str | None) -> str:
    """Return what the kubelet says of a readiness gate, nothing of an open one (pkg/kubelet/status/generate.go)."""
    if status == "True":
        return ""
    if status is None:
        return f'corresponding condition of pod readiness gate "{gate}" does not exist.'
    return f'the status of pod readiness gate "{gate}" is not "True", but {status}'


def _initialized(status: Object, container: Object) -> bool:
    return bool(status["started"] if is_sidecar(container) else status["ready"])


def _duration(seconds: float) -> str:
    """Return `10s`, `1m20s`, `5m0s` as Go prints durations."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def changed(old: Any, new: Object) -> bool:
    """Return whether writing `new` over the status `old` would change anything."""
    return any((old or {}).get(key) != value for key, value in new.items())
