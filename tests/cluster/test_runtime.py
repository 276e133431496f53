"""Containers of the sandbox runtime on this kernel: what one is given, what it sees and leaves, and how it ends.

Left out: kernels that refuse (their messages are in `tests/unit/test_doctor.py`).
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from tests.cluster.sandboxes import PATH, Sandboxes, log_text, until
from tests.processes import is_running, resident_bytes
from trainshed.cluster.sandbox.api import (
    Layer,
    Mount,
    SandboxNotFound,
    StartError,
)


async def test_writes_stay_in_the_pod_and_volumes_do_not(boxes: Sandboxes, tmp_path: Path) -> None:
    volume, readable = tmp_path / "volume", boxes.home / "pods" / "below-the-mask"
    volume.mkdir()
    readable.mkdir()
    (readable / "key").write_text("value")
    mark = f"trainshed-{os.getpid()}"
    script = f"""
        for d in / /usr /etc /home /tmp /var/tmp /run; do touch $d/{mark} || echo "refused $d"; done
        echo kept > /data/deep/file; cat /config/key; touch /config/x 2>/dev/null || echo read-only
        ls {boxes.home} 2>/dev/null | wc -l; ls /usr/share | wc -l
    """
    state, output = await boxes.run(
        "writer",
        *("sh", "-c", script),
        mounts=(Mount(str(volume), "/data/deep"), Mount(str(readable), "/config", read_only=True)),
        masked=(str(boxes.home), "/usr/share"),
    )
    assert (state.exit_code, output) == (0, "valueread-only\n0\n0\n")
    assert (volume / "file").read_text() == "kept\n"
    for directory in ("/", "/usr", "/etc", "/home", "/tmp", "/var/tmp", "/run"):
        assert not Path(directory, mark).exists()
    await boxes.runtime.remove_sandbox("writer")
    assert not (boxes.home / "pods" / "writer").exists()
    assert list((boxes.home / "run" / "addresses").iterdir()) == []


async def test_each_attempt_has_a_fresh_root(boxes: Sandboxes) -> None:
    await boxes.pod("again")
    for attempt in (0, 1):
        await boxes.start("again", "sh", "-c", "ls /mine /usr/mine; touch /mine /usr/mine", attempt=attempt)
        await boxes.end("again", attempt=attempt)
    assert boxes.output("again").count("cannot access") == 4
    (state,) = await boxes.runtime.list()
    assert [one.attempt for one in state.containers] == [1, 0]


@pytest.mark.parametrize(
    ("script", "exit_code", "number"),
    [("exit 0", 0, None), ("exit 3", 3, None), ("kill -9 $$; sleep 9", 137, 9)],
)
async def test_exit_codes(boxes: Sandboxes, script: str, exit_code: int, number: int | None) -> None:
    """A signal to itself does nothing to process 1, so the last case is a child that is waited for."""
    if number:
        await boxes.pod("ends")
        await boxes.start("ends", "sleep", "60")
        await boxes.runtime.signal_container("ends", "c", number)
        state = await boxes.end("ends")
    else:
        state, _ = await boxes.run("ends", "sh", "-c", script)
    assert (state.exit_code, state.signal) == (exit_code, number)
    with pytest.raises(SandboxNotFound):
        await boxes.runtime.signal_container("ends", "c", 15)


HOG = """
import os, sys, time
held = bytearray(int(sys.argv[1]) << 20)
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        break
print("there", flush=True)
time.sleep(60)
"""
SHARED = """
import os, sys, time
held = bytearray(int(sys.argv[1]) << 20)
said, say = os.pipe()
end, hold = os.pipe()
children = int(sys.argv[2])
for _ in range(children):
    if os.fork() == 0:
        os.close(hold)
        os.write(say, b"x")
        os.read(end, 1)
        os._exit(0)
for _ in range(children):
    os.read(said, 1)
print("all there", flush=True)
time.sleep(1)  # so that they are looked at several times
os.close(hold)
for _ in range(children):
    os.wait()
