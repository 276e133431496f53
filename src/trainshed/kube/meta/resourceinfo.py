"""What varies per served resource: one `ResourceInfo`, for built-in kinds and CRDs alike."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class SubresourceInfo(msgspec.Struct, frozen=True):
    """A path below an item. An empty `kind` or `version` means the parent's."""

    verbs: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""


class ScalePaths(msgspec.Struct, frozen=True):
    """Where an object keeps what Scale shows: paths of field names such as `.spec.replicas`.

    `selector` is a path to a selector *string* (custom resources), or to a LabelSelector or a label map
    (built-in workloads); empty when there is none.
    """

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""


class ResourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that varies per served resource, whether built in or defined by a CRD.

    Attributes:
        stored: objects live in the store; False for reviews, bindings and computed metrics.
        view_of: the resource that holds the objects when this one is only another shape of them
            (events.k8s.io events of core events, autoscaling/v1 of autoscaling/v2).
        create_on_update: PUT of a missing object creates it.
        unconditional_update: PUT without `metadata.resourceVersion` is accepted.
        has_generation: the server counts changes of the spec in `metadata.generation`.
        crd_name: the CustomResourceDefinition behind it, empty for built-ins.
        storage_version: the version in which a custom resource is stored.
        schema: the CRD's `openAPIV3Schema` of this version as JSON, a sixth of its size when decoded; else empty.
        printer_columns: the CRD's `additionalPrinterColumns`, as written.
        conversion: the CRD's `spec.conversion.webhook` as JSON where a webhook converts between versions; else empty.
        selectable: JSON paths of the CRD's `selectableFields`.
        deprecation_warning: sent as a Warning header with every answer when not empty.
    """

    resource: Resource
    singular: str
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, SubresourceInfo] = {}
    stored: bool = True
    view_of: Resource | None = None
    create_on_update: bool = False
    unconditional_update: bool = True
    has_generation: bool = False
    scale: ScalePaths | None = None
    crd_name: str = ""
    storage_version: str = ""
    schema: bytes | memoryview = b""
    conversion: bytes = b""
    printer_columns: tuple[Object, ...] = ()
    selectable: tuple[str, ...] = ()
    deprecation_warning: str = ""

    @property
    def crd(self) -> bool:
        """Whether a CustomResourceDefinition serves this resource."""
        return bool(self.crd_name)

    @property
    def has_status(self) -> bool:
        """Whether `/status` isolates the status from writes to the main path."""
        return "status" in self.subresources

    @property
    def storage(self) -> Resource:
        """The resource under whose store keys the objects live."""
        return self.view_of or self.resource

    @property
    def group_version(self) -> tuple[str, str]:
        """Group and version, the unit of discovery and OpenAPI documents."""
        return self.resource.group, self.resource.version
