"""Streams of containers: exec, attach, standard input and terminals, on the real kernel."""

from __future__ import annotations

import pytest

from tests.cluster.sandboxes import PATH, Sandboxes, until, within
from trainshed.cluster.sandbox.api import (
    ExecSpec,
    SandboxNotFound,
    StartError,
)


async def test_exec(boxes: Sandboxes) -> None:
    await boxes.pod("exec")
    await boxes.start("exec", "sleep", "60", env=(PATH, ("A", "1")))
    assert await boxes.exec("exec", "sh", "-c", "cat; exit 3", stdin=b"hello") == (3, b"hello")
    assert await boxes.exec("exec", "sh", "-c", "echo $A; kill -9 $$") == (137, b"1\n")
    code, output = await boxes.exec("exec", "sh", "-c", "tty && cat /proc/1/comm", tty=True)
    assert (code, output) == (0, b"/dev/pts/0\r\nsleep\r\n")
    with pytest.raises(StartError) as caught:
        await boxes.exec("exec", "foo")
    assert caught.value.exit_code == 127
    with pytest.raises(SandboxNotFound):
        await boxes.runtime.exec("exec", ExecSpec(container="other", argv=("true",)))


async def test_exec_ends_when_the_client_hangs_up(boxes: Sandboxes) -> None:
    await boxes.pod("hang")
    await boxes.start("hang", "sleep", "60")
    argv = ("sh", "-c", "trap 'echo hung up > /proc/1/fd/1; exit' HUP; echo on; sleep 60 & wait")
    session = await boxes.runtime.exec("hang", ExecSpec(container="c", argv=argv))
    output = session.output()
    assert await anext(output) == (1, b"on\n")
    await session.close()

    async def has_hung_up() -> bool:
        return boxes.output("hang") == "hung up\n"

    await until("SIGHUP in the pod", has_hung_up)


async def test_attach_and_stdin(boxes: Sandboxes) -> None:
    await boxes.pod("stdin")
    await boxes.start("stdin", "sh", "-c", "cat; echo end >&2", stdin=True, stdin_once=True)
    session = await boxes.runtime.attach("stdin", "c", stdin=True)
    await session.write_stdin(b"line\n")
    await session.close_stdin()
    async with within("the end of the attached container"):
        received = [frame async for frame in session.output()]
        assert await session.wait() == 0
    assert received == [(1, b"line\n"), (2, b"end\n")]
    assert boxes.output("stdin") == "line\nend\n"
    await session.close()


@pytest.mark.parametrize("once", [True, False], ids=["run -i", "debug -i"])
async def test_the_first_client_gets_what_was_printed_before(boxes: Sandboxes, once: bool) -> None:
    """As `kubectl run -i` and `debug -i` need it, which attach when the container runs already."""
    await boxes.pod("early")
    await boxes.start("early", "sh", "-c", "echo early; read x; echo late", stdin=True, stdin_once=once)

    async def has_printed() -> bool:
        return boxes.output("early") == "early\n"

    await until("the first line", has_printed)
    first = await boxes.runtime.attach("early", "c", stdin=False)
    second = await boxes.runtime.attach("early", "c", stdin=True)
    await second.write_stdin(b"\n")
    async with within("the end of the attached container"):
        assert [data async for _, data in first.output()] == [b"early\n", b"late\n"]
        assert [data async for _, data in second.output()] == [b"late\n"]
    await first.close()
    await second.close()


async def test_terminal_container(boxes: Sandboxes) -> None:
    await boxes.pod("tty")
    await boxes.start(
        "tty", "sh", "-c", "read x; stty size; echo got $x; ls /dev/console", tty=True, stdin=True
    )
    session = await boxes.runtime.attach("tty", "c", stdin=True)
    await session.resize(100, 30)
    await session.write_stdin(b"word\n")
    async with within("the end of the terminal's container"):
        received = b"".join([data async for _, data in session.output()])
    assert received == b"word\r\n30 100\r\ngot word\r\n/dev/console\r\n"
    await session.close()
