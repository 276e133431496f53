"""Our context in the user's kubeconfig: added, replaced and removed without touching anybody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainshed.cluster.control import kubeconfig
from trainshed.cluster.paths import StatePaths

HOME = Path("/state/ours")
OURS = kubeconfig.document("https://127.0.0.1:6443", "CA", "token", home=HOME)
THEIRS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "clusters": [{"name": "prod", "cluster": {"server": "https://prod"}}],
    "users": [{"name": "me", "user": {"exec": {"command": "aws", "args": ["eks"]}}}],
    "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "me"}}],
    "current-context": "prod",
}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_merge_then_unmerge_leaves_others_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(THEIRS))
    kubeconfig.merge(path, OURS, make_current=True)
    merged = load(path)
    assert merged["current-context"] == "trainshed"
    assert [c["name"] for c in merged["clusters"]] == ["prod", "trainshed"]
    assert merged["users"][0] == THEIRS["users"][0]
    assert merged["users"][1]["user"] == {"tokenFile": str(HOME / "pki/admin.token")}, (
        "pods can read this file"
    )
    assert path.stat().st_mode & 0o777 == 0o600
    newer = kubeconfig.document("https://127.0.0.1:7777", "CA", "token", home=HOME)
    kubeconfig.merge(path, newer, make_current=False)
    assert [c["cluster"]["server"] for c in load(path)["clusters"]] == [
        "https://prod",
        "https://127.0.0.1:7777",
    ]
    assert kubeconfig.unmerge(path, HOME)
    assert load(path) == THEIRS, "the context from before is current again"
    assert not kubeconfig.unmerge(path, HOME)


def test_a_context_from_before_that_is_gone_is_not_made_current(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(THEIRS))
    kubeconfig.merge(path, OURS, make_current=True)
    path.write_text(yaml.safe_dump({**load(path), "contexts": OURS["contexts"]}))
    assert kubeconfig.unmerge(path, HOME)
    assert load(path)["current-context"] == ""


def test_the_context_of_another_state_directory_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(THEIRS))
    kubeconfig.merge(path, OURS, make_current=True)
    merged = path.read_bytes()
    assert not kubeconfig.unmerge(path, Path("/state/other"))
    assert path.read_bytes() == merged
    other = kubeconfig.document("https://127.0.0.1:7777", "CA2", "token2", home=Path("/state/other"))
    kubeconfig.merge(path, other, make_current=True)
    assert not kubeconfig.unmerge(path, HOME)
    assert kubeconfig.unmerge(path, Path("/state/other"))
    assert load(path) == THEIRS, "and it takes over what was current before both"


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    """The kubeconfig in the state directory of a cluster."""
    paths = StatePaths(tmp_path / "home").prepare()
    kubeconfig.write(
        paths.kubeconfig, kubeconfig.document("https://127.0.0.1:6443", "CA", "token", home=paths.root)
    )
    return paths.kubeconfig


@pytest.mark.parametrize("damaged", [False, True])
def test_the_file_of_a_cluster_is_never_edited(own_file: Path, tmp_path: Path, damaged: bool) -> None:
    if damaged:
        own_file.write_text("")
    link = tmp_path / "link"
    link.symlink_to(own_file)
    before = own_file.read_bytes()
    for path in (own_file, link):
        with pytest.raises(ValueError, match="belongs to a cluster"):
            kubeconfig.merge(path, OURS, make_current=True)
        assert not kubeconfig.unmerge(path, own_file.parent)
    assert own_file.read_bytes() == before


@pytest.mark.parametrize(
    "text", ["", "{unclosed: [", "just text", "clusters: []", "clusters: [5]", "current-context: ''"]
)
def test_a_damaged_file_of_a_cluster_is_seen(own_file: Path, text: str) -> None:
    config = load(own_file)
    assert kubeconfig.leads_to(own_file, config)
    own_file.write_text(text)
    assert not kubeconfig.leads_to(own_file, config)
    own_file.unlink()
    assert not kubeconfig.leads_to(own_file, config)


def test_a_namespace_or_another_context_is_no_damage(own_file: Path) -> None:
    config = load(own_file)
    edited = load(own_file)
    edited["contexts"][0]["context"]["namespace"] = "team"
    edited["contexts"].append({"name": "prod", "context": {"cluster": "prod", "user": "me"}})
    own_file.write_text(yaml.safe_dump({**edited, "current-context": "prod"}))
    assert kubeconfig.leads_to(own_file, config)


def test_their_current_context_stays_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(THEIRS))
    kubeconfig.merge(path, OURS, make_current=False)
    assert load(path)["current-context"] == "prod"
    kubeconfig.unmerge(path, HOME)
    assert load(path) == THEIRS


def test_a_new_file_is_made_with_its_directory(tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    kubeconfig.merge(path, OURS, make_current=False)
    assert load(path)["current-context"] == "trainshed"
    assert not kubeconfig.unmerge(tmp_path / "none", HOME)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text(yaml.safe_dump(THEIRS))
    link.symlink_to(real)
    kubeconfig.merge(link, OURS, make_current=False)
    assert link.is_symlink()
    assert len(load(real)["clusters"]) == 2


@pytest.mark.parametrize("text", ["just text", "clusters: 5", "{unclosed: [", "- a\n- b\n"])
def test_a_file_that_is_no_kubeconfig_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ValueError, match="not a kubeconfig"):
        kubeconfig.merge(path, OURS, make_current=True)
    assert path.read_text() == text


def test_which_file_is_the_users(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert kubeconfig.user_file({"KUBECONFIG": f"{one}:{two}"}) == two
    one.write_text("")
    assert kubeconfig.user_file({"KUBECONFIG": f"{one}:{two}"}) == one
    assert kubeconfig.user_file({}) == Path("~/.kube/config").expanduser()


def test_the_file_of_a_cluster_is_not_the_users(own_file: Path, tmp_path: Path) -> None:
    default, mine = Path("~/.kube/config").expanduser(), tmp_path / "mine"
    assert kubeconfig.user_file({"KUBECONFIG": str(own_file)}) == default
    assert kubeconfig.user_file({"KUBECONFIG": f"{own_file}:{mine}"}) == mine
    assert kubeconfig.user_file({"KUBECONFIG": f"{mine}:{own_file}"}) == mine
