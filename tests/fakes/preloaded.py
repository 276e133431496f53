"""Steps in forks of one process that has large libraries loaded: a second of import is paid once, not per step.

    python -m tests.fakes.preloaded MODULE…

reads a line of JSON per step, [arguments, file for stdout, file for stderr], and answers with its exit code.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class Preloaded:
    """Runs the step runner in a fork of a process that has imported some modules."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder

    def run(self, arguments: Sequence[str]) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr of a step."""
        out, err = self._folder / "stdout", self._folder / "stderr"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([list(arguments), str(out), str(err)]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process with the libraries has ended"
        return int(answer), out.read_text(), err.read_text()


@contextmanager
def preloaded(folder: Path, *modules: str) -> Iterator[Preloaded]:
    """Yield what runs steps; `folder` is for its own files."""
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Threads of a numerical library do not survive a fork.
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    with process:
        try:
            yield Preloaded(process, folder)
        finally:
            process.kill()


def main(modules: Sequence[str]) -> None:
    """Serve steps until stdin ends."""
    for name in (*modules, "trainshed.pipelines.runner.__main__"):
        importlib.import_module(name)
    for line in sys.stdin:
        arguments, out, err = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run(arguments, out, err)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(arguments: Sequence[str], out: str, err: str) -> None:
    from trainshed.pipelines.runner.__main__ import main as step

    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    sys.exit(step(arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
