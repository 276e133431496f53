"""What a run was given, and where its data lies: its claim, and the claim's directory on this machine."""

from __future__ import annotations

from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, namespace_of, objects, section, uid_of
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES
from trainshed.pipelines.emit.job import DATA
from trainshed.tekton.resources import claim_name


def given_parameters(run: Object) -> dict[str, str]:
    """Return the parameters that a run was given; its pipeline has defaults for others."""
    return {str(p["name"]): str(p.get("value")) for p in objects(section(run, "spec"), "params")}


def data_claim(run: Object) -> str:
    """Return the name of the claim with a run's data: its own, or the one of the run that it goes on from."""
    for binding in objects(section(run, "spec"), "workspaces"):
        if binding.get("name") == DATA:
            given = section(binding, "persistentVolumeClaim").get("claimName")
            return str(given) if given else claim_name("", DATA, uid_of(run))
    return ""


async def data_directory(client: Client, run: Object) -> str | None:
    """Return the directory of a run's data on this machine; None where it lies elsewhere."""
    try:
        claim = await client.get(PERSISTENTVOLUMECLAIMS, data_claim(run), namespace_of(run))
        volume = section(claim, "spec").get("volumeName")
        found = await client.get(PERSISTENTVOLUMES, str(volume)) if volume else {}
    except (ApiError, TransportError):
        return None
    path = section(found, "spec", "hostPath").get("path")
    return str(path) if path else None
