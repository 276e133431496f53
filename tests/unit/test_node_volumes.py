"""Volumes: files of configMaps and friends, atomic updates, host paths, claims, sub-paths."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.pod.starter import needed
from trainshed.cluster.node.pod.unsupported import Capabilities, unsupported_fields
from trainshed.cluster.node.podfields import NodeFacts
from trainshed.cluster.node.references import References
from trainshed.cluster.node.volumes import atomic, registry
from trainshed.cluster.node.volumes.claim import claimed_directory
from trainshed.cluster.node.volumes.configmap import ConfigMapVolume
from trainshed.cluster.node.volumes.downward_api import downward_files
from trainshed.cluster.node.volumes.empty_dir import EmptyDirVolume, size_in_memory
from trainshed.cluster.node.volumes.files import File
from trainshed.cluster.node.volumes.host_path import host_path
from trainshed.cluster.node.volumes.manager import VolumeManager
from trainshed.cluster.node.volumes.mounts import container_mounts, memory_volumes
from trainshed.cluster.node.volumes.projected import ProjectedVolume
from trainshed.cluster.node.volumes.secret import SecretVolume
from trainshed.cluster.node.volumes.tokens import Token
from trainshed.cluster.node.volumes.volume import FileVolume, MountError, Setup, Volume
from trainshed.cluster.sandbox.model import MemoryVolume, Mount
from trainshed.kube.schema.definitions import builtin_definition

NODE = NodeFacts("node-a", "10.88.0.1", {"cpu": "4"})
REFERENCES = References(
    {
        ("configmaps", "cm"): {
            "metadata": {"name": "cm"},
            "data": {"a": "1", "b": "2"},
            "binaryData": {"c": "/w=="},
        },
        ("configmaps", "gone"): None,
        ("secrets", "s"): {"metadata": {"name": "s"}, "data": {"key": base64.b64encode(b"x").decode()}},
    }
)


def setup(source, **fields):
    """Return what a type is given, with the fields that matter to the test."""
    known = {"references": REFERENCES, "tokens": {}, "disk": Path("/none")}
    return Setup(**{"pod": make_pod(), "name": "v", "node": NODE, "source": source, **known, **fields})


def read(directory):
    return {
        str(p.relative_to(directory)): p.read_bytes()
        for p in directory.rglob("*")
        if p.is_file() and not str(p.relative_to(directory)).startswith("..")
    }


def test_configmap_keys_items_and_modes():
    whole = ConfigMapVolume().read({"name": "cm", "defaultMode": 0o400}, REFERENCES, "default")
    assert {k: (f.content, f.mode) for k, f in whole.items()} == {
        "a": (b"1", 0o400),
        "b": (b"2", 0o400),
        "c": (b"\xff", 0o400),
    }
    items = [{"key": "a", "path": "dir/x", "mode": 0o600}]
    assert ConfigMapVolume().read({"name": "cm", "items": items}, REFERENCES, "default") == {
        "dir/x": File(b"1", 0o600)
    }
    assert SecretVolume().read({"secretName": "s"}, REFERENCES, "default") == {"key": File(b"x")}


@pytest.mark.parametrize(
    "source, message",
    [
        ({"name": "gone"}, 'configmap "gone" not found'),
        ({"name": "cm", "items": [{"key": "z", "path": "z"}]}, "references non-existent key: z"),
        ({"name": "cm", "items": [{"key": "a", "path": "../z"}]}, "invalid path"),
    ],
)
def test_configmap_errors(source, message):
    with pytest.raises(MountError, match=message):
        ConfigMapVolume().read(source, REFERENCES, "default")
    assert ConfigMapVolume().read({"name": "gone", "optional": True}, REFERENCES, "default") == {}


def test_downward_files():
    pod = make_pod(
        make_container(resources={"limits": {"cpu": "2"}}), metadata={"labels": {"b": 'q"', "a": "1"}}
    )
    source = {
        "items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
        ]
    }
    files = downward_files(source, pod, NODE)
    assert files["labels"].content == b'a="1"\nb="q\\""'
    assert files["cpu"].content == b"2"


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "d/e", "d/f"]), st.binary(max_size=5), max_size=4),
        max_size=6,
    )
)
def test_the_volume_holds_the_last_set_of_files(tmp_path_factory, generations):
    volume = tmp_path_factory.mktemp("volume")
    for contents in generations:
        atomic.write(volume, {path: File(data) for path, data in contents.items()})
        assert read(volume) == contents or contents.keys() & {"d/e", "d/f"}
        for path, data in contents.items():
            assert (volume / path).read_bytes() == data
        assert not atomic.write(volume, {path: File(data) for path, data in contents.items()})
    directories = [e for e in volume.iterdir() if e.is_dir() and not e.is_symlink()]
    assert len(directories) <= 1, "old generations are removed"


@pytest.mark.parametrize(
    "kind, make, ok",
    [
        ("", None, True),
        ("DirectoryOrCreate", None, True),
        ("FileOrCreate", None, True),
        ("Directory", None, False),
        ("File", None, False),
        ("Directory", "dir", True),
        ("Directory", "file", False),
        ("File", "file", True),
        ("File", "dir", False),
        ("Socket", "file", False),
        ("CharDevice", "dir", False),
    ],
)
def test_host_path_types(tmp_path, kind, make, ok):
    path = tmp_path / "deep" / "p" if kind in ("", "DirectoryOrCreate") else tmp_path / "p"
    if make == "dir":
        path.mkdir()
    elif make == "file":
        path.touch()
    if ok:
        assert host_path({"path": str(path), "type": kind}).exists()
    else:
        with pytest.raises(MountError, match="type check failed"):
            host_path({"path": str(path), "type": kind})
        assert make is not None or not path.exists(), "a check must not create"


def test_a_character_device_passes():
    assert host_path({"path": "/dev/null", "type": "CharDevice"}).exists()


def claim(**fields):
    base = {
        "metadata": {"name": "c", "uid": "cu"},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    }
    return {**base, **fields}


def test_claims(tmp_path):
    volume = {
        "metadata": {"name": "pv"},
        "spec": {"hostPath": {"path": str(tmp_path / "d")}, "claimRef": {"uid": "cu"}},
    }

    def resolve(the_claim, the_volume=volume):
        references = References(
            {("persistentvolumeclaims", "c"): the_claim, ("persistentvolumes", "pv"): the_volume}
        )
        return claimed_directory("c", references)

    assert resolve(claim()) == Volume(tmp_path / "d", lasting=True)
    for broken, message in (
        (None, "not found"),
        (claim(status={"phase": "Pending"}), "not bound"),
        (claim(metadata={"name": "c", "uid": "other"}), "bound to another claim"),
    ):
        with pytest.raises(MountError, match=message):
            resolve(broken)
    nfs = {"metadata": {"name": "pv"}, "spec": {"nfs": {}, "claimRef": {"uid": "cu"}}}
    with pytest.raises(MountError, match=r"spec\.nfs is not supported"):
        resolve(claim(), nfs)


def test_sub_paths(tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v").chmod(0o1777)
    (tmp_path / "v" / "out").symlink_to("/etc")
    (tmp_path / "v" / "loop").symlink_to("loop")
    (tmp_path / "v" / "nowhere").symlink_to("gone")
    (tmp_path / "v" / "file").touch()
    volumes = {"v": Volume(tmp_path / "v"), "ro": Volume(tmp_path / "v", read_only=True)}

    def mounts(*declared):
        return container_mounts(
            make_container(volumeMounts=list(declared)), volumes, {"POD": "p1", "EMPTY": ""}
        )

    assert mounts({"name": "v", "mountPath": "/data/deep"}, {"name": "ro", "mountPath": "/data"}) == (
        Mount(str(tmp_path / "v"), "/data", True),
        Mount(str(tmp_path / "v"), "/data/deep", False),
    )
    (made,) = mounts({"name": "v", "mountPath": "/d", "subPathExpr": "x/$(POD)"})
    assert (made.source, made.sub_path) == (str(tmp_path / "v"), "x/p1") and (tmp_path / "v/x/p1").is_dir()
    for new in ("v/x", "v/x/p1"):
        assert stat.S_IMODE((tmp_path / new).stat().st_mode) == 0o777, "who may write to the volume may here"
    for declared, message in (
        ({"subPath": "out"}, "leads out"),
        ({"subPath": "out/deeper"}, "leads out"),
        ({"subPath": "loop"}, "[Tt]oo many levels"),
        ({"subPath": "loop/deeper"}, "[Tt]oo many levels"),
        ({"subPath": "x" * 300}, "too long"),
        ({"subPath": "nowhere"}, "link to nowhere"),
        ({"subPath": "file/below"}, "Not a directory"),
        ({"subPath": "../x"}, "unable to provision SubPath `../x`: must not contain '..'"),
        ({"subPath": "/x"}, "error SubPath `/x` must not be an absolute path"),
        ({"subPathExpr": "$(NOPE)/$(EMPTY)"}, "missing value for EMPTY, NOPE"),
    ):
        with pytest.raises(MountError, match=message):
            mounts({"name": "v", "mountPath": "/d", **declared})


def test_empty_dirs(tmp_path):
    disk = tmp_path / "d"

    def made(source):
        return EmptyDirVolume().directory(setup(source, disk=disk))

    assert made({}) == Volume(disk, owned=True) and stat.S_IMODE(disk.stat().st_mode) == 0o777
    assert made({"medium": "Memory", "sizeLimit": "1Mi"}) == Volume(disk, memory_bytes=1 << 20)


@pytest.mark.parametrize(
    "limits, size_limit, expected",
    [
        ([None], None, 8 << 30),
        (["1Gi"], None, 1 << 30),
        (["1Gi", "512Mi"], None, 1536 << 20),
        (["1Gi", None], None, 8 << 30),
        (["1Gi"], "64Mi", 64 << 20),
        (["1Gi"], "2Gi", 1 << 30),
        ([None], "64Mi", 64 << 20),
    ],
)
def test_the_size_of_a_volume_in_memory(limits, size_limit, expected):
    """As the kubelet's SizeMemoryBackedVolumes."""
    containers = [
        make_container(f"c{n}", **({"resources": {"limits": {"memory": one}}} if one else {}))
        for n, one in enumerate(limits)
    ]
    source = {"medium": "Memory"} | ({"sizeLimit": size_limit} if size_limit else {})
    assert size_in_memory(make_pod(*containers), source, "8Gi") == expected