"""


@pytest.mark.parametrize("children", [0, 1], ids=["process 1", "beside a child"])
async def test_who_holds_more_than_the_limit_is_killed(boxes: Sandboxes, children: int) -> None:
    limit = 100 << 20
    state, _ = await boxes.run("hog", "python3", "-c", HOG, "150", str(children), memory_limit=limit)
    assert (state.exit_code, state.signal) == (137, 9)
    assert limit < state.held_bytes < 2 * limit
    (seen,) = await boxes.runtime.list()
    assert seen.containers[0].held_bytes == state.held_bytes, "it is on disk"


IN_FILES = """
import mmap, sys, time
with open("/dev/shm/data", "w+b") as file:
    for _ in range(int(sys.argv[1])):
        file.write(bytes(1 << 20))
    file.flush()
    if sys.argv[2:]:
        mapped = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED)
        print(sum(mapped[at] for at in range(0, len(mapped), 4096)), flush=True)
    time.sleep(1.5)  # so that it is looked at several times
"""


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [(("150",), 137), (("60",), 0), (("60", "mapped"), 0)],
    ids=["more", "less", "mapped"],
)
async def test_what_is_in_shared_memory_counts_once(
    boxes: Sandboxes, words: tuple[str, ...], exit_code: int
) -> None:
    state, _ = await boxes.run("shm", "python3", "-c", IN_FILES, *words, memory_limit=100 << 20)
    assert state.exit_code == exit_code
    assert (state.held_bytes > 100 << 20) is (exit_code != 0)


async def test_pages_that_forked_processes_share_count_once(boxes: Sandboxes) -> None:
    limit = 200 << 20
    state, output = await boxes.run("share", "python3", "-c", SHARED, "100", "4", memory_limit=limit)
    assert (state.exit_code, state.held_bytes) == (0, 0)
    assert output == "all there\n", "five processes with 100 MiB each, the same"


async def test_sigterm_reaches_process_1_and_the_others_die_with_it(boxes: Sandboxes) -> None:
    await boxes.pod("term")
    script = "trap 'echo bye; exit 5' TERM; sleep 1000 & echo ready; wait"
    await boxes.start("term", "sh", "-c", script)

    async def is_ready() -> bool:
        return boxes.output("term") == "ready\n"

    await until("the trap", is_ready)
    await boxes.runtime.signal_container("term", "c", signal.SIGTERM)
    state = await boxes.end("term")
    assert (state.exit_code, boxes.output("term")) == (5, "ready\nbye\n")


async def test_commands_that_do_not_start(boxes: Sandboxes) -> None:
    await boxes.pod("bad")
    cases = {
        "foo": (127, 'exec: "foo": executable file not found in $PATH'),
        "/no/foo": (127, 'exec: "/no/foo": stat /no/foo: no such file or directory'),
        "/etc/passwd": (126, 'exec: "/etc/passwd": permission denied'),
    }
    for command, expected in cases.items():
        with pytest.raises(StartError) as caught:
            await boxes.start("bad", command)
        assert (caught.value.exit_code, caught.value.message) == expected
    with pytest.raises(StartError, match="/missing: no such file") as caught:
        await boxes.start("bad", "true", mounts=(Mount("/missing", "/x"),))
    assert caught.value.exit_code == 128
    # The same attempt may be made again, and a started one is not started twice.
    first = await boxes.start("bad", "sleep", "60")
    assert await boxes.start("bad", "sleep", "60") == first


async def test_what_a_container_is_given(boxes: Sandboxes) -> None:
    script = "id -u; id -g; pwd; hostname; echo $GREETING; grep NoNewPrivs /proc/self/status; touch /x"
    state, output = await boxes.run(
        "given",
        *("sh", "-c", script),
        env=(PATH, ("GREETING", "hello")),
        cwd="/made/for/it",
        uid=1000,
        gid=1001,
        no_new_privs=True,
        read_only_root=True,
    )
    assert output.splitlines()[:6] == ["1000", "1001", "/made/for/it", "given", "hello", "NoNewPrivs:\t1"]
    assert "Read-only file system" in output
    assert state.exit_code == 1


async def test_volumes_of_a_read_only_root_can_be_written_wherever_they_are(
    boxes: Sandboxes, tmp_path: Path
) -> None:
    """At a directory that the root has, and below another that is hidden, and read-only, by now."""
    volumes = [Mount(str(tmp_path / name), f"/{name}") for name in ("opt", "var/tmp", "home")]
    for volume in volumes:
        Path(volume.source).mkdir(parents=True)
    (tmp_path / "layer").mkdir()
    script = "for each in /opt /var/tmp /home /hidden/deep /usr /; do touch $each/x 2>/dev/null && echo $each; done"
    _, output = await boxes.run(
        *("volumes", "sh", "-c", script),
        mounts=tuple(volumes),
        layers=(Layer(str(tmp_path / "layer"), "/hidden/deep"),),
        masked=("/hidden",),
        read_only_root=True,
    )
    assert output == "/opt\n/var/tmp\n/home\n"


async def test_capabilities_and_the_kernel_are_out_of_reach(boxes: Sandboxes) -> None:
    script = """
        grep CapEff /proc/self/status
        mount -t tmpfs none /mnt 2>/dev/null || echo no mount
        echo 1 2>/dev/null > /proc/sys/vm/drop_caches || echo no sysctl
        ps -e | wc -l
    """
    _, output = await boxes.run("weak", "sh", "-c", script)
    # Docker's default set; and ps sees the shell, itself, wc and its own header only.
    assert output == "CapEff:\t00000000a80425fb\nno mount\nno sysctl\n4\n"


async def test_layers_lie_over_the_host_and_are_not_written(boxes: Sandboxes, tmp_path: Path) -> None:
    image, addon = tmp_path / "image", tmp_path / "addon"
    (image / "usr/share").mkdir(parents=True)
    (image / "opt-of-image").mkdir()
    addon.mkdir()
    (image / "usr/share/from-image").write_text("image\n")
    (image / "opt-of-image/file").write_text("new\n")
    (addon / "module").write_text("addon\n")
    script = """
        cat /usr/share/from-image /opt-of-image/file /tmp/addon/module; ls /usr/bin/env
        echo changed > /tmp/addon/module; echo changed > /usr/share/from-image; cat /tmp/addon/module
    """
    layers = (Layer(str(image), "/"), Layer(str(addon), "/tmp/addon"))
    _, output = await boxes.run("layered", "sh", "-c", script, layers=layers)
    assert output == "image\nnew\naddon\n/usr/bin/env\nchanged\n"
    assert (addon / "module").read_text() == "addon\n"
    assert (image / "usr/share/from-image").read_text() == "image\n"


async def test_a_directory_of_the_machines_tmp_is_laid_where_it_is(boxes: Sandboxes) -> None:
    """As the Python environment is that the cluster itself runs in, when it lies there."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder, "module").write_text("here\n")
        Path(folder + ".beside").mkdir()
        try:
            script = f"cat {folder}/module; ls -d /tmp/{Path(folder).name}*"
            _, output = await boxes.run("own", "sh", "-c", script, layers=(Layer(folder, folder),))
            assert output == f"here\n{folder}\n", "and nothing else of the machine's"
        finally:
            Path(folder + ".beside").rmdir()


