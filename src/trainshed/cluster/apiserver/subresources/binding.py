"""`pods/binding`: the scheduler's decision."""

from __future__ import annotations

from trainshed.cluster.apiserver.admission.parts import admitted
from trainshed.cluster.apiserver.body import read_request
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.apiserver.writing import RETRIES
from trainshed.cluster.store import KeyMissing, RevisionMismatch, keys
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import bad_request, conflict, invalid, not_found
from trainshed.kube.meta.objects import Object, metadata_of, section, spec_of, status_of
from trainshed.kube.meta.resources import PODS
from trainshed.kube.wire.options import CreateOptions

SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def create(core: Core, call: Call) -> Answer:
    """Put a pod on the node that a Binding names, and mark it scheduled. Raises `ApiError` 404, 409."""
    options = CreateOptions.decode(call.request.query)
    binding = await read_request(call, "io.k8s.api.core.v1.Binding")
    binding = await admitted(core, call, binding, ("", "v1", "Binding"), dry_run=bool(options.dry_run))
    target = section(binding, "target")
    node = target.get("name")
    name = metadata_of(binding).get("name", "")
    if call.route.name and call.route.name != name:
        raise bad_request("name in URL does not match name in Binding object")
    if not node or target.get("kind") not in (None, "", "Node"):
        raise invalid("Binding", "", name, [causes.required("target.name")])
    key = keys.of(PODS, call.route.namespace, name)
    for _ in range(RETRIES):
        current = core.store.get(key)
        if current is None:
            raise not_found("pods", "", name)
        bound = _bound(call, current.obj, binding, name, node)
        if options.dry_run:
            return Answer.json(SUCCESS, status=201)
        try:
            await core.store.update(key, bound, current.revision)
            return Answer.json(SUCCESS, status=201)
        except RevisionMismatch:
            continue
        except KeyMissing:
            raise not_found("pods", "", name) from None
    raise conflict("pods/binding", "", name)


def _bound(call: Call, pod: Object, binding: Object, name: str, node: str) -> Object:
    metadata, spec = pod["metadata"], spec_of(pod)
    uid = metadata_of(binding).get("uid")
    if uid and uid != metadata["uid"]:
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']})"
        raise conflict("pods/binding", "", name, why)
    if metadata.get("deletionTimestamp"):
        raise conflict("pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        raise conflict("pods/binding", "", name, why)
    if spec.get("schedulingGates"):
        raise conflict("pods/binding", "", name, f"pod {name} has non-empty .spec.schedulingGates")
    annotations = section(binding, "metadata", "annotations")
    if annotations:
        metadata = {**metadata, "annotations": {**section(metadata, "annotations"), **annotations}}
    status = status_of(pod)
    others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": call.timestamp,
    }
    return {
        **pod,
        "metadata": metadata,
        "spec": {**spec, "nodeName": node},
        "status": {**status, "conditions": [*others, scheduled]},
    }
