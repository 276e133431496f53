"""What single log lines say: a table of the formats that people's programs print, and that no text is too odd."""

from __future__ import annotations

import math
import timeit
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.sdk.logformats import Reading, last_frame, read

NAN = math.nan
KERAS = "\x1b[1m4/4\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m0s\x1b[0m 10ms/step - loss: 0.1963 - mae: 0.3"
MEGATRON = (
    " [2026-01-01 00:00:00] iteration       10/     100 | consumed samples:          320 | elapsed time per iteration"
    " (ms): 12.3 | learning rate: 1.5E-04 | global batch size:    32 | lm loss: 9.12E+00 | loss scale: 1.0 |"
    " grad norm: 1.2 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
IMAGENET = (
    "Epoch: [3][ 10/5005]\tTime  0.1 ( 0.2)\tData  0.0 ( 0.1)\tLoss 6.98e+00 (6.99e+00)"
    "\tAcc@1   0.50 (  0.10)\tAcc@5   1.00 (  2.00)"
)
MLLOG = ':::MLLOG {"time_ms":1,"key":"eval_accuracy","value":0.7,"metadata":{"epoch_num":1}}'

LINES: list[tuple[str, dict[str, float], dict[str, Any]]] = [
    # PyTorch's examples and tutorials
    (
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.2",
        {"loss": 2.2},
        {"epoch": 1, "step": 640, "steps": 60000, "scope": "epoch"},
    ),
    (
        "Test set: Average loss: 0.0275, Accuracy: 9836/10000 (98%)",
        {"val_loss": 0.0275, "val_accuracy": 0.9836},
        {},
    ),
    (
        IMAGENET,
        {"loss": 6.98, "accuracy": 0.005},
        {"epoch": 3, "step": 10, "steps": 5005, "scope": "epoch"},
    ),
    (
        "Epoch [1/5], Step [100/600], Loss: 0.5",
        {"loss": 0.5},
        {"epoch": 1, "epochs": 5, "step": 100, "steps": 600, "scope": "epoch"},
    ),
    ("loss: 2.303494  [   64/60000]", {"loss": 2.303494}, {"step": 64, "steps": 60000}),
    (" Accuracy: 55.9%, Avg loss: 1.234567", {"val_accuracy": 0.559, "val_loss": 1.234567}, {}),
    ("Accuracy of the network on the 10000 test images: 55 %", {"val_accuracy": 0.55}, {}),
    # transformers: values are in quotes since 5
    (
        "{'loss': '4.167', 'grad_norm': '1.109', 'learning_rate': '4.063e-05', 'epoch': '0.25'}",
        {"loss": 4.167},
        {"done_epochs": 0.25},
    ),
    (
        "{'loss': 4.167, 'grad_norm': 1.109, 'learning_rate': 4.063e-05, 'epoch': 0.25}",
        {"loss": 4.167},
        {"done_epochs": 0.25},
    ),
    (
        "{'loss': nan, 'grad_norm': nan, 'learning_rate': 4e-05, 'epoch': 1.0}",
        {"loss": NAN},
        {"done_epochs": 1.0},
    ),
    (
        "{'eval_loss': '0.5', 'eval_accuracy': '0.91', 'eval_runtime': '1.2', 'epoch': '1'}",
        {"val_loss": 0.5, "val_accuracy": 0.91},
        {"done_epochs": 1.0},
    ),
    ("{'train_runtime': '10.1', 'train_loss': '2.5', 'epoch': '3'}", {}, {"done_epochs": 3.0}),
    ("  Num Epochs = 3", {}, {"epochs": 3}),
    # bars
    ("100%|██████████| 16/16 [00:00<00:00, 152.1it/s]", {}, {"step": 16, "steps": 16, "seconds_left": 0}),
    (
        " 45%|████▌     | 45/100 [01:10<01:12,  4.40it/s, loss=0.123]",
        {"loss": 0.123},
        {"step": 45, "steps": 100, "seconds_left": 72},
    ),
    (
        " 44%|████▍  | 44/100 [00:10<00:13,  4it/s, loss=0.2]\r 45%|████▌  | 45/100 [00:10<00:12,  4.4it/s, loss=0.1]",
        {"loss": 0.1},
        {"step": 45, "steps": 100, "seconds_left": 12},
    ),
    (
        "Epoch 0:  50%|█████     | 5/10 [00:00<00:07, 20.00it/s, v_num=0, train_loss=0.5]",
        {"loss": 0.5},
        {"epoch": 0, "step": 5, "steps": 10, "scope": "epoch", "seconds_left": 7},
    ),
    ("Epochs:  30%|███       | 3/10 [00:10<?, 1.0s/it]", {}, {"done_epochs": 3, "epochs": 10}),
    (" 2%|▏  | 1.20k/60.0k [00:10<08:12, 120it/s]", {}, {"step": 1200, "steps": 60000, "seconds_left": 492}),
    ("Validation DataLoader 0: 100%|██████████| 4/4 [00:00<00:00, 99.0it/s]", {}, {}),
    # Lightning's own bar, by Rich, where the last epoch stands for their number
    (
        "Epoch 0/1  ━━━━━━━━━━╸━━━━━ 45/63 0:00:01 • 0:00:12 61.10it/s v_num: 0.000 train_loss: 0.123",
        {"loss": 0.123},
        {"epoch": 0, "epochs": 2, "step": 45, "steps": 63, "scope": "epoch", "seconds_left": 12},
    ),
    (
        "\x1b[37mEpoch 2\x1b[0m ━━━━━━━━━━━━━━━━ 1/63 0:00:00 • -:--:-- 0.00it/s",
        {},
        {"epoch": 2, "step": 1, "steps": 63, "scope": "epoch"},
    ),
    ("Validation ━━━━━━━━━━━━━━━━ 4/4 0:00:00 • 0:00:00 99.00it/s val_loss: 0.5", {"val_loss": 0.5}, {}),
    ("                                                             -3.555 val_loss:", {}, {}),
    # Keras
    ("Epoch 3/10", {}, {"epoch": 3, "epochs": 10}),
    (KERAS, {"loss": 0.1963, "mae": 0.3}, {"step": 4, "steps": 4, "scope": "epoch"}),
    (
        "4/4 - 0s - 10ms/step - accuracy: 0.9 - loss: 0.2 - val_accuracy: 0.85 - val_loss: 0.25",
        {"accuracy": 0.9, "loss": 0.2, "val_accuracy": 0.85, "val_loss": 0.25},
        {"step": 4, "steps": 4, "scope": "epoch"},
    ),
    # others
    ("[2]\ttrain-rmse:0.20198\teval-rmse:0.20298", {"rmse": 0.20198, "val_rmse": 0.20298}, {"step": 2}),
    (MEGATRON, {"loss": 9.12}, {"step": 10, "steps": 100, "scope": "run"}),
    (MLLOG, {"val_accuracy": 0.7}, {"epoch": 1}),
    ("iter 120: loss 2.3021, time 30.2ms, mfu 2.1%", {"loss": 2.3021}, {"step": 120}),
    ("step 250: train loss 2.1, val loss 2.3", {"loss": 2.1, "val_loss": 2.3}, {"step": 250}),
    ("INFO global_step: 12 | ppl: 33.1 | lr: 1e-3", {"perplexity": 33.1}, {"step": 12}),
    # JSON lines
    (
        '{"epoch": 2, "step": 40, "loss": 0.3, "accuracy": 0.8}',
        {"loss": 0.3, "accuracy": 0.8},
        {"epoch": 2, "step": 40},
    ),
    (
        '{"train": {"loss": 1.5}, "global_step": 7, "max_steps": 70}',
        {"loss": 1.5},
        {"step": 7, "steps": 70, "scope": "run"},
    ),
    ('{"loss": NaN, "level": "info"}', {"loss": NAN}, {}),
    # pairs
    ("loss=nan", {"loss": NAN}, {}),
    ("train-loss: NaN", {"loss": NAN}, {}),
    ("Loss: -Infinity", {"loss": -math.inf}, {}),
    ("epoch=3 train/loss=0.25", {"loss": 0.25}, {"epoch": 3}),
    ("accuracy=0.8752", {"accuracy": 0.8752}, {}),
    ("Test accuracy: 79.3%", {"val_accuracy": 0.793}, {}),
    ("accuracy=0.79.", {"accuracy": 0.79}, {}),
    # of several processes in one replica, the first
    ("[rank0]: loss 0.5", {"loss": 0.5}, {}),
    ("[rank1]: loss 0.5", {}, {}),
    # what only looks like it
    ("nothing 1/2 here", {}, {}),
    ("error code 5 in loss.py:12", {}, {}),
    ("loss scale: 65536", {}, {}),
    ("the accuracy is unknown", {}, {}),
    ("lossy=3 glossiness=4", {}, {}),
]


@pytest.mark.parametrize(("line", "metrics", "where"), LINES, ids=[line[:40] for line, *_ in LINES])
def test_what_a_line_says(line: str, metrics: dict[str, float], where: dict[str, Any]) -> None:
    reading = read(line)
    if not metrics and not where:
        assert reading is None
        return
    assert reading is not None
    assert reading.metrics == pytest.approx(metrics, nan_ok=True)
    told = msgspec.structs.asdict(reading)
    defaults = msgspec.structs.asdict(Reading())
    assert {n: v for n, v in told.items() if v != defaults[n] and n not in ("metrics", "is_bare")} == where


@pytest.mark.parametrize(
    ("line", "shown"), [("a", "a"), ("a\r", "a"), ("10%\r20%", "20%"), ("10%\r20%\r", "20%"), ("\r", "")]
)
def test_the_last_frame_of_a_bar_counts(line: str, shown: str) -> None:
    assert last_frame(line) == shown


PIECES = st.sampled_from(
    [
        *[
            "loss",
            "accuracy",
            "Acc@1",
            "epoch",
            "Epoch:",
            "step",
            "iteration",
            "val_",
            "train",
            "test",
            ":::MLLOG",
        ],
        *[
            "{",
            "}",
            "'",
            '"',
            ":",
            "=",
            " ",
            "/",
            "|",
            "%|",
            "[",
            "]",
            "[00:01<00:02",
            "it/s",
            "\r",
            "\x1b[1m",
            ",",
            "-",
        ],
        *[
            "0",
            "1",
            "9" * 400,
            "1e999",
            "-3.5",
            "nan",
            "inf",
            "1.",
            ".5",
            "²",
            "\u0661",
            "[rank1]",
            "[rank99999999999]",
        ],
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join)))
def test_any_text_is_survived(line: str) -> None:
    reading = read(line)
    assert reading is None or (reading.steps or 0) >= 0


@pytest.mark.parametrize(
    "piece", ["[" * 9, "loss ", "1" * 9, "a-", "{'loss': ", '{"a":', "1/", "epoch [", "  "]
)
def test_a_long_line_takes_no_long_time(piece: str) -> None:
    """Nothing in the patterns may take quadratic time of what a pod prints: so much is looked at, no more."""
    line = "loss {" + piece * 100_000 + "}"
    assert min(timeit.repeat(lambda: read(line), number=1, repeat=3)) < 0.2
