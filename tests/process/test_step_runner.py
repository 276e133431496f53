"""The step runner as a process, with a real kernel: the examples from end to end, failures, workers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.fakes.preloaded import Preloaded, preloaded
from tests.unit.notebook_builder import Cell, compiled
from tests.unit.test_pipelines_baselines import ROOT, example
from trainshed.cluster.node.volumes import atomic
from trainshed.cluster.node.volumes.files import File
from trainshed.pipelines.ir import Pipeline, Step, program
from trainshed.pipelines.runner import rendezvous
from trainshed.sdk.notebook import load
from trainshed.sdk.pipelineruns.ended import failure_in
from trainshed.testing import until

DEADLINE = 240
RUNNER = ("-m", "trainshed.pipelines.runner")


def arguments(folder: Path, pipeline: Pipeline, step: Step, *more: str) -> list[str]:
    """Return the runner's arguments for a step whose data lies in the folder."""
    file = folder / f"{step.name}.json"
    file.write_text(json.dumps(program(step, pipeline.parameters)))
    given = ["--program", file, "--data", folder / "data", "--run-name", "r", "--work", folder / "files"]
    given += ["--results", folder / "results", "--report", folder / f"{step.name}.html"]
    return [*map(str, given), *more]


started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """End what a failed test leaves behind."""
    yield
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    started.clear()


def worker(index: int) -> list[str]:
    """Return the arguments of one of two workers that are tasks."""
    return ["--worker", str(index), "--workers", "2"]


NOT_THE_STEPS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "PYTEST_CURRENT_TEST")
"""ipykernel leaves the process's own streams alone where pytest's last variable is set."""


def start(command: Sequence[str], **env: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if k not in NOT_THE_STEPS}
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | {"OMP_NUM_THREADS": "1"} | env,
    )
    started.append(process)
    return process


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        stdout, stderr = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"waited {DEADLINE} s for the step to end") from None
    return process.returncode, stdout, stderr


def run(folder: Path, pipeline: Pipeline, step: Step, *more: str) -> tuple[int, str, str]:
    return finish(start([*RUNNER, *arguments(folder, pipeline, step, *more)]))


def run_all(folder: Path, pipeline: Pipeline, *more: str) -> dict[str, str]:
    """Run every step; return what each printed."""
    printed = {}
    for step in pipeline.steps:
        code, stdout, stderr = run(folder, pipeline, step, *more)
        assert code == 0, f"{step.name}: {stderr}"
        printed[step.name] = stdout
    return printed


FILE = """from trainshed.pipelines import pipeline, step

@step
def load(count):
    return [0] * count

def mean(rows):
    return sum(rows) / len(rows)

@step
def total(rows):
    return mean(rows)

@pipeline
def sums(count: int = 2):
    total(load(count))
"""


def test_a_step_of_functions_fails_at_a_line_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(FILE)
    pipeline = load(tmp_path / "sums.py").checked()
    (tmp_path / "sums.py").unlink()
    assert run(tmp_path, pipeline, pipeline.step("load"), "--param", "count=0")[0] == 0
    code, _, stderr = run(tmp_path, pipeline, pipeline.step("total"))
    assert code == 1
    assert "error: step total, file sums.py, line 8: ZeroDivisionError: division by zero" in stderr
    failure = failure_in("total", stderr.splitlines())
    assert failure is not None
    assert failure.lines()[0] == "step total failed, sums.py, line 8: ZeroDivisionError: division by zero"
    assert [line for line in failure.traceback if "return mean(rows)" in line or "len(rows)" in line]


def test_candies(tmp_path: Path) -> None:
    pipeline = example("candies.ipynb").checked()
    printed = run_all(tmp_path, pipeline, "--param", "CANDIES=30")
    assert printed["sack"] == "The sack holds 30 candies.\n"
    left = 30
    for name in ("kid1", "kid2", "kid3"):
        match = re.match(r"Took (\d+) of (\d+)\.", printed[name]) or re.match(
            r"The sack is (empty)\.", printed[name]
        )
        assert match is not None
        if match[1] != "empty":
            assert int(match[2]) == left
            left -= int(match[1])
    assert f"Left: {left}\n" in printed["kid3"]


