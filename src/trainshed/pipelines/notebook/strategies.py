"""How a step may be distributed: what `distribute:` names, and the kind of the job that it becomes."""

from __future__ import annotations

import msgspec


class Strategy(msgspec.Struct, frozen=True):
    """A job kind for distributed steps. `torchrun`: the command starts the ranks.

    `environment` is what every step of a pipeline has that has a step of this strategy, since models go from one to
    the other; a step's own `env:` wins.
    """

    kind: str
    torchrun: bool = False
    environment: dict[str, str] = {}


STRATEGIES: dict[str, Strategy] = {
    "MultiWorkerMirroredStrategy": Strategy(
        "TFJob",
        # `fit` of Keras 3 refuses this strategy; TensorFlow before 2.16 has no other Keras and does not look.
        environment={"TF_USE_LEGACY_KERAS": "1"},
    ),
    "DDP": Strategy("PyTorchJob", torchrun=True),
    "JAX": Strategy("JAXJob"),
    "XGBoost": Strategy("XGBoostJob"),
}
"""Every strategy by the name that a tag gives it."""
