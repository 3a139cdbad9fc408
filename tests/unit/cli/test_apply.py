"""`evo apply` writes into the user's file; `evo init --task` brings one task; `evo iterate` says what is not in git."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import SLOW, git, new_repository

from evo.cli.app import run


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = new_repository(tmp_path / "repository")
    monkeypatch.chdir(root)
    file = root / "mine.cu"
    file.write_text(SLOW.replace("#define THREADS 32", "#define THREADS 64  // mine"))
    return file


def champion(mine: Path, threads: int) -> Path:
    path = mine.parent / "kernels/scale/champions/sim-l4-sm_89.cu"
    path.parent.mkdir(exist_ok=True)
    path.write_text(SLOW.replace("#define THREADS 32", f"#define THREADS {threads}"))
    return path


def test_the_champions_knobs_come_into_the_file_and_nothing_else(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = mine.read_text()
    champion(mine, 128)
    assert run(["apply", "mine.cu", "--dry-run"]) == 0
    assert mine.read_text() == before
    assert run(["apply", "mine.cu"]) == 0
    assert mine.read_text() == before.replace("THREADS 64", "THREADS 128")
    assert "+#define THREADS 128  // mine" in capsys.readouterr().out
    assert run(["apply", "mine.cu"]) == 0
    assert "already has" in capsys.readouterr().out


def test_the_whole_text_and_the_fastest_of_a_sweep(mine: Path, tmp_path: Path) -> None:
    kept = champion(mine, 128)
    results = tmp_path / "results.json"
    rows = [({"THREADS": 32}, 4.0), ({"THREADS": 128}, 2.0), ({"THREADS": 64}, 3.0)]
    measured = [{"configuration": knobs, "measurements": [{"name": "time", "value": us}]} for knobs, us in rows]
    failed = {"configuration": {"THREADS": 256}, "measurements": []}
    results.write_text(json.dumps({"metadata": {}, "results": [*measured, failed]}))
    assert run(["apply", "mine.cu", "--tuned", str(results)]) == 0
    assert "#define THREADS 128  // mine" in mine.read_text()
    assert run(["apply", "mine.cu", "--whole"]) == 0
    assert mine.read_text() == kept.read_text()


def test_what_cannot_be_applied_is_refused(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = mine.read_text()

    def refused(*arguments: str) -> str:
        assert run(["apply", "mine.cu", *arguments]) == 2
        assert mine.read_text() == before
        return capsys.readouterr().err

    assert "no champion yet" in refused()
    champion(mine, 128).with_name("other.cu").write_text(SLOW.replace("THREADS in 32,", "THREADS in 7, 32,"))
    assert "sim-l4-sm_89" in refused()
    assert "which champion" in refused() or "other" in refused()
    assert "no champion h100" in refused("--champion", "h100")
    assert "exclude" in refused("--champion", "other", "--from", "x.cu")


def test_init_brings_the_tasks_that_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(tmp_path, "init", "--quiet")
    assert run(["--root", str(tmp_path), "init", "--task", "softmax"]) == 0
    assert [path.name for path in (tmp_path / "kernels").iterdir()] == ["softmax"]
    assert "evo iterate softmax" in capsys.readouterr().out
    assert run(["--root", str(tmp_path), "init", "--task", "softmaks"]) == 2
    assert "softmax" in capsys.readouterr().err


def test_a_task_that_is_not_committed_is_named(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from evo.cli.iterate import _warn_of_uncommitted
    from evo.spec.task import load_task

    root = mine.parent
    _warn_of_uncommitted(root, load_task(root, "scale"))
    assert capsys.readouterr().err == ""
    (root / "kernels/scale/notes.md").write_text("new")
    _warn_of_uncommitted(root, load_task(root, "scale"))
    said = capsys.readouterr().err
    assert "notes.md" in said
    assert "git add kernels/scale" in said


@pytest.mark.parametrize(
    ("typed", "meant"), [(["iterate", "--iteration", "3"], "--iterations"), (["check", "--divice", "x"], "--device")]
)
def test_an_option_that_is_almost_right_is_named(
    typed: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(typed) == 2
    assert meant in capsys.readouterr().err


def test_every_command_is_in_a_group_and_has_help_by_h(capsys: pytest.CaptureFixture[str]) -> None:
    from evo.cli.app import _COMMANDS
    from evo.cli.command_help import GROUPS

    assert set(_COMMANDS) <= {name for names in GROUPS.values() for name in names}
    assert run(["-h"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in _COMMANDS)
    assert run(["leaderboard", "--root"]) == 0  # the folder is missing, so what stands before it is taken for it
    assert capsys.readouterr().out == shown
    for name in _COMMANDS:
        assert run([name, "-h"]) == 0
    assert "Examples:" in capsys.readouterr().out
