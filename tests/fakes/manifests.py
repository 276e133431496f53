"""Manifests of jobs that say all they can, and what becomes of them under somebody's typing, slips and malice.

The same seed gives the same manifests, so that one that is found wrong can be made again.
"""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import yaml

from trainshed.kube.meta.objects import Object, copy_tree
from trainshed.testing.builders import JOB_KINDS

Place: TypeAlias = tuple[Any, int | str]
"""A node of a document: what it is in, and the key or index under which it is there."""

TEMPLATE = """
metadata: {labels: {app: a}, annotations: {note: b}, finalizers: [example.com/hold]}
spec:
  securityContext: {fsGroup: 5, seccompProfile: {type: RuntimeDefault}}
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {app: a}}}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
  tolerations: [{key: gpu, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}]
  nodeSelector: {disk: fast}
  initContainers: [{name: first, image: "i:1", restartPolicy: Always}]
  imagePullSecrets: [{name: pull}]
  terminationGracePeriodSeconds: 3
  volumes:
    - {name: data, emptyDir: {sizeLimit: 1Gi, medium: Memory}}
    - {name: all, projected: {sources: [{secret: {name: s}}, {configMap: {name: c, items: [{key: a, path: b}]}}]}}
    - {name: claim, persistentVolumeClaim: {claimName: p, readOnly: true}}
  containers:
    - name: NAME
      image: i:1
      command: [python3, -c, "1"]
      args: [--epochs=2]
      env:
        - {name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: B, value: "1"}
      envFrom: [{configMapRef: {name: c, optional: true}, prefix: C_}]
      ports: [{containerPort: 23456, name: p, protocol: TCP}]
      resources: {limits: {memory: 1Gi, nvidia.com/gpu: 1}, requests: {cpu: 100m}}
      volumeMounts: [{name: data, mountPath: /data, subPath: a}]
      livenessProbe: {httpGet: {path: /, port: p}, periodSeconds: 3}
      lifecycle: {preStop: {exec: {command: [a]}}}
      securityContext: {capabilities: {add: [SYS_PTRACE]}, runAsUser: 5}
    - {name: sidecar, image: "s:1"}
"""
RUN_POLICY = """
cleanPodPolicy: None
ttlSecondsAfterFinished: 60
activeDeadlineSeconds: 600
backoffLimit: 1
suspend: false
managedBy: kubeflow.org/training-operator
schedulingPolicy: {minAvailable: 1, queue: q, minResources: {cpu: 1}, priorityClass: p, scheduleTimeoutSeconds: 5}
"""
METRICS = """
- {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}
"""
ELASTIC = {"minReplicas": 1, "maxReplicas": 2, "maxRestarts": 3, "metrics": yaml.safe_load(METRICS)}
RENDEZVOUS = {
    "rdzvBackend": "c10d",
    "rdzvPort": 29500,
    "rdzvHost": "h",
    "rdzvId": "i",
    "rdzvConf": [{"key": "a", "value": "1"}],
    "standalone": False,
}
REPLICAS = {
    "TFJob": {"Chief": 1, "PS": 1, "Worker": 2, "Evaluator": 1},
    "MPIJob": {"Launcher": 1, "Worker": 2},
    "MXJob": {"Scheduler": 1, "Server": 1, "Worker": 2},
}
"""Of kinds that do not simply have one pod of each type, and two workers."""
SPECS: dict[str, Object] = {
    "PyTorchJob": {"nprocPerNode": "2", "elasticPolicy": ELASTIC | RENDEZVOUS},
    "TFJob": {"successPolicy": "AllWorkers", "enableDynamicWorker": True},
    "MPIJob": {"slotsPerWorker": 2, "cleanPodPolicy": "None", "mainContainer": "mpi"},
    "PaddleJob": {"elasticPolicy": ELASTIC},
    "MXJob": {"jobMode": "MXTrain"},
}


def replicas_of(kind: str) -> dict[str, int]:
    """Return the counts of a job of the kind as people write it."""
    types = JOB_KINDS[kind].type_names
    return REPLICAS.get(kind) or {type_: 2 if type_ == "Worker" else 1 for type_ in types}


