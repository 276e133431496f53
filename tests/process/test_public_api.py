"""What `import trainshed` offers: cheap, exactly what `__all__` says, and alike for both kinds of caller."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import trainshed
from trainshed import testing

HEAVY = ("aiohttp", "asyncio", "msgspec", "rich", "typer", "yaml", "trainshed.sdk", "trainshed.kube")
TWINS = [(trainshed.AsyncCluster, trainshed.Cluster), (trainshed.AsyncJob, trainshed.Job)]


@pytest.mark.parametrize("module", ["trainshed", "trainshed.testing.plugin"])
def test_import_is_cheap(module: str) -> None:
    """The plugin is imported by every run of pytest in an environment with trainshed."""
    script = (
        f"import sys; import pytest; before = set(sys.modules); import {module}; "
        f"print([m for m in {HEAVY!r} if m in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        (
            "trainshed.operator.process",
            (
                "yaml",
                "re2",
                "celpy",
                "aiohttp.web",
                "http.server",
                "trainshed.operator.webhook",
                "trainshed.tekton.customrun",
            ),
        ),
        (
            "trainshed.cli.controlplane",
            (
                "re2",
                "celpy",
                "aiohttp",
                "click",
                "cronsim",
                "cryptography.hazmat.primitives.serialization",
                "cryptography.x509",
                "yaml",
                "zoneinfo",
                "trainshed.api.crd",
                "trainshed.api.registry",
                "trainshed.cluster.apiserver.oidc.configuration",
                "trainshed.cluster.controllers.tekton.interpreter",
                "trainshed.cluster.controllers.workloads.cronjob",
                "trainshed.cluster.controllers.workloads.daemonset",
                "trainshed.cluster.controllers.workloads.job",
                "trainshed.cluster.controllers.workloads.statefulset",
                "trainshed.cluster.encryption",
                "trainshed.kube.cel.program",
                "trainshed.jobs.registry",
                "trainshed.kube.cel.types",
                "trainshed.operator.manager",
                "trainshed.sdk",
                "trainshed.tekton.pipelinerun",
                "trainshed.tekton.taskrun",
            ),
        ),
    ],
)
def test_what_runs_all_day_loads_nothing_that_it_may_never_need(module: str, unused: tuple[str, ...]) -> None:
    """And takes in its own definitions without: the control plane does so at every start."""
    script = (
        "import sys\n"
        "from trainshed.operator.install import embedded_objects\n"
        "from trainshed.kube.schema.crd import crd_defaults, validate_crd\n"
        f"import {module}\n"
        "for obj in embedded_objects():\n"
        "    if obj['kind'] == 'CustomResourceDefinition':\n"
        "        crd_defaults(obj)\n"
        "        assert not validate_crd(obj, None)\n"
        f"print([m for m in {unused!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("package", [trainshed, testing], ids=lambda package: package.__name__)
def test_all_is_exactly_the_public_surface(package: ModuleType) -> None:
    assert sorted(package.__all__) == sorted(package._HOMES)
    script = f"import {package.__name__} as package; print(*dir(package))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    public = {name for name in done.stdout.split() if not name.startswith("_")}
    assert public - {"annotations", "Any", "TYPE_CHECKING"} == set(package.__all__)


@pytest.mark.parametrize("package", [trainshed, testing], ids=lambda package: package.__name__)
def test_what_is_typed_is_what_is_imported(package: ModuleType) -> None:
    """Type checkers read the imports that never run, Python the table."""
    text = Path(str(package.__file__)).read_text()
    pattern = rf"^    from {re.escape(package.__name__)}\.(\S+) import (.+)$"
    typed = {
        name: module
        for module, names in re.findall(pattern, text, re.MULTILINE)
        for name in names.split(", ")
    }
    assert typed == package._HOMES


@pytest.mark.parametrize("name", trainshed.__all__)
def test_everything_public_says_what_it_is(name: str) -> None:
    value = getattr(trainshed, name)
    assert value.__doc__ and value.__doc__.strip()
    for verb, member in vars(value).items() if inspect.isclass(value) else ():
        if not verb.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            assert member.__doc__, f"{name}.{verb}"


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        trainshed.nosuch  # noqa: B018  # the access is what is tested


def surface(face: type) -> dict[str, Any]:
    """Return the public verbs of a class by name, each with its parameters."""
    return {
        name: [str(p.replace(annotation=p.annotation)) for p in inspect.signature(member).parameters.values()]
        for name, member in inspect.getmembers(face, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize(("asynchronous", "blocking"), TWINS, ids=["Cluster", "Job"])
def test_both_faces_offer_the_same(asynchronous: type, blocking: type) -> None:
    assert surface(asynchronous) == surface(blocking)


@pytest.mark.parametrize(("asynchronous", "blocking"), TWINS, ids=["Cluster", "Job"])
def test_both_faces_say_the_same(asynchronous: type, blocking: type) -> None:
    for name in surface(blocking):
        said = (getattr(asynchronous, name).__doc__ or "").replace("AsyncJob", "Job")
        assert said == getattr(blocking, name).__doc__, name


@pytest.mark.parametrize(
    ("module", "most"),
    [
        ("trainshed.operator.__main__", "trainshed.operator.process"),
        ("trainshed.cli.serve", "trainshed.cli.controlplane"),
    ],
)
def test_what_runs_all_day_is_imported_with_the_collector_off(module: str, most: str) -> None:
    script = (
        "import gc, sys\n"
        f"import {module} as entry\n"
        f"assert {most!r} not in sys.modules\n"
        "rounds = gc.get_stats()[0]['collections']\n"
        "try:\n"
        "    entry.main()\n"
        "except SystemExit as ended:\n"
        "    assert ended.code == 2  # a flag that there is not\n"
        f"assert {most!r} in sys.modules\n"
        "print(gc.get_stats()[0]['collections'] - rounds)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--no-such-flag"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"


@pytest.mark.parametrize(
    ("module", "needed", "unused"),
    [
        (
            "trainshed.operator.__main__",
            "trainshed.client.http",
            ("_bz2", "_lzma", "frozenlist._frozenlist"),
        ),
        (
            "trainshed.cli.serve",
            "trainshed.cluster.apiserver.serve",
            (
                "_bz2",
                "_lzma",
                "argparse",
                "getopt",
                "importlib.resources",
                "logging.handlers",
                "socketserver",
                "typing_extensions",
            ),
        ),
    ],
)
def test_what_runs_all_day_loads_nothing_that_others_import_and_hardly_use(
    module: str, needed: str, unused: tuple[str, ...]
) -> None:
    script = (
        "import sys\n"
        f"import {module} as entry\n"
        "try:\n"
        "    entry.main()\n"
        "except SystemExit as ended:\n"
        "    assert ended.code == 2\n"
        f"import {needed}\n"
        f"print([m for m in {unused!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--no-such-flag"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
