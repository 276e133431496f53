"""A second attempt for tests that drive whole processes, told at the end; for two of each test process, not more.

Hundreds of such tests share a machine with others, and one that lost a race would hide what the other thousands say.
A test that needs its second attempt is a defect all the same: the run's last lines name it, with its first failure.
Never for what shows that something cannot happen (`tests/hostile`, `tests/histories`), nor for a test that hung.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

FOLDERS = ("e2e", "process")
MOST = 2
_FIRST = "first attempt"
_made: list[str] = []


def _may_try_again(item: pytest.Item, reports: list[pytest.TestReport]) -> bool:
    failed = [report for report in reports if report.failed]
    return (
        bool(failed)
        and any(item.path.is_relative_to(Path(__file__).parent / folder) for folder in FOLDERS)
        and len(_made) < MOST
        and not any("Timeout" in report.longreprtext for report in failed)
    )


@pytest.hookimpl
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test, and once more if it may and has failed."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if _may_try_again(item, reports):
        _made.append(item.nodeid)
        first = "\n".join(report.longreprtext for report in reports if report.failed)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        for report in reports:
            if report.when == "call" and report.passed:
                report.user_properties.append((_FIRST, first))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that passed at their second attempt, with what the first one said."""
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == _FIRST:
                terminalreporter.section(f"{report.nodeid} passed only at its second attempt; the first:")
                terminalreporter.line(text)