async def test_termination_message(boxes: Sandboxes) -> None:
    script = "echo -n because > /dev/termination-log; exit 1"
    state, _ = await boxes.run("why", "sh", "-c", script, uid=1000)
    assert state.message == "because"


async def test_privileged_containers_and_devices(boxes: Sandboxes) -> None:
    script = "mount -t tmpfs none /mnt && echo mounted"
    _, output = await boxes.run("strong", "sh", "-c", script, privileged=True)
    assert output == "mounted\n"
    device = next(path for path in ("/dev/net/tun", "/dev/fuse", "/dev/rtc0") if Path(path).exists())
    _, output = await boxes.run("device", "sh", "-c", f"[ -c {device} ] && echo there", devices=(device,))
    assert output == "there\n"
    with pytest.raises(StartError, match="/dev/not-there"):
        await boxes.run("none", "true", devices=("/dev/not-there",))


async def test_stop_ends_everything_in_the_pod(boxes: Sandboxes) -> None:
    await boxes.pod("stop")
    container = await boxes.start("stop", "sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000")
    await boxes.runtime.stop_sandbox("stop")
    await boxes.runtime.stop_sandbox("stop")
    assert container.pid is not None
    assert not is_running(container.pid)
    (state,) = await boxes.runtime.list()
    assert (state.alive, state.pid, state.containers[0].exit_code) == (False, 0, 137)
    assert list((boxes.home / "run" / "addresses").iterdir()) == []


PROCESSES = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"


