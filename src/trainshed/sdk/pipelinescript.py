"""Python files with a `@pipeline`, imported as modules: what stands under `__name__ == "__main__"` does not run."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from trainshed.pipelines.ir import Compiled
from trainshed.pipelines.python.decorators import PipelineFunction
from trainshed.sdk.errors import UserError

_SCRIPT = re.compile(r"(.+\.py)(?::(\w+))?")


def is_script(path: Path) -> bool:
    """Return whether the name is that of a Python file, with or without that of a function."""
    return _SCRIPT.fullmatch(path.name) is not None


def compiled(path: Path) -> Compiled:
    """Return what becomes of the pipeline of a Python file. Raises UserError when there is none, or several."""
    match = _SCRIPT.fullmatch(path.name)
    assert match is not None
    file, wanted = path.with_name(match[1]), match[2]
    found = {
        name: value
        for name, value in vars(_module(file)).items()
        if isinstance(value, PipelineFunction) and name == value.function.__name__
    }
    named = ", ".join(f"{file.name}:{name}" for name in found)
    if wanted is not None and wanted not in found:
        raise UserError(f"{file} has no @pipeline {wanted}", f"it has {named or 'none'}")
    if not found:
        raise UserError(f"{file} has no @pipeline", "decorate a function that calls steps with @pipeline")
    if wanted is None and len(found) > 1:
        raise UserError(f"{file} has {len(found)} pipelines", f"name one: {named}")
    made = found[wanted or next(iter(found))].compiled()
    # The command names the file in front of each finding.
    own = tuple(msgspec.structs.replace(d, file=None) if d.file == file.name else d for d in made.diagnostics)
    return Compiled(made.pipeline, own)


def file_of(pipeline: PipelineFunction[Any, Any]) -> Path | None:
    """Return the file of a function, None when it has none."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(pipeline.function))
    except TypeError:
        return None
    return Path(file) if file is not None and Path(file).is_file() else None


def _module(file: Path) -> ModuleType:
    try:
        text = file.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from error
    free = file.stem.isidentifier() and file.stem not in sys.modules
    module = ModuleType(file.stem if free else f"_pipeline_{file.stem}")
    module.__file__ = str(file.resolve())
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(file.resolve().parent))
    linecache.checkcache(module.__file__)
    try:
        # By hand, so that nothing is written beside the file.
        exec(compile(text, module.__file__, "exec", dont_inherit=True), vars(module))  # noqa: S102 - as `python FILE`
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a script may also call sys.exit
        raise UserError(f"{file}{_place(error, file)}: {type(error).__name__}: {_words(error)}") from error
    finally:
        sys.path.remove(str(file.resolve().parent))
    return module


def _place(error: BaseException, file: Path) -> str:
    """Return the line of the file that an error comes from, as `, line 3`."""
    if isinstance(error, SyntaxError) and error.filename == str(file.resolve()):
        return f", line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file.resolve())]
    return f", line {lines[-1]}" if lines else ""


def _words(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)
