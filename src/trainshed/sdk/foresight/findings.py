"""What can be foreseen of manifests: every rule with its code and severity, and what a finding is.

Codes are for people to search for and never change their meaning. The hundreds tell the family: 1 objects that are
referred to, 2 images and commands, 3 placement, 4 training, 5 fields without effect, 6 pods that nobody takes.
"""

from __future__ import annotations

import msgspec

from trainshed.findings import Rule, Severity


class Finding(msgspec.Struct, frozen=True):
    """A finding: about which object, where in it, what is the matter, and how to mend it."""

    code: str
    severity: Severity
    kind: str
    name: str
    path: str
    message: str
    fix: str = ""

    @property
    def text(self) -> str:
        """The finding in a line."""
        place = f"{self.path}: " if self.path else ""
        return f"{place}{self.message}" + (f"; {self.fix}" if self.fix else "")


class Noted(msgspec.Struct, frozen=True):
    """What a rule says of the object that it is given."""

    code: str
    path: str
    message: str
    fix: str = ""


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

RULES: dict[str, Rule] = {
    rule.code: rule
    for rule in (
        Rule("TS101", "missing-claim", _E, "A pod uses a PersistentVolumeClaim that does not exist."),
        Rule("TS102", "missing-configmap", _E, "A pod needs a ConfigMap that does not exist."),
        Rule("TS103", "missing-secret", _E, "A pod needs a Secret that does not exist."),
        Rule("TS104", "missing-service-account", _E, "A pod runs as a ServiceAccount that does not exist."),
        Rule("TS105", "missing-priority-class", _E, "A pod names a PriorityClass that does not exist."),
        Rule("TS106", "missing-namespace", _E, "The object's namespace does not exist."),
        Rule("TS107", "missing-key", _E, "A ConfigMap or Secret lacks the key that a pod needs."),
        Rule("TS108", "missing-storage-class", _E, "A claim names a StorageClass that does not exist."),
        Rule(
            "TS201", "unknown-entrypoint", _E, "A container has no command, and its image is not known here."
        ),
        Rule(
            "TS202",
            "unknown-image",
            _I,
            "An image is not known here: the container has this machine's files.",
        ),
        Rule("TS203", "install-at-start", _W, "A container installs packages whenever it starts."),
        Rule("TS301", "request-above-node", _E, "A pod asks for more than any node has."),
        Rule("TS302", "no-gpu", _E, "A pod asks for devices that no node has."),
        Rule("TS303", "no-node-matches", _E, "No node has the labels that a pod wants."),
        Rule("TS304", "untolerated-taint", _E, "Every node has a taint that a pod does not tolerate."),
        Rule("TS305", "foreign-scheduler", _E, "A pod names a scheduler that is not there."),
        Rule("TS306", "not-all-at-once", _W, "All replicas together ask for more than the nodes have."),
        Rule("TS401", "small-shared-memory", _W, "Data loaders share more memory than a container has."),
        Rule("TS402", "ports-collide", _W, "Replicas that share a node's network listen on the same port."),
        Rule("TS403", "port-elsewhere", _W, "The job's port is named in a container that is not asked."),
        Rule("TS404", "sidecar-injected", _W, "A mesh's sidecar keeps pods from ending."),
        Rule(
            "TS405",
            "small-shared-memory-elsewhere",
            _I,
            "On a cluster, data loaders share less than they do here.",
        ),
        Rule("TS501", "not-honoured", _W, "This machine accepts the field and does nothing about it."),
        Rule(
            "TS601", "pod-refused", _E, "The job is accepted; its pods, as its templates make them, are not."
        ),
    )
}
"""Every rule by its code."""
