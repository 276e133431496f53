"""The command of the long runs ends with the first promise that is broken, and says which."""

from __future__ import annotations

import pytest

from tests.hostile import __main__ as command
from tests.hostile import crash, fuzz


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["tests.hostile", *words])
    return command.main()


@pytest.mark.parametrize("broken", ["escapes", "leaks", "crash", "fuzz"])
def test_the_first_violation_ends_the_runs(
    broken: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[str] = []
    raised = {"crash": crash.Violation, "fuzz": fuzz.Violation}.get(broken, AssertionError)

    def suite(name: str) -> str:
        begun.append(name)
        if name == broken:
            raise raised("a promise is broken")
        return f"{name}: figures"

    async def asked(number: int, seed: int) -> str:
        return suite("fuzz")

    monkeypatch.setattr(command, "run_escapes", lambda seconds: suite("escapes"))
    monkeypatch.setattr(command, "run_leaks", lambda pods: suite("leaks"))
    monkeypatch.setattr(crash, "crash", lambda points, seed: suite("crash"))
    monkeypatch.setattr(fuzz, "fuzz", asked)
    others = [name for name in ("escapes", "leaks", "crash", "fuzz") if name != broken]
    assert run(monkeypatch, *others[:2], broken, others[2]) == 1
    assert begun == [*others[:2], broken]
    lines = [f"{name}: figures" for name in others[:2]]
    assert capsys.readouterr().out.splitlines() == [*lines, f"{broken}: VIOLATED: a promise is broken"]


def test_figures_are_one_line_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(crash, "crash", lambda points, seed: f"crash: {points} points, seed {seed}")
    assert run(monkeypatch, "crash", "--points", "7", "--seed", "3") == 0
    assert capsys.readouterr().out == "crash: 7 points, seed 3\n"