def test_parameters_and_metrics(tmp_path: Path) -> None:
    pipeline = example("parameters-and-metrics.ipynb").checked()
    run_all(tmp_path, pipeline, "--param", "d1=2")
    results = {file.name: json.loads(file.read_text()) for file in (tmp_path / "results").iterdir()}
    assert (results["d1"], results["d2"]) == (2, 6)
    assert 0 < results["sum-result"] < 12
    manifest = json.loads((tmp_path / "data/create_matrix/manifest.json").read_text())
    assert [(e["name"], e["backend"]) for e in manifest["entries"]] == [("rnd_matrix", "numpy")]


def test_every_kind_of_line(tmp_path: Path) -> None:
    printed = run_all(tmp_path, example("every-kind-of-line.ipynb", "tests/notebooks").checked())
    assert "hello from the shell" in printed["shell"]
    assert printed["last"].startswith("hello from bash")


CELLS: tuple[Cell, ...] = (
    ("markdown", "# Title"),
    ("functions", "def divide(a, b):\n    return a / b"),
    ("step:a", "print('before')\nx = 1"),
    ("", "y = 2\ndivide(x, 0)"),
    ("", "print('after')"),
    ("step:b prev:a", "print(x)"),
)


def test_a_failing_block_ends_the_step(tmp_path: Path) -> None:
    pipeline = compiled(*CELLS).checked()
    code, stdout, stderr = run(tmp_path, pipeline, pipeline.step("a"))
    assert (code, stdout) == (1, "before\n")
    assert stderr.splitlines()[0] == "error: step a, cell 4, line 2: ZeroDivisionError: division by zero"
    assert "In[4], line 2" in stderr
    assert "In[2], line 2" in stderr, "the cell of the function"
    assert not (tmp_path / "data").exists(), "nothing is saved"
    report = (tmp_path / "a.html").read_text()
    assert "ZeroDivisionError" in report
    assert "before" in report


def test_a_long_path_of_temporary_files_leaves_room_for_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a pod of plain processes; a path of a socket has 107 bytes at most (unix(7))."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    pipeline = compiled(("step:a", "import tempfile\nprint(tempfile.gettempdir())")).checked()
    assert run(tmp_path, pipeline, pipeline.step("a"))[:2] == (0, f"{long}\n")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import threading\nx = threading.Lock()", "cannot save x (_thread.lock, step a, cell 1): "),
        ("import os\nos._exit(3)\nx = 1", "step a, cell 1: the kernel died"),
    ],
)
def test_why_a_step_failed(source: str, words: str, tmp_path: Path) -> None:
    pipeline = compiled(("step:a", source), ("step:b prev:a", "print(x)")).checked()
    code, _, stderr = run(tmp_path, pipeline, pipeline.step("a"))
    assert code == 1
    assert words in stderr
    assert "Traceback" not in stderr


def test_a_step_that_is_told_to_end_says_so(tmp_path: Path) -> None:
    source = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
    pipeline = compiled(("step:a", source)).checked()
    process = start([*RUNNER, *arguments(tmp_path, pipeline, pipeline.steps[0])])
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    code, _, stderr = finish(process)
    assert (code, stderr) == (1, "error: step a stops: it was told to end\n")


