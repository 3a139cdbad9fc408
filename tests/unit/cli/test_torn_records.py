"""A record whose end was lost: the commands that list trials name its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_samples import RUN, record, text_of

from evo.cli.app import run
from evo.records.trials import RunFile


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    runs = RunFile(tmp_path, "attention", RUN)
    runs.append(record(1, parent=None))
    runs.append(record(2, parent=text_of(1)))
    (tmp_path / "kernels").mkdir()
    monkeypatch.chdir(tmp_path)
    return runs.path


@pytest.mark.parametrize("command", ["log", "insights"])
def test_a_record_that_is_cut_short_is_named_beside_the_others(
    command: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(file.read_bytes()[:-40])
    assert run([command]) == 0
    assert f"{file}:2: " in capsys.readouterr().err


def test_the_only_record_cut_short_is_no_empty_list(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(file.read_bytes().split(b"\n")[0][:-40])
    assert run(["log"]) == 5
    said = capsys.readouterr().err
    assert f"error: {file}:1: " in said
    assert "no trials yet" not in said


def test_whole_records_are_listed_without_a_word(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log"]) == 0
    assert capsys.readouterr().err == ""
