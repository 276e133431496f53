"""Manifests as the CLI reads them, and what it says about those it cannot."""

from pathlib import Path
from typing import Any

import pytest

from trainshed.sdk.errors import UserError
from trainshed.sdk.manifests import collect, files_of, load, parse

CONFIGMAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def test_documents_lists_and_empty_documents() -> None:
    listed = '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", '
    text = f"---\n{CONFIGMAP}---\n---\n{listed}" + '"metadata": {"name": "b"}}]}'
    assert [obj["metadata"]["name"] for obj in parse(text, "x.yaml")] == ["a", "b"]


def test_dates_stay_text_as_in_kubectl() -> None:
    (obj,) = parse(CONFIGMAP + "data: {day: 2026-01-02}\n", "x.yaml")
    assert obj["data"]["day"] == "2026-01-02"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [unclosed", "x.yaml:2: not YAML"),
        ("x: &a [*a]\n", "x.yaml:1: not YAML: an anchor's value contains itself"),
        ("x: [*a]\n", "x.yaml:1: not YAML: unknown anchor 'a' referenced"),
        ("x: " + 100_000 * "[", "x.yaml:1: not YAML: nested too deeply"),
        ("just words", "x.yaml: not a Kubernetes object but a string"),
        ("- 1\n- 2", "x.yaml: not a Kubernetes object but a list"),
        ("kind: Pod\nmetadata: {name: a}", "x.yaml: apiVersion: Required value"),
        ("apiVersion: v1\nmetadata: {name: a}", "x.yaml: kind: Required value"),
        ("apiVersion: v1\nkind: Pod", "x.yaml: metadata.name: Required value"),
        (f"{CONFIGMAP}---\n7", "x.yaml, document 2: not a Kubernetes object but a number"),
    ],
)
def test_what_is_wrong_and_where(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text, "x.yaml")
    assert str(caught.value).startswith(message)


def test_a_key_that_stands_twice_is_said_and_the_last_one_counts() -> None:
    said: list[str] = []
    (obj,) = parse(f"{CONFIGMAP}data:\n  a: b\n  a: c\n", "x.yaml", said.append)
    assert obj["data"] == {"a": "c"}
    assert said == ['x.yaml:6: duplicate key "a": the last one counts']
    with pytest.warns(UserWarning, match="duplicate key"):
        parse(f"{CONFIGMAP}kind: ConfigMap\n", "x.yaml")


def test_merge_keys_override_what_they_merge() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: &x {k: 1, l: 2}\nz: {<<: *x, k: 3}\n"
    (obj,) = parse(text, "x.yaml")
    assert obj["z"] == {"k": 3, "l": 2}


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        load([str(tmp_path / "none.yaml")])
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    with pytest.raises(UserError, match="no objects in"):
        load([str(tmp_path / "empty.yaml")])
    (tmp_path / "b.yaml").write_text(CONFIGMAP)
    assert len(load([str(tmp_path)])) == 1


def test_a_missing_file_whose_name_is_nearly_there(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(CONFIGMAP)
    for name, hint in (("jop.yaml", f"did you mean {tmp_path}/job.yaml?"), ("other.txt", "")):
        with pytest.raises(UserError, match="no such file") as caught:
            load([str(tmp_path / name)])
        assert caught.value.hint == hint
    with pytest.raises(UserError, match="no such file"):
        load([str(tmp_path / "gone" / "job.yaml")])


def test_what_lists_images_is_no_manifest(tmp_path: Path) -> None:
    """It stands beside manifests, so folders and patterns bring it along."""
    images, manifest = tmp_path / "images.yaml", tmp_path / "job.yaml"
    images.write_text("images:\n  - name: a\n")
    manifest.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    told: list[str] = []
    assert [obj["kind"] for obj in load([str(tmp_path)], told.append)] == ["ConfigMap"]
    assert told == []
    assert len(load([str(images), str(manifest)], told.append)) == 1
    assert told == [f"{images}: lists images, not objects: passed over"]
    with pytest.raises(UserError, match="no objects in") as caught:
        load([str(images)], told.append)
    assert caught.value.hint == f"{images} is read beside the manifests that name its images"
    images.write_text(manifest.read_text())
    assert len(load([str(tmp_path)], told.append)) == 2, "one of that name may be a manifest"


def test_manifests_as_a_program_has_them(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(CONFIGMAP)
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
    found = collect([str(file), file, CONFIGMAP, obj])
    assert [each["metadata"]["name"] for each in found] == ["a", "a", "a", "b"]
    assert collect(file) == collect(str(file)) == collect(CONFIGMAP)
    assert collect(obj) == [obj]
    assert files_of([str(file), file, CONFIGMAP, obj]) == [str(file), str(file)]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "there are no objects"),
        ({"kind": "Pod"}, "manifest: apiVersion: Required value"),
        ("no-such-file.yaml", "no-such-file.yaml: no such file"),
        ("kind: Pod\nmetadata: {}\n", "manifest: apiVersion: Required value"),
    ],
)
def test_what_is_wrong_with_what_a_program_has(source: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        collect(source)
