"""What each kind adds to a job: one framework per file, one line here."""

from trainshed.jobs.v1.frameworks.base import Framework
from trainshed.jobs.v1.frameworks.jax import JAX
from trainshed.jobs.v1.frameworks.mpi import MPI
from trainshed.jobs.v1.frameworks.mx import MX
from trainshed.jobs.v1.frameworks.paddle import Paddle
from trainshed.jobs.v1.frameworks.pytorch import PyTorch
from trainshed.jobs.v1.frameworks.tensorflow import TensorFlow
from trainshed.jobs.v1.frameworks.xgboost import XGBoost

FRAMEWORKS: dict[str, Framework] = {
    framework.kind.name: framework
    for framework in (
        PyTorch(),
        TensorFlow(),
        MPI(),
        XGBoost(),
        Paddle(),
        JAX(),
        MX(),
    )
}
"""The framework of each kind, by its name."""
