"""The functions of CEL and of Kubernetes' libraries at run time, by name and types."""

from trainshed.kube.cel.library import (
    authorizer,
    collections,
    conversions,
    names,
    networks,
    optionals,
    quantities,
    strings,
    textformat,
    times,
    urls,
)
from trainshed.kube.cel.library.overloads import FUNCTIONS, MEMBERS, Overloads

LIBRARIES = (
    authorizer, collections, conversions, names, networks, optionals, quantities, strings, textformat, times, urls,
)  # fmt: skip

__all__ = ["FUNCTIONS", "LIBRARIES", "MEMBERS", "Overloads"]
