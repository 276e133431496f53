"""Why nobody takes up a job: no operator is there, or what its pods wait for."""

from __future__ import annotations

from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.resources import PODS
from trainshed.sdk import state as jobstate

_OPERATOR = "control-plane=kubeflow-training-operator"


async def about_operator(client: Client) -> str:
    """Return why nobody has taken up the job, as far as the operator's pods tell."""
    try:
        pods = (await client.list(PODS, label_selector=_OPERATOR)).items
    except (ApiError, TransportError):
        pods = []
    if not pods:
        return "no training operator has taken up the job, and none is to be seen in this cluster"
    states = []
    for pod in pods:
        seen = jobstate.replica(pod)
        detail = f": {seen.detail}" if seen.detail else ""
        states.append(f"{pod['metadata']['namespace']}/{seen.pod} is {seen.state}{detail}")
    return "no training operator has taken up the job yet; " + "; ".join(states)
