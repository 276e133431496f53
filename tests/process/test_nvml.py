"""What NVIDIA's library says of GPUs: asked of a library of ours that is built for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from trainshed.cluster.node.devices import gpu, nvml
from trainshed.cluster.node.devices.nvml import Gpu

SOURCE = Path(__file__).parents[1] / "fakes/nvml.c"


@pytest.fixture
def library(tmp_path: Path) -> str:
    compiler = shutil.which("cc")
    assert compiler, "a C compiler builds the library: apt-get install gcc"
    target = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(target), str(SOURCE)], check=True)
    return str(target)


def test_gpus_are_known_by_their_minor_numbers_and_uuids(library: str) -> None:
    found = nvml.query(library)
    assert found == {
        0: Gpu(0, "GPU-zero", "NVIDIA H200 (SXM)", 150754820096),
        1: Gpu(1, "GPU-one", "NVIDIA H200 (SXM)", 150754820096),
    }, "one that is lost is left out"
    assert gpu.environment((1, 0), found) == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-one,GPU-zero",
        "CUDA_VISIBLE_DEVICES": "GPU-one,GPU-zero",
    }
    assert gpu.environment((2,), found)["CUDA_VISIBLE_DEVICES"] == "2"
    assert gpu.environment((), found) == {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}
    assert gpu.labels(found.values()) == {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.memory": "143771",
        "nvidia.com/gpu.product": "NVIDIA-H200-SXM",
    }


@pytest.mark.parametrize("broken", ["", "int nvmlInit_v2(void) { return 9; }\n", "int other;\n"])
def test_without_a_library_that_answers_device_files_have_to_do(tmp_path: Path, broken: str) -> None:
    target = tmp_path / "libnvidia-ml.so.1"
    if broken:
        source = tmp_path / "broken.c"
        source.write_text(broken)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(target), str(source)], check=True)
    assert nvml.query(str(target)) == {}
    assert gpu.labels(()) == {}