def whole(kind: str) -> Object:
    """Return a valid manifest of the kind in which nearly every field is set."""
    declared = JOB_KINDS[kind]

    def replica(count: int) -> Object:
        template = _read(TEMPLATE.replace("NAME", declared.container_name))
        return {"replicas": count, "restartPolicy": "OnFailure", "template": template}

    return {
        "apiVersion": declared.api_version,
        "kind": kind,
        "metadata": {
            "name": "train",
            "namespace": "default",
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
        },
        "spec": {
            "runPolicy": _read(RUN_POLICY),
            declared.replica_specs_field: {type_: replica(n) for type_, n in replicas_of(kind).items()},
            **copy.deepcopy(SPECS.get(kind, {})),
        },
    }


def _read(text: str) -> Any:
    return copy_tree(_parsed(text))


@functools.cache
def _parsed(text: str) -> Any:
    return yaml.load(text, yaml.CSafeLoader)


# What goes in the place of something else.
_ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 1.5, 1e400,
    "", " ", "word", "1", "-1", "1Gi", "100m", "0x10",
    "True", "null", "a" * 300,
    "Ünïcødé", "\u202e", "\x00", "a/b", "../..", "$(A)", "{{.A}}", "Master", "worker", "None",
    "2026-01-01T00:00:00Z", [], {}, [None], [[]], [{}], {"": 1}, {"a": None}, {"a": {"b": {"c": []}}},
)  # fmt: skip


def places(document: Any) -> Iterator[Place]:
    """Yield every node of the document but itself, outer ones first."""
    inner = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, value in list(inner):
        yield document, key
        yield from places(value)


def _delete(choose: random.Random, document: Object, place: Place) -> None:
    parent, key = place
    del parent[key]


def _replace(choose: random.Random, document: Object, place: Place) -> None:
    parent, key = place
    parent[key] = copy.deepcopy(choose.choice(_ODD))


def _transplant(choose: random.Random, document: Object, place: Place) -> None:
    """Put a copy of another part of the document there."""
    (parent, key), (other, at) = place, choose.choice(list(places(document)))
    parent[key] = copy.deepcopy(other[at])


def _misspell(choose: random.Random, document: Object, place: Place) -> None:
    parent, key = place
    if isinstance(parent, dict) and isinstance(key, str):
        spelled = choose.choice(
            [key.lower(), key.upper(), key[:-1], key + "s", key.replace("e", "3"), f" {key}"]
        )
        parent[spelled] = parent.pop(key)


def _repeat(choose: random.Random, document: Object, place: Place) -> None:
    """Have an element of a list twice, or put a value into a list."""
    parent, key = place
    if isinstance(parent, list):
        parent.append(copy.deepcopy(parent[int(key)]))
    else:
        parent[key] = [parent[key]]


def _add(choose: random.Random, document: Object, place: Place) -> None:
    parent, _ = place
    if isinstance(parent, dict):
        parent[choose.choice(["x", "replicas", "spec", "name", "", "status", "containers"])] = copy.deepcopy(
            choose.choice(_ODD)
        )
    else:
        parent.insert(0, copy.deepcopy(choose.choice(_ODD)))


def _wrap(choose: random.Random, document: Object, place: Place) -> None:
    parent, key = place
    parent[key] = {choose.choice(["spec", "a", "items"]): parent[key]}


_CHANGES: tuple[Callable[[random.Random, Object, Place], None], ...] = (
    _delete, _replace, _replace, _transplant, _misspell, _repeat, _add, _wrap,
)  # fmt: skip


def mutant(kind: str, number: int) -> Object:
    """Return the manifest with one to three changes; the same for the same number."""
    choose = random.Random(f"{kind} {number}")
    document = whole(kind)
    for _ in range(choose.choice([1, 1, 2, 3])):
        found = list(places(document))
        if found:
            choose.choice(_CHANGES)(choose, document, choose.choice(found))
    return document


def mutants(numbers: Iterable[int]) -> Iterator[tuple[str, Object]]:
    """Yield the manifests of these numbers with their names, all kinds in turn."""
    kinds = list(JOB_KINDS)
    for number in numbers:
        kind = kinds[number % len(kinds)]
        yield f"{kind} {number}", mutant(kind, number)
