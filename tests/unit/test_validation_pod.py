"""Pods: what §"Pod" of the API reference refuses, on create and on update."""

import copy

import pytest

from trainshed.kube.builtin.registry import default_object, validate_object
from trainshed.kube.meta.resources import PODS


def build(container=None, **spec):
    main = {"name": "main", "image": "img", **(container or {})}
    pod = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [main], **spec}}
    return default_object(PODS, pod)


def texts(pod, old=None, **more):
    return [f"{c.field}: {c.message}" for c in validate_object(PODS, pod, old, **more)]


C = "spec.containers[0]"
CONTAINER = [
    ({"name": ""}, f"{C}.name: Required value"),
    ({"name": "A"}, f'{C}.name: Invalid value: "A": a lowercase RFC 1123 label'),
    ({"image": ""}, f"{C}.image: Required value"),
    ({"image": " a"}, f'{C}.image: Invalid value: " a": must not have leading or trailing whitespace'),
    (
        {"imagePullPolicy": "Sometimes"},
        f'{C}.imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
    ),
    ({"ports": [{}]}, f"{C}.ports[0].containerPort: Required value"),
    (
        {"ports": [{"containerPort": 70000}]},
        f"{C}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    (
        {"ports": [{"containerPort": 1, "protocol": "tcp"}]},
        f'{C}.ports[0].protocol: Unsupported value: "tcp"',
    ),
    (
        {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
        f'{C}.ports[1].name: Duplicate value: "a"',
    ),
    ({"env": [{"value": "x"}]}, f"{C}.env[0].name: Required value"),
    ({"env": [{"name": "a=b"}]}, f'{C}.env[0].name: Invalid value: "a=b": a valid environment variable'),
    (
        {"env": [{"name": "A", "valueFrom": {}}]},
        f'{C}.env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
        "`configMapKeyRef` or `secretKeyRef`",
    ),
    (
        {"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        f'{C}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.foo"}}}]},
        f'{C}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.foo": error converting fieldPath',
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x"}}}]},
        f"{C}.env[0].valueFrom.configMapKeyRef.key: Required value",
    ),
    (
        {"envFrom": [{}]},
        f'{C}.envFrom[0]: Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
    ),
    ({"volumeMounts": [{"name": "v", "mountPath": "/x"}]}, f'{C}.volumeMounts[0].name: Not found: "v"'),
    (
        {"resources": {"requests": {"cpu": "-1"}}},
        f'{C}.resources.requests[cpu]: Invalid value: "-1": must be greater',
    ),
    (
        {"resources": {"limits": {"cpu": "x"}}},
        f'{C}.resources.limits[cpu]: Invalid value: "x": quantities must match',
    ),
    (
        {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}}},
        f'{C}.resources.requests: Invalid value: "1500m": must be less than or equal to cpu limit of 1',
    ),
    (
        {"resources": {"limits": {"gpu": "1"}}},
        f"{C}.resources.limits[gpu]: Invalid value: gpu: must be a standard resource type or fully qualified",
    ),
    (
        {"resources": {"requests": {"nvidia.com/gpu": "1"}}},
        f"{C}.resources.limits: Required value: Limit must be set for non overcommitable resources",
    ),
    (
        {"resources": {"limits": {"nvidia.com/gpu": "500m"}}},
        f'{C}.resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
    ),
    (
        {"resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1"}}},
        f'{C}.resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
    ),
    ({"livenessProbe": {}}, f"{C}.livenessProbe: Required value: must specify a handler type"),
    (
        {"livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}},
        f"{C}.livenessProbe.successThreshold: Invalid value: 2: must be 1",
    ),
    (
        {"readinessProbe": {"exec": {"command": ["x"]}, "httpGet": {"port": 1}}},
        f"{C}.readinessProbe.httpGet: Forbidden: may not specify more than 1 handler type",
    ),
    ({"restartPolicy": "Always"}, f"{C}.restartPolicy: Forbidden: may not be set for non-init containers"),
]


@pytest.mark.parametrize(("container", "text"), CONTAINER)
def test_containers(container, text):
    found = texts(build(container))
    assert len(found) >= 1 and found[0].startswith(text)


