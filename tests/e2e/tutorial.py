"""Runs a tutorial as it stands in the docs: writes its files, executes its commands, compares what they print.

    ```yaml file=NAME      writes the block to NAME in the working directory; ${HOME} is filled in
    ```console             each `$ ` line is a command; the lines after it must appear in its output, in order
    ```console wait=N      the block's commands are tried again for up to N seconds until the output fits

Output is compared word by word; `…` stands for anything. Commands run in one bash each, sharing variables that are
assigned at the start of a line and what `source` and `eval` did, in the working directory; a command that fails ends
the tutorial unless the expected lines still match (a tutorial may show an error).
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from tests.tutorial import Block, blocks, commands, missing_line

_COMMAND_SECONDS = 300


class Mismatch(AssertionError):
    """The docs promise something that did not happen."""


class Tutorial:
    """One run of a tutorial. `environment` holds PATH, HOME, KUBECONFIG and the like; `left_out` is not run."""

    def __init__(self, path: Path, folder: Path, environment: dict[str, str], *, left_out: str = "") -> None:
        self._path = path
        self._left_out = left_out
        self._folder = folder
        self._environment = environment
        self._shell: list[str] = []
        self.transcript: list[str] = []

    def run(self) -> None:
        """Execute everything. Raises Mismatch that names the line, the command and what it printed."""
        for block in blocks(self._path.read_text()):
            if "file" in block.options:
                text = block.text.replace("${HOME}", self._environment["HOME"])
                (self._folder / block.options["file"]).write_text(text)
            elif block.language == "console":
                self._console(block)

    def _console(self, block: Block) -> None:
        deadline = time.monotonic() + float(block.options.get("wait", 0))
        for command in commands(block.text):
            if command.text.partition(" ")[0] == self._left_out:
                continue
            while True:
                output = self._execute(command.text)
                lacking = missing_line(command.expected, output)
                if lacking is None:
                    break
                if time.monotonic() >= deadline:
                    raise Mismatch(
                        f"{self._path.name}:{block.line}: $ {command.text}\n"
                        f"does not print: {lacking}\n--- output\n{output}"
                    )
                time.sleep(0.5)  # a poll with a deadline, as a reader would look again

    def _execute(self, text: str) -> str:
        assignment = re.match(r"^([A-Z_]+)=\$\((.*)\)$", text)
        script = f'{text}\necho "${assignment[1]}"' if assignment else text
        before = "".join(f"{line} >/dev/null 2>&1\n" for line in self._shell)
        done = subprocess.run(
            ["bash", "-c", before + script],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMMAND_SECONDS,
        )
        self.transcript.append(f"$ {text}\n{done.stdout}")
        if assignment:
            self._environment[assignment[1]] = done.stdout.strip()
        if re.match(r"(source|eval) ", text):
            self._shell.append(text)
        return done.stdout


def environment_for(
    kubectl: Path, tools: Path, home: Path, kubeconfig: Path, venv_bin: Path
) -> dict[str, str]:
    """Return the environment of a reader who has this kubectl, the project's environment and nothing else special."""
    tools.mkdir(exist_ok=True)
    link = tools / "kubectl"
    if not link.exists():
        link.symlink_to(kubectl)
    return {
        "PATH": f"{tools}:{venv_bin}:{os.environ['PATH']}",
        "HOME": str(home),
        "KUBECONFIG": str(kubeconfig),
        "LANG": "C.UTF-8",
        "TRAINSHED_HOME": os.environ.get("TRAINSHED_HOME", ""),
    }
