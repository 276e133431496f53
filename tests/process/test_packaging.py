"""The wheel is complete: what is installed from it needs nothing of the source tree.

Built here with the build backend and unpacked; the end-to-end tests run the installed package.
"""

from __future__ import annotations

import configparser
import stat
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (built,) = WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("dist")), versions=["standard"]
    )
    return Path(built)


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as pip lays it out, executable bits included."""
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            path = Path(archive.extract(info, target))
            path.chmod(0o755 if (info.external_attr >> 16) & 0o111 else 0o644)
    return target


def test_every_file_of_the_package_is_in_the_wheel(unpacked: Path) -> None:
    def files(root: Path) -> dict[str, bool]:
        return {
            str(path.relative_to(root)): bool(path.stat().st_mode & stat.S_IXUSR)
            for path in (root / "trainshed").rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        }

    packed = files(unpacked)
    assert packed == files(SOURCE), "name → executable"
    assert packed["trainshed/cluster/node/pod/tools/nslookup"]
    for name in (
        "py.typed",
        "kube/data/protobuf.txt",
        "operator/manifests/crds/kubeflow.org_pytorchjobs.yaml",
        "operator/manifests/crds/definitions.jsonl",
        "operator/manifests/embedded.jsonl",
    ):
        assert f"trainshed/{name}" in packed


def test_metadata(unpacked: Path) -> None:
    (folder,) = unpacked.glob("*.dist-info")
    metadata = Parser().parsestr((folder / "METADATA").read_text())
    assert metadata["Name"] == "trainshed"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"
    required = [
        line.split(";")[0].strip() for line in metadata.get_all("Requires-Dist", ()) if "extra ==" not in line
    ]
    assert not [line for line in required if line.startswith(("torch", "pytest", "kubernetes "))]
    assert "Apache License" in (folder / "licenses" / "LICENSE").read_text()
    scripts = configparser.ConfigParser()
    scripts.read_string((folder / "entry_points.txt").read_text())
    assert dict(scripts["console_scripts"]) == {
        "trainshed": "trainshed.cli.main:main",
        "kubectl-trainshed": "trainshed.cli.main:main",
        "kubectl_complete-trainshed": "trainshed.cli.completion:main",
    }


USE = """
import os, sys
import trainshed
from trainshed.cluster.sandbox import bootstrap
from trainshed.kube.wire import protobuf
from trainshed.operator.install import embedded_objects

here = sys.argv[1]
print(trainshed.__version__)
for module in (trainshed, bootstrap, protobuf):
    assert module.__file__.startswith(here), module.__file__
kinds = {obj["kind"] for obj in embedded_objects()}
assert {"CustomResourceDefinition", "Deployment"} <= kinds, kinds
"""


def test_the_unpacked_wheel_finds_its_data(unpacked: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", USE, str(unpacked)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(unpacked), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = unpacked.glob("*.dist-info")
    assert f"Version: {done.stdout.strip()}\n" in (folder / "METADATA").read_text()
