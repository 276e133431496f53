"""One kind that we own, declared once: all that an API server, an operator and a face need to know of it.

CRD, validating webhook, admission of the embedded cluster, permissions, controller, metrics and reference page are
derived from the declaration. What the kind does is in `trainshed.jobs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from trainshed.api.verdict import FieldError, Verdict, text
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resourceinfo import ScalePaths
from trainshed.kube.meta.resources import Resource


class PrinterColumn(msgspec.Struct, frozen=True):
    """One column of `kubectl get`: `type` is string, integer or date, `path` a JSON path."""

    name: str
    type: str
    path: str


class ProgramPods(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one replica type that run a program, or wait for a launcher.

    Attributes:
        type: the replica type; empty for a kind without them.
        leads: whether it is the type that comes first.
        container: the name of the container that trains.
        command: what that runs.
    """

    type: str
    leads: bool
    container: str
    command: Sequence[str]


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program that pods are to run, where nobody wrote a manifest.

    Attributes:
        command: what one process runs.
        pods: how many train.
        processes: how many ranks the command starts in each pod; None for one, which is the command itself.
        template: returns the template of such pods.
    """

    command: tuple[str, ...]
    pods: int = 1
    processes: int | None = None
    template: Callable[[ProgramPods], Object]


class Kind(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One kind of any group.

    Attributes:
        root: the declared type of a whole object; its texts are those of `kubectl explain`.
        printer_columns: in the order in which `kubectl get` prints them.
        scale: where the replica count is, for a kind with the scale subresource.
        defaults: returns a copy of a document with every default filled in. Idempotent.
        validate: returns what is wrong with a document as a client sent it; the second argument is the stored one
            on an update.
        deletion_warnings: what a client is told that deletes an object.
        controller_name: the value of the operator-name label and the source component of events.
        framework: the label `framework` of the job metrics.
    """

    group: str
    version: str
    name: str
    singular: str
    plural: str
    root: type[msgspec.Struct]
    printer_columns: tuple[PrinterColumn, ...]
    scale: ScalePaths | None = None
    defaults: Callable[[Object], Object]
    validate: Callable[[Object, Object | None], Verdict]
    deletion_warnings: tuple[str, ...] = ()
    controller_name: str
    framework: str

    @cached_property
    def resource(self) -> Resource:
        """Where objects of this kind are served."""
        return Resource(self.group, self.version, self.plural, self.name)

    @property
    def api_version(self) -> str:
        """Group and version, e.g. `kubeflow.org/v1`."""
        return f"{self.group}/{self.version}"

    @property
    def list_kind(self) -> str:
        """The kind of a list of these objects, e.g. `PyTorchJobList`."""
        return f"{self.name}List"

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition, e.g. `pytorchjobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}"

    @property
    def webhook_name(self) -> str:
        """The entry of the validating webhook configuration; clients see it in a rejection."""
        return f"validator.{self.singular}.training-operator.{self.group}"

    @property
    def webhook_path(self) -> str:
        """The path of the validating webhook, e.g. `/validate-kubeflow-org-v1-pytorchjob`."""
        return f"/validate-{self.group.replace('.', '-')}-{self.version}-{self.singular}"

    @property
    def runs_programs(self) -> bool:
        """Whether a job of this kind can be made of a `Program`."""
        return False

    @property
    def starts_ranks(self) -> bool:
        """Whether such a program may start several ranks in each pod."""
        return False

    def running(self, program: Program) -> Object:
        """Return the `spec` of a job that runs the program. NotImplementedError where `runs_programs` is false."""
        raise NotImplementedError(self.name)

    def replica_specs(self, job: Object) -> Mapping[str, Any]:
        """Return the map from replica type to count and pod template; empty for a kind whose spec has none."""
        return {}

    def empty_replicas(self, job: Object) -> list[str]:
        """Return the paths of replica types without anything in them, and that of the map when it is empty."""
        return []

    def denied(self, errors: Sequence[FieldError]) -> str:
        """Return the message with which an API server passes on the refusal of our webhook."""
        return f'admission webhook "{self.webhook_name}" denied the request: {text(errors)}'
