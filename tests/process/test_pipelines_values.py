"""Objects saved by one step come back in another as they were, and what cannot is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from trainshed.pipelines.runner import rendezvous, store
from trainshed.pipelines.runner.execution import Outcome, Ran
from trainshed.pipelines.runner.inside import Session
from trainshed.pipelines.runner.program import Block, Circumstances, Input, Job, Metric, Output, Program
from trainshed.pipelines.runner.report import render
from trainshed.pipelines.runner.values import backends


def save(folder: Path, names: dict[str, Any], **options: Any) -> store.Manifest:
    given = {"step": "a", "run": "r", "attempt": "0"} | options
    return store.save(folder, names, names=sorted(names), backends=backends(names), **given)


def load(folder: Path, name: str, names: dict[str, Any] | None = None, **options: Any) -> Any:
    given = {"step": "a", "run": "r"} | options
    is_set, value = store.load(folder, name, backends=backends({} if names is None else names), **given)
    assert is_set
    return value


FRAME = pd.DataFrame({"x": [1.0, float("nan")], "n": [1, 2]})


@pytest.mark.parametrize(
    ("value", "backend"),
    [
        (None, "json"),
        (3, "json"),
        (2**70, "pickle"),
        (float("inf"), "json"),
        ("ü\n", "json"),
        (True, "json"),
        ([1, {"a": (2,)}], "pickle"),
        (np.float64(1.5), "pickle"),
        (np.bool_(True), "pickle"),
        (np.arange(6).reshape(2, 3), "numpy"),
        (np.array(["a", "bc"]), "numpy"),
        (np.array([{"a": 1}, None], dtype=object), "pickle"),
        (np.dtype("int8"), "pickle"),
        (FRAME, "parquet"),
        (FRAME.set_index("n"), "pickle"),
        (pd.DataFrame({"s": ["a", "b"]}), "pickle"),
        (FRAME["x"], "pickle"),
        (pa.table({"a": [1, 2]}), "arrow"),
        (torch.arange(4.0), "torch"),
        ({"w": torch.ones(2), "b": torch.zeros(1)}, "torch"),
        (torch.nn.Linear(2, 1), "pickle"),
    ],
    ids=lambda v: v if isinstance(v, str) and v.isalpha() else type(v).__name__,
)
def test_values_come_back(value: Any, backend: str, tmp_path: Path) -> None:
    manifest = save(tmp_path, {"x": value})
    assert manifest.entries[0].backend == backend
    back = load(tmp_path, "x")
    assert type(back) is type(value)
    if isinstance(value, pd.DataFrame | pd.Series):
        assert back.equals(value)
    elif isinstance(value, np.ndarray):
        assert back.dtype == value.dtype
        assert np.array_equal(back, value)
    elif isinstance(value, torch.nn.Module):
        assert torch.equal(back.weight, value.weight)
    elif isinstance(value, torch.Tensor):
        assert torch.equal(back, value)
    elif isinstance(value, dict) and "w" in value:
        assert all(torch.equal(back[k], v) for k, v in value.items())
    else:
        assert back == value


def test_masked_arrays_keep_their_mask(tmp_path: Path) -> None:
    value = np.ma.array([1, 2], mask=[True, False])
    save(tmp_path, {"x": value})
    back = load(tmp_path, "x")
    assert type(back) is type(value)
    assert list(back.mask) == [True, False]


def test_functions_read_the_names_of_the_kernel_that_loads_them(tmp_path: Path) -> None:
    first: dict[str, Any] = {"__name__": "__main__"}
    exec("x = 1\ndef f(a, *, b=2):\n    'text'\n    return a + b + x", first)
    save(tmp_path, {k: v for k, v in first.items() if k == "f"} | {"g": first["f"]})
    manifest = store.save(
        tmp_path, first, names=["f"], backends=backends(first), step="a", run="r", attempt="1"
    )
    assert manifest.entries[0].type == "function"
    second: dict[str, Any] = {"x": 10}
    second["f"] = load(tmp_path, "f", second)
    assert second["f"](1) == 13
    assert second["f"].__doc__ == "text"


def test_all_that_cannot_be_saved_is_named(tmp_path: Path) -> None:
    names: dict[str, Any] = {"lock": (i for i in ()), "numbers": (i for i in range(3)), "fine": 1}
    with pytest.raises(store.DataError) as caught:
        save(tmp_path, names, step="train", cells={"lock": 4})
    first, second = str(caught.value).splitlines()
    assert first.startswith("cannot save lock (generator, step train, cell 4): ")
    assert second.startswith("cannot save numbers (generator, step train): ")
    assert not (tmp_path / store.MANIFEST).exists()
    assert list(tmp_path.iterdir()) == []


def test_an_attempt_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    save(tmp_path, {"x": 1})
    with pytest.raises(store.DataError):
        save(tmp_path, {"x": (i for i in ())}, attempt="1")
    assert load(tmp_path, "x") == 1
    save(tmp_path, {"x": 2}, attempt="2")
    assert load(tmp_path, "x") == 2


def test_a_name_that_was_not_set_is_not_there(tmp_path: Path) -> None:
    store.save(tmp_path, {}, names=["x"], backends=backends({}), step="a", run="r", attempt="0")
    assert store.load(tmp_path, "x", backends=backends({}), step="a", run="r") == (False, None)


def test_what_every_step_makes_is_left_out_when_it_cannot_be_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, {"client": (i for i in ()), "x": 1}, fallbacks=["client"])
    assert load(tmp_path, "x") == 1
    assert store.load(tmp_path, "client", backends=backends({}), step="a", run="r") == (False, None)
    assert "client (generator) cannot be saved" in capsys.readouterr().err


def damage(folder: Path) -> None:
    file = folder / "0" / "x.json"
    file.write_text(file.read_text().replace("1", "2"))


@pytest.mark.parametrize(
    ("value", "change", "words"),
    [
        (1, damage, "is not what step a saved"),
        (1, lambda folder: (folder / "0" / "x.json").unlink(), "is not what step a saved"),
        (1, lambda folder: (folder / store.MANIFEST).unlink(), "has saved nothing"),
        (1, lambda folder: (folder / store.MANIFEST).write_text("{"), "damaged"),
    ],
)
def test_data_that_is_not_as_it_was_is_refused(
    value: object, change: Callable[[Path], object], words: str, tmp_path: Path
) -> None:
    save(tmp_path, {"x": value})
    change(tmp_path)
    with pytest.raises(store.DataError, match=words):
        load(tmp_path, "x")


def test_pickles_of_other_runs_are_loaded_only_when_trusted(tmp_path: Path) -> None:
    save(tmp_path, {"x": [1], "n": 1})
    with pytest.raises(store.DataError, match="pickle of the run r"):
        load(tmp_path, "x", run="other")
    assert load(tmp_path, "n", run="other") == 1
    assert load(tmp_path, "x", run="other", trusted=True) == [1]


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (0.5, "0.5"), (np.float32(0.5), "0.5"), (torch.tensor(2.0), "2.0"), (True, "1")],
)
def test_metrics_are_numbers(value: Any, text: str, tmp_path: Path) -> None:
    program = Program("a", (), metrics=(Metric("acc", "acc"),))
    file = tmp_path / "results" / "acc"
    session = Session(
        Job(program, Circumstances(str(tmp_path), "r", results={"acc": str(file)})), {"acc": value}
    )
    session.finish()
    assert file.read_text() == text


@pytest.mark.parametrize("value", ["0.5", None, float("nan"), [1]])
def test_what_is_no_number_is_no_metric(value: Any, tmp_path: Path) -> None:
    program = Program("a", (), metrics=(Metric("acc", "acc"),))
    with pytest.raises(store.DataError, match="metric acc: acc must be a number"):
        Session(Job(program, Circumstances(str(tmp_path), "r")), {"acc": value}).finish()


def test_workers_other_than_the_first_save_nothing(tmp_path: Path) -> None:
    program = Program("a", (), outputs=(Output("x"),))
    Session(Job(program, Circumstances(str(tmp_path), "r", saves=False)), {"x": 1}).finish()
    assert list(tmp_path.iterdir()) == []


def test_all_inputs_that_are_missing_are_named(tmp_path: Path) -> None:
    program = Program("b", (), inputs=(Input("x", "a", "x"), Input("y", "a", "y")))
    with pytest.raises(store.DataError) as caught:
        Session(Job(program, Circumstances(str(tmp_path), "r")), {}).load()
    assert len(str(caught.value).splitlines()) == 2


def test_everything_in_a_report_but_html_is_escaped() -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "<b>said</b>"},
        {"output_type": "error", "traceback": ["<i>"]},
        {"output_type": "display_data", "data": {"text/html": "<table>", "text/plain": "x"}},
        {"output_type": "display_data", "data": {"image/png": "QUJD", "text/plain": "<svg>"}},
    ]
    page = render("a<b", Outcome((Ran(Block("x < 1", cell=2), outputs),), "wrong: <p>"))
    for escaped in (
        "a&lt;b",
        "x &lt; 1",
        "&lt;b&gt;said",
        "&lt;i&gt;",
        "wrong: &lt;p&gt;",
        "alt='&lt;svg&gt;'",
    ):
        assert escaped in page
    assert "sandbox='allow-scripts' srcdoc='&lt;table&gt;'" in page, "HTML runs in a frame of its own"


def test_a_worker_does_not_wait_for_ever(tmp_path: Path) -> None:
    with pytest.raises(rendezvous.Missing, match="for worker 1, 2 of 3"):
        rendezvous.meet(tmp_path, 0, 3, "10.0.0.1", timeout=0.05, poll=0.01)


def test_what_a_strategy_is_told() -> None:
    found = rendezvous.environment("MultiWorkerMirroredStrategy", ["a", "b", "c"], 1)
    assert json.loads(found["TF_CONFIG"]) == {
        "cluster": {"worker": ["a:12345", "b:12345", "c:12345"]},
        "task": {"type": "worker", "index": 1},
    }
    assert found["NUM_WORKERS"] == "3"
    assert rendezvous.environment("DDP", ["a", "b"], 1)["PET_NODE_RANK"] == "1"
