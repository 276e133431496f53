"""Log files of containers: nothing lost, nothing reordered, whatever the pieces are."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.cluster.sandbox.daemon.crilog import MAX_PART, CriLog, timestamp

pieces = st.lists(
    st.tuples(
        st.sampled_from([b"stdout", b"stderr"]),
        st.one_of(
            st.lists(st.sampled_from([b"a", b"\n", b"word", b"\r"]), max_size=20).map(b"".join),
            st.integers(0, 3 * MAX_PART).map(lambda size: b"x" * size),
        ),
    ),
    max_size=12,
)


def read(path: Path) -> dict[bytes, bytes]:
    """Return what each stream had, from a log file and its predecessors."""
    found = {b"stdout": b"", b"stderr": b""}
    files = [Path(f"{path}.{number}") for number in (4, 3, 2, 1)]
    for file in [*(name for name in files if name.exists()), path]:
        data = file.read_bytes()
        assert data == b"" or data.endswith(b"\n")
        for line in data.split(b"\n")[:-1]:
            _, stream, tag, text = line.split(b" ", 3)
            assert len(text) <= MAX_PART
            found[stream] += text + (b"\n" if tag == b"F" else b"")
    return found


@given(pieces)
def test_every_byte_is_there(written: list[tuple[bytes, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "log")
        log = CriLog(str(path))
        for stream, data in written:
            log.write(stream, data, 0)
        log.end(0)
        log.close()
        found = read(path)
    for name in (b"stdout", b"stderr"):
        assert found[name] == b"".join(data for stream, data in written if stream == name)


def test_format(tmp_path: Path) -> None:
    log = CriLog(str(tmp_path / "log"))
    log.write(b"stdout", b"one\ntw", 1_700_000_000_123_456_789)
    log.write(b"stderr", b"e\n", 1_700_000_001_000_000_000)
    log.write(b"stdout", b"o\nlast", 1_700_000_002_000_000_001)
    log.end(1_700_000_003_000_000_000)
    log.close()
    assert (tmp_path / "log").read_text().splitlines() == [
        "2023-11-14T22:13:20.123456789Z stdout F one",
        "2023-11-14T22:13:21.000000000Z stderr F e",
        "2023-11-14T22:13:22.000000001Z stdout F two",
        "2023-11-14T22:13:23.000000000Z stdout P last",
    ]


def test_the_frames_of_a_progress_bar_are_there_before_its_line_ends(tmp_path: Path) -> None:
    log = CriLog(str(tmp_path / "log"))
    written = [
        (b"stderr", b"\r 10%"),
        (b"stdout", b"loss 1\n"),
        (b"stderr", b"\r 20%"),
        (b"stderr", b" of it\n"),
    ]
    for stream, data in [*written, (b"stdout", b"no end")]:
        log.write(stream, data, 0)
    assert [line.split(" ", 1)[1] for line in (tmp_path / "log").read_bytes().decode().split("\n")[:-1]] == [
        "stderr P \r 10%",
        "stdout F loss 1",
        "stderr P \r 20%",
        "stderr F  of it",
    ]
    log.close()


def test_rotation_keeps_five_files_and_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = CriLog(str(path), limit=1000)
    for number in range(200):
        log.write(b"stdout", f"line {number}\n".encode(), 0)
    log.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log", "log.1", "log.2", "log.3", "log.4"]
    lines = read(path)[b"stdout"].decode().splitlines()
    assert lines == [f"line {number}" for number in range(200 - len(lines), 200)]
    assert all(file.stat().st_size <= 1000 for file in tmp_path.iterdir())


def test_a_new_log_goes_on_in_the_old_file(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        log = CriLog(str(tmp_path / "log"))
        log.write(b"stdout", text, 0)
        log.close()
    assert read(tmp_path / "log")[b"stdout"] == b"one\ntwo\n"


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = CriLog(str(tmp_path / "log"))
    room = 40
    write = os.write

    def limited(fd: int, data: bytes) -> int:
        nonlocal room
        if room == 0:
            raise OSError(28, "No space left on device")
        written = write(fd, data[:room])
        room -= written
        return written

    monkeypatch.setattr(os, "write", limited)
    log.write(b"stdout", b"first\nsecond\n", 0)
    blocked = [log.blocked]
    room = 10_000
    log.flush()
    assert [*blocked, log.blocked] == [True, False]
    log.close()
    assert read(tmp_path / "log")[b"stdout"] == b"first\nsecond\n"


def test_timestamp() -> None:
    assert timestamp(1) == b"1970-01-01T00:00:00.000000001Z"
