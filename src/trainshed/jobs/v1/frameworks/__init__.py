"""What each training framework adds to a job; one framework per file, one line here."""

from trainshed.jobs.v1.frameworks.framework import Framework
from trainshed.jobs.v1.frameworks.pytorch import PyTorch

FRAMEWORKS: dict[str, Framework] = {"PyTorchJob": PyTorch()}
"""The framework of each kind."""

__all__ = ["FRAMEWORKS", "Framework"]
