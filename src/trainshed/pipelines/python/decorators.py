"""`@step` and `@pipeline`: a pipeline as Python functions.

    from trainshed.pipelines import pipeline, step

    @step
    def load(count):
        rows = list(range(count))
        return rows

    @step(limits={"cpu": "1"})
    def total(rows):
        return sum(rows)

    @pipeline(name="sums")
    def sums(count: int = 3):
        rows = load(count)
        total(rows)

    sums.pipeline()  # the compiled pipeline

The arguments of a step are what it loads, what it returns is what it saves. Called outside of a pipeline, a step is the
plain function. Imports, functions, classes and values of the same file that a step uses are there in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from trainshed.pipelines.ir import Compiled, Pipeline
from trainshed.pipelines.notebook.stepsettings import Distribution, StepSettings, step_settings
from trainshed.pipelines.notebook.strategies import STRATEGIES
from trainshed.pipelines.notebook.tags import Said, understand
from trainshed.pipelines.python.build import Ours, compiled

_P = ParamSpec("_P")
_R = TypeVar("_R")

_GROUPS = {
    "labels": "label",
    "annotations": "annotation",
    "limits": "limit",
    "requests": "request",
    "env": "env",
}
_AMOUNTS = ("limits", "requests")


class StepFunction(Generic[_P, _R]):
    """A function that can be a step. Calling it calls the function."""

    def __init__(
        self,
        function: Callable[_P, _R],
        name: str | None,
        said: tuple[Said, ...],
        distribution: Distribution | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.said, self.distribution = function, said, distribution
        self.name = name or function.__name__

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call the function, here and now."""
        return self.function(*args, **kwargs)

    @property
    def settings(self) -> StepSettings:
        """How the step's pod is set up."""
        return step_settings(self.said)


