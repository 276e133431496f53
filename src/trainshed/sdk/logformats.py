"""What one log line says of a training run: metrics, epoch, step. Pure: a line in, a reading out.

Tried in this order: MLPerf's `:::MLLOG` records, JSON objects, Python dicts (the Trainer of transformers 4 and 5), bars
of tqdm and Rich, and then pairs such as `loss: 0.5` or `epoch=3`, with the counters of PyTorch's examples, Keras,
Megatron and XGBoost. Metrics have one name each: `loss`, `accuracy` (a share, 0 to 1), with `val_` before it when it is
of data that is not trained on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Scope = Literal["", "epoch", "run"]

# Repetitions have an end: what pods print must not take more than linear time.
_NUMBER = (
    r"[-+]?(?:(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,9})?"
    r"|[nN][aA][nN]|[iI]nf(?:inity)?|INF)(?!\w|\.\w)"
)
_TELLING = (
    "loss",
    "acc",
    "epoch",
    "step",
    "iter",
    "%|",
    "rmse",
    "ppl",
    "perplexity",
    "error",
    "mae",
    "mllog",
)
"""What a line without any of these says nothing about; most lines do not get past it."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()].|[\x08\x07]")
_RANK = re.compile(r"\s*\[(?:default|rank)(\d+)\]:?\s*")
_MLLOG = ":::MLLOG"
_MOST_CHARACTERS = 4096
_ITEM = re.compile(rf"""['"]([^'"]{{1,80}})['"]\s*:\s*(['"]?)({_NUMBER})\2""")
_TQDM = re.compile(
    r"(?P<what>[^|\r]{0,80}?):?\s*\d+%\|[^|]*\|\s*(?P<step>[\d.]{1,15})(?P<unit>[kMGT]?)/(?P<steps>[\d.]{1,15})(?P<units>[kMGT]?)\s*"
    r"\[[\d:]{1,20}<(?P<left>[\d:?]{1,20}),?(?P<rest>[^\]]*)"
)
_RICH = re.compile(
    r"[━╸╺ ]\s(?P<step>\d{1,15})/(?P<steps>\d{1,15})\s\d{1,9}:\d\d:\d\d\s•\s(?P<left>[\d:-]{1,20})(?P<rest>.*)"
)
_EPOCH = re.compile(
    r"\bepochs?\b['\"]?\s*[:=#]?\s*['\"]?\[?\s*(?P<epoch>\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(?P<epochs>\d+))?\]?",
    re.IGNORECASE,
)
_EPOCHS = re.compile(r"\b(?:num|max|total|n)[ _-]epochs\s*[:=]\s*(\d+)", re.IGNORECASE)
_STEP = re.compile(
    r"\b(?:global_)?(?:steps?|iter(?:ation)?s?|batch(?:es)?)\b\s*[:=#]?\s*\[?\s*(?P<step>\d+)(?:\s*(?:/|of)\s*(?P<steps>\d+))?",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"\[\s*(?P<step>\d+)\s*/\s*(?P<steps>\d+)(?:\s*\(\s*[\d.]+%\))?\s*\]")