def waiting(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start the runner of a step whose turn is to come; return it once it waits, and the volume that tells it."""
    volume = folder / "program-volume"
    atomic.write(volume, {"ready": File(b"")})
    pipeline = compiled(("step:a", "print('begun')\nopen('effect', 'w').close()")).checked()
    more = ["--ready", str(volume / "ready")]
    process = start([*RUNNER, *arguments(folder, pipeline, pipeline.steps[0], *more)])
    until(lambda: is_watched(process.pid), "the runner waits", 60)
    return process, volume


def is_watched(pid: int) -> bool:
    """Return whether a process is told of changes of files."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if "inotify" in str(link.readlink()):
                return True
        except FileNotFoundError:
            continue  # closed since it was listed
    return False


def test_a_step_begins_when_its_turn_has_come(tmp_path: Path) -> None:
    process, volume = waiting(tmp_path)
    assert not list((tmp_path / "files").iterdir())
    shutil.rmtree(tmp_path / "files")  # the step before it may make its directory anew
    (tmp_path / "files").mkdir()
    atomic.write(volume, {"ready": File(b"READY")})
    assert finish(process) == (0, "begun\n", "")
    assert (tmp_path / "files/effect").exists()


def test_a_step_whose_turn_never_comes_leaves_nothing(tmp_path: Path) -> None:
    process, _ = waiting(tmp_path)
    process.send_signal(signal.SIGTERM)
    assert finish(process) == (1, "", "")
    assert not list((tmp_path / "files").iterdir())
    assert not (tmp_path / "a.html").exists()


KERNEL = """import atexit, mine, sys
assert not [name for name in sys.modules if name.startswith("debugpy")]
import debugpy
print(mine.where, sys.argv[0], sys.modules["__main__"].__dict__ is globals())
done = atexit.register(lambda: open("left", "w").close())"""


PAST_PYTHON = """
import os, subprocess, sys
os.system("echo of a shell")
subprocess.run(["printf", "of a program\\n"])
subprocess.run(["printf", "where it is told to\\n"], stdout=sys.stdout)
os.write(2, b"of C\\n")
written = os.write(1, ("가" * 2000 + "\\n").encode())
"""


def test_what_is_written_past_python_arrives_once(tmp_path: Path) -> None:
    pipeline = compiled(("step:a", PAST_PYTHON)).checked()
    code, stdout, stderr = run(tmp_path, pipeline, pipeline.steps[0])
    assert (code, stderr) == (0, "of C\n")
    words = ["of a program", "of a shell", "where it is told to", "가" * 2000]
    assert sorted(stdout.splitlines()) == words
    assert (tmp_path / "a.html").read_text().count("of a program\n") == 1


def test_the_kernel_is_like_any_other_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a fork of the runner, whose modules, directory and end are not the step's."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files/mine.py").write_text("where = 'in the working directory'")
    (tmp_path / "mine.py").write_text("where = 'where the runner was started'")
    monkeypatch.chdir(tmp_path)
    pipeline = compiled(("step:a", KERNEL)).checked()
    code, stdout, stderr = run(tmp_path, pipeline, pipeline.step("a"))
    assert (code, stdout) == (0, "in the working directory ipykernel_launcher.py True\n"), stderr
    assert (tmp_path / "files/left").exists(), "what the step registered runs at its end"


CLOSING = """from ipykernel.kernelapp import IPKernelApp
IPKernelApp.instance().reset_io = lambda: open("closed", "w").close()"""


def test_the_kernel_ends_without_taking_leave_of_its_threads(tmp_path: Path) -> None:
    """What ipykernel does there waits for a thread that may wait for another one that has ended."""
    pipeline = compiled(("step:a", CLOSING)).checked()
    code, _, stderr = run(tmp_path, pipeline, pipeline.steps[0])
    assert code == 0, stderr
    assert not (tmp_path / "files/closed").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--param", "n=many"), "parameter n: must be int, not 'many'"),
        (("--param", "n"), "--param n: write NAME=VALUE"),
        (("--program", "/nowhere.json"), "No such file"),
    ],
)
def test_wrong_usage(more: tuple[str, ...], words: str, tmp_path: Path) -> None:
    pipeline = compiled(("pipeline-parameters", "n = 1"), ("step:a", "print(n)")).checked()
    code, _, stderr = run(tmp_path, pipeline, pipeline.steps[0], *more)
    assert code == 2
    assert words in stderr


def test_missing_data_is_named(tmp_path: Path) -> None:
    pipeline = compiled(("step:a", "x = 1"), ("step:b prev:a", "print(x)")).checked()
    code, _, stderr = run(tmp_path, pipeline, pipeline.step("b"))
    assert code == 1
    assert "cannot load x: step a has saved nothing" in stderr


@pytest.fixture(scope="module")
def torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preloaded]:
    with preloaded(tmp_path_factory.mktemp("torch") / "own", "torch.distributed") as libraries:
        yield libraries


