"""What the containers of a TaskRun's pod say about its steps, sidecars and results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object, objects, section, status_of
from trainshed.kube.meta.pods import container_statuses, init_container_statuses, phase
from trainshed.tekton.params import type_of
from trainshed.tekton.taskpod import step_name

_TASK_RESULT, _INTERNAL, _STEP_RESULT = 1, 3, 4
_STEP, _SIDECAR = "step-", "sidecar-"
_HOPELESS = {
    "InvalidImageName": "TaskRunImagePullFailed",
    "ErrImageNeverPull": "TaskRunImagePullFailed",
    "ImagePullBackOff": "TaskRunImagePullFailed",
    "CreateContainerConfigError": "CreateContainerConfigError",
    "CreateContainerError": "CreateContainerError",
}

_NEVER_RAN = ("StartError", "ContainerCannotRun")


class ResultError(Exception):
    """A result is not of its declared type."""


class Failure(msgspec.Struct, frozen=True):
    """Why a pod did not do its work."""

    reason: str
    message: str


def is_complete(pod: Object) -> bool:
    """Return whether all steps have ended, whatever sidecars still do."""
    if phase(pod) in ("Succeeded", "Failed"):
        return True
    steps = [s for s in container_statuses(pod) if str(s.get("name")).startswith(_STEP)]
    count = len([c for c in objects(section(pod, "spec"), "containers") if str(c["name"]).startswith(_STEP)])
    return len(steps) == count > 0 and all(section(s, "state", "terminated") for s in steps)


def failure(pod: Object) -> Failure | None:
    """Return why a pod that is complete has failed, None when it has not."""
    whole = status_of(pod)
    if whole.get("reason") == "Evicted":
        return Failure("PodEvicted", str(whole.get("message") or "the pod was evicted"))
    for status in container_statuses(pod):
        ended = section(status, "state", "terminated")
        code, name = ended.get("exitCode"), status.get("name")
        if not ended or not code or _words(ended).get("Reason") == "Skipped":
            continue
        if _words(ended).get("Reason") == "TimeoutExceeded":
            return Failure(
                "StepFailed", f'"{name}" exited because the step exceeded the specified timeout limit'
            )
        if _words(ended).get("Reason") == "ResultsTooLarge":
            return Failure(
                "TaskRunResultLargerThanAllowedLimit",
                f'"{name}": the results are larger than the 4096 bytes that a container\'s end may carry',
            )
        reason = str(ended.get("reason") or "")
        detail = f": {reason}" if reason not in ("", "Error") else ""
        return Failure(
            "StepOOM" if reason == "OOMKilled" else "StepFailed", f'"{name}" exited with code {code}{detail}'
        )
    if phase(pod) == "Failed":
        return Failure("Failed", str(whole.get("message") or "build failed for unspecified reasons."))
    return None


def hopeless(pod: Object) -> Failure | None:
    """Return why a pod's containers can never start, None where they may."""
    for status in (*init_container_statuses(pod), *container_statuses(pod)):
        waiting = section(status, "state", "waiting")
        reason = _HOPELESS.get(str(waiting.get("reason")))
        if reason:
            message = waiting.get("message") or waiting["reason"]
            return Failure(reason, f'the container "{status.get("name")}" cannot start: {message}')
        ended = section(status, "state", "terminated")
        if ended.get("reason") in _NEVER_RAN:  # what comes after it would wait for its end in vain
            text = f'"{status.get("name")}" exited with code {ended.get("exitCode")}: {ended["reason"]}'
            return Failure("StepFailed", f"{text} {ended.get('message') or ''}".strip())
    return None


def waiting_message(pod: Object) -> str:
    """Return what a pod that has not started waits for."""
    for one in objects(status_of(pod), "conditions"):
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return f'pod status "PodScheduled":"False"; message: "{one.get("message", "")}"'
    for status in container_statuses(pod):
        waiting = section(status, "state", "waiting")
        if waiting.get("message"):
            return f'build step "{status.get("name")}" is pending with reason "{waiting["message"]}"'
    return "Pending"


def describe(pod: Object, spec: Object) -> Object:
    """Return what a TaskRun's status says of its steps and sidecars."""
    by_name = {str(s.get("name")): s for s in container_statuses(pod)}
    declared = {f"{_STEP}{step_name(s, i)}": s for i, s in enumerate(objects(spec, "steps"))}
    steps = []
    for name, step in declared.items():
        if name in by_name:
            steps.append(_described(by_name[name], step))
    sidecars = [
        {
            "name": str(s["name"]).removeprefix(_SIDECAR),
            "container": s["name"],
            "imageID": s.get("imageID", ""),
            **_state(s),
        }
        for s in (*init_container_statuses(pod), *container_statuses(pod))
        if str(s.get("name")).startswith(_SIDECAR)
    ]
    out: Object = {"podName": pod["metadata"]["name"]}
    if steps:
        out["steps"] = steps
    if sidecars:
        out["sidecars"] = sidecars
    return out


