"""What ephemeral containers may say, and that they stay as they are once they are there.

Source of rules and texts: `pkg/apis/core/validation/validation.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object

_NOT_FOR_THEM = (
    "ports",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resources",
    "resizePolicy",
    "restartPolicy",
)
_CANNOT = "cannot be set for an Ephemeral Container"


def ephemeral_causes(spec: Object, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the ephemeral containers of a pod's spec."""
    others = {c.get("name") for field in ("initContainers", "containers") for c in spec.get(field) or ()}
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        at = f"{path}.ephemeralContainers[{index}]"
        target = container.get("targetContainerName")
        if target and target not in others:
            yield causes.not_found(f"{at}.targetContainerName", target)
        for field in _NOT_FOR_THEM:
            if container.get(field):
                yield causes.forbidden(f"{at}.{field}", _CANNOT)
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield causes.forbidden(f"{at}.volumeMounts[{number}].{field}", _CANNOT)


def ephemeral_change_causes(spec: Object, old: Object) -> Iterator[Cause]:
    """Yield which of the ephemeral containers that are there are changed or left out."""
    new = {c.get("name"): (index, c) for index, c in enumerate(spec.get("ephemeralContainers") or ())}
    for container in old.get("ephemeralContainers") or ():
        name = container.get("name")
        index, replacement = new.get(name, (0, None))
        if replacement is None:
            text = f'existing ephemeral containers "{name}" may not be removed\n'
            yield causes.forbidden("spec.ephemeralContainers", text)
        elif replacement != container:
            text = f'existing ephemeral containers "{name}" may not be changed\n'
            yield causes.forbidden(f"spec.ephemeralContainers[{index}]", text)