def train(
    folder: Path, libraries: Preloaded, launches: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> float:
    """Run the example with its training step started as `launches` say; return the error of the model."""
    pipeline = example("distributed-pytorch.ipynb").checked()
    data, distributed, evaluate = pipeline.steps
    assert libraries.run(arguments(folder, pipeline, data))[0] == 0
    given = arguments(folder, pipeline, distributed)
    workers = [start([*before, *RUNNER, *given, *after], NUM_WORKERS="2") for before, after in launches]
    for code, _, stderr in map(finish, workers):
        assert code == 0, stderr
    assert libraries.run(arguments(folder, pipeline, evaluate))[0] == 0
    return float((folder / "results/error").read_text())


def test_ddp_under_torchrun(tmp_path: Path, torch: Preloaded) -> None:
    """As the containers of a PyTorchJob run it: each rank has a kernel, the first saves."""
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    assert train(tmp_path, torch, [(launch, ())]) < 0.01


def test_ddp_with_workers_as_tasks(tmp_path: Path, torch: Preloaded) -> None:
    """As two tasks run it, which find one another in the run's directory."""
    workers = [((), ("--strategy", "DDP", *worker(index))) for index in range(2)]
    assert train(tmp_path, torch, workers) < 0.01


def test_a_worker_that_fails_ends_the_others(tmp_path: Path) -> None:
    source = "import os, time\nif os.environ['WORKER_INDEX'] == '1':\n    1 / 0\ntime.sleep(600)"
    pipeline = compiled(("step:t distribute:JAX numWorkers:2", source)).checked()
    workers = [
        start(
            [*RUNNER, *arguments(tmp_path, pipeline, pipeline.steps[0], "--strategy", "JAX"), *worker(index)]
        )
        for index in range(2)
    ]
    (first, _, said), (second, _, reason) = map(finish, workers)
    assert (first, second) == (1, 1)
    assert said == "error: step t stops: worker 1 failed\n"
    assert "ZeroDivisionError" in reason


def test_workers_meet_once_all_are_there(tmp_path: Path) -> None:
    (tmp_path / "worker-1.failed").touch()
    found: list[list[str]] = []
    threads = [
        threading.Thread(
            target=lambda i=i: found.append(
                rendezvous.meet(tmp_path, i, 3, f"10.0.0.{i}", timeout=20, poll=0.01)
            )
        )
        for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [["10.0.0.0", "10.0.0.1", "10.0.0.2"]] * 3
    assert not list(tmp_path.glob("*.failed"))


def test_a_command_imports_what_it_needs() -> None:
    """Commands start fast: nothing of Jupyter for a plain notebook, and to run one no store and no rules of jobs."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from trainshed.sdk.notebook import load\n"
        f"assert load(Path({str(ROOT / 'examples/notebooks/titanic.ipynb')!r})).pipeline is not None\n"
        "import trainshed.cli.notebook, trainshed.sdk.pipelineruns.follow, trainshed.sdk.pipelineruns.start\n"
        "heavy = {'nbformat', 'IPython', 'jupyter_client', 'kfp', 'cloudpickle', 'numpy', 'sqlite3',\n"
        "    'trainshed.cluster.store', 'trainshed.jobs.v1', 'trainshed.operator', 'trainshed.kube.builtin'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


_START = """
import asyncio, sys
from pathlib import Path
from queue import Empty
from jupyter_client.channels import AsyncZMQSocketChannel
from trainshed.pipelines.runner import kernel

kernel._CONNECTED_SECONDS = 60.0  # a loaded machine is late, and that is not what is looked for
manager = kernel.fork(Path(sys.argv[1]), "")
waited = []
get = AsyncZMQSocketChannel.get_msg

async def told(channel, *given, **more):
    try:
        return await get(channel, *given, **more)
    except Empty:
        waited.append(channel)
        raise

AsyncZMQSocketChannel.get_msg = told

async def main():
    await kernel.listens(manager)
    client = manager.client()
    client.start_channels()
    asked, ask = [], client.kernel_info
    client.kernel_info = lambda: asked.append(ask()) or asked[-1]
    await client.wait_for_ready(60)
    print(len(asked), len(waited), client._hb_channel)
    await manager.shutdown_kernel()
    client.stop_channels()

asyncio.run(main())
"""


def test_a_kernel_is_ready_once_it_answers_and_nobody_waits_for_silence(tmp_path: Path) -> None:
    """One question, no wait that comes to its end, and no thread that asks for signs of life."""
    code, out, err = finish(start(["-c", _START, str(tmp_path)]))
    assert (code, out.split()) == (0, ["1", "0", "None"]), err