POD = [
    ({"os": {}}, "spec.os.name: Required value: cannot be empty"),
    ({"os": {"name": "plan9"}}, 'spec.os: Unsupported value: "plan9": supported values: "linux", "windows"'),
    ({"containers": []}, "spec.containers: Required value"),
    (
        {"restartPolicy": "Sometimes"},
        'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always"',
    ),
    ({"dnsPolicy": "x"}, 'spec.dnsPolicy: Unsupported value: "x"'),
    (
        {"hostPID": True, "shareProcessNamespace": True},
        "spec.securityContext.shareProcessNamespace: Invalid value: true: "
        "ShareProcessNamespace and HostPID cannot both be enabled",
    ),
    (
        {"containers": [{"name": "a", "image": "i", "securityContext": {"procMount": "Unmasked"}}]},
        'spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": '
        "`hostUsers` must be false to use `Unmasked`",
    ),
    ({"hostPID": True, "hostUsers": False}, "spec.hostPID: Forbidden: when `hostUsers` is false"),
    (
        {"dnsPolicy": "None"},
        "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
    ),
    (
        {"activeDeadlineSeconds": 0},
        "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647",
    ),
    ({"hostname": "A"}, 'spec.hostname: Invalid value: "A"'),
    (
        {"initContainers": [{"name": "main", "image": "i"}]},
        'spec.containers[0].name: Duplicate value: "main"',
    ),
    (
        {"ephemeralContainers": [{"name": "e", "image": "i"}]},
        "spec.ephemeralContainers: Forbidden: cannot be set on create",
    ),
    ({"volumes": [{}]}, "spec.volumes[0].name: Required value"),
    (
        {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
        "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
    ),
    (
        {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]},
        'spec.volumes[1].name: Duplicate value: "v"',
    ),
    ({"volumes": [{"name": "v", "hostPath": {}}]}, "spec.volumes[0].hostPath.path: Required value"),
    (
        {"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]},
        "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
    ),
    (
        {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
        "spec.volumes[0].persistentVolumeClaim.claimName: Required value",
    ),
    (
        {"volumes": [{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "/abs"}]}}]},
        'spec.volumes[0].configMap.items[0].path: Invalid value: "/abs": must be a relative path',
    ),
    (
        {"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 512}}]},
        "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777",
    ),
    ({"nodeSelector": {"a b": "c"}}, 'spec.nodeSelector: Invalid value: "a b"'),
    (
        {"tolerations": [{"key": "k", "operator": "Like"}]},
        'spec.tolerations[0].operator: Unsupported value: "Like"',
    ),
    (
        {"tolerations": [{"operator": "Equal"}]},
        'spec.tolerations[0].operator: Invalid value: "Equal": operator must',
    ),
    (
        {"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 1}]},
        "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
    ),
    (
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value",
    ),
    (
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value",
    ),
    (
        {
            "topologySpreadConstraints": [
                {"maxSkew": 0, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
        "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
    ),
]


_ROOM = "may only be specified when mountPropagation is None or not specified"


@pytest.mark.parametrize(
    ("mount", "text"),
    [
        (
            {"mountPropagation": "Bidirectional"},
            "mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
        ),
        (
            {"mountPropagation": "x"},
            'mountPropagation: Unsupported value: "x": supported values: "Bidirectional"',
        ),
        (
            {"recursiveReadOnly": "IfPossible"},
            "recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
        ),
        (
            {"mountPropagation": "HostToContainer", "recursiveReadOnly": "Enabled", "readOnly": True},
            f"recursiveReadOnly: Forbidden: {_ROOM}",
        ),
        (
            {"recursiveReadOnly": "x"},
            'recursiveReadOnly: Unsupported value: "x": supported values: "Disabled"',
        ),
    ],
)
def test_how_a_volume_is_mounted(mount, text):
    """As a kube-apiserver 1.33 says it, without the mount's number."""
    mounts = [{"name": "v", "mountPath": "/x", **mount}]
    (found,) = texts(build({"volumeMounts": mounts}, volumes=[{"name": "v", "emptyDir": {}}]))
    assert found.startswith(f"{C}.volumeMounts.{text}")


def test_a_privileged_container_may_share_its_mounts():
    mounts = [{"name": "v", "mountPath": "/x", "mountPropagation": "Bidirectional"}]
    container = {"volumeMounts": mounts, "securityContext": {"privileged": True}}
    assert texts(build(container, volumes=[{"name": "v", "emptyDir": {}}])) == []


@pytest.mark.parametrize(("spec", "text"), POD)
def test_pod_spec(spec, text):
    found = texts(build(**spec))
    assert len(found) >= 1 and found[0].startswith(text)


def test_a_valid_pod_with_everything():
    pod = build(
        {
            "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 80, "protocol": "UDP"}],
            "env": [
                {"name": "A", "value": "x"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "P_"}],
            "resources": {
                "limits": {"cpu": "2", "nvidia.com/gpu": "1", "memory": "1Gi"},
                "requests": {"cpu": "500m"},
            },
            "volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "a/b"}],
            "startupProbe": {"httpGet": {"port": "http"}},
            "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
        },
        initContainers=[{"name": "side", "image": "i", "restartPolicy": "Always"}],
        volumes=[
            {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "n", "nfs": {"server": "s", "path": "/x"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "name": "d",
                "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]},
            },
        ],
        tolerations=[{"operator": "Exists"}, {"key": "k", "effect": "NoSchedule"}],
        hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a"]}],
    )
    assert texts(pod) == []


def test_all_causes_are_returned():
    found = texts(build({"image": "", "ports": [{"containerPort": 0}]}, restartPolicy="x"))
    assert len(found) == 3


# ------------------------------------------------------------------------------------------------ updates


def changed(**spec):
    pod = build(tolerations=[{"key": "k", "operator": "Exists"}], activeDeadlineSeconds=100)
    new = copy.deepcopy(pod)
    for key, value in spec.items():
        new["spec"][key] = value
    return new, pod


def test_what_may_change():
    new, old = changed()
    assert texts(new, old) == []
    new["spec"]["containers"][0]["image"] = "other"
    new["spec"]["tolerations"].append({"key": "z", "operator": "Exists"})
    new["spec"]["activeDeadlineSeconds"] = 50
    new["metadata"]["labels"] = {"a": "b"}
    assert texts(new, old) == []


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"nodeName": "n"},
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
        ),
        ({"hostNetwork": True}, "spec: Forbidden: pod updates"),
        ({"tolerations": []}, "spec.tolerations: Forbidden: existing toleration can not be modified"),
        ({"activeDeadlineSeconds": 101}, "spec.activeDeadlineSeconds: Invalid value: 101: must be less than"),
        ({"schedulingGates": [{"name": "g"}]}, "spec.schedulingGates[0].name: Forbidden: only deletion"),
    ],
)
def test_what_may_not_change(spec, text):
    found = texts(*changed(**spec))
    assert found[0].startswith(text)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"targetContainerName": "nope"}, '.targetContainerName: Not found: "nope"'),
        ({"ports": [{"containerPort": 1, "protocol": "TCP"}]}, ".ports: Forbidden: cannot be set for an Ephemeral"),
        ({"resources": {"limits": {"cpu": "1"}}}, ".resources: Forbidden: cannot be set for an Ephemeral Container"),
        ({"name": "pytorch"}, '.name: Duplicate value: "pytorch"'),
    ],
)  # fmt: skip
def test_what_an_ephemeral_container_may_not_be(more, text):
    new, old = changed(ephemeralContainers=[{"name": "d", "image": "i", **more}])
    more.get("name") and new["spec"]["containers"][0].update(name="pytorch")
    old["spec"]["containers"] = new["spec"]["containers"]
    (found,) = texts(new, old, subresource="ephemeralcontainers")
    assert found.startswith(f"spec.ephemeralContainers[0]{text}")


