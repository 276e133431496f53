"""A pipeline for a machine without devices."""

from __future__ import annotations

from tests.unit.notebook_builder import compiled
from trainshed.pipelines.devices import without_devices


def test_a_pipeline_without_devices_keeps_what_every_machine_has() -> None:
    tags = "limit:nvidia.com/gpu:2 limit:memory:1Gi request:rdma/hca:1 request:cpu:1"
    plain = without_devices(compiled((f"step:a {tags}", "x = 1")).checked())
    assert plain.step("a").settings.limits == {"memory": "1Gi"}
    assert plain.step("a").settings.requests == {"cpu": "1"}
