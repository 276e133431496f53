"""How a step may be distributed: what `distribute:` names, and the job that it becomes."""

from __future__ import annotations

import msgspec


class Strategy(msgspec.Struct, frozen=True):
    """A job kind for distributed steps.

    `container` is the name by which its operator knows the training container, `replicas` the field of its replica
    types. With `first`, one replica of that type comes before the workers. `torchrun`: the command starts the ranks.
    """

    kind: str
    container: str
    replicas: str
    first: str | None = None
    torchrun: bool = False


STRATEGIES: dict[str, Strategy] = {
    "MultiWorkerMirroredStrategy": Strategy("TFJob", "tensorflow", "tfReplicaSpecs"),
    "DDP": Strategy("PyTorchJob", "pytorch", "pytorchReplicaSpecs", first="Master", torchrun=True),
    "JAX": Strategy("JAXJob", "jax", "jaxReplicaSpecs"),
    "XGBoost": Strategy("XGBoostJob", "xgboost", "xgbReplicaSpecs", first="Master"),
}
"""Every strategy by the name that a tag gives it."""