def test_changes_through_subresources():
    debugger = [{"name": "d", "image": "i"}]
    new, old = changed(ephemeralContainers=debugger)
    assert texts(new, old) != []
    assert texts(new, old, subresource="ephemeralcontainers") == []
    old["spec"]["ephemeralContainers"] = debugger
    new["spec"]["ephemeralContainers"] = [{"name": "d", "image": "other"}]
    assert texts(new, old, subresource="ephemeralcontainers") == [
        'spec.ephemeralContainers[0]: Forbidden: existing ephemeral containers "d" may not be changed\n'
    ]
    new["spec"]["ephemeralContainers"] = []
    assert texts(new, old, subresource="ephemeralcontainers") == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be removed\n'
    ]
    new, old = changed()
    old["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    assert texts(new, old) != [] and texts(new, old, subresource="resize") == []
    new["spec"]["containers"][0]["resources"] = {}
    assert texts(new, old, subresource="resize") == [
        'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
        "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
    ]


def test_a_gated_pod_may_be_narrowed():
    old = build(schedulingGates=[{"name": "g"}])
    new = copy.deepcopy(old)
    new["spec"]["schedulingGates"] = []
    new["spec"]["nodeSelector"] = {"a": "b"}
    assert texts(new, old) == []


SYSCTLS = [
    ([{"value": "1"}], {}, ["[0].name: Required value"]),
    (
        [{"name": "net..x", "value": "1"}],
        {},
        [
            '[0].name: Invalid value: "net..x": must have at most 253 characters and match regex '
            r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
        ],
    ),
    (
        [{"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "kernel.shm_rmid_forced", "value": "0"}],
        {},
        ['[1].name: Duplicate value: "kernel.shm_rmid_forced"'],
    ),
    (
        [{"name": "net.core.somaxconn", "value": "1"}, {"name": "kernel.sem", "value": "1"}],
        {"hostNetwork": True},
        ["[0].name: Invalid value: \"net.core.somaxconn\": may not be specified when 'hostNetwork' is true"],
    ),
    (
        [{"name": "net/core/somaxconn", "value": "1"}, {"name": "kernel.sem", "value": "1"}],
        {"hostIPC": True},
        ["[1].name: Invalid value: \"kernel.sem\": may not be specified when 'hostIPC' is true"],
    ),
    ([{"name": "vm.swappiness", "value": "1"}, {"name": "net.ipv4.conf.eth0/1.x", "value": "1"}], {}, []),
]


@pytest.mark.parametrize(("sysctls", "spec", "wanted"), SYSCTLS)
def test_kernel_parameters_are_judged_by_name_and_namespace(sysctls, spec, wanted):
    assert texts(build(**spec, securityContext={"sysctls": sysctls})) == [
        f"spec.securityContext.sysctls{each}" for each in wanted
    ]
