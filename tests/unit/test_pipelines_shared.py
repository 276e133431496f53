"""The directory in which workers leave files: the first one's is that of later steps, others have one of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainshed.pipelines.runner.shared import link


@pytest.fixture
def first(tmp_path: Path) -> Path:
    (tmp_path / "0/model").mkdir(parents=True)
    (tmp_path / "0/model/weights").write_text("first")
    return tmp_path / "0"


def test_another_worker_reads_what_the_first_has_and_writes_elsewhere(first: Path) -> None:
    own = first.with_name("1")
    own.mkdir()
    (own / "of an earlier attempt").write_text("x")
    link(own, first)
    assert sorted(p.relative_to(own).as_posix() for p in own.rglob("*")) == ["model", "model/weights"]
    assert (own / "model/weights").read_text() == "first"
    (own / "model/new").write_text("mine")
    (own / "model/partial").write_text("mine")
    (own / "model/partial").replace(own / "model/weights")
    assert [p.name for p in first.rglob("*") if p.is_file()] == ["weights"]
    assert (first / "model/weights").read_text() == "first"


def test_ranks_in_the_first_workers_pod_share_its_directory(first: Path, tmp_path: Path) -> None:
    mounted = tmp_path / "marshal"
    mounted.symlink_to(first)
    link(mounted, first)
    assert (first / "model/weights").read_text() == "first"
    assert not (first / "model/weights").is_symlink()


def test_later_ranks_of_a_pod_clear_nothing(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = first.with_name("1")
    own.mkdir()
    link(own, first)
    (own / "mine").write_text("x")
    monkeypatch.setenv("LOCAL_RANK", "1")
    link(own, first)
    assert (own / "mine").exists()