def test_who_may_write_to_a_volume_in_memory_shares_it(tmp_path):
    mount = {"name": "m", "mountPath": "/m"}
    pod = make_pod(
        make_container("a", volumeMounts=[mount]),
        make_container("b", volumeMounts=[{**mount, "readOnly": True}]),
        make_container("c", volumeMounts=[mount]),
    )
    volumes = {"m": Volume(tmp_path, memory_bytes=5), "d": Volume(tmp_path / "d")}
    assert memory_volumes(pod, volumes) == [MemoryVolume(str(tmp_path), 5, writers=2)]
    (made,) = container_mounts({"volumeMounts": [{**mount, "subPath": "x/y"}]}, volumes, {})
    assert made.make and not (tmp_path / "x").exists(), "made where it can be seen"


@pytest.mark.parametrize(
    ("context", "other", "mode"),
    [
        ({}, {}, 0o400),
        ({"runAsUser": 7}, {}, 0o444),
        ({"runAsUser": 7}, {"runAsUser": 8}, 0o400),
        ({"runAsUser": 7, "fsGroup": 9}, {}, 0o400),  # the group reads it
        ({}, {"runAsUser": 8}, 0o400),
    ],
)
def test_the_one_user_of_a_pod_reads_its_token(context, other, mode):
    pod = make_pod(make_container("a"), make_container("b", securityContext=other), securityContext=context)
    source = {"defaultMode": 0o400, "sources": [{"serviceAccountToken": {"path": "token"}}]}
    (request,) = ProjectedVolume().token_requests(source)
    files = ProjectedVolume().files(setup(source, pod=pod, tokens={request: Token("t", 0.0)}))
    assert files == {"token": File(b"t", mode)}


