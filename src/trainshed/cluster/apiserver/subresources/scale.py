"""`/scale`: the replica count of any kind that has one."""

from __future__ import annotations

from trainshed.cluster.apiserver.body import read_request
from trainshed.cluster.apiserver.conversion import viewed_one
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.apiserver.options import managed
from trainshed.cluster.apiserver.verbs.write import Patch
from trainshed.cluster.apiserver.writing import Change, modify
from trainshed.kube.meta.errors import bad_request
from trainshed.kube.meta.objects import Object, metadata_of
from trainshed.kube.meta.resourceinfo import ScalePaths
from trainshed.kube.patch.types import APPLY, MERGE, check_patch_type
from trainshed.kube.wire import scale
from trainshed.kube.wire.options import PatchOptions, UpdateOptions, WriteOptions


async def get(core: Core, call: Call) -> Answer:
    """Return the Scale of an object."""
    stored = core.store.get(call.kind.key(call.route.namespace, call.route.name))
    if stored is None:
        raise call.kind.missing(call.route.name)
    seen = await viewed_one(core, call.kind, stored, fresh=True)
    return Answer.json(scale.to_scale(call.kind.view(seen), _paths(call)))


async def update(core: Core, call: Call) -> Answer:
    """Take the replica count of a Scale."""
    wanted = await read_request(call, "io.k8s.api.autoscaling.v1.Scale")
    options = UpdateOptions.decode(call.request.query)
    return await _change(core, call, lambda current: wanted, options)


async def patch(core: Core, call: Call) -> Answer:
    """Patch the Scale of an object."""
    content_type = check_patch_type(call.request.headers.get("content-type", ""), custom=call.kind.info.crd)
    if content_type == APPLY:
        content_type = MERGE  # a Scale has one field to own
    change = Patch(content_type, await call.request.body())
    options = PatchOptions.decode(call.request.query)
    return await _change(core, call, lambda current: change.on(current, call), options)


async def _change(core: Core, call: Call, edit: Change, options: WriteOptions) -> Answer:
    paths = _paths(call)

    def changed(old: Object) -> Object:
        wanted = edit(scale.to_scale(old, paths))
        metadata = metadata_of(wanted)
        if metadata.get("name") not in (None, "", call.route.name):
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL"
                f" ({call.route.name})"
            )
        new = scale.from_scale(old, wanted, paths)
        if metadata.get("resourceVersion"):
            new = {
                **new,
                "metadata": {**new["metadata"], "resourceVersion": metadata["resourceVersion"]},
            }
        return new

    written = await modify(
        core, call, call.route.name, changed, managed(options, call.request), subresource="scale"
    )
    obj = written.obj if written.stored is None else call.kind.view(written.stored)
    return Answer.json(scale.to_scale(obj, paths))


def _paths(call: Call) -> ScalePaths:
    paths = call.kind.info.scale
    assert paths is not None, call.kind.resource
    return paths