_KERAS = re.compile(r"\s*(?P<step>\d+)/(?P<steps>\d+)\s+(?:[━╸╺─\-]|\[[=>.])")
_MEGATRON = re.compile(r"\biteration\s+(?P<step>\d+)/\s*(?P<steps>\d+)\s*\|")
_BOOST = re.compile(r"\[(\d+)\]\s+(?=\S+[-:])")
_PAIR = re.compile(
    r"(?<![\w@/.-])(?P<name>[A-Za-z][\w@/.-]{0,60}(?:[ ][A-Za-z][\w@/.-]{0,60})?)['\"]?"
    r"(?P<mark>\s{0,9}[:=]\s{0,9}|\s{1,9})['\"]?"
    rf"(?P<value>{_NUMBER})\s?(?P<of>/\s?\d+|%)?"
)
_NETWORK = re.compile(rf"\baccuracy of [^:]{{1,80}}:\s*({_NUMBER})\s*%", re.IGNORECASE)
_SPLIT = re.compile(r"[\W_]+")
_EVALUATION = frozenset(
    {"test", "tests", "testing", "val", "valid", "validation", "eval", "evaluation", "dev", "holdout"}
)
_PLAIN = frozenset(
    {
        "train",
        "training",
        "lm",
        "total",
        "running",
        "batch",
        "current",
        "avg",
        "average",
        "mean",
        "step",
        "epoch",
        "top",
    }
)
_ACCURACIES = frozenset({"accuracy", "acc", "acc1", "acc@1", "top1", "top@1", "accuracies"})
_ERRORS = frozenset({"rmse", "rmsle", "mae", "mape", "logloss", "mlogloss", "error", "merror", "nloglik"})
_EPOCH_TOTALS = frozenset({"epochs", "num_epochs", "max_epochs", "total_epochs", "num_train_epochs"})
_STEP_NAMES = frozenset({"step", "global_step", "iteration", "iter", "it", "train_step"})
_STEP_TOTALS = frozenset({"max_steps", "total_steps", "num_steps", "max_iters", "total_iterations"})
_OF_TRANSFORMERS = frozenset(
    {"learning_rate", "grad_norm", "eval_loss", "eval_runtime", "train_runtime", "train_loss"}
)
_THOUSANDS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_LARGEST = 1e12


class Reading(msgspec.Struct, frozen=True):
    """What a line says. `step` of `steps` is of the run, of an epoch, or of nobody says what (`scope`).

    `epoch` is the number as printed, from 0 or 1; `done_epochs` a count from 0. `is_bare` says that the accuracies are
    without unit, and may be percentages; `seconds_left` is what a bar itself says.
    """

    metrics: dict[str, float] = {}
    is_bare: bool = False
    epoch: int | None = None
    epochs: int | None = None
    done_epochs: float | None = None
    step: float | None = None
    steps: float | None = None
    scope: Scope = ""
    seconds_left: float | None = None


def last_frame(line: str) -> str:
    """Return what a terminal would still show of a line that was drawn over itself, as progress bars are."""
    return line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line


def read(line: str) -> Reading | None:
    """Return what the line says, None when that is nothing. Never raises, and looks at its last frame only."""
    if len(line) > _MOST_CHARACTERS:
        line = last_frame(line)[:_MOST_CHARACTERS]
    low = line.lower()
    if not any(word in low for word in _TELLING):
        return None
    if "\r" in line or "\x1b" in line or "\x08" in line:
        line = _ANSI.sub("", last_frame(line))
        low = line.lower()
    if "[rank" in low or "[default" in low:
        rank = _RANK.match(line)
        if rank is not None and int(rank[1][:6]):
            return None  # of several processes in one replica, the first one counts
    if _MLLOG in line:
        return _of_mllog(line.partition(_MLLOG)[2])
    text = line.strip()
    if text.startswith("{") and text.endswith("}"):
        return _of_record(text)
    if "%|" in line and (bar := _TQDM.search(line)) is not None:
        return _of_bar(bar)
    if "•" in line and (bar := _RICH.search(line)) is not None:
        return _of_rich_bar(bar)
    return _of_text(line, low)


def _of_mllog(text: str) -> Reading | None:
    record = _json(text.strip())
    if record is None or not isinstance(record.get("key"), str):
        return None
    values: dict[str, Any] = {record["key"]: record.get("value")}
    metadata = record.get("metadata")
    if isinstance(metadata, dict) and "epoch_num" in metadata:
        values["epoch"] = metadata["epoch_num"]
    return _of_values(_numbers(values))


def _of_record(text: str) -> Reading | None:
    record = _json(text)
    if record is not None:
        return _of_values(_numbers(record))
    values = {name: float(value) for name, _, value in _ITEM.findall(text)}
    if values and not _OF_TRANSFORMERS.isdisjoint(values) and 0 <= values.get("epoch", -1.0) < _LARGEST:
        if "train_runtime" in values:
            values.pop("train_loss", None)  # the mean of the whole run, at its end
        done = values.pop("epoch")
        found = _of_values(values) or Reading()
        return msgspec.structs.replace(found, done_epochs=done)
    return _of_values(values)


