"""What starts each step of a TaskRun: waits for the step before, runs the command, writes down how it went.

    python -I -S entrypoint.py PART… -- COMMAND…

The parts are base64 of one JSON object (`Step`). All containers of a pod start at once; each waits for the one before
by its lock, which the kernel releases however that ends. Under `/tekton`:

    run/<i>/lock            held by step i for as long as it lives
    run/<i>/out, out.err    how it ended
    run/<i>/status/exitCode its exit code; steps/<name> and steps/<i> are links to run/<i>/status
    run/<i>/status/results/ its results
    results/                those of the task

Each `run/<i>` is a volume of its own, which only step i may write to. Where the pod is plain processes nothing is
mounted, and a variable says where the volumes are.

The last thing is the termination message: a JSON list as Tekton's controller reads it. Standard library only, and
little of it: this is the first thing that runs in every step.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import sys
import time
from binascii import a2b_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

ROOT = "/tekton"
_PLACES: dict[str, str] = json.loads(os.environ.get("TRAINSHED_MOUNTS") or "{}")
"""Real paths of volumes by those that the pod knows; empty where they are mounted."""
_MESSAGE_BYTES = 4096
_TASK_RESULT, _INTERNAL, _STEP_RESULT = 1, 3, 4
_REFERENCE = re.compile(r"\$\(steps\.([^.()]+)\.results\.([^()\[\].]+)(\[\*\]|\[\d+\]|\.[^()\[\]]+)?\)")
_POLL_SECONDS = 0.01


def main(arguments: Sequence[str]) -> int:
    """Run one step and return its exit code."""
    split = arguments.index("--")
    step = json.loads(a2b_base64("".join(arguments[:split])))
    command = arguments[split + 1 :]
    if step.get("sidecar"):
        os.execvp(*_program(step, command))
    for folder in (
        f"{ROOT}/home",
        f"{ROOT}/results",
        f"{ROOT}/run/{step['index']}/status/results",
        f"{ROOT}/steps",
        f"{ROOT}/scripts",
    ):
        _make(folder)
    for name in (step["name"], step["index"]):
        try:
            status = f"run/{step['index']}/status"
            os.symlink(_at(f"{ROOT}/{status}") if _PLACES else f"../{status}", _at(f"{ROOT}/steps/{name}"))
        except FileExistsError:
            pass  # the run was started anew
    entries: list[Any] = []
    signal.signal(signal.SIGTERM, _leave)
    lock = _hold(step["index"])
    ran = _after(step["index"])
    if ran and not _wanted(step):
        entries.append(_internal("Reason", "Skipped"))
        return _end(step, 0, entries, lock)
    if not ran:
        entries.append(_internal("Reason", "Skipped"))
        return _end(step, 1, entries, lock)
    entries.append(_internal("StartedAt", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())))
    try:
        code, timed_out = _run(step, command)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: step {step['name']}: {error}\n")
        code, timed_out = 127 if isinstance(error, FileNotFoundError) else 126, False
    _write(f"{ROOT}/steps/{step['name']}/exitCode", str(code))
    if timed_out:
        entries.append(_internal("Reason", "TimeoutExceeded"))
    elif code and step.get("onError") == "continue":
        entries.append(_internal("ExitCode", str(code)))
        code = 0
    entries += _results(step)
    return _end(step, code, entries, lock)


def _make(folder: str) -> None:
    """Make a directory that containers of other users may write into."""
    made, mask = "", os.umask(0)
    for part in _at(folder).strip("/").split("/"):
        made += f"/{part}"
        try:
            os.mkdir(made, 0o777)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
    os.umask(mask)


def _at(path: str) -> str:
    """Return where a path of the pod leads."""
    above = path
    while above not in _PLACES:
        above, _, _ = above.rpartition("/")
        if not above:
            return path
    return _PLACES[above] + path[len(above) :]


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _hold(index: int) -> int:
    """Take the lock of this step; it is there only once it is held."""
    _make(f"{ROOT}/run/{index}")
    path = _at(f"{ROOT}/run/{index}/lock")
    partial = f"{path}.{os.getpid()}"
    lock = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    os.fchmod(lock, 0o666)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(partial, path)
    return lock


def _after(index: int) -> bool:
    """Wait for the step before; return whether it went well."""
    if index == 0:
        return True
    folder = _at(f"{ROOT}/run/{index - 1}")
    while True:
        try:
            lock = os.open(f"{folder}/lock", os.O_RDONLY | os.O_CLOEXEC)
            break
        except FileNotFoundError:
            time.sleep(_POLL_SECONDS)
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.close(lock)
    return os.path.exists(f"{folder}/out")


def _end(step: dict[str, Any], code: int, entries: list[Any], lock: int) -> int:
    """Write down how it went and let the next one go on."""
    message = json.dumps(entries, separators=(",", ":"))
    if len(message.encode()) > _MESSAGE_BYTES:
        sys.stderr.write(
            "error: the results are larger than the 4096 bytes that a container's end may carry\n"
        )
        message, code = json.dumps([_internal("Reason", "ResultsTooLarge")]), code or 1
    _write(step["message"], message)
    _write(f"{ROOT}/run/{step['index']}/out{'.err' if code else ''}", str(code))
    os.close(lock)
    return code


def _internal(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": value, "type": _INTERNAL}


def _write(path: str, text: str) -> None:
    with open(_at(path), "w") as file:
        file.write(text)


def _program(step: dict[str, Any], command: Sequence[str]) -> tuple[str, list[str]]:
    """Return the program and the arguments: of the script, or of the command."""
    script = step.get("script")
    if script:
        _make(f"{ROOT}/scripts")
        path = _at(f"{ROOT}/scripts/{step['name']}")
        _write(path, _placed(_filled(script)))
        os.chmod(path, 0o755)
        return path, [path, *command]
    if not command:
        raise ValueError("no command: the image has none that is known here; set command or script")
    full: list[str] = []
    for part in command:
        whole = _REFERENCE.fullmatch(part)
        value = _result(whole) if whole and whole[3] == "[*]" else None
        full += [str(item) for item in value] if isinstance(value, list) else [_filled(part)]
    return full[0], full


def _placed(text: str) -> str:
    """Return a script with the real paths of volumes, as the runtime has them put into arguments (plain/places.py)."""
    if not _PLACES:
        return text
    known = "|".join(re.escape(path) for path in sorted(_PLACES, key=len, reverse=True))
    return re.sub(rf"(?<![\w.\-/}})\]*?~$@])(?:{known})(?![\w.\-])", lambda match: _PLACES[match[0]], text)


def _filled(text: str) -> str:
    """Return the text with results of earlier steps in place of what refers to them."""
    if "$(steps." not in text:
        return text

    def one(match: re.Match[str]) -> str:
        value = _result(match)
        if value is None:
            return match[0]
        return value if isinstance(value, str) else json.dumps(value)

    return _REFERENCE.sub(one, text)


def _result(match: re.Match[str]) -> Any:
    step, name, part = match[1], match[2], match[3]
    try:
        with open(_at(f"{ROOT}/steps/step-{step}/results/{name}")) as file:
            text = file.read()
    except OSError:
        return None
    if not part:
        return text
    value = json.loads(text)
    if part == "[*]":
        return value
    return value[int(part[1:-1])] if part.startswith("[") else value.get(part[1:])


def _wanted(step: dict[str, Any]) -> bool:
    """Return whether the step's `when` expressions hold."""
    for one in step.get("when") or ():
        found = _filled(str(one.get("input", ""))) in [_filled(str(v)) for v in one.get("values") or ()]
        if found != (one.get("operator") == "in"):
            return False
    return True


