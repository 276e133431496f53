"""One kind that we own, declared once: all that an API server, an operator and a face need to know of it.

CRD, validating webhook, admission of the embedded cluster, permissions, controller, metrics and reference page are
derived from the declaration. What the kind does is in `trainshed.jobs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

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

    def denied(self, errors: Sequence[FieldError]) -> str:
        """Return the message with which an API server passes on the refusal of our webhook."""
        return f'admission webhook "{self.webhook_name}" denied the request: {text(errors)}'
