"""The ledger against what else happens to a repository: clocks, filters, resets and stashes."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from ledger_samples import CHAMPION, DATE, RUN, git, keep, problems, record, repository, start_ledger, text_of
from long_cases import long
from refusals import refused

from evo.errors import EvoError, LedgerUnclean
from evo.records.ledger import Ledger
from evo.records.ledger.git import Git
from evo.records.trials import RunFile, load_records, next_run
from evo.results import Verdict
from evo.spec.variant import variant_id

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_run(root: Path, run: str, number: int) -> None:
    ledger, runs, _ = start_ledger(root, run)
    with ledger:
        parent = None if number == 1 else text_of(number - 1)
        keep(
            ledger,
            runs,
            record(1, parent=parent, run=run, text=text_of(number), time_us=10.0 - number),
            text_of(number),
        )
        ledger.finish(date=DATE)


@pytest.mark.parametrize("back", [timedelta(0), long(timedelta(hours=2)), timedelta(days=4000)])
def test_a_clock_that_stands_back_does_not_reorder_runs(tmp_path: Path, back: timedelta) -> None:
    root = repository(tmp_path)
    first = next_run(root, "attention", NOON, "zzzz")
    a_run(root, first, 1)
    second = next_run(root, "attention", NOON - back, "0000")
    assert second > first
    a_run(root, second, 2)
    assert problems(root) == []
    (entry,) = json.loads((root / "leaderboard.json").read_text())["entries"]
    assert entry["variant"] == variant_id(text_of(2))
    assert [found.run for found in load_records(root)] == [first, second]


def test_a_clock_that_goes_on_names_its_own_time(tmp_path: Path) -> None:
    root = repository(tmp_path)
    a_run(root, next_run(root, "attention", NOON, "zzzz"), 1)
    assert next_run(root, "attention", NOON + timedelta(hours=1), "ab12") == "20260101T130000-ab12"


@pytest.mark.parametrize("where", ["kernels/*/champions/**", "population/**"])
@pytest.mark.parametrize("kind", ["filter", "encoding", "ident"])
def test_a_text_that_git_would_change_is_not_kept(tmp_path: Path, kind: str, where: str) -> None:
    root = repository(tmp_path)
    git(root, "config", "filter.edit.clean", "sed s/1/2/")
    rule = {"filter": "filter=edit", "encoding": "working-tree-encoding=UTF-16LE", "ident": "ident"}[kind]
    (root / ".gitattributes").write_text(f"{where} {rule}\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "attributes")
    head = git(root, "rev-parse", "HEAD")
    text = text_of(1) + "// $Id: 1 $\n"
    trial = record(1, parent=None, text=text)
    ledger, runs, _ = start_ledger(root)
    with ledger:
        if kind == "ident" and where.startswith("population"):
            trial = record(1, parent=None, text=text, reason="$Id: 1 $")
        with pytest.raises(LedgerUnclean, match=r"another text|encod"):
            keep(ledger, runs, trial, text)
        ledger.finish(date=DATE)
    assert git(root, "rev-parse", "HEAD") == head
    assert git(root, "status", "--porcelain") == ""
    git(root, "rm", "-q", ".gitattributes")
    git(root, "commit", "-qm", "none")
    ledger, runs, said = start_ledger(root)
    with ledger:
        assert said == []
        keep(ledger, runs, trial, text)
        ledger.finish(date=DATE)
    assert git(root, "show", f"HEAD:{CHAMPION}") == text.strip()


def test_line_ends_are_no_other_text(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (root / ".gitattributes").write_text("* text=auto eol=crlf\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "attributes")
    ledger, runs, _ = start_ledger(root)
    with ledger:
        text = text_of(1).replace("\n", "\r\n")
        keep(ledger, runs, record(1, parent=None, text=text), text)
        ledger.finish(date=DATE)
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.parametrize("ending", ["keep", "revert"])
def test_a_reset_in_the_middle_of_a_trial(tmp_path: Path, ending: str) -> None:
    """Git put the champion back further than evo would: the run stops, and the next one goes on from there."""
    root = repository(tmp_path)
    a_run(root, RUN, 1)
    before = git(root, "rev-parse", "HEAD")
    second, third = "20260102T093000-cd34", "20260103T093000-ef56"
    a_run(root, second, 2)
    ledger, runs, _ = start_ledger(root, third)
    with ledger:
        ledger.place(CHAMPION, text_of(3))
        git(root, "reset", "-q", "--hard", "HEAD~2")
        assert git(root, "rev-parse", "HEAD") == before
        last = record(1, parent=text_of(2), run=third, text=text_of(3))
        with refused(LedgerUnclean, "history-left") as caught:
            ledger.revert() if ending == "revert" else keep(ledger, runs, last, text_of(3))
        assert caught.value.hint is not None
        assert "start again" in caught.value.hint
    ledger, _, _ = start_ledger(root, "20260104T093000-ab12")
    with ledger:
        ledger.finish(date=DATE)
    assert git(root, "rev-parse", "HEAD") == before
    assert (root / CHAMPION).read_text() == text_of(1)
    assert problems(root) == []


def test_a_restored_champion_is_no_obstacle_to_recovery(tmp_path: Path) -> None:
    root = repository(tmp_path)
    a_run(root, RUN, 1)
    ledger, _, _ = start_ledger(root, "20260102T093000-cd34")
    ledger.place(CHAMPION, text_of(3))
    ledger.close()  # killed
    (root / CHAMPION).write_text("edited by hand\n")
    with refused(LedgerUnclean, "changed-outside") as caught:
        start_ledger(root, "20260103T093000-ef56")
    assert f"git restore {CHAMPION}" in (caught.value.hint or "")
    git(root, "restore", str(CHAMPION))
    start_ledger(root, "20260103T093000-ef56")[0].close()
    assert (root / CHAMPION).read_text() == text_of(1)


def _disturb(ledger: Ledger, root: Path, number: int, monkeypatch: pytest.MonkeyPatch, *commands: str) -> list[str]:
    """Let git commands run before the `number`-th git command of the ledger's; returns what they said, if they ran."""
    plumbing, seen = ledger._git, [0]
    real = plumbing.run
    said: list[str] = []

    def run(*arguments: str, **options: object) -> bytes:
        seen[0] += 1
        if seen[0] == number:
            said.extend(git(root, *command.split(), check=False) for command in commands)
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(plumbing, "run", run)
    return said