def _run(step: dict[str, Any], command: Sequence[str]) -> tuple[int, bool]:
    """Run the program to its end; return its exit code and whether it was out of time."""
    if step.get("cwd"):
        _make(step["cwd"])
        os.chdir(_at(step["cwd"]))
    for name, value in list(os.environ.items()):
        if "$(steps." in value:
            os.environ[name] = _filled(value)
    program, argv = _program(step, command)
    outputs = [(1, step.get("stdout")), (2, step.get("stderr"))]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for descriptor, path in outputs:
                if path:
                    os.dup2(os.open(_at(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), descriptor)
            os.execvp(program, argv)
        except OSError as error:
            os.write(write, f"{error.errno} {program}".encode())
        finally:
            os._exit(127)
    os.close(write)
    late: list[int] = []

    def stop(number: int, frame: object) -> None:
        if number == signal.SIGALRM:
            late.append(number)
        _signal(child, signal.SIGKILL if number == signal.SIGALRM else number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGALRM, stop)
    if step.get("timeout"):
        signal.setitimer(signal.ITIMER_REAL, step["timeout"])
    with os.fdopen(read) as problem:
        failed = problem.read()
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if failed:
        number, _, name = failed.partition(" ")
        raise OSError(int(number), os.strerror(int(number)), _missing(name))
    code = os.waitstatus_to_exitcode(status)
    return (code if code >= 0 else 128 - code), bool(late)


def _missing(program: str) -> str:
    """Return what could not be started: of a script that is there, the interpreter that it names."""
    try:
        with open(program, errors="replace") as file:
            first = file.readline()
    except OSError:
        return program
    return first[2:].split()[0] if first[:2] == "#!" and first[2:].split() else program


def _signal(child: int, number: int) -> None:
    try:
        os.killpg(child, number)
    except ProcessLookupError:
        pass


def _results(step: dict[str, Any]) -> list[Any]:
    """Return what the step left as results, its own and the task's."""
    out: list[Any] = []
    for names, folder, sort in (
        (step.get("results") or (), f"{ROOT}/results", _TASK_RESULT),
        (step.get("stepResults") or (), f"{ROOT}/steps/{step['name']}/results", _STEP_RESULT),
    ):
        for name in names:
            try:
                with open(_at(f"{folder}/{name}"), errors="replace") as file:
                    out.append({"key": name, "value": file.read(), "type": sort})
            except OSError:
                continue
    return out


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