async def test_a_pods_volumes_and_their_update(tmp_path):
    tokens = []

    async def issue(pod, request):
        tokens.append(request)
        return Token(f"token-{len(tokens)}", 0.0 if len(tokens) == 1 else float("inf"))

    projected = {
        "sources": [
            {},
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "cm", "items": [{"key": "a", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                }
            },
        ]
    }
    pod = make_pod(
        volumes=[
            {"name": "access", "projected": projected},
            {"name": "cm", "configMap": {"name": "cm"}},
            {"name": "tmp", "emptyDir": {}},
        ],
        imagePullSecrets=[{}],
    )
    assert needed(pod) == {("configmaps", "cm")}, "a secret without a name is none"
    manager = VolumeManager(NodePaths(tmp_path), "u1", NODE, issue)
    volumes = await manager.prepare(pod, REFERENCES)
    assert read(volumes["access"].source) == {"token": b"token-1", "ca.crt": b"1", "namespace": b"default"}
    assert volumes["cm"].read_only and not volumes["tmp"].read_only
    assert manager.refresh_at == 0.0
    changed = References({("configmaps", "cm"): {"metadata": {"name": "cm"}, "data": {"a": "new"}}})
    handed = []

    async def own(fresh):
        handed.append(([read(one) for one in fresh], read(volumes["cm"].source)["a"]))

    await manager.update(pod, changed, own)
    fresh = [{"token": b"token-2", "ca.crt": b"new", "namespace": b"default"}, {"a": b"new"}]
    assert handed == [(fresh, b"1")], "nobody sees the files before their group may read them"
    assert read(volumes["access"].source)["token"] == b"token-2"
    assert read(volumes["cm"].source) == {"a": b"new"}
    await manager.update(pod, References({("configmaps", "cm"): None}), own)
    assert read(volumes["cm"].source) == {"a": b"new"}, "a running pod keeps what it has"
    with pytest.raises(MountError, match='SetUp failed for volume "x" : configmap "x" not found') as caught:
        await manager.prepare(
            make_pod(volumes=[{"name": name, "configMap": {"name": name}} for name in ("x", "y")]),
            References({("configmaps", "x"): None, ("configmaps", "y"): None}),
        )
    (other,) = caught.value.others
    assert other == 'MountVolume.SetUp failed for volume "y" : configmap "y" not found'
    with pytest.raises(MountError, match="nfs is not supported"):
        await manager.prepare(make_pod(volumes=[{"name": "x", "nfs": {}}]), REFERENCES)