async def test_a_container_beside_another_sees_its_processes_and_ends_by_itself(boxes: Sandboxes) -> None:
    """As `kubectl debug --target`: what it leaves behind ends with it, and it ends with the other one."""
    await boxes.pod("debug")
    await boxes.start("debug", "sh", "-c", "sleep 1001 & echo up; wait")
    await boxes.start("debug", "sleep", "1003", name="apart", log_path=f"{boxes.home}/apart.log")
    log = f"{boxes.home}/beside.log"
    script = f"{PROCESSES}; test -e /proc/1/root/etc/hosts && echo; setsid sleep 1002 & exit 3"
    beside = {"name": "beside", "beside": "c", "log_path": log}
    await boxes.start("debug", "sh", "-c", script, **beside)
    assert (await boxes.end("debug", "beside")).exit_code == 3
    seen = log_text(Path(log))
    assert "sleep 1001" in seen and "sleep 1003" not in seen

    async def is_alone() -> bool:
        _, output = await boxes.exec("debug", "sh", "-c", PROCESSES)
        return b"sleep 1001" in output and b"sleep 1002" not in output

    await until("what it left behind to end", is_alone)
    await boxes.start("debug", "sleep", "1004", **{**beside, "attempt": 1})
    await boxes.runtime.signal_container("debug", "c", signal.SIGKILL)
    assert (await boxes.end("debug", "beside", 1)).exit_code == 137
    await boxes.end("debug")
    with pytest.raises(OSError, match="container c does not run"):
        await boxes.start("debug", "true", **{**beside, "attempt": 2})


async def test_containers_that_share_processes(boxes: Sandboxes) -> None:
    """They see and may end each other; process 1 is none of theirs, and shows them nothing."""
    await boxes.pod("shared", share_processes=True)
    other = {"name": "other", "log_path": f"{boxes.home}/other.log"}
    await boxes.start("shared", "sh", "-c", "sleep 1001 & echo $$; wait")
    await boxes.start("shared", "sleep", "1002", **other, add_caps=("SYS_PTRACE",))

    async def said() -> bool:
        return boxes.output("shared").endswith("\n")

    await until("the container to say its number", said)
    code, output = await boxes.exec(
        "shared", "sh", "-c", f"{PROCESSES}; ls /proc/1/root; kill -9 1; cat /proc/1/environ"
    )
    assert code and b"sleep 1001" in output and b"sleep 1002" in output
    assert b"'/proc/1/root': Permission denied" in output and b"/proc/1/environ: Permission denied" in output

    async def has_told_its_number() -> bool:
        return boxes.output("shared").endswith("\n")

    await until("the shell's number", has_told_its_number)
    assert int(boxes.output("shared")) > 1
    await boxes.exec("shared", "pkill", "-f", "sleep 1002")
    assert (await boxes.end("shared", "other")).exit_code == 143
    await boxes.runtime.signal_container("shared", "c", signal.SIGKILL)
    assert (await boxes.end("shared")).exit_code == 137
    await boxes.start("shared", "sh", "-c", PROCESSES, attempt=1)
    await boxes.end("shared", attempt=1)
    assert "sleep" not in boxes.output("shared"), "what the first attempt left behind has ended"

    async def little_is_held() -> bool:
        return (await boxes.runtime.usage("shared")).memory_bytes < 1 << 20

    await until("process 1 to be all that is left, which counts for nobody", little_is_held)


async def test_usage(boxes: Sandboxes) -> None:
    await boxes.pod("busy")
    script = "data = bytearray(50 << 20)\nfor _ in range(10**7): pass\nprint('done', flush=True)\ninput()"
    await boxes.start("busy", "python3", "-c", script, stdin=True)

    async def is_done() -> bool:
        return boxes.output("busy") == "done\n"

    await until("the loop to end", is_done)
    usage = await boxes.runtime.usage("busy")
    assert usage.memory_bytes > 50 << 20
    assert usage.cpu_seconds > 0.05
    assert list(usage.containers) == ["c"] and usage.network is not None
    await boxes.start("busy", "sleep", "60", name="idle")
    both = (await boxes.runtime.usage("busy")).containers
    assert both["c"].cpu_seconds > 0.05 > both["idle"].cpu_seconds
    assert both["c"].rss_bytes > 50 << 20 > both["idle"].memory_bytes


async def test_cost_of_a_shim(boxes: Sandboxes) -> None:
    """A shim takes 12 MB at most, three quarters of them shared with the others. It starts within 30 ms on
    an idle machine (5 to 10 ms measured); the bound leaves room for a busy one.
    """
    times = []
    for number in range(8):
        begin = time.perf_counter()
        state = await boxes.pod(f"cost-{number}")
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.100
    assert resident_bytes(state.pid) <= 12 * 2**20