@pytest.mark.parametrize(
    ("records", "step"),
    [
        long(0, 11, id="a new file"),
        long(0, 1, id="a new file, every instant"),
        long(2, 2, id="records before, every other instant"),
    ],
)
def test_a_stash_at_any_instant_of_a_keep_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int, step: int
) -> None:
    outcomes = set()
    start = repository(tmp_path / "start")
    a_run(start, RUN, 1)
    for number in range(1, 80, step):
        root = Path(shutil.copytree(start, tmp_path / str(number)))
        run = "20260102T093000-cd34"
        ledger, runs, _ = start_ledger(root, run)
        with ledger:
            for at in range(1, records + 1):
                ledger.place(CHAMPION, text_of(7))
                runs.append(record(at, parent=text_of(1), run=run, text=text_of(7), verdict=Verdict.REVERT))
                ledger.revert()
            with monkeypatch.context() as patched:
                stashed = _disturb(ledger, root, number, patched, "stash push -q -u")
                last = record(records + 1, parent=text_of(1), run=run, text=text_of(2))
                try:
                    keep(ledger, runs, last, text_of(2))
                    failed = None
                except LedgerUnclean as error:
                    failed = error
            if failed is None and stashed:
                assert not git(root, "stash", "list"), number  # there was nothing to take
            if failed is None:
                ledger.finish(date=DATE)
        if failed is not None:
            restore = re.search(r"`git (restore [^`]+)`", failed.hint or "")
            outcomes.add("restore" if restore else "pop")
            git(root, *(restore[1].split() if restore else ("stash", "pop", "-q")))
            ledger, _, _ = start_ledger(root, "20260103T093000-ef56")
            with ledger:
                ledger.finish(date=DATE)
        assert problems(root) == [], (number, failed)
        assert (root / CHAMPION).read_text() == text_of(2), (number, failed)
        assert len(load_records(root)) == records + 2
        if not stashed:
            break
    else:
        pytest.fail("more git commands than tried")
    assert outcomes == ({"restore", "pop"} if records else {"restore"})  # a new file is just written again


