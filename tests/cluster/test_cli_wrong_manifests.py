"""Manifests with one thing wrong, through `check` and `run`: always an answer in our words, never a traceback.

Every node of a PyTorchJob is in turn taken away or replaced by something of another type, on a server in this
process. What the server says to each is not looked at here (tests/e2e/test_must_hold_input.py).
"""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api_world import World, open_world
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.cli.controlplane import admission
from trainshed.cluster.pki import ensure_pki
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.resources import Resource
from trainshed.operator.objects import crds
from trainshed.sdk import manifests, state
from trainshed.sdk.check import examine
from trainshed.sdk.errors import UserError
from trainshed.sdk.run import carry_out, plan_run

JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: train
  namespace: default
  labels: {team: a}
spec:
  runPolicy: {backoffLimit: 1, cleanPodPolicy: None}
  elasticPolicy: {maxReplicas: 2, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization}}}]}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        metadata: {labels: {app: a}}
        spec:
          securityContext: {fsGroup: 5, seccompProfile: {type: RuntimeDefault}}
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]
          topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
          tolerations: [{key: gpu, operator: Exists}]
          initContainers: [{name: first, image: "i:1", restartPolicy: Always}]
          volumes:
            - {name: data, emptyDir: {sizeLimit: 1Gi}}
            - {name: all, projected: {sources: [{secret: {name: s}}]}}
          containers:
            - name: pytorch
              image: i:1
              command: [python3, -c, "1"]
              args: [--epochs=2]
              env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
              ports: [{containerPort: 23456, name: p}]
              resources: {limits: {memory: 1Gi}}
              volumeMounts: [{name: data, mountPath: /data}]
              livenessProbe: {grpc: {port: 1}}
              lifecycle: {preStop: {exec: {command: [a]}}}
"""
MISSING = object()
REPLACEMENTS = (MISSING, None, "word", 7, [], {}, [None], {"a": None})


def mutations(text: str) -> Iterator[tuple[str, Any]]:
    """Yield the manifest with one node changed, and which and how."""
    (whole,) = manifests.parse(text, "job.yaml")

    def paths(node: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in inner:
            yield (*path, key)
            yield from paths(value, (*path, key))

    for path in paths(whole, ()):
        for replacement in REPLACEMENTS:
            changed = copy.deepcopy(whole)
            parent = changed
            for key in path[:-1]:
                parent = parent[key]
            if replacement is MISSING:
                del parent[path[-1]]
            else:
                parent[path[-1]] = replacement
            yield f"{path} {'deleted' if replacement is MISSING else f'= {replacement!r}'}", changed


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    ensure_pki(tmp_path / "pki")
    async with open_world(tmp_path, admission=admission()) as opened:
        definitions = Resource(
            "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
        )
        for crd in crds():
            await opened.client.apply(definitions, crd, field_manager="test")
        opened.client.namespace = "default"
        yield opened


async def check_and_run(world: World, text: str) -> str:
    """Return what is refused, or nothing; the job is gone again afterwards. Anything else is raised."""
    try:
        objects = manifests.parse(text, "job.yaml")
        (verdict,) = await examine(world.client, objects, local=True)
        applied = await carry_out(world.client, await plan_run(world.client, objects))
        for each in applied:
            state.epochs(each.obj)
    except (UserError, ApiError) as error:
        return str(error)
    for job in (await world.client.list(PYTORCHJOB.resource, "default")).items:
        await world.client.delete(PYTORCHJOB.resource, job["metadata"]["name"], "default")
    assert verdict.accepted, "what check refuses, run refuses"
    return ""


async def test_the_manifest_itself_is_accepted(world: World) -> None:
    assert await check_and_run(world, JOB) == ""


@pytest.mark.timeout(240)
async def test_no_single_wrong_node_ends_in_a_traceback(world: World) -> None:
    broken = []
    tried = refused = 0
    for what, obj in mutations(JOB):
        tried += 1
        try:
            refused += bool(await check_and_run(world, json.dumps(obj)))
        except Exception as error:  # any other exception is what a user would see as a traceback
            broken.append(f"{what}: {error!r}")
    assert not broken, f"{len(broken)} of {tried}:\n" + "\n".join(broken[:20])
    assert refused > tried / 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: train", "generateName: train-", "job.yaml: metadata.name: Required value"),
        ("name: train", "name: 5", "job.yaml: metadata.name: Invalid value: 5: must be a string"),
        ("namespace: default", "namespace: [a]", 'job.yaml: metadata.namespace: Invalid value: ["a"]: must'),
        ("  elasticPolicy:", "  x-elastic:", ".spec.x-elastic: field not declared in schema"),
    ],
)
async def test_what_is_said(world: World, old: str, new: str, message: str) -> None:
    assert message in await check_and_run(world, JOB.replace(old, new, 1))


@pytest.mark.parametrize("replicas", ["{Worker: }", "{}"])
async def test_a_job_without_replicas_is_refused_before_it_is_created(world: World, replicas: str) -> None:
    head = JOB.partition("spec:")[0]
    said = await check_and_run(world, f"{head}spec: {{pytorchReplicaSpecs: {replicas}}}\n")
    assert "spec.pytorchReplicaSpecs" in said and "Required value" in said
    assert (await world.client.list(PYTORCHJOB.resource, "default")).items == []
