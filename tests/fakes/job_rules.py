"""Every rule of upstream's validation, for every kind: what is done to a valid job, and what each kind says to that.

One table, read by the tests of the rules and by those of the two places that apply them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from tests.fakes.manifests import whole
from trainshed.api.replicated import JobKind
from trainshed.kube.meta.objects import Object
from trainshed.testing.builders import JOB_KINDS

Said: TypeAlias = str | tuple[str, str]
"""A problem as it is printed, path first; with its path where the sentence does not begin with it.

`{M}` is the map of replicas, `{C}` the containers of the type that is changed, `{leader}` that type, `{name}` of the
container that trains; `{types}` are those of the kind, and `{unknown}` is nearly one.
"""

WEBHOOKS = tuple(name for name in JOB_KINDS if name != "MPIJob")
"""Kinds whose rules are worded alike; MPIJob has its own sentences."""
LED = {
    name: type_.name for name, kind in JOB_KINDS.items() for type_ in kind.replica_types if type_.exactly == 1
}
"""The type of which a kind has exactly one."""
LEAST = tuple(name for name, kind in JOB_KINDS.items() if kind.least_replicas == 1)
"""Kinds that let no type have none."""
CHANGED = dict.fromkeys(JOB_KINDS, "Worker") | LED | {"MPIJob": "Launcher"}
"""The replica type that is changed."""


class Rule(msgspec.Struct, frozen=True):
    """What is done to a valid job, and what the kinds say that have the rule; all others accept such a job.

    `only` names the kinds to which it can be done, where that is not all. `update` says that the valid job is stored
    when the other is sent.
    """

    name: str
    change: Callable[[Object, JobKind], None]
    said: Mapping[str, tuple[Said, ...]]
    only: tuple[str, ...] = ()
    update: bool = False

    def case(self, kind: JobKind) -> tuple[Object, Object | None, list[tuple[str, str]]]:
        """Return the job that is sent, the stored one, and path and text of each problem in order."""
        valid, job = whole(kind.name), whole(kind.name)
        self.change(job, kind)
        map_ = f"spec.{kind.replica_specs_field}"
        places = {
            "M": map_,
            "C": f"{map_}[{CHANGED[kind.name]}].template.spec.containers",
            "name": CONTAINERS[kind.name],
            "leader": CHANGED[kind.name],
            "unknown": unknown(kind.name),
            "types": ", ".join(f'"{type_}"' for type_ in kind.type_names),
        }
        problems = []
        for said in self.said.get(kind.name, ()):
            path, text = said if isinstance(said, tuple) else ("", said)
            text = text.format(**places)
            sentence = next((s for s in SENTENCES if text.startswith(s)), "")
            path = path.format(**places) or text.removeprefix(sentence).partition(": ")[0]
            problems.append((path, text))
        return job, valid if self.update else None, problems


def replicas(job: Object, kind: JobKind) -> Object:
    found: Object = job["spec"][kind.replica_specs_field]
    return found


def pod(job: Object, kind: JobKind) -> Object:
    spec: Object = replicas(job, kind)[CHANGED[kind.name]]["template"]["spec"]
    return spec


def _name(job: Object, kind: JobKind) -> None:
    job["metadata"]["name"] = "a" * 64 if kind.name == "MPIJob" else "0.A"


def _no_map(job: Object, kind: JobKind) -> None:
    del job["spec"][kind.replica_specs_field]


def unknown(kind: str) -> str:
    """Return a word that is nearly a replica type of the kind, but none."""
    return "Tuners" if kind == "MXJob" else CHANGED[kind].lower()


def _unknown_type(job: Object, kind: JobKind) -> None:
    specs = replicas(job, kind)
    specs[unknown(kind.name)] = next(iter(specs.values()))


def _no_containers(job: Object, kind: JobKind) -> None:
    pod(job, kind)["containers"] = []


def _no_image(job: Object, kind: JobKind) -> None:
    del pod(job, kind)["containers"][0]["image"]


def _empty_image(job: Object, kind: JobKind) -> None:
    pod(job, kind)["containers"][0]["image"] = ""


def _no_name(job: Object, kind: JobKind) -> None:
    pod(job, kind)["containers"][0]["name"] = ""


def _other_container(job: Object, kind: JobKind) -> None:
    pod(job, kind)["containers"][0]["name"] = "main"


def _two_leaders(job: Object, kind: JobKind) -> None:
    leader = "Scheduler" if kind.name == "MXJob" else CHANGED[kind.name]
    replicas(job, kind)[leader]["replicas"] = 2


def _uncounted_leader(job: Object, kind: JobKind) -> None:
    del replicas(job, kind)[CHANGED[kind.name]]["replicas"]


def _no_workers(job: Object, kind: JobKind) -> None:
    replicas(job, kind)["Worker"]["replicas"] = 0


def _too_many(job: Object, kind: JobKind) -> None:
    replicas(job, kind)["Worker"]["replicas"] = 10_001


def _no_leader(job: Object, kind: JobKind) -> None:
    del replicas(job, kind)[CHANGED[kind.name]]


def _chief_and_master(job: Object, kind: JobKind) -> None:
    replicas(job, kind)["Master"] = replicas(job, kind)["Chief"]


def _without_workers(job: Object, kind: JobKind) -> None:
    del replicas(job, kind)["Worker"]


def _both_counts_of_processes(job: Object, kind: JobKind) -> None:
    job["spec"]["elasticPolicy"]["nProcPerNode"] = 2


def _manager(job: Object, kind: JobKind) -> None:
    job["spec"]["runPolicy"]["managedBy"] = "other"


def _no_manager(job: Object, kind: JobKind) -> None:
    job["spec"]["runPolicy"]["managedBy"] = ""


def _uncounted_workers(job: Object, kind: JobKind) -> None:
    del replicas(job, kind)["Worker"]["replicas"]


def _manager_taken_away(job: Object, kind: JobKind) -> None:
    del job["spec"]["runPolicy"]["managedBy"]


def _odd_policies(job: Object, kind: JobKind) -> None:
    replicas(job, kind)[CHANGED[kind.name]]["restartPolicy"] = "Sometimes"
    job["spec"]["runPolicy"]["cleanPodPolicy"] = "Most"


def _kueue(job: Object, kind: JobKind) -> None:
    job["spec"]["runPolicy"]["managedBy"] = "kueue.x-k8s.io/multikueue"


MANAGER = "spec.runPolicy.managedBy"


def alike(kinds: tuple[str, ...], *said: str) -> dict[str, tuple[str, ...]]:
    """Return the same of each kind; MXJob has words of its own before it."""
    return {name: tuple((MX_SPEC if name == "MXJob" else "") + text for text in said) for name in kinds}


MX_NAME, MX_SPEC, MX_SCHEDULER = SENTENCES = (
    "MXJob name is invalid: ",
    "MXJobSpec is not valid: ",
    "more than 1 scheduler found: ",
)
CONTAINERS = {name: kind.container_name for name, kind in JOB_KINDS.items()} | {"PaddleJob": '"paddle"'}
NAME = (
    'metadata.name: Invalid value: "0.A": should match: a DNS-1035 label must consist of lower case alphanumeric '
    "characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  "
    "or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
MISSING = "{C}: Required value: must have at least one container with name {name}"
IMAGE = "{C}[0].image: Required value: must be required"
NO_MASTER = "{M}[Master]: Required value: must be present"
NO_WORKER = "{M}[Worker]: Required value: must be configured if elastic policy is used"
MANAGERS = 'supported values: "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"'
MPI_IMAGE = ("{C}[0].image", "MPIReplicaSpec is not valid: Image is undefined in the container of Launcher")
ALL = tuple(JOB_KINDS)

RULES = (
    Rule(
        "1 the name is a label",
        _name,
        dict.fromkeys(WEBHOOKS, (NAME,))
        | {"MXJob": (MX_NAME + NAME,)}
        | {"MPIJob": (f'metadata.name: Invalid value: "{"a" * 64}": must be no more than 63 characters',)},
    ),
    Rule(
        "2 there are replicas",
        _no_map,
        alike(WEBHOOKS, "{M}: Required value: must be required")
        # What asks for a single type speaks, too.
        | {"XGBoostJob": ("{M}: Required value: must be required", NO_MASTER)}
        | {"PyTorchJob": (NO_WORKER, "{M}: Required value: must be required")}
        | {"MPIJob": (("{M}", "MPIReplicaSpecs is not valid"),)},
    ),
    Rule(
        "3 replica types are known",
        _unknown_type,
        alike(
            tuple(name for name in WEBHOOKS if not JOB_KINDS[name].other_types),
            '{M}[{unknown}]: Unsupported value: "{unknown}": supported values: {types}',
        )
        | {
            "MPIJob": (("{M}[launcher]", "MPIReplicaType is launcher but must be one of [Launcher Worker]"),),
        },
    ),
    Rule(
        "4 there is a container",
        _no_containers,
        alike(WEBHOOKS, "{C}: Required value: must be specified", MISSING)
        | {"MPIJob": (("{C}", "MPIReplicaSpecs is not valid: containers definition expected in Launcher"),)},
    ),
    Rule("5 every container has an image", _no_image, alike(WEBHOOKS, IMAGE) | {"MPIJob": (MPI_IMAGE,)}),
    Rule("5 an empty image is none", _empty_image, alike(WEBHOOKS, IMAGE) | {"MPIJob": (MPI_IMAGE,)}),
    Rule(
        "6 one container has the kind's name",
        _other_container,
        alike(WEBHOOKS, MISSING),
    ),
    Rule(
        "6 a container has a name",
        _no_name,
        alike(WEBHOOKS, MISSING)
        | {
            "MPIJob": (
                (
                    "{C}[0].name",
                    "MPIReplicaSpec is not valid: ImageName is undefined in the container of Launcher",
                ),
            )
        },
    ),
    Rule(
        "7 there is one leader",
        _two_leaders,
        alike(tuple(LED), "{M}[{leader}].replicas: Forbidden: must be 1")
        | {
            "MXJob": (MX_SCHEDULER + "{M}[Scheduler].replicas: Forbidden: must not be more than 1",),
            "MPIJob": (
                (
                    "{M}[Launcher].replicas",
                    "MPIReplicaSpec is not valid: There must be only 1 launcher replica",
                ),
            ),
        },
    ),
    Rule(
        "7 a master says that it is one",
        _uncounted_leader,
        alike(tuple(LED), "{M}[{leader}].replicas: Forbidden: must be 1"),
    ),
    Rule(
        "8 others are at least one",
        _no_workers,
        alike(LEAST, "{M}[Worker].replicas: Forbidden: must be at least 1"),
    ),
    Rule("8 or left out", _uncounted_workers, {}),
    Rule(
        "8 and not absurdly many",
        _too_many,
        alike(WEBHOOKS, "{M}[Worker].replicas: Forbidden: must be at most 10000")
        | {"MPIJob": ("{M}[Worker].replicas: Forbidden: must be at most 10000",)},
    ),
    Rule(
        "9 there is a leader",
        _no_leader,
        {
            "XGBoostJob": (NO_MASTER,),
            "MPIJob": (("{M}[Launcher]", "MPIReplicaSpec is not valid: Master ReplicaSpec must be present"),),
        },
    ),
    Rule(
        "10 chief or master",
        _chief_and_master,
        {"TFJob": ("{M}: Forbidden: must not have more than 1 Chief or Master role",)},
        only=("TFJob",),
    ),
    Rule(
        "11 an elastic job has workers",
        _without_workers,
        {"PyTorchJob": (NO_WORKER,)},
        only=("PyTorchJob", "PaddleJob"),
    ),
    Rule(
        "12 processes are counted once",
        _both_counts_of_processes,
        {
            "PyTorchJob": (
                "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode",
            )
        },
        only=("PyTorchJob",),
    ),
    Rule(
        "13 the manager is known",
        _manager,
        dict.fromkeys(ALL, (f'{MANAGER}: Unsupported value: "other": {MANAGERS}',)),
    ),
    Rule(
        "13 an empty one is not",
        _no_manager,
        dict.fromkeys(ALL, (f'{MANAGER}: Unsupported value: "": {MANAGERS}',)),
    ),
    Rule("13 the other one is", _kueue, {}),
    Rule(
        "14 the manager stays",
        _kueue,
        dict.fromkeys(ALL, (f'{MANAGER}: Invalid value: "kueue.x-k8s.io/multikueue": field is immutable',)),
        update=True,
    ),
    Rule(
        "14 and is not taken away",
        _manager_taken_away,
        dict.fromkeys(ALL, (f'{MANAGER}: Invalid value: "null": field is immutable',)),
        update=True,
    ),
    Rule("restart policies are not looked at", _odd_policies, {}),
)
CASES = [
    (kind, rule) for rule in RULES for name, kind in JOB_KINDS.items() if name in (rule.only or JOB_KINDS)
]
"""Every kind with every rule about which there is something to say of it."""
