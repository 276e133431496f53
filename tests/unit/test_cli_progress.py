"""What the live view reads from log lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.sdk.progress import Progress, advance, epochs_of, sparkline


def feed(*lines: tuple[float, str], epochs: int = 1) -> Progress:
    progress = Progress(epochs=epochs)
    for now, line in lines:
        progress = advance(progress, line, now)
    return progress


def test_the_lines_of_the_pytorch_example_give_fraction_loss_and_eta() -> None:
    progress = feed(
        (100.0, "Train Epoch: 1 [0/60000 (0%)]\tloss=2.2908"),
        (110.0, "Train Epoch: 1 [15000/60000 (25%)]\tloss=1.5"),
    )
    assert progress.fraction == 0.25
    assert progress.losses == (2.2908, 1.5)
    assert progress.eta_seconds(110.0) == pytest.approx(30.0)
    assert progress.eta_seconds(120.0) == pytest.approx(20.0)


def test_several_epochs_count_from_the_first_one_seen() -> None:
    """A resumed run starts at epoch 3 of what it has been told to do."""
    progress = feed(
        (0, "Train Epoch: 3 [0/100 (0%)] loss=1"), (1, "Train Epoch: 4 [50/100 (50%)] loss=1"), epochs=2
    )
    assert progress.fraction == 0.75


@pytest.mark.parametrize(
    ("line", "accuracy"),
    [
        ("accuracy=0.7928", 0.7928),
        ("Test accuracy: 79.3%", 0.793),
        ("accuracy=0.79.", 0.79),
        ("nothing here", None),
    ],
)
def test_accuracy_is_read_as_a_share(line: str, accuracy: float | None) -> None:
    assert feed((0, line)).accuracy == pytest.approx(accuracy)


def test_no_pace_no_eta() -> None:
    assert feed((0, "Train Epoch: 1 [0/100 (0%)] loss=1")).eta_seconds(5) is None


@pytest.mark.parametrize(
    ("command", "epochs"), [("train.py --epochs=3", 3), ("train.py --epochs 12 -x", 12), ("train.py", 1)]
)
def test_epochs_of_a_command_line(command: str, epochs: int) -> None:
    assert epochs_of(command) == epochs


@given(st.lists(st.text(), max_size=20))
def test_any_log_text_is_survived(lines: list[str]) -> None:
    progress = Progress()
    for line in lines:
        progress = advance(progress, line, 0.0)
    assert 0.0 <= progress.fraction <= 1.0


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=200), st.integers(0, 60))
def test_a_sparkline_never_exceeds_its_width(values: list[float], width: int) -> None:
    assert len(sparkline(tuple(values), width)) <= max(width, 0)
