"""CPU rates for kubectl top."""

from __future__ import annotations

import pytest

from trainshed.cluster.node.metrics import CpuMeter, amounts, machine_usage


def test_a_rate_is_the_difference_of_readings():
    meter = CpuMeter(100.0)
    assert meter.cores(5.0, 110.0) == pytest.approx(0.5)
    assert meter.cores(7.0, 111.0) == pytest.approx(2.0)
    # Asked again at once: compared with the reading before, not divided by nothing.
    assert meter.cores(7.0, 111.0) == pytest.approx(2.0)
    assert meter.cores(7.1, 111.1) == pytest.approx(2.1 / 1.1)


def test_a_counter_that_falls_back_is_no_use():
    assert CpuMeter(0.0, 9.0).cores(1.0, 10.0) == 0.0


def test_amounts():
    assert amounts(0.1537, 1024 * 1024) == {"cpu": "154m", "memory": "1024Ki"}


def test_the_machine_is_used():
    used = machine_usage()
    assert used.cpu_seconds > 0 and used.memory_bytes > 1024**2
