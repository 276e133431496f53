"""A stored document as a job: defaulted, typed, and what is wrong with it."""

from __future__ import annotations

from functools import cache

import msgspec

from trainshed.api.replicated import JobKind
from trainshed.api.verdict import FieldError
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object


def read(kind: JobKind, document: Object) -> tuple[Job, tuple[FieldError, ...]]:
    """Return the defaulted job and what is wrong with it.

    Raises msgspec.ValidationError for a document that its CRD would not have let in.
    """
    defaulted = kind.defaults(document)
    spec = msgspec.convert(defaulted.get("spec"), kind.spec)
    specs = getattr(spec, _attribute(kind.spec, kind.replica_specs_field))
    job = Job.of(kind, defaulted, spec, spec.run_policy, specs)  # type: ignore[attr-defined]  # every v1 spec has it
    return job, kind.validate(defaulted, None).errors


@cache
def _attribute(spec: type[msgspec.Struct], wire_name: str) -> str:
    """Return the attribute of a declared type that holds a field."""
    return next(field.name for field in msgspec.structs.fields(spec) if field.encode_name == wire_name)