async def test_one_more_type_is_a_file_and_a_line_in_the_registry(tmp_path, monkeypatch):
    """What it declares is read by all that deal with volumes; none of them names a type."""

    class NotesVolume(FileVolume):
        field = "notes"

        def referenced(self, pod, name, source):
            yield "configmaps", f"{pod['metadata']['name']}-{name}"

        def unsupported(self, source):
            yield "paper", "there is none"

        def files(self, setup):
            return {setup.name: File(setup.source["text"].encode())}

    monkeypatch.setitem(registry.TYPES, "notes", NotesVolume())
    pod = make_pod(volumes=[{"name": "v", "notes": {"text": "hello"}}])
    assert needed(pod) == {("configmaps", "web-v")}
    assert unsupported_fields(pod, Capabilities()) == [("spec.volumes[0].notes.paper", "there is none")]

    async def no_token(pod, request):
        raise AssertionError("nobody wants one")

    volumes = await VolumeManager(NodePaths(tmp_path), "u1", NODE, no_token).prepare(pod, REFERENCES)
    assert read(volumes["v"].source) == {"v": b"hello"} and volumes["v"].read_only


def test_a_type_that_the_node_has_not_is_reported():
    """Every type of volume that the API knows can be mounted or is reported."""
    known = set(builtin_definition("io.k8s.api.core.v1.Volume")["properties"]) - {"name"}
    assert set(registry.TYPES) < known
    for field in sorted(known - set(registry.TYPES)):
        pod = make_pod(volumes=[{"name": "v", field: {}}])
        assert [path for path, _ in unsupported_fields(pod, Capabilities())] == [f"spec.volumes[0].{field}"]