def test_a_stash_between_trials_is_no_gap_in_the_records(tmp_path: Path) -> None:
    root = repository(tmp_path)
    a_run(root, RUN, 1)
    run = "20260102T093000-cd34"
    ledger, runs, _ = start_ledger(root, run)
    with ledger:
        runs.append(record(1, parent=text_of(1), run=run, text=text_of(7), verdict=Verdict.REVERT))
        git(root, "stash", "push", "-q", "-u")
        with pytest.raises(LedgerUnclean, match="removed"):
            runs.append(record(2, parent=text_of(1), run=run, text=text_of(8), verdict=Verdict.REVERT))
    git(root, "stash", "pop", "-q")
    ledger, _, _ = start_ledger(root, "20260103T093000-ef56")
    with ledger:
        ledger.finish(date=DATE)
    assert RunFile(root, "attention", run).count == 1
    assert problems(root) == []


MOVES = {
    "reset": ("reset -q --hard HEAD~2",),
    "reset by one": ("reset -q --hard HEAD~1",),
    "another branch": ("checkout -q -f other",),
    "amended": ("commit -q --amend -m amended",),
    "branch deleted": ("checkout -q --detach", "branch -q -D main"),
    "branch renamed": ("branch -M main renamed",),
    "a commit on top": ("commit -q --allow-empty -m mine",),
    "the same files": ("add -A", "commit -q -m mine"),
    "collected": ("gc -q --prune=now",),
}


@pytest.mark.parametrize(
    ("move", "instants"),
    [
        pytest.param("reset", (59,), id="reset"),
        *(long(move, range(2, 200, 4), id=f"{move}, often") for move in MOVES),
    ],
)
def test_a_branch_that_moves_at_any_instant_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: str, instants: Sequence[int]
) -> None:
    """A trial is reverted, one kept, one reverted. The hint works, and what is recorded is what is committed."""
    start = repository(tmp_path / "start")
    git(start, "branch", "other")
    a_run(start, RUN, 1)
    for number in instants:
        root = Path(shutil.copytree(start, tmp_path / str(number)))
        ledger, runs, _ = start_ledger(root, "20260102T093000-cd34")
        failed = None
        with ledger, monkeypatch.context() as patched:
            moved = _disturb(ledger, root, number, patched, *MOVES[move])
            try:
                _three_trials(ledger, runs)
            except EvoError as error:  # HarnessFault: `git gc --prune=now` took what was about to be committed
                failed = error
                try:
                    ledger.finish(date=DATE)  # as the loop does, and tells its error
                except EvoError as error:
                    failed = error
        for _ in range(2):
            if failed is not None and (switch := re.search(r"git (switch [^,;]+)", failed.hint or "")):
                git(root, *switch[1].replace("NAME", "-c new").split())
            try:
                ledger, _, _ = start_ledger(root, "20260103T093000-ef56")
                break
            except LedgerUnclean as error:
                failed = error
        with ledger:
            ledger.finish(date=DATE)
        found = [problem for problem in problems(root) if "evo-unkept" not in problem]
        if move in ("amended", "the same files"):  # a message of the user names no trial, and the leaderboard follows
            found = [problem for problem in found if not problem.startswith(("commits", "the leaderboard"))]
        if move.startswith("reset"):  # to a commit whose leaderboard came after it, perhaps
            found = [problem for problem in found if not problem.startswith("the leaderboard")]
        assert found == [], (number, failed)
        assert moved or number > 80
        if not moved:
            break


def _three_trials(ledger: Ledger, runs: RunFile) -> None:
    parent = text_of(1)
    for at in (1, 2, 3):
        ledger.place(CHAMPION, text_of(6 + at))
        verdict = Verdict.KEEP if at == 2 else Verdict.REVERT
        trial = record(at, parent=parent, run=runs.run, text=text_of(6 + at), verdict=verdict)
        if at == 2:
            keep(ledger, runs, trial, text_of(6 + at))
            parent = text_of(6 + at)
        else:
            runs.append(trial)
            ledger.revert()
    ledger.finish(date=DATE)


def test_a_git_command_that_ctrl_c_ends_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is interrupted before it has a session of its own: else HEAD would be taken for detached."""
    found = Git.find(repository(tmp_path))
    assert found.branch() is not None
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(
        f"#!{sys.executable}\nimport os, signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\nos.kill(os.getpid(), signal.SIGINT)\n"
    )
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    with pytest.raises(KeyboardInterrupt):
        found.branch()
