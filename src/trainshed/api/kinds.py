"""The job kinds as data: everything that differs between two kinds and is not behaviour.

One more kind is one more row here, its types, and one framework under `jobs/frameworks`.
Facts: the API tables of the Kubeflow training operator, v1.
"""

from __future__ import annotations

import msgspec

GROUP = "kubeflow.org"
VERSION = "v1"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One job kind.

    `replica_types` is in reconcile order: the type whose success ends the job comes first.
    `controller_name` is the value of the operator-name label and the source component of events.
    """

    name: str
    singular: str
    plural: str
    replica_specs_field: str
    replica_types: tuple[str, ...]
    container_name: str
    port_name: str
    port: int
    framework: str
    controller_name: str
    default_restart_policy: str
    scalable: bool

    @property
    def api_version(self) -> str:
        """`kubeflow.org/v1`."""
        return f"{GROUP}/{VERSION}"

    @property
    def list_kind(self) -> str:
        """The kind of a list of these jobs, e.g. `PyTorchJobList`."""
        return f"{self.name}List"

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition, e.g. `pytorchjobs.kubeflow.org`."""
        return f"{self.plural}.{GROUP}"

    @property
    def webhook_name(self) -> str:
        """The entry of the validating webhook configuration; clients see it in a rejection."""
        return f"validator.{self.singular}.training-operator.{GROUP}"

    @property
    def webhook_path(self) -> str:
        """The path of the validating webhook, e.g. `/validate-kubeflow-org-v1-pytorchjob`."""
        return f"/validate-{GROUP.replace('.', '-')}-{VERSION}-{self.singular}"


PYTORCHJOB = Kind(
    name="PyTorchJob",
    singular="pytorchjob",
    plural="pytorchjobs",
    replica_specs_field="pytorchReplicaSpecs",
    replica_types=("Master", "Worker"),
    container_name="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    framework="pytorch",
    controller_name="pytorchjob-controller",
    default_restart_policy="OnFailure",
    scalable=True,
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in (PYTORCHJOB,)}
"""Every kind that we own, by its name."""
