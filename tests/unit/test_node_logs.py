"""CRI log files and the options of kubectl logs."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import times
from trainshed.cluster.backend import LogRequest
from trainshed.cluster.node.pod import logs
from trainshed.cluster.node.pod.logs import CHUNK, parse, read_logs, tail_text
from trainshed.cluster.sandbox.daemon.crilog import CriLog

STAMP = "2026-01-31T12:00:{:02d}.123456789Z"


def line(text: str, second: int = 0, stream: str = "stdout", tag: str = "F") -> bytes:
    return f"{STAMP.format(second)} {stream} {tag} {text}\n".encode()


async def collect(path, ended=lambda: True, **options) -> bytes:
    blocks = [b async for b in read_logs(path, LogRequest(container="main", **options), ended=ended)]
    return b"".join(blocks)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(line(f"l{n}", n) for n in range(5)))
    return path


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, "l0\nl1\nl2\nl3\nl4\n"),
        ({"tail_lines": 2}, "l3\nl4\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 99}, "l0\nl1\nl2\nl3\nl4\n"),
        ({"limit_bytes": 4}, "l0\nl"),
        ({"limit_bytes": 0}, ""),
        ({"since": 1769860803.0}, "l3\nl4\n"),
        ({"since": 1769860803.2}, "l4\n"),
        ({"tail_lines": 1, "timestamps": True}, STAMP.format(4) + " l4\n"),
        ({"tail_lines": 3, "since": 1769860804.0}, "l4\n"),
    ],
)
async def test_options(log, options, expected):
    assert (await collect(log, **options)).decode() == expected


async def test_partial_records_are_one_line(tmp_path):
    path = tmp_path / "0.log"
    path.write_bytes(
        line("a", tag="P") + line("b", tag="P") + line("c") + line("", stream="stderr") + line("d")
    )
    assert await collect(path) == b"abc\n\nd\n"
    assert await collect(path, tail_lines=3, timestamps=True) == (
        f"{STAMP.format(0)} abc\n{STAMP.format(0)} \n{STAMP.format(0)} d\n".encode()
    )


async def test_a_line_that_another_stream_interrupts_leaves_that_one_whole(tmp_path):
    """A progress bar on stderr, metrics on stdout: what is drawn over itself is shown as far as it got."""
    path = tmp_path / "0.log"
    path.write_bytes(
        line("\r10%", 1, "stderr", "P")
        + line('{"loss": 1}', 2)
        + line("\r20%", 3, "stderr", "P")
        + line("\r30%", 4, "stderr", "P")
        + line("", 5, "stderr")
    )
    assert await collect(path) == b'\r10%\n{"loss": 1}\n\r20%\r30%\n'
    assert await collect(path, tail_lines=2) == b'{"loss": 1}\n\r20%\r30%\n'
    stamps = (await collect(path, timestamps=True)).replace(b"\r", b"").splitlines()
    assert [text.split(b" ", 1)[0].decode() for text in stamps] == [STAMP.format(n) for n in (1, 2, 3)]


async def test_rotated_files_come_first(tmp_path):
    path = tmp_path / "0.log"
    (tmp_path / "0.log.2").write_bytes(line("a") + line("b"))
    (tmp_path / "0.log.1").write_bytes(line("c"))
    path.write_bytes(line("d"))
    assert await collect(path) == b"a\nb\nc\nd\n"
    assert await collect(path, tail_lines=3) == b"b\nc\nd\n"


async def test_no_file_is_no_output(tmp_path):
    assert await collect(tmp_path / "0.log") == b""


def test_foreign_lines_are_left_out():
    assert parse(b"garbage") is None and parse(b"") is None
    entry = parse(line("x y", stream="stderr").rstrip(b"\n"))
    assert entry is not None and entry.text == b"x y\n"


@times(0.5)
@given(st.lists(st.text(alphabet="ab ", max_size=3000), max_size=80), st.integers(0, 90))
async def test_tail_equals_the_end_of_everything(tmp_path_factory, texts, count):
    """Also across the window in which the reader looks for the place to start."""
    path = tmp_path_factory.mktemp("log") / "0.log"
    path.write_bytes(b"".join(line(t) for t in texts))
    expected = "".join(f"{t}\n" for t in (texts[-count:] if count else []))
    assert (await collect(path, tail_lines=count)).decode() == expected


async def test_tail_of_a_big_log_reads_its_end_only(tmp_path):
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(line(f"{n:06d}") for n in range(20 * CHUNK // 40)))
    assert (await collect(path, tail_lines=2)).decode().split() == ["032766", "032767"]
    assert tail_text(path, 2, 4) == "767\n"


async def test_following_shows_what_is_appended_and_ends_with_the_container(log):
    ended = False
    got: asyncio.Queue[bytes] = asyncio.Queue()

    async def follow():
        async for block in read_logs(log, LogRequest("main", follow=True, tail_lines=1), ended=lambda: ended):
            got.put_nowait(block)

    task = asyncio.create_task(follow())
    async with asyncio.timeout(5):
        assert await got.get() == b"l4\n"
        with log.open("ab") as file:
            file.write(line("new"))
        assert await got.get() == b"new\n"
        with log.open("ab") as file:
            file.write(line("half")[:-3])
            file.flush()
            file.write(line("half")[-3:] + line("last"))
            ended = True
        rest = b""
        while not rest.endswith(b"last\n"):
            rest += await got.get()
        assert rest == b"half\nlast\n"
        await task


async def test_following_ends_once_the_container_is_known_to_have_ended(log, monkeypatch):
    """Which is after the last change of the file: nothing else would wake the reader."""
    monkeypatch.setattr(logs, "LOOK_AGAIN_SECONDS", 3600)
    ended = False
    listeners = set()
    reading = asyncio.Event()

    async def follow():
        request = LogRequest("main", follow=True, tail_lines=1)
        async for _ in read_logs(log, request, ended=lambda: ended, listeners=listeners):
            reading.set()

    async with asyncio.timeout(30):
        task = asyncio.create_task(follow())
        await reading.wait()
        for _ in range(3):
            await asyncio.sleep(0)
        ended = True
        for tell in tuple(listeners):
            tell()
        await task
    assert not listeners


async def test_following_survives_rotation(log):
    ended = False
    blocks = []
    started = asyncio.Event()

    async def follow():
        async for block in read_logs(log, LogRequest("main", follow=True, tail_lines=1), ended=lambda: ended):
            blocks.append(block)
            started.set()

    task = asyncio.create_task(follow())
    async with asyncio.timeout(5):
        await started.wait()
        with log.open("ab") as file:
            file.write(line("before"))
        log.rename(log.with_name("0.log.1"))
        log.write_bytes(line("after"))
        ended = True
        await task
    assert b"".join(blocks) == b"l4\nbefore\nafter\n"


@pytest.mark.parametrize("between_reads", [2, 15])
async def test_a_reader_that_is_slower_than_the_container_misses_no_file(tmp_path, between_reads):
    """Files that are put aside while it reads, or while its client waits, are read in their order, deleted ones too."""
    path = tmp_path / "0.log"
    log = CriLog(str(path), limit=1000)
    written, number = b"", 0

    async def print_files(files: int) -> None:
        nonlocal written, number
        for _ in range(files):
            for _ in range(20):
                text = b"line %d\n" % number
                log.write(b"stdout", text, 1_700_000_000_000_000_000)
                written, number = written + text, number + 1
            for _ in range(2):
                await asyncio.sleep(0)  # a turn of the loop, in which it hears of the new file

    await print_files(3)
    over = False
    reader = read_logs(path, LogRequest(container="", follow=True), ended=lambda: over)
    seen = await anext(reader)
    for _ in range(6):
        await print_files(between_reads)  # five are kept
        seen += await anext(reader)
    over = True
    log.close()
    assert seen + b"".join([block async for block in reader]) == written


async def test_following_a_log_that_does_not_exist_yet(tmp_path):
    path = tmp_path / "0.log"
    ended = False

    async def write():
        nonlocal ended
        path.write_bytes(line("hello"))
        ended = True

    task = asyncio.create_task(collect(path, ended=lambda: ended, follow=True))
    await asyncio.sleep(0)
    await write()
    async with asyncio.timeout(5):
        assert await task == b"hello\n"