def _json(text: str) -> dict[str, Any] | None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _numbers(record: dict[str, Any], prefix: str = "") -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, dict) and not prefix:
            found.update(_numbers(value, f"{name}/"))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[prefix + name] = _float(value)
        elif isinstance(value, str) and re.fullmatch(_NUMBER, value, re.IGNORECASE):
            found[prefix + name] = float(value)
    return found


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of more than 308 digits
        return math.inf


def _of_values(values: dict[str, float]) -> Reading | None:
    """Return the reading of named numbers, as logged by programs for programs."""
    metrics: dict[str, float] = {}
    where: dict[str, Any] = {}
    for name, value in values.items():
        low = name.lower().rpartition("/")[2]
        if low in ("epoch", "epoch_num", "current_epoch"):
            where.update(_epoch(value))
        elif low in _EPOCH_TOTALS:
            where["epochs"] = _count(value)
        elif low in _STEP_NAMES:
            where["step"] = value if math.isfinite(value) else None
        elif low in _STEP_TOTALS:
            where["steps"] = value if 0 < value < _LARGEST else None
        elif (metric := _metric(name)) is not None:
            metrics[metric] = value
    if where.get("steps"):
        where["scope"] = "run"
    return _reading(metrics, where, bare=True)


def _of_bar(bar: re.Match[str]) -> Reading | None:
    what = bar["what"]
    metrics, bare = _metrics(bar["rest"], what)
    if not _EVALUATION.isdisjoint(_SPLIT.split(what.lower())):
        return _reading(metrics, {}, bare=bare)
    step = _scaled(bar["step"], bar["unit"])
    steps = _scaled(bar["steps"], bar["units"])
    if what.strip().lower() == "epochs":
        return _reading(metrics, {"done_epochs": step, "epochs": _count(steps)}, bare=bare)
    where = _epoch_of(what)
    where.update(
        step=step, steps=steps, scope="epoch" if "epoch" in where else "", seconds_left=_seconds(bar["left"])
    )
    return _reading(metrics, where, bare=bare)


def _of_rich_bar(bar: re.Match[str]) -> Reading | None:
    what = bar.string[: bar.start()]
    metrics, bare = _metrics(bar["rest"], what)
    where = _epoch_of(what)
    if not where:
        return _reading(metrics, {}, bare=bare)  # of validation, or of anything else
    if where.get("epochs") is not None:
        where["epochs"] += 1  # Lightning's RichProgressBar names the last one: `Epoch 0/{max_epochs - 1}`
    where.update(
        step=float(bar["step"]), steps=float(bar["steps"]), scope="epoch", seconds_left=_seconds(bar["left"])
    )
    return _reading(metrics, where, bare=bare)


def _scaled(digits: str, unit: str) -> float:
    try:
        return float(digits) * _THOUSANDS[unit]
    except ValueError:
        return 0.0


def _seconds(text: str) -> float | None:
    parts = text.split(":")
    if not all(part.isdigit() and len(part) < 8 for part in parts):
        return None
    return float(sum(int(part) * 60**power for power, part in enumerate(reversed(parts))))


def _of_text(line: str, low: str) -> Reading | None:
    metrics, bare = _metrics(line, "")
    where: dict[str, Any] = {}
    if "epoch" in low:
        named = _EPOCHS.search(line)
        where = _epoch_of(line) if named is None else {"epochs": _count(float(named[1][:15]))}
    where.update(_step_of(line, low, "epoch" in where))
    if metrics and all(name.startswith("val_") for name in metrics):
        where = {name: value for name, value in where.items() if name == "epochs"}  # a step of the evaluation
    return _reading(metrics, where, bare=bare)


def _epoch_of(text: str) -> dict[str, Any]:
    found = _EPOCH.search(text)
    if found is None:
        return {}
    where = _epoch(float(found["epoch"][:15]))
    if where and found["epochs"]:
        where["epochs"] = _count(float(found["epochs"][:15]))
    return where


