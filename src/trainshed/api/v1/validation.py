"""Which jobs are refused, and how the refusal reads.

The rules, paths and texts are those of the Kubeflow training operator v1 (1.9), so that a client which
matches on them goes on working. Every rule is checked, and problems come in one fixed order: the name, the
run policy, the elastic policy, then replica type by replica type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import msgspec

from trainshed.api.kinds import PYTORCHJOB, Kind
from trainshed.kube.meta.objects import Object, name_of, objects, section

MANAGERS = ("kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue")
"""Who may manage a job. Anything else would leave it without anyone to act on it."""

REQUIRED = "Required value"
FORBIDDEN = "Forbidden"
INVALID = "Invalid value"
UNSUPPORTED = "Unsupported value"

NPROC_DEPRECATED = "spec.elasticPolicy.nProcPerNode is deprecated, use spec.nprocPerNode instead"

_MAX_LABEL_LENGTH = 63
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
    " character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for"
    f" validation is '{_DNS_1035.pattern}')"
)


class FieldError(msgspec.Struct, frozen=True):
    """One problem at one field. `value` is shown only where the type is about the value itself."""

    path: str
    type: str
    value: str | None
    detail: str

    def __str__(self) -> str:
        shown = f": {json.dumps(self.value, ensure_ascii=False)}" if self.value is not None else ""
        return f"{self.path}: {self.type}{shown}: {self.detail}"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a document: `errors` refuse it, `warnings` are only shown."""

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


def validate_pytorchjob(obj: Object, old: Object | None) -> Verdict:
    """Return every problem of a PyTorchJob as sent by a client; `old` is the stored one on an update."""
    spec = section(obj, "spec")
    elastic = spec.get("elasticPolicy")
    errors = [
        *_name_errors(obj),
        *_managed_by_errors(obj, old),
        *_elastic_errors(spec),
        *_replica_errors(spec, PYTORCHJOB),
    ]
    warnings = list(_name_warnings(obj, PYTORCHJOB))
    if isinstance(elastic, dict) and elastic.get("nProcPerNode") is not None:
        warnings.append(NPROC_DEPRECATED)
    return Verdict(errors=tuple(dict.fromkeys(errors)), warnings=tuple(warnings))


def text(errors: Sequence[FieldError]) -> str:
    """Return the problems as one line: alone as it is, several in brackets."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


def denied(errors: Sequence[FieldError], kind: Kind = PYTORCHJOB) -> str:
    """Return the message with which an API server passes on the refusal of our webhook."""
    return f'admission webhook "{kind.webhook_name}" denied the request: {text(errors)}'


def _name_errors(obj: Object) -> Iterator[FieldError]:
    """Children are Services, whose names must be DNS-1035 labels; they start with the job's name."""
    name = name_of(obj)
    messages = []
    if len(name) > _MAX_LABEL_LENGTH:
        messages.append(f"must be no more than {_MAX_LABEL_LENGTH} characters")
    if not _DNS_1035.fullmatch(name):
        messages.append(_DNS_1035_MESSAGE)
    if messages:
        yield FieldError("metadata.name", INVALID, name, "should match: " + ",".join(messages))


def _name_warnings(obj: Object, kind: Kind) -> Iterator[str]:
    """Warn of a name that is legal for a job and too long for its children: they could never be created."""
    name = name_of(obj)
    for key, replica in _replicas(section(obj, "spec"), kind):
        count = replica.get("replicas")
        last = f"{name}-{key.lower()}-{max((count if isinstance(count, int) else 1) - 1, 0)}"
        if len(name) <= _MAX_LABEL_LENGTH < len(last):
            yield f'metadata.name is too long: the service "{last}" would have more than 63 characters'


def _managed_by_errors(obj: Object, old: Object | None) -> Iterator[FieldError]:
    path = "spec.runPolicy.managedBy"
    manager = section(obj, "spec", "runPolicy").get("managedBy")
    if old is not None and manager != section(old, "spec", "runPolicy").get("managedBy"):
        yield FieldError(path, INVALID, "null" if manager is None else str(manager), "field is immutable")
    if manager is not None and manager not in MANAGERS:
        yield FieldError(path, UNSUPPORTED, str(manager), _supported(MANAGERS))


def _elastic_errors(spec: Object) -> Iterator[FieldError]:
    elastic = spec.get("elasticPolicy")
    if not isinstance(elastic, dict):
        return
    replicas = PYTORCHJOB.replica_specs_field
    if section(spec, replicas).get("Worker") is None:
        detail = "must be configured if elastic policy is used"
        yield FieldError(f"spec.{replicas}[Worker]", REQUIRED, None, detail)
    if elastic.get("nProcPerNode") is not None and spec.get("nprocPerNode") is not None:
        detail = "must not be used with spec.nprocPerNode"
        yield FieldError("spec.elasticPolicy.nProcPerNode", FORBIDDEN, None, detail)


def _replica_errors(spec: Object, kind: Kind) -> Iterator[FieldError]:
    path = f"spec.{kind.replica_specs_field}"
    if not isinstance(spec.get(kind.replica_specs_field), dict):
        yield FieldError(path, REQUIRED, None, "must be required")
    for key, replica in _replicas(spec, kind):
        if key not in kind.replica_types:
            yield FieldError(f"{path}[{key}]", UNSUPPORTED, key, _supported(kind.replica_types))
        yield from _container_errors(replica, f"{path}[{key}].template.spec.containers", kind)
        yield from _count_errors(key, replica.get("replicas"), f"{path}[{key}].replicas")


def _container_errors(replica: Object, path: str, kind: Kind) -> Iterator[FieldError]:
    containers = objects(section(replica, "template", "spec"), "containers")
    if not containers:
        yield FieldError(path, REQUIRED, None, "must be specified")
    for index, container in enumerate(containers):
        if not container.get("image"):
            yield FieldError(f"{path}[{index}].image", REQUIRED, None, "must be required")
    if all(container.get("name") != kind.container_name for container in containers):
        detail = f"must have at least one container with name {kind.container_name}"
        yield FieldError(path, REQUIRED, None, detail)


def _count_errors(key: str, count: object, path: str) -> Iterator[FieldError]:
    if key == "Master":
        if count != 1:
            yield FieldError(path, FORBIDDEN, None, "must be 1")
    elif isinstance(count, int) and count < 1:
        yield FieldError(path, FORBIDDEN, None, "must be at least 1")


def _replicas(spec: Object, kind: Kind) -> list[tuple[str, Object]]:
    """Return the replica specs in a fixed order: known types as the kind lists them, then others by name."""
    specs = section(spec, kind.replica_specs_field)
    known = [key for key in kind.replica_types if key in specs]
    others = sorted(key for key in specs if key not in kind.replica_types)
    return [(key, specs[key] if isinstance(specs[key], dict) else {}) for key in (*known, *others)]


def _supported(values: Sequence[str]) -> str:
    return "supported values: " + ", ".join(json.dumps(value) for value in values)
