"""What `decide` is given: one consistent-enough view of a job and its children, the time, the options.

The view may be stale or partial; see `decide` for what holds then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource


class OperatorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How this operator was started.

    legacy_labels: also write the short labels of older operators (`job-name`, `replica-type`, ...), as by default.
    gang_scheduler: the scheduler that places the pods of a job together, `volcano` or one of scheduler-plugins; empty
        for none.
    gang_policy_only: only jobs with a `schedulingPolicy` are placed so.
    by_kind: what the flags of one kind say, by its name; a kind that is not here has its defaults.
    """

    legacy_labels: bool = True
    gang_scheduler: str = ""
    gang_policy_only: bool = False
    by_kind: Mapping[str, msgspec.Struct] = {}


DEFAULTS = OperatorOptions()


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """One flag of the operator that belongs to a kind. Its value is text, a count of at least 1, or a file's content.

    `fallback` is a file that is read where it exists and no other is named; `variable` is the environment variable of
    the operator that gives the default, where it is set.
    """

    name: str
    help: str
    default: str | int = ""
    type: Literal["text", "count", "file"] = "text"
    fallback: str = ""
    variable: str = ""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """One view of the world. Objects are shared with caches: nothing may change them.

    job: the stored document, not defaulted.
    owned: by resource, of those that the job's kind declares. Of a watched one at least every child in the job's
        namespace with the labels operator-name and job-name of this job, or that it controls; of others what was
        found under the names to look up. More may be there and is ignored.
    now: seconds since the epoch.
    """

    job: Object
    owned: Mapping[Resource, Sequence[Object]] = {}
    now: float
    options: OperatorOptions = OperatorOptions()
