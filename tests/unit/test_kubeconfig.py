"""Our context in the user's kubeconfig: added, replaced and removed without touching anybody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainshed.cluster.control import kubeconfig

OURS = kubeconfig.document("https://127.0.0.1:6443", "CA", "token")
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
    assert path.stat().st_mode & 0o777 == 0o600
    newer = kubeconfig.document("https://127.0.0.1:7777", "CA", "token")
    kubeconfig.merge(path, newer, make_current=False)
    assert [c["cluster"]["server"] for c in load(path)["clusters"]] == [
        "https://prod",
        "https://127.0.0.1:7777",
    ]
    assert kubeconfig.unmerge(path)
    assert load(path) == {**THEIRS, "current-context": ""}
    assert not kubeconfig.unmerge(path)


def test_their_current_context_stays_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(THEIRS))
    kubeconfig.merge(path, OURS, make_current=False)
    assert load(path)["current-context"] == "prod"
    kubeconfig.unmerge(path)
    assert load(path) == THEIRS


def test_a_new_file_is_made_with_its_directory(tmp_path: Path) -> None:
    path = tmp_path / ".kube" / "config"
    kubeconfig.merge(path, OURS, make_current=False)
    assert load(path)["current-context"] == "trainshed"
    assert not kubeconfig.unmerge(tmp_path / "none")


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
