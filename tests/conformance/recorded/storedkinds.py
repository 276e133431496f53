"""Sequences about kinds that are mostly stored: priorities and fairness, CSI, the addresses of Services."""

from __future__ import annotations

from typing import Any

from tests.conformance.recorded.steps import (
    NS,
    TABLE,
    Step,
    apply,
    delete,
    get,
    merge,
    post,
    put,
    service,
    strategic,
)
from trainshed.kube.meta.objects import Object

_FLOW = "flowcontrol.apiserver.k8s.io/v1"
_SCHEMAS = f"/apis/{_FLOW}/flowschemas"
_LEVELS = f"/apis/{_FLOW}/prioritylevelconfigurations"
_STORAGE = "storage.k8s.io/v1"
_DRIVERS = f"/apis/{_STORAGE}/csidrivers"
_NODES = f"/apis/{_STORAGE}/csinodes"
_ATTACHMENTS = f"/apis/{_STORAGE}/volumeattachments"
_CAPACITIES = f"/apis/{_STORAGE}/namespaces/{{ns}}/csistoragecapacities"
_NETWORK = "networking.k8s.io/v1"
_RANGES = f"/apis/{_NETWORK}/servicecidrs"
_ADDRESSES = f"/apis/{_NETWORK}/ipaddresses"
_DRY = {"dryRun": "All"}