def _described(status: Object, step: Object) -> Object:
    name = str(status["name"])
    out: Object = {"name": name.removeprefix(_STEP), "container": name, "imageID": status.get("imageID", "")}
    state = _state(status)
    ended = state.get("terminated")
    if ended:
        words = _words(ended)
        reason = words.get("Reason") or (
            "Continued" if "ExitCode" in words else str(ended.get("reason") or "")
        )
        if "StartedAt" in words:
            ended["startedAt"] = words["StartedAt"]
        if "ExitCode" in words:
            ended["exitCode"] = int(words["ExitCode"])
        message = section(status, "state", "terminated").get("message")
        ended.pop("message", None)
        if isinstance(message, str) and not list(_entries(message)):
            ended["message"] = message
        out["terminationReason"] = reason
        results = [
            {"name": key, "type": type_of(value), "value": value}
            for key, value in _step_results(status, step)
        ]
        if results:
            out["results"] = results
    return {**out, **state}


def _state(status: Object) -> Object:
    state = section(status, "state")
    return {
        key: dict(value)
        for key, value in state.items()
        if key in ("waiting", "running", "terminated") and isinstance(value, dict)
    }


def _entries(message: str) -> Iterator[Object]:
    try:
        found = msgspec.json.decode(message.encode())
    except msgspec.DecodeError:
        return
    if isinstance(found, list):
        yield from (e for e in found if isinstance(e, dict) and "key" in e)


def _words(ended: Object) -> dict[str, str]:
    found = _entries(str(ended.get("message") or ""))
    return {str(e["key"]): str(e.get("value")) for e in found if e.get("type") == _INTERNAL}


def _step_results(status: Object, step: Object) -> Iterator[tuple[str, Any]]:
    ended = section(status, "state", "terminated")
    types = {str(r.get("name")): str(r.get("type") or "string") for r in objects(step, "results")}
    for entry in _entries(str(ended.get("message") or "")):
        name = str(entry["key"])
        if entry.get("type") == _STEP_RESULT and name in types:
            yield name, typed(name, str(entry.get("value")), types[name])


def results(pod: Object, spec: Object) -> list[Object]:
    """Return the results of a task, in the order of their declaration.

    Raises:
        ResultError: one is not of its declared type.
    """
    found: dict[str, str] = {}
    own: dict[tuple[str, str], Any] = {}
    steps = {f"{_STEP}{step_name(s, i)}": s for i, s in enumerate(objects(spec, "steps"))}
    for status in container_statuses(pod):
        ended = section(status, "state", "terminated")
        for entry in _entries(str(ended.get("message") or "")):
            if entry.get("type") == _TASK_RESULT:
                found[str(entry["key"])] = str(entry.get("value"))
        name = str(status.get("name"))
        if name in steps:
            own |= {
                (name.removeprefix(_STEP), key): value for key, value in _step_results(status, steps[name])
            }
    out = []
    for declared in objects(spec, "results"):
        name = str(declared.get("name"))
        wanted = str(declared.get("type") or ("object" if declared.get("properties") else "string"))
        source = declared.get("value")
        if source:
            value = own.get(_source(str(source)))
            if value is not None:
                out.append({"name": name, "type": wanted, "value": value})
        elif name in found:
            out.append({"name": name, "type": wanted, "value": typed(name, found[name], wanted)})
    return out


def task_results(pods: Sequence[Object]) -> dict[str, str]:
    """Return what containers of pods left as results of a task, by name; the first pod that has one wins."""
    out: dict[str, str] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        for status in container_statuses(pod):
            message = section(status, "state", "terminated").get("message")
            for entry in _entries(str(message or "")):
                if entry.get("type") == _TASK_RESULT:
                    out.setdefault(str(entry["key"]), str(entry.get("value")))
    return out


def _source(text: str) -> tuple[str, str]:
    parts = text.strip().removeprefix("$(").removesuffix(")").split(".")
    return (parts[1], parts[3].removesuffix("[*]")) if len(parts) == 4 and parts[0] == "steps" else ("", "")


def typed(name: str, text: str, wanted: str) -> Any:
    """Return a result's value as its type; ResultError says what it is instead."""
    if wanted == "string":
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if isinstance(value, list if wanted == "array" else dict):
        return (
            [_plain(v) for v in value]
            if isinstance(value, list)
            else {k: _plain(v) for k, v in value.items()}
        )
    raise ResultError(
        "Provided results don't match declared results; may be invalid JSON or missing result declaration:  "
        f'"{name}": task result is expected to be "{wanted}" type '
        f'but was initialized to a different type "{type_of(value)}"'
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def ended_steps(steps: Sequence[Object], reason: str, code: int, now: str) -> list[Object]:
    """Return steps whose pod is being deleted as ended for that reason, those that had not ended yet."""
    out = []
    for step in steps:
        if "terminated" in step:
            out.append(step)
            continue
        started = section(step, "running").get("startedAt") or now
        kept = {key: value for key, value in step.items() if key not in ("running", "waiting")}
        ended = {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}
        out.append({**kept, "terminationReason": reason, "terminated": ended})
    return out
