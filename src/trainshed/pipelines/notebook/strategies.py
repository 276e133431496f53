"""How a step may be distributed: what `distribute:` names, and the job that it becomes."""

from __future__ import annotations

import msgspec


class Strategy(msgspec.Struct, frozen=True):
    """A job kind for distributed steps.

    `container` is the name by which its operator knows the training container, `replicas` the field of its replica
    types. With `first`, one replica of that type comes before the workers. `torchrun`: the command starts the ranks.
    `environment` is what every step of a pipeline has that has a step of this strategy, since models go from one to
    the other; a step's own `env:` wins.
    """

    kind: str
    container: str
    replicas: str
    first: str | None = None
    torchrun: bool = False
    environment: dict[str, str] = {}


STRATEGIES: dict[str, Strategy] = {
    "MultiWorkerMirroredStrategy": Strategy(
        *("TFJob", "tensorflow", "tfReplicaSpecs"),
        # `fit` of Keras 3 refuses this strategy; TensorFlow before 2.16 has no other Keras and does not look.
        environment={"TF_USE_LEGACY_KERAS": "1"},
    ),
    "DDP": Strategy("PyTorchJob", "pytorch", "pytorchReplicaSpecs", first="Master", torchrun=True),
    "JAX": Strategy("JAXJob", "jax", "jaxReplicaSpecs"),
    "XGBoost": Strategy("XGBoostJob", "xgboost", "xgbReplicaSpecs", first="Master"),
}
"""Every strategy by the name that a tag gives it."""
