"""How far a job is, by several lines of its log: figures that are right, or none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_sdk_logformats import PIECES
from trainshed.sdk.progress import Progress, advance, epochs_of, first_told, sparkline


def feed(*lines: tuple[float, str], epochs: int | None = None) -> Progress:
    progress = Progress(epochs=epochs)
    for now, line in lines:
        progress = advance(progress, line, now)
    return progress


def test_the_lines_of_the_pytorch_example_give_fraction_loss_and_eta() -> None:
    progress = feed(
        (100.0, "Train Epoch: 1 [0/60000 (0%)]\tloss=2.2908"),
        (110.0, "Train Epoch: 1 [15000/60000 (25%)]\tloss=1.5"),
        epochs=1,
    )
    assert progress.fraction == 0.25
    assert progress.losses == (2.2908, 1.5)
    assert progress.eta_seconds(110.0) == pytest.approx(30.0)
    assert progress.eta_seconds(120.0) == pytest.approx(20.0)
    assert progress.eta_seconds(100.0) == pytest.approx(30.0), "a clock that is behind"


def test_epochs_that_nobody_counts_give_no_share_of_the_run_and_no_eta() -> None:
    progress = feed((0, "Train Epoch: 1 [0/100 (0%)]"), (10, "Train Epoch: 2 [50/100 (50%)]"))
    assert (progress.fraction, progress.eta_seconds(10)) == (None, None)
    assert (progress.epoch, progress.part) == (2, 0.5)


@pytest.mark.parametrize(
    ("first", "epochs", "fraction"),
    [
        (0, 4, 0.375),  # counted from 0: the second of four
        (1, 4, 0.375),
        (3, 2, 0.75),  # the example's: two more epochs, after two of an earlier run
        (3, 10, None),  # the third of ten, or the first of ten more
        (1, 1, None),  # more epochs than there are: the count means something else
    ],
)
def test_epochs_count_from_the_first_of_the_run(first: int, epochs: int, fraction: float | None) -> None:
    lines = ((0, f"Train Epoch: {first} [0/100 (0%)]"), (1, f"Train Epoch: {first + 1} [50/100 (50%)]"))
    assert feed(*lines, epochs=epochs).fraction == fraction


def test_steps_that_go_on_from_epoch_to_epoch_are_of_the_run() -> None:
    progress = feed((0, "Epoch [1/2], Step [100/600]"), (1, "Epoch [2/2], Step [400/600], Loss: 1"))
    assert progress.fraction == pytest.approx(400 / 600)
    assert feed((0, "Epoch [1/2], Step [100/600]"), (1, "Epoch [2/2], Step [90/600]")).fraction == 0.575


def test_an_epoch_with_its_loss_in_one_line_is_done() -> None:
    progress = feed((0, "Epoch 1/4 loss: 2"), (10, "Epoch 2/4 loss: 1"))
    assert (progress.fraction, progress.eta_seconds(10)) == (0.5, pytest.approx(20))
    assert feed((0, "Epoch 1/4"), (10, "Epoch 2/4")).fraction == 0.25, "a heading"


def test_the_pace_is_that_between_changes() -> None:
    """Steps of an epoch that is not counted say nothing of the pace."""
    progress = feed((0, "epoch=0 step=1"), (100, "epoch=1 step=2"), (190, "epoch=1 step=3"), epochs=10)
    assert progress.eta_seconds(190) == pytest.approx(810)


def test_transformers_count_epochs_themselves() -> None:
    progress = feed(
        (0, "{'loss': '4', 'learning_rate': '1e-3', 'epoch': '0.5'}"),
        (1, " 50%|█████     | 8/16 [00:01<00:01,  8it/s]"),
        (2, "{'loss': '2', 'learning_rate': '1e-3', 'epoch': '1'}"),
        (2, "{'eval_loss': '9', 'eval_accuracy': '0.25', 'epoch': '1'}"),
        (4, "{'train_runtime': '4', 'train_loss': '3', 'epoch': '1'}"),
        epochs=2,
    )
    assert (progress.fraction, progress.losses, progress.accuracy) == (0.5, (4.0, 2.0), 0.25)


def test_a_bar_of_nobody_knows_what_says_its_own_time() -> None:
    progress = feed((0, " 45%|████▌     | 45/100 [00:10<00:12,  4.40it/s]"))
    assert (progress.fraction, progress.part, progress.part_eta_seconds(5)) == (None, 0.45, 7)


def test_a_run_that_begins_anew_has_a_new_pace() -> None:
    lines = ("iteration 50/ 100 |", "iteration 60/ 100 |", "iteration 50/ 100 |", "iteration 55/ 100 |")
    progress = feed(*zip((0, 10, 1000, 1010), lines, strict=True))
    assert progress.eta_seconds(1010) == pytest.approx(90)


@pytest.mark.parametrize(
    ("lines", "accuracy"),
    [
        (["accuracy=0.7928"], 0.7928),
        (["Test accuracy: 79.3%"], 0.793),
        (["Accuracy: 9836/10000 (98%)"], 0.9836),
        (["Acc: 98.5"], 0.985),
        (["Acc: 98.5", "Acc: 0.9"], 0.009),  # percentages, as the first one shows
        (["accuracy: 1234"], None),
        (["accuracy: -1"], None),
        (["accuracy: nan"], None),
        (["Accuracy: 5/0"], None),
        (["val_accuracy: 0.5", "accuracy: 0.9"], 0.5),  # of what is not trained on
        (["nothing here"], None),
    ],
)
def test_accuracy_is_a_share(lines: list[str], accuracy: float | None) -> None:
    assert feed(*((0, line) for line in lines)).accuracy == (
        accuracy if accuracy is None else pytest.approx(accuracy)
    )


def test_the_curve_is_of_the_training_loss_or_of_the_error_without_one() -> None:
    assert feed((0, "loss: 1"), (0, "Test set: Average loss: 9")).losses == (1.0,)
    boosted = feed((0, "[0]\ttrain-rmse:0.5\teval-rmse:0.6"), (1, "[1]\ttrain-rmse:0.4\teval-rmse:0.7"))
    assert (boosted.loss_name, boosted.losses) == ("rmse", (0.5, 0.4))
    assert math.isnan(feed((0, "loss: 1"), (0, "loss: nan")).losses[-1])


def test_no_pace_no_eta() -> None:
    assert feed((0, "Train Epoch: 1 [0/100 (0%)] loss=1"), epochs=1).eta_seconds(5) is None


def test_of_several_replicas_the_first_that_tells_is_shown() -> None:
    silent, told = Progress(epochs=3), feed((0, "loss: 1"))
    assert first_told([silent, told, feed((0, "loss: 2"))]) is told
    assert first_told([silent]) is None


@pytest.mark.parametrize(
    ("command", "epochs"),
    [
        ("train.py --epochs=3", 3),
        ("train.py --epochs 12 -x", 12),
        ("train.py --num_train_epochs 3", 3),
        ("train.py --max-epochs=5", 5),
        ("train.py trainer.max_epochs=7", 7),
        ("yolo epochs=9", 9),
        ("train.py -e 4", 4),
        ("train.py --start-epoch 4", None),
        ("train.py --epochs=three", None),
        ("train.py", None),
    ],
)
def test_epochs_of_a_command_line(command: str, epochs: int | None) -> None:
    assert epochs_of(command) == epochs


@given(
    st.lists(st.one_of(st.text(), st.lists(PIECES, max_size=20).map("".join)), max_size=20), st.integers(0, 3)
)
def test_any_log_text_is_survived_and_never_a_wrong_figure(lines: list[str], epochs: int) -> None:
    progress = Progress(epochs=epochs or None)
    for now, line in enumerate(lines):
        progress = advance(progress, line, float(now))
    assert progress.fraction is None or 0.0 <= progress.fraction <= 1.0
    assert progress.part is None or 0.0 <= progress.part <= 1.0
    assert progress.accuracy is None or 0.0 <= progress.accuracy <= 1.0
    assert (progress.eta_seconds(99.0) or 0.0) >= 0.0


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=200), st.integers(0, 60))
def test_a_sparkline_never_exceeds_its_width(values: list[float], width: int) -> None:
    assert len(sparkline(tuple(values), width)) <= max(width, 0)


@pytest.mark.parametrize(("printed", "accuracy"), [("1", 1.0), ("1.5", 0.015), ("100", 1.0), ("101", None)])
def test_a_bare_accuracy_above_one_is_a_percentage(printed: str, accuracy: float | None) -> None:
    assert feed((0, f"accuracy={printed}")).accuracy == accuracy


def test_what_is_no_percentage_makes_none_of_what_follows() -> None:
    assert feed((0, "accuracy=100.5"), (1, "accuracy=0.5")).accuracy == 0.5