class PipelineFunction(Generic[_P, _R]):
    """A function whose body calls steps. Calling it runs them here and now; `pipeline()` compiles it."""

    def __init__(self, function: Callable[_P, _R], settings: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.settings = function, settings

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run the steps in this process."""
        return self.function(*args, **kwargs)

    def compiled(self) -> Compiled:
        """Return the pipeline, unless there is an error, and all findings."""
        return compiled(self.function, self.settings, Ours((step, pipeline), StepFunction))

    def pipeline(self) -> Pipeline:
        """Return the compiled pipeline. Raises NotebookError."""
        return self.compiled().checked()


@overload
def step(name: Callable[_P, _R]) -> StepFunction[_P, _R]: ...
@overload
def step(
    name: str | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    limits: Mapping[str, str | int | float] | None = None,
    requests: Mapping[str, str | int | float] | None = None,
    env: Mapping[str, str] | None = None,
    image: str | None = None,
    retries: int = 0,
    timeout: str | int | None = None,
    distribute: str | None = None,
    num_workers: int = 1,
    nproc_per_node: int = 1,
    retry_count: int | None = None,
) -> Callable[[Callable[_P, _R]], StepFunction[_P, _R]]: ...
def step(
    name: str | Callable[..., Any] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    limits: Mapping[str, str | int | float] | None = None,
    requests: Mapping[str, str | int | float] | None = None,
    env: Mapping[str, str] | None = None,
    image: str | None = None,
    retries: int = 0,
    timeout: str | int | None = None,
    distribute: str | None = None,
    num_workers: int = 1,
    nproc_per_node: int = 1,
    retry_count: int | None = None,
) -> Any:
    """Make a function a step. `timeout` is a duration as `1h30m`, or a number of seconds.

    `distribute` is one of the strategies of the tags. `retry_count` is Kale's word for `retries`.

    Raises ValueError for what none of these can be: an unknown strategy, a name that no step may have.
    """
    if callable(name):
        return StepFunction(name, None, (), None)
    if name is not None and (not isinstance(name, str) or not understand(f"step:{name}")):
        raise ValueError(f"name: must have lower-case letters, digits and _, not {name!r}")
    groups = {
        "labels": labels,
        "annotations": annotations,
        "limits": limits,
        "requests": requests,
        "env": env,
    }
    said = [one for argument, values in groups.items() for one in _group(argument, values)]
    singles = {
        "image": image,
        "retries": retry_count if retry_count is not None else retries or None,
        "timeout": f"{timeout}s" if isinstance(timeout, int) and not isinstance(timeout, bool) else timeout,
    }
    said += [_single(argument, value) for argument, value in singles.items() if value is not None]
    distribution = _distribution(distribute, num_workers, nproc_per_node)
    return lambda function: StepFunction(function, name, tuple(said), distribution)


@overload
def pipeline(name: Callable[_P, _R]) -> PipelineFunction[_P, _R]: ...
@overload
def pipeline(
    name: str | None = None, *, experiment: str = "", description: str = "", image: str = "", **settings: Any
) -> Callable[[Callable[_P, _R]], PipelineFunction[_P, _R]]: ...
def pipeline(
    name: str | Callable[..., Any] | None = None,
    *,
    experiment: str = "",
    description: str = "",
    image: str = "",
    **settings: Any,
) -> Any:
    """Make a function a pipeline. Further settings are those of a notebook's metadata.

    `steps_defaults` may also be the arguments of `@step` that all steps have, as a dictionary.
    """
    given = {"experiment_name": experiment, "pipeline_description": description, **settings}
    if image:
        given["base_image"] = image
    if callable(name):
        return PipelineFunction(name, given)
    if name is not None:
        given["pipeline_name"] = name
    defaults = settings.get("steps_defaults")
    if isinstance(defaults, Mapping):
        given["steps_defaults"] = [
            f"{one.name}:{':'.join(one.args)}" for one in step(**defaults)(_nothing).said
        ]
    return lambda function: PipelineFunction(function, given)


def _nothing() -> None:
    """Do nothing: a function for a step of which only the settings are asked."""


def _group(argument: str, values: object) -> list[Said]:
    if values is None:
        return []
    if not isinstance(values, Mapping):
        raise ValueError(f"{argument}: must be a dictionary, not {type(values).__name__}")
    tag, said = _GROUPS[argument], []
    for key, value in values.items():
        if argument in _AMOUNTS and isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise ValueError(f"{argument}: {key} must be a text, not {type(value).__name__}")
        if not understand(f"{tag}:{key}:{value if argument in _AMOUNTS else ''}"):
            raise ValueError(f"{argument}: {key}={value!r} is not understood")
        said.append(Said(tag, (key, value)))
    return said


def _single(argument: str, value: object) -> Said:
    said = (
        understand(f"{argument}:{value}")
        if isinstance(value, str | int) and not isinstance(value, bool)
        else None
    )
    if said is None:
        form = {
            "timeout": "a duration as 1h30m",
            "retries": "a number, 0 or more",
            "image": "the name of an image",
        }
        raise ValueError(f"{argument}: must be {form[argument]}, not {value!r}")
    return said


def _distribution(distribute: str | None, num_workers: int, nproc_per_node: int) -> Distribution | None:
    if distribute is None:
        if num_workers != 1 or nproc_per_node != 1:
            raise ValueError(
                f"num_workers and nproc_per_node need distribute: one of {', '.join(STRATEGIES)}"
            )
        return None
    if distribute not in STRATEGIES:
        raise ValueError(f"distribute must be one of {', '.join(STRATEGIES)}, not {distribute!r}")
    for name, value in (("num_workers", num_workers), ("nproc_per_node", nproc_per_node)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number, at least 1, not {value!r}")
    if nproc_per_node > 1 and not STRATEGIES[distribute].torchrun:
        raise ValueError("nproc_per_node is for the strategies that torchrun starts: DDP")
    return Distribution(distribute, num_workers, nproc_per_node)
