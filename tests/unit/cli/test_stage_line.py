"""The present step: a line that is redrawn on a terminal and leaves nothing behind, now and then a line in a pipe."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from evo.cli import stage_line, terminal
from evo.cli.stage_line import StageClock, StageLine, stage
from evo.evaluate.counted_stage import CountedStage


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What is drawn on a terminal of 60 columns."""
    from rich import console

    drawn = io.StringIO()
    on_screen = console.Console(file=drawn, force_terminal=True, color_system=None, width=60, legacy_windows=False)
    monkeypatch.setattr(console, "Console", lambda **_: on_screen)
    monkeypatch.setattr(stage_line, "is_live", lambda stream: True)
    yield drawn
    stage("")


def test_on_a_terminal_a_step_is_one_line_that_goes_away(screen: io.StringIO) -> None:
    stage(CountedStage("gate", "run", 2, 10, "case ragged, with a name that is much too long for the width"))
    (line,) = terminal.redrawn
    assert isinstance(line, StageLine)
    line._live.refresh()
    said = "a line that stays"
    terminal.say(said)
    stage("")
    assert terminal.redrawn == []
    shown = screen.getvalue()
    assert "gate: run 3 of 10" in shown
    assert said in shown
    assert shown.endswith(("\x1b[2K", "\x1b[?25h"))  # the line is erased, the cursor is back
    assert all(len(part) <= 60 for part in shown.replace("\r", "\n").split("\n") if "\x1b" not in part)


def test_an_error_takes_the_line_away_first(screen: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    stage("compile")
    terminal.complain("it failed", "do something")
    assert terminal.redrawn == []
    assert capsys.readouterr().err.startswith("error: it failed")


def test_a_pipe_gets_a_line_only_if_steps_take_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage("")
    stage("compile")
    stage(CountedStage("gate", "run", 0, 4))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(stage_line, "_QUIET_S", 0.0)
    stage(CountedStage("gate", "run", 1, 4))
    assert capsys.readouterr().err.startswith("  gate: run 2 of 4")
    stage("")


def test_the_clock_belongs_to_the_stage_and_tells_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(stage_line.time, "monotonic", lambda: now)
    clock = StageClock()
    clock.see(CountedStage("gate", "run", 0, 4))
    assert clock.times() == ""
    now = 106.0
    clock.see(CountedStage("gate", "run", 2, 4))
    assert clock.times() == "6.0 s, about 6.0 s left"
    now = 109.0
    assert clock.times() == "9.0 s, about 3.0 s left"
    clock.see("estimate")
    assert clock.times() == ""
