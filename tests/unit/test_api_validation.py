"""Which PyTorchJobs are refused, at which field, with which words."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trainshed.api.v1.pytorch import NPROC_DEPRECATED, PYTORCHJOB, validate_pytorchjob
from trainshed.api.verdict import text
from trainshed.kube.meta.objects import Object

MAP = "spec.pytorchReplicaSpecs"


def replica(replicas: int | None = 1, **container: Any) -> Object:
    containers = [{"name": "pytorch", "image": "torch:2", **container}]
    spec: Object = {"template": {"spec": {"containers": containers}}}
    return spec if replicas is None else {"replicas": replicas, **spec}


def make(name: str = "train", replicas: Any = None, **spec: Any) -> Object:
    specs = {"Master": replica(), "Worker": replica(2)} if replicas is None else replicas
    return {"metadata": {"name": name}, "spec": {"pytorchReplicaSpecs": specs, **spec}}


def problems(obj: Object, old: Object | None = None) -> list[tuple[str, str]]:
    return [(error.path, error.type) for error in validate_pytorchjob(obj, old).errors]


def test_a_valid_job() -> None:
    verdict = validate_pytorchjob(make(), None)
    assert (verdict.errors, verdict.warnings) == ((), ())


NO_CONTAINERS = {"replicas": 1, "template": {"spec": {"containers": []}}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (make(name="0-1"), [("metadata.name", "Invalid value")]),
        (make(name="a.b"), [("metadata.name", "Invalid value")]),
        (make(name="a" * 64), [("metadata.name", "Invalid value")]),
        (
            make(replicas={"Master": NO_CONTAINERS}),
            [(f"{MAP}[Master].template.spec.containers", "Required value")] * 2,
        ),
        (
            make(replicas={"Master": replica(image="")}),
            [(f"{MAP}[Master].template.spec.containers[0].image", "Required value")],
        ),
        (
            make(replicas={"Master": replica(name="main")}),
            [(f"{MAP}[Master].template.spec.containers", "Required value")],
        ),
        (make(replicas={"Master": replica(2)}), [(f"{MAP}[Master].replicas", "Forbidden")]),
        (make(replicas={"Master": replica(None)}), [(f"{MAP}[Master].replicas", "Forbidden")]),
        (make(replicas={"Worker": replica(0)}), [(f"{MAP}[Worker].replicas", "Forbidden")]),
        (make(replicas={"Worker": replica(None)}), []),
        (make(replicas={"worker": replica()}), [(f"{MAP}[worker]", "Unsupported value")]),
        ({"metadata": {"name": "a"}, "spec": {}}, [(MAP, "Required value")]),
        (make(replicas={"Master": replica()}, elasticPolicy={}), [(f"{MAP}[Worker]", "Required value")]),
        (
            make(nprocPerNode="2", elasticPolicy={"nProcPerNode": 2}),
            [("spec.elasticPolicy.nProcPerNode", "Forbidden")],
        ),
        (make(runPolicy={"managedBy": "other"}), [("spec.runPolicy.managedBy", "Unsupported value")]),
        (make(runPolicy={"managedBy": ""}), [("spec.runPolicy.managedBy", "Unsupported value")]),
        (make(runPolicy={"managedBy": "kubeflow.org/training-operator"}), []),
        (make(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}), []),
    ],
)
def test_rules(obj: Object, expected: list[tuple[str, str]]) -> None:
    assert problems(obj) == expected


@pytest.mark.parametrize("spec", [{"nprocPerNode": "2"}, {}])
def test_the_old_field_of_processes_per_node_warns(spec: Object) -> None:
    verdict = validate_pytorchjob(make(elasticPolicy={"nProcPerNode": 2}, **spec), None)
    assert verdict.warnings == (NPROC_DEPRECATED,)
    assert bool(verdict.errors) is bool(spec)


OWN, KUEUE = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        (OWN, OWN, None),
        (None, None, None),
        (OWN, KUEUE, f'"{KUEUE}"'),
        (None, OWN, f'"{OWN}"'),
        (OWN, None, '"null"'),
    ],
)
def test_managed_by_cannot_change(old: str | None, new: str | None, shown: str | None) -> None:
    before, after = (make(runPolicy={} if m is None else {"managedBy": m}) for m in (old, new))
    errors = [str(error) for error in validate_pytorchjob(after, before).errors]
    path = "spec.runPolicy.managedBy"
    assert errors == ([f"{path}: Invalid value: {shown}: field is immutable"] if shown else [])


TEXTS = [
    (
        make(name="A"),
        'metadata.name: Invalid value: "A": should match: a DNS-1035 label must consist of lower case alphanumeric '
        "characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. "
        "'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
    ),
    (make(name="a" * 64), "should match: must be no more than 63 characters"),
    (make(replicas={"Master": replica(2)}), f"{MAP}[Master].replicas: Forbidden: must be 1"),
    (make(replicas={"Worker": replica(0)}), f"{MAP}[Worker].replicas: Forbidden: must be at least 1"),
    (
        make(replicas={"worker": replica()}),
        f'{MAP}[worker]: Unsupported value: "worker": supported values: "Master", "Worker"',
    ),
    (
        make(replicas={"Master": NO_CONTAINERS}),
        f"[{MAP}[Master].template.spec.containers: Required value: must be specified, "
        f"{MAP}[Master].template.spec.containers: Required value: must have at least one container with name pytorch]",
    ),
    (
        make(replicas={"Worker": replica(image="")}),
        f"{MAP}[Worker].template.spec.containers[0].image: Required value: must be required",
    ),
    ({"metadata": {"name": "a"}}, f"{MAP}: Required value: must be required"),
    (
        make(replicas={"Master": replica()}, elasticPolicy={}),
        f"{MAP}[Worker]: Required value: must be configured if elastic policy is used",
    ),
    (
        make(nprocPerNode="2", elasticPolicy={"nProcPerNode": 2}),
        "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode",
    ),
    (
        make(runPolicy={"managedBy": "x"}),
        'spec.runPolicy.managedBy: Unsupported value: "x": supported values: "kubeflow.org/training-operator", '
        '"kueue.x-k8s.io/multikueue"',
    ),
]


@pytest.mark.parametrize(("obj", "expected"), TEXTS)
def test_texts(obj: Object, expected: str) -> None:
    assert text(validate_pytorchjob(obj, None).errors).endswith(expected)


def test_a_refusal_reads_as_the_api_server_passes_it_on() -> None:
    assert PYTORCHJOB.denied(validate_pytorchjob(make(replicas={"Master": replica(2)}), None).errors) == (
        'admission webhook "validator.pytorchjob.training-operator.kubeflow.org" denied the request: '
        "spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1"
    )


def test_the_order_is_fixed_whatever_the_order_of_the_document() -> None:
    """Name, manager, elastic policy, then Master, Worker and unknown types by name."""
    bad = {"Odd": replica(0), "Worker": replica(0), "Master": replica(2), "Another": replica()}
    obj = make(name="X", replicas=bad, runPolicy={"managedBy": "x"}, nprocPerNode="1")
    obj["spec"]["elasticPolicy"] = {"nProcPerNode": 1}
    turned = copy.deepcopy(obj)
    turned["spec"]["pytorchReplicaSpecs"] = dict(reversed(bad.items()))
    assert validate_pytorchjob(obj, None) == validate_pytorchjob(turned, None)
    assert [path for path, _ in problems(obj)] == [
        "metadata.name",
        "spec.runPolicy.managedBy",
        "spec.elasticPolicy.nProcPerNode",
        f"{MAP}[Master].replicas",
        f"{MAP}[Worker].replicas",
        f"{MAP}[Another]",
        f"{MAP}[Odd]",
        f"{MAP}[Odd].replicas",
    ]


def test_a_name_too_long_for_its_children_warns() -> None:
    name = "a" * 55
    assert validate_pytorchjob(make(name=name, replicas={"Worker": replica(1)}), None).warnings == (
        f'metadata.name is too long: the service "{name}-worker-0" would have more than 63 characters',
    )
    assert not validate_pytorchjob(make(name="a" * 54, replicas={"Worker": replica(1)}), None).warnings
    assert validate_pytorchjob(make(name="a" * 54, replicas={"Worker": replica(11)}), None).warnings
