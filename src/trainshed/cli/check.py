"""`trainshed check`: what would happen to manifests, without changing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import typer
from rich.markup import escape

from trainshed.cli.console import err, out, user_errors
from trainshed.cli.jobs import Files
from trainshed.cli.options import Context, Kubeconfig, Namespace
from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.sdk import apply as applying
from trainshed.sdk import manifests
from trainshed.sdk import state as jobstate
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.errors import REFUSED, UserError


def check(
    files: Files, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Say what would become of manifests, changing nothing.

    Names what the server refuses, and which fields the local node cannot honour. Exit code 1 when an object
    would be refused.
    """
    target = Target(kubeconfig, context, namespace)
    with user_errors():
        objects = manifests.load(files)
        accepted = asyncio.run(_examine(target, objects))
        if target.is_local:
            for obj in accepted:
                report_unsupported(obj)
        if len(accepted) < len(objects):
            raise typer.Exit(REFUSED)


async def _examine(target: Target, objects: list[Object]) -> list[Object]:
    if target.is_local:
        from trainshed.cli.cluster import ensure_up

        await asyncio.to_thread(ensure_up)
    async with connected(target) as client:
        return await examine(client, objects)


async def examine(client: Client, objects: Sequence[Object]) -> list[Object]:
    """Say of each object whether the server would take it; return those that it would."""
    accepted = []
    kinds = applying.Kinds(client)
    for obj in objects:
        name = f"{obj['kind']} {obj['metadata']['name']}"
        try:
            resource = await kinds.resource(obj)
            await client.apply(
                resource,
                obj,
                field_manager=applying.FIELD_MANAGER,
                dry_run=True,
                field_validation="Strict",
            )
            jobstate.require_replicas(obj)
        except (ApiError, UserError) as error:
            err.print(f"[red]✗[/] {escape(name)}: {escape(str(error))}")
            if isinstance(error, UserError) and error.hint:
                err.print(f"  [cyan]{escape(error.hint)}[/]")
        else:
            accepted.append(obj)
            out.print(f"[green]✓[/] {escape(name)}: valid")
    return accepted


def report_unsupported(obj: Object) -> None:
    """Say which fields of an object that the server takes this machine cannot honour."""
    from trainshed.cluster.node.pod.unsupported import local_capabilities, unsupported_fields
    from trainshed.cluster.scheduler.placement import UNREGARDED, unregarded_fields

    capabilities = local_capabilities()
    for path, template in _pod_templates(obj):
        findings = unsupported_fields(template, capabilities)
        findings += [(field, UNREGARDED) for field in unregarded_fields(template)]
        for field, why in findings:
            out.print(f"[yellow]![/] {escape(path + field)}: {escape(why)}")


_WITH_PODS = ("v1", "apps/v1", "batch/v1")
"""Where a `template` is a pod's, in a shape that the server has checked."""


def _pod_templates(obj: Object) -> list[tuple[str, Object]]:
    """Return the pods in the object with the path that leads to each."""
    if not (obj["apiVersion"] in _WITH_PODS or jobstate.is_of_training(obj)):
        return []
    if obj["kind"] == "Pod":
        return [("", obj)]
    found = [
        (f"{field}[{kind}].template.", spec["template"])
        for field, specs in (obj.get("spec") or {}).items()
        if field.endswith("ReplicaSpecs") and jobstate.replica_specs(obj) is specs
        for kind, spec in specs.items()
        if isinstance(spec, dict) and isinstance(spec.get("template"), dict)
    ]
    spec = obj.get("spec") or {}
    others = {
        "spec.template.": spec.get("template"),
        "spec.jobTemplate.spec.template.": ((spec.get("jobTemplate") or {}).get("spec") or {}).get(
            "template"
        ),
    }
    return [
        *((f"spec.{path}", t) for path, t in found),
        *((path, t) for path, t in others.items() if isinstance(t, dict)),
    ]