def _step_of(line: str, low: str, in_epoch: bool) -> dict[str, Any]:
    if "iteration" in low and (megatron := _MEGATRON.search(line)) is not None:
        return _steps(megatron, "run")
    if (keras := _KERAS.match(line)) is not None:
        return _steps(keras, "epoch")
    if low.startswith("[") and (boost := _BOOST.match(line)) is not None:
        return {"step": float(boost[1][:15])}
    found = _STEP.search(line) if "step" in low or "iter" in low or "batch" in low else None
    if found is not None and found["steps"]:
        return _steps(found, "epoch" if in_epoch else "")
    bracket = _BRACKET.search(line) if "[" in line else None
    if bracket is not None and "epoch" not in low[max(bracket.start() - 7, 0) : bracket.start()]:
        return _steps(bracket, "epoch" if in_epoch else "")
    return {"step": float(found["step"][:15])} if found is not None else {}


def _steps(found: re.Match[str], scope: Scope) -> dict[str, Any]:
    return {"step": float(found["step"][:15]), "steps": float(found["steps"][:15]), "scope": scope}


def _metrics(text: str, head: str) -> tuple[dict[str, float], bool]:
    """Return the metrics that stand in the text as pairs, and whether an accuracy among them has no unit."""
    metrics: dict[str, float] = {}
    bare = False
    if "ccuracy of " in text and (network := _NETWORK.search(text)) is not None:
        return {
            "val_accuracy" if "test" in network[0].lower() else "accuracy": float(network[1]) / 100
        }, False
    pairs = list(_PAIR.finditer(text))
    if not pairs:
        return metrics, bare
    head = head + text[: pairs[0].start("name")]
    evaluates = not _EVALUATION.isdisjoint(_SPLIT.split(head.lower()))
    for pair in pairs:
        name = _metric(pair["name"], evaluates=evaluates)
        if name is None or (pair["mark"].isspace() and name.removeprefix("val_") not in ("loss", "accuracy")):
            continue
        value = float(pair["value"])
        if name.endswith("accuracy"):
            of = pair["of"] or ""
            if of == "%" or "1" in pair["name"]:
                value /= 100
            elif of:
                value = value / float(of[1:][:15]) if float(of[1:][:15]) else math.nan
            else:
                bare = True
        metrics[name] = value
    if {"accuracy", "loss"} == set(metrics) and re.search(r"\b(avg|average) loss\b", text, re.IGNORECASE):
        # PyTorch's quick start: ` Accuracy: 55.9%, Avg loss: 1.2` is of the test data.
        metrics = {f"val_{name}": value for name, value in metrics.items()}
    return metrics, bare


def _metric(name: str, *, evaluates: bool = False) -> str | None:
    """Return the name under which a value is kept; None for one that is no metric."""
    low = name.lower()
    if low.rpartition(" ")[2] in _ACCURACIES:
        words = [*low.rpartition(" ")[0].split(), "accuracy"]
    else:
        words = [word for word in _SPLIT.split(low) if word]
    if not words:
        return None
    of_evaluation = evaluates or not _EVALUATION.isdisjoint(words)
    core = [word for word in words if word not in _EVALUATION and word not in _PLAIN]
    last = core[-1] if core else ""
    prefix = "val_" if of_evaluation else ""
    if last in _ACCURACIES or core[-2:] == ["acc", "1"]:
        return prefix + "accuracy"
    if core == ["loss"]:
        return prefix + "loss"
    if len(core) == 1 and last in _ERRORS:
        return prefix + last
    if last in ("ppl", "perplexity"):
        return prefix + "perplexity"
    return None


def _epoch(value: float) -> dict[str, Any]:
    if not 0 <= value < _LARGEST:
        return {}
    return {"epoch": int(value)} if value == int(value) else {"done_epochs": value}


def _count(value: float) -> int | None:
    return int(value) if 0 < value < _LARGEST else None


def _reading(
    metrics: dict[str, float], where: Iterable[Any] | dict[str, Any], *, bare: bool
) -> Reading | None:
    told = {name: value for name, value in dict(where).items() if value is not None and value != ""}
    if not metrics and not told:
        return None
    return Reading(metrics=metrics, is_bare=bare, **told)
