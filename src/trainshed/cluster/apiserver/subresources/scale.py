"""`/scale`: the replica count of any kind that has one."""

from __future__ import annotations

from functools import partial

from trainshed.cluster.apiserver.body import decoded, read_request
from trainshed.cluster.apiserver.conversion import viewed_one
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.apiserver.options import managed
from trainshed.cluster.apiserver.rendering import rendered, representation
from trainshed.cluster.apiserver.verbs.write import Patch, check_named, read_patch
from trainshed.cluster.apiserver.writing import Change, modify
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.meta.errors import bad_request
from trainshed.kube.meta.jsonpath import field_names
from trainshed.kube.meta.objects import Object, metadata_of, name_of, section
from trainshed.kube.meta.resourceinfo import ScalePaths
from trainshed.kube.patch.apply import apply
from trainshed.kube.patch.managedfields import entries_of, track_update, with_entries
from trainshed.kube.patch.scalefields import seen_by_scale, written_by_scale
from trainshed.kube.patch.typed import refusal
from trainshed.kube.patch.types import APPLY
from trainshed.kube.schema.nodes import definition
from trainshed.kube.wire import scale
from trainshed.kube.wire.options import PatchOptions, UpdateOptions, WriteOptions

_SCALE = "io.k8s.api.autoscaling.v1.Scale"


async def get(core: Core, call: Call) -> Answer:
    """Return the Scale of an object."""
    stored = core.store.get(call.kind.key(call.route.namespace, call.route.name))
    if stored is None:
        raise call.kind.missing(call.route.name)
    seen = await viewed_one(core, call.kind, stored, fresh=True)
    return _answer(call, call.kind.view(seen))


async def update(core: Core, call: Call) -> Answer:
    """Take the replica count of a Scale."""
    wanted = await read_request(call, _SCALE)
    check_named(wanted, call.route.name)
    options = managed(UpdateOptions.decode(call.request.query), call.request)
    return await _change(core, call, _tracked(call, lambda current: wanted, options), options)


async def patch(core: Core, call: Call) -> Answer:
    """Patch the Scale of an object, or apply one."""
    content_type, options, data = await read_patch(call)
    if content_type == APPLY:
        applied, _ = await decoded(call.request, data, "application/yaml", "Scale")
        misfit = refusal(applied, definition(_SCALE))
        if misfit is not None:
            raise misfit
        return await _change(core, call, partial(_applied, call, applied, options), options)
    change = Patch(content_type, data)
    return await _change(
        core, call, _tracked(call, lambda current: change.on(current, call), options), options
    )


def _applied(call: Call, applied: Object, options: PatchOptions, current: Object) -> Object:
    return apply(
        current,
        applied,
        definition(_SCALE),
        manager=options.field_manager,
        force=bool(options.force),
        subresource="scale",
        now=call.timestamp,
    )


def _tracked(call: Call, edit: Change, options: WriteOptions) -> Change:
    def edited(current: Object) -> Object:
        return track_update(
            current,
            _as_written(edit(current)),
            definition(_SCALE),
            manager=options.field_manager,
            subresource="scale",
            now=call.timestamp,
        )

    return edited


def _as_written(wanted: Object) -> Object:
    """Return a Scale as Go writes it: without replicas where they are 0, which nobody owns then."""
    spec = wanted.get("spec")
    if not isinstance(spec, dict) or spec.get("replicas") != 0 or isinstance(spec["replicas"], bool):
        return wanted
    return {**wanted, "spec": {key: value for key, value in spec.items() if key != "replicas"}}


async def _change(core: Core, call: Call, edit: Change, options: WriteOptions) -> Answer:
    """Store what `edit` makes of the object's Scale, which carries the managedFields that it has a part in."""
    paths = _paths(call)
    replicas = field_names(paths.spec_replicas)

    def changed(old: Object) -> Object:
        entries = entries_of(old)
        wanted = edit(with_entries(scale.to_scale(old, paths), seen_by_scale(entries, replicas)))
        metadata = metadata_of(wanted)
        if metadata.get("name") not in (None, "", call.route.name):
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL"
                f" ({call.route.name})"
            )
        new = scale.from_scale(old, wanted, paths)
        if entries:
            after = written_by_scale(entries, entries_of(wanted), replicas, call.kind.resource.api_version)
            new = with_entries(new, after)
        if metadata.get("resourceVersion"):
            new = {
                **new,
                "metadata": {**new["metadata"], "resourceVersion": metadata["resourceVersion"]},
            }
        return new

    written = await modify(core, call, call.route.name, changed, options, subresource="scale", track=False)
    obj = written.obj if written.stored is None else call.kind.view(written.stored)
    return _answer(call, obj)


def _answer(call: Call, obj: Object) -> Answer:
    """Return the Scale of an object as the client asked for it."""
    wanted = representation(call)
    return rendered(call, scale.to_scale(obj, _paths(call)), wanted, shape=_COLUMNS)


def _cells(obj: Object, now: float) -> list[object]:
    counts = (section(obj, part).get("replicas", 0) for part in ("spec", "status"))
    return [name_of(obj), *counts, age(obj, now)]


_COLUMNS = Columns(define("Name, Desired#, Available#, Age"), _cells)


def _paths(call: Call) -> ScalePaths:
    paths = call.kind.info.scale
    assert paths is not None, call.kind.resource
    return paths