def _object(version: str, kind: str, name: str = "{ns}", **rest: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


def _schema(name: str = "{ns}", **spec: Any) -> Object:
    level = {"priorityLevelConfiguration": {"name": "workload-low"}}
    return _object(_FLOW, "FlowSchema", name, spec={**level, **spec})


def _ruled(**rule: Any) -> Object:
    subjects = [{"kind": "User", "user": {"name": "*"}}]
    return _schema(rules=[{"subjects": subjects, **rule}])


def _about(**rule: Any) -> Object:
    whole = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"], **rule}
    return _ruled(resourceRules=[whole])


def _paths(*urls: str) -> Object:
    return _ruled(nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": list(urls)}])


def _of(*subjects: Object) -> Object:
    rule = {"verbs": ["*"], "nonResourceURLs": ["*"]}
    return _schema(rules=[{"subjects": list(subjects), "nonResourceRules": [rule]}])


_SCHEMA_SPECS: list[Object] = [
    _schema(),
    _schema("exempt"),
    _schema(priorityLevelConfiguration={}),
    _schema(priorityLevelConfiguration={"name": "Not_A_Name"}),
    _schema(matchingPrecedence=-1),
    _schema(matchingPrecedence=10001),
    _schema(matchingPrecedence=1),
    _schema(rules=[{}]),
    _ruled(),
    _about(),
    _about(verbs=[]),
    _about(verbs=["*", "get"]),
    _about(apiGroups=[]),
    _about(apiGroups=["*", "apps"]),
    _about(resources=["*", "pods"]),
    _about(resources=[]),
    _about(namespaces=[]),
    _about(namespaces=[], clusterScope=True),
    _about(namespaces=None, clusterScope=True),
    _about(namespaces=["*", "a"]),
    _about(namespaces=["A_b"]),
    _paths("*", "/healthz"),
    _paths("healthz"),
    _paths("/a b"),
    _paths("/a//b"),
    _paths("/a/*"),
    _paths("/a*"),
    _paths("/*/*"),
    _paths(""),
    _paths("/"),
    _paths(),
    _of({"kind": "Robot"}),
    _of({"kind": "User"}),
    _of({"kind": "Group", "group": {"name": ""}}),
    _of({"kind": "User", "user": {"name": "a"}, "group": {"name": "b"}}),
    _of({"kind": "ServiceAccount", "serviceAccount": {"name": "a"}}),
    _of({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}}),
    _of(
        {
            "kind": "ServiceAccount",
            "serviceAccount": {"name": "A_b", "namespace": "C_d"},
            "user": {"name": "x"},
        }
    ),
]


def _level(name: str = "{ns}", **spec: Any) -> Object:
    return _object(_FLOW, "PriorityLevelConfiguration", name, spec=spec)


def _limited(**limited: Any) -> Object:
    return _level(type="Limited", limited={"limitResponse": {"type": "Reject"}, **limited})


def _queued(**queuing: Any) -> Object:
    return _limited(limitResponse={"type": "Queue", "queuing": queuing})


_LEVEL_SPECS: list[Object] = [
    _limited(),
    _level(),
    _level(type="Exempt"),
    _level(type="Limited"),
    _level(type="Limited", limited={"limitResponse": {"type": "Reject"}}, exempt={}),
    _limited(limitResponse={"type": "Drop"}),
    _limited(limitResponse={"type": "Queue"}),
    _limited(limitResponse={"type": "Reject", "queuing": {}}),
    _limited(nominalConcurrencyShares=-1),
    _limited(nominalConcurrencyShares=0, lendablePercent=101),
    _limited(borrowingLimitPercent=-1),
    _queued(),
    _queued(queues=-1),
    _queued(queues=20000000),
    _queued(queues=4, handSize=5),
    _queued(queues=1000000, handSize=10),
    _queued(handSize=-1, queueLengthLimit=-1),
]

FLOW: list[Step] = [
    *(post(_SCHEMAS, body, **_DRY) for body in _SCHEMA_SPECS),
    *(post(_LEVELS, body, **_DRY) for body in _LEVEL_SPECS),
    get(f"{_LEVELS}/exempt"),
    get(f"{_LEVELS}/workload-low"),
    get(_LEVELS, TABLE),
    merge(f"{_LEVELS}/exempt", {"spec": {"exempt": {"lendablePercent": 5}}}, **_DRY),
    merge(f"{_LEVELS}/exempt", {"spec": {"exempt": {"lendablePercent": 101}}}, **_DRY),
    post(_LEVELS, _limited(nominalConcurrencyShares=3)),
    merge(f"{_LEVELS}/{{ns}}", {"spec": {"limited": {"nominalConcurrencyShares": 4}}}),
    merge(f"{_LEVELS}/{{ns}}/status", {"status": {"conditions": [{"type": "A", "status": "True"}] * 2}}),
    apply(f"{_LEVELS}/{{ns}}", {**_limited(lendablePercent=7)}, force="true"),
    delete(f"{_LEVELS}/{{ns}}"),
    get(f"{_LEVELS}/{{ns}}"),
]


def _driver(name: str = "{ns}.example.com", **spec: Any) -> Object:
    return _object(_STORAGE, "CSIDriver", name, spec=spec)


def _node(*drivers: Object) -> Object:
    return _object(_STORAGE, "CSINode", spec={"drivers": list(drivers)})


def _attachment(source: Object, **spec: Any) -> Object:
    whole = {"attacher": "a.example.com", "nodeName": "n", "source": source, **spec}
    return _object(_STORAGE, "VolumeAttachment", spec=whole)


def _capacity(name: str = "a", **fields: Any) -> Object:
    return _object(_STORAGE, "CSIStorageCapacity", name, storageClassName="fast", **fields)


_VOLUME = {"persistentVolumeName": "pv"}
_INLINE = {"hostPath": {"path": "/a"}, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
_A_DRIVER = {"name": "a.example.com", "nodeID": "n", "topologyKeys": ["zone"]}
_TOKENS = [{"audience": "a"}, {"audience": "a"}, {"audience": "b", "expirationSeconds": 10}]

CSI: list[Step] = [
    post(_DRIVERS, _driver()),
    get(f"{_DRIVERS}/{{ns}}.example.com", TABLE),
    merge(f"{_DRIVERS}/{{ns}}.example.com", {"spec": {"attachRequired": False}}),
    merge(f"{_DRIVERS}/{{ns}}.example.com", {"spec": {"podInfoOnMount": True}}),
    delete(f"{_DRIVERS}/{{ns}}.example.com"),
    post(_DRIVERS, _driver("Upper"), **_DRY),
    post(_DRIVERS, _driver(fsGroupPolicy="Some"), **_DRY),
    post(_DRIVERS, _driver(volumeLifecycleModes=["Eternal"]), **_DRY),
    post(_DRIVERS, _driver(tokenRequests=_TOKENS), **_DRY),
    post(_DRIVERS, _driver(tokenRequests=[{"audience": "", "expirationSeconds": 2**32 + 1}]), **_DRY),
    post(_NODES, _node(_A_DRIVER)),
    merge(f"{_NODES}/{{ns}}", {"spec": {"drivers": [_A_DRIVER, {**_A_DRIVER, "name": "b"}]}}),
    get(f"{_NODES}/{{ns}}", TABLE),
    put(f"{_NODES}/{{ns}}", _node()),
    delete(f"{_NODES}/{{ns}}"),
    post(_NODES, _node({"name": "", "nodeID": ""}), **_DRY),
    post(_NODES, _node({**_A_DRIVER, "allocatable": {"count": -1}}, _A_DRIVER), **_DRY),
    post(_NODES, _node({**_A_DRIVER, "topologyKeys": ["a", "a", "", "b/c/d"]}), **_DRY),
    post(_ATTACHMENTS, _attachment(_VOLUME)),
    get(f"{_ATTACHMENTS}/{{ns}}", TABLE),
    merge(f"{_ATTACHMENTS}/{{ns}}/status", {"status": {"attached": True, "attachmentMetadata": {"a": "b"}}}),
    merge(f"{_ATTACHMENTS}/{{ns}}/status", {"status": {"attachmentMetadata": {"a": "b" * 300}}}),
    merge(f"{_ATTACHMENTS}/{{ns}}", {"status": {"attached": False}}),
    get(f"{_ATTACHMENTS}/{{ns}}"),
    put(f"{_ATTACHMENTS}/{{ns}}", _attachment(_VOLUME)),
    delete(f"{_ATTACHMENTS}/{{ns}}"),
    post(_ATTACHMENTS, _attachment({}), **_DRY),
    post(_ATTACHMENTS, _attachment({"persistentVolumeName": ""}), **_DRY),
    post(_ATTACHMENTS, _attachment({"persistentVolumeName": "A_b"}), **_DRY),
    post(_ATTACHMENTS, _attachment({**_VOLUME, "inlineVolumeSpec": _INLINE}), **_DRY),
    post(_ATTACHMENTS, _attachment({"inlineVolumeSpec": _INLINE}), **_DRY),
    post(_ATTACHMENTS, _attachment(_VOLUME, attacher="", nodeName=""), **_DRY),
    post(_ATTACHMENTS, _attachment(_VOLUME, attacher="a" * 70, nodeName="A_b"), **_DRY),
    post(
        _CAPACITIES,
        _capacity(capacity="1Gi", maximumVolumeSize="100Mi", nodeTopology={"matchLabels": {"a": "b"}}),
    ),
    get(_CAPACITIES, TABLE),
    merge(f"{_CAPACITIES}/a", {"capacity": "2Gi"}),
    merge(f"{_CAPACITIES}/a", {"storageClassName": "slow", "nodeTopology": None}),
    post(_CAPACITIES, _capacity("b", capacity="-1")),
    post(_CAPACITIES, {**_capacity("b"), "storageClassName": ""}),
    post(_CAPACITIES, _capacity("b", nodeTopology={"matchLabels": {"a": "b c"}})),
    delete(f"{_CAPACITIES}/a"),
]


def _range(*cidrs: str) -> Object:
    return _object(_NETWORK, "ServiceCIDR", spec={"cidrs": list(cidrs)})


def _address(name: str, **spec: Any) -> Object:
    return _object(_NETWORK, "IPAddress", name, spec=spec)


_PARENT = {"resource": "widgets", "group": "example.com", "name": "w", "namespace": "{ns}"}
_IP = "10.96.0.77"
_OURS = f"{_ADDRESSES}/{_IP}"

ADDRESSES: list[Step] = [
    *(
        post(_RANGES, _range(*cidrs), **_DRY)
        for cidrs in (
            (),
            ("10.9.0.0/24",),
            ("10.9.0.1/24",),
            ("010.9.0.0/24",),
            ("10.9.0.0/024",),
            ("10.9.0.0",),
            ("nonsense",),
            ("2001:db8::/64",),
            ("2001:DB8::/64",),
            ("::ffff:10.9.0.0/120",),
            ("10.9.0.0/24", "2001:db8::/64"),
            ("10.9.0.0/24", "10.8.0.0/24"),
            ("10.9.0.0/24", "10.8.0.0/24", "10.7.0.0/24"),
        )
    ),
    *(
        post(_ADDRESSES, _address(name, parentRef=_PARENT), **_DRY)
        for name in ("172.16.0.1", "172.16.0.01", "2001:db8::1", "2001:DB8::1", "::ffff:1.2.3.4", "here")
    ),
    *(
        post(_ADDRESSES, _address("172.16.0.2", **spec), **_DRY)
        for spec in (
            {},
            {"parentRef": {}},
            {"parentRef": {"resource": "a/b", "name": "c%d", "namespace": ".."}},
            {"parentRef": {**_PARENT, "group": "Up_per"}},
        )
    ),
    post(_ADDRESSES, _address("172.16.0.3", parentRef=_PARENT)),
    get(f"{_ADDRESSES}/172.16.0.3", TABLE),
    merge(f"{_ADDRESSES}/172.16.0.3", {"spec": {"parentRef": {"name": "x"}}}),
    delete(f"{_ADDRESSES}/172.16.0.3"),
    post(f"{NS}/services", service("web", ports=[{"port": 80}], clusterIP=_IP)),
    get(_OURS),
    get(_OURS, TABLE),
    post(_ADDRESSES, _address(_IP, parentRef=_PARENT)),
    post(f"{NS}/services", service("other", ports=[{"port": 80}], clusterIP=_IP)),
    post(f"{NS}/services", service("headless", ports=[{"port": 80}], clusterIP="None")),
    strategic(f"{NS}/services/web", {"spec": {"type": "ExternalName", "externalName": "a.example.com"}}),
    get(_OURS),
    strategic(f"{NS}/services/web", {"spec": {"type": "ClusterIP", "externalName": None, "clusterIP": _IP}}),
    get(_OURS),
    delete(f"{NS}/services/web"),
    get(_OURS),
    post(_ADDRESSES, _address(_IP, parentRef=_PARENT)),
    post(f"{NS}/services", service("web", ports=[{"port": 80}], clusterIP=_IP)),
    delete(_OURS),
    merge(f"{_RANGES}/kubernetes", {"spec": {"cidrs": ["10.9.0.0/24"]}}, **_DRY),
    merge(f"{_RANGES}/kubernetes", {"spec": {"cidrs": ["10.9.0.0/24", "2001:db8::/64"]}}, **_DRY),
    merge(f"{_RANGES}/kubernetes", {"spec": {"cidrs": []}}, **_DRY),
]

STORED = {"flow control": FLOW, "storage interface": CSI, "addresses": ADDRESSES}
