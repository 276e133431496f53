"""The rules that the kinds of `kubeflow.org/v1` share: which jobs are refused, and how the refusal reads.

Rules, paths and texts are those of the Kubeflow training operator v1 (1.9), so that a client which matches on them
goes on working. A kind composes its verdict of these and its own, in upstream's order; every rule is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trainshed.api.replicated import JobKind
from trainshed.api.verdict import FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED, FieldError, Verdict, supported
from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of

MANAGERS = ("kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue")
"""Who may manage a job. Anything else would leave it without anyone to act on it."""

MAX_REPLICAS = 10_000
"""Pods of one replica type. More is a slip of the keys, and would cost everybody the memory to list them."""

_MAX_LABEL_LENGTH = 63
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
    " character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for"
    f" validation is '{_DNS_1035.pattern}')"
)


def verdict(errors: Iterable[FieldError], warnings: Iterable[str]) -> Verdict:
    """Return the verdict with each problem once."""
    return Verdict(errors=tuple(dict.fromkeys(errors)), warnings=tuple(warnings))


def name_errors(obj: Object) -> Iterator[FieldError]:
    """Children are Services, whose names must be DNS-1035 labels; they start with the job's name."""
    name = name_of(obj)
    messages = []
    if len(name) > _MAX_LABEL_LENGTH:
        messages.append(f"must be no more than {_MAX_LABEL_LENGTH} characters")
    if not _DNS_1035.fullmatch(name):
        messages.append(_DNS_1035_MESSAGE)
    if messages:
        yield FieldError("metadata.name", INVALID, name, "should match: " + ",".join(messages))


def replica_warnings(obj: Object, kind: JobKind) -> Iterator[str]:
    """Warn of a job without replicas, and of a name that is legal for it and too long for its children."""
    name = name_of(obj)
    if spec_of(obj).get(kind.replica_specs_field) == {}:
        yield f"spec.{kind.replica_specs_field} is empty: the job has no pods, and waits for ever"
    for key, replica in _replicas(spec_of(obj), kind):
        count = replica.get("replicas")
        last = f"{name}-{key.lower()}-{max((count if isinstance(count, int) else 1) - 1, 0)}"
        if len(name) <= _MAX_LABEL_LENGTH < len(last):
            yield f'metadata.name is too long: the service "{last}" would have more than 63 characters'


def managed_by_errors(obj: Object, old: Object | None) -> Iterator[FieldError]:
    """Yield what is wrong with the named manager: unknown, or changed."""
    path = "spec.runPolicy.managedBy"
    manager = section(obj, "spec", "runPolicy").get("managedBy")
    if old is not None and manager != section(old, "spec", "runPolicy").get("managedBy"):
        yield FieldError(path, INVALID, "null" if manager is None else str(manager), "field is immutable")
    if manager is not None and manager not in MANAGERS:
        yield FieldError(path, UNSUPPORTED, str(manager), supported(MANAGERS))


def replica_errors(obj: Object, kind: JobKind, *, container: str = "") -> Iterator[FieldError]:
    """Yield what is wrong with the replica specs, type by type: known types in the kind's order, then others by name.

    `container` is how a missing training container is named, where that is not its plain name.
    """
    spec, path = spec_of(obj), f"spec.{kind.replica_specs_field}"
    if not isinstance(spec.get(kind.replica_specs_field), dict):
        yield FieldError(path, REQUIRED, None, "must be required")
    for key, replica in _replicas(spec, kind):
        here = f"{path}[{key}]"
        if key not in kind.type_names and not kind.other_types:
            yield FieldError(here, UNSUPPORTED, key, supported(kind.type_names))
        yield from _container_errors(replica, f"{here}.template.spec.containers", kind, container)
        yield from _count_errors(key, replica.get("replicas"), f"{here}.replicas", kind)


def _container_errors(replica: Object, path: str, kind: JobKind, shown: str) -> Iterator[FieldError]:
    containers = objects(section(replica, "template", "spec"), "containers")
    if not containers:
        yield FieldError(path, REQUIRED, None, "must be specified")
    for index, container in enumerate(containers):
        if not container.get("image"):
            yield FieldError(f"{path}[{index}].image", REQUIRED, None, "must be required")
    if all(container.get("name") != kind.container_name for container in containers):
        detail = f"must have at least one container with name {shown or kind.container_name}"
        yield FieldError(path, REQUIRED, None, detail)


def _count_errors(key: str, count: object, path: str, kind: JobKind) -> Iterator[FieldError]:
    exactly, least = kind.replica_type(key).exactly, kind.least_replicas
    if exactly is not None:
        if count != exactly:
            yield FieldError(path, FORBIDDEN, None, f"must be {exactly}")
    elif least is not None and isinstance(count, int) and count < least:
        yield FieldError(path, FORBIDDEN, None, f"must be at least {least}")
    elif isinstance(count, int) and count > MAX_REPLICAS:
        yield FieldError(path, FORBIDDEN, None, f"must be at most {MAX_REPLICAS}")


def _replicas(spec: Object, kind: JobKind) -> list[tuple[str, Object]]:
    """Return the replica specs in a fixed order: known types as the kind lists them, then others by name."""
    specs = section(spec, kind.replica_specs_field)
    known = [key for key in kind.type_names if key in specs]
    others = sorted(key for key in specs if key not in kind.type_names)
    return [(key, specs[key] if isinstance(specs[key], dict) else {}) for key in (*known, *others)]
