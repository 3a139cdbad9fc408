from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import kill_driver
import pytest
from kill_driver import Killed, kill_and_recover, run_until
from ledger_samples import (
    CHAMPION,
    DATE,
    RUN,
    git,
    keep,
    problems,
    record,
    renderer,
    repository,
    start_ledger,
    text_of,
)
from long_cases import long
from refusals import refused

from evo import files as disk
from evo.errors import HarnessFault, LedgerUnclean, UsageError
from evo.records.ledger import History, Ledger
from evo.records.trials import Record, load_records
from evo.results import Verdict

RUN2 = "20260102T093000-cd34"


def first_keep(root: Path, run: str = RUN) -> str:
    """One run that keeps a start; returns its commit."""
    ledger, runs, _ = start_ledger(root, run)
    with ledger:
        commit = keep(ledger, runs, record(1, parent=None, run=run), text_of(1))
        ledger.finish(date=DATE)
    return commit


# --- keep and revert ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False], ids=["commits", "unborn branch"])
def test_a_keep_is_two_commits_and_a_clean_tree(tmp_path: Path, committed: bool) -> None:
    root = repository(tmp_path, commit=committed)
    ledger, runs, said = start_ledger(root)
    with ledger:
        assert said == []
        runs.append(record(1, parent=None, text=text_of(9), verdict=None))
        commit = keep(ledger, runs, record(2, parent=None, text=text_of(1)), text_of(1))
        assert ledger.finish(date=DATE) is None  # nothing was left to commit
    subjects = git(root, "log", "--format=%s").splitlines()
    assert subjects[:2] == [
        "leaderboard: attention on sim-l4, trial " + f"{RUN}-0002",
        "attention: unroll the loop 2 times",
    ]
    assert git(root, "rev-parse", "HEAD^" if committed else "HEAD~1") == commit
    files = git(root, "show", "--name-only", "--format=", commit).splitlines()
    assert files == [str(CHAMPION), f"population/attention/runs/{RUN}.jsonl"]
    assert commit in git(root, "show", "-s", "--format=%b", "HEAD")
    assert json.loads((root / "leaderboard.json").read_text())["entries"][0]["commit"] == commit
    assert git(root, "show", "-s", "--format=%an <%ae> %cn %aI", commit) == f"evo <evo@localhost> Kim {DATE}"
    if committed:
        assert problems(root) == []
    else:  # the user's own files were never added
        assert git(root, "ls-files").splitlines() == [str(CHAMPION), "leaderboard.json", *files[1:]]
        assert git(root, "status", "--porcelain").splitlines() == ["?? kernels/attention/task.yaml", "?? mine.txt"]


def test_rejected_trials_are_committed_when_the_run_ends(tmp_path: Path) -> None:
    root = repository(tmp_path)
    first_keep(root)
    ledger, runs, _ = start_ledger(root, RUN2)
    with ledger:
        for number in (1, 2):
            ledger.place(CHAMPION, text_of(5))
            runs.append(record(number, parent=text_of(1), run=RUN2, verdict=Verdict.REVERT))
            ledger.revert()
        commit = ledger.finish(date=DATE)
    assert commit == git(root, "rev-parse", "HEAD")
    assert git(root, "show", "-s", "--format=%(trailers:key=Evo-Run,valueonly)") == RUN2
    assert problems(root) == []


@pytest.mark.parametrize("data", [b"", b"a\r\nb\n\xff\x00 no newline", None], ids=["empty", "odd bytes", "absent"])
def test_revert_restores_byte_for_byte(tmp_path: Path, data: bytes | None) -> None:
    root = repository(tmp_path)
    champion = root / CHAMPION
    if data is not None:
        champion.parent.mkdir(parents=True)
        champion.write_bytes(data)
        git(root, "add", "-A")
        git(root, "commit", "-qm", "champion")
    ledger, _, _ = start_ledger(root)
    with ledger:
        ledger.place(CHAMPION, text_of(1))
        assert champion.read_text() == text_of(1)
        ledger.place(CHAMPION, text_of(2))
        ledger.revert()
        ledger.revert()
        assert (champion.read_bytes() if champion.exists() else None) == data
        ledger.finish(date=DATE)
    assert git(root, "status", "--porcelain") == ""


def test_a_kept_text_has_its_exact_bytes_in_git(tmp_path: Path) -> None:
    root = repository(tmp_path)
    text = text_of(1).replace("\n", "\r\n") + "// µ, no newline"
    ledger, runs, _ = start_ledger(root)
    with ledger:
        ledger.place(CHAMPION, text)
        commit = keep(ledger, runs, record(1, parent=None, text=text), text)
        assert ledger.history.text_at(commit, root / CHAMPION) == text.encode()
        ledger.finish(date=DATE)
    assert problems(root) == []


def test_the_tree_is_clean_where_git_converts_line_ends(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (root / ".gitattributes").write_text("*.cu text eol=crlf\n")
    git(root, "config", "core.safecrlf", "true")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "attributes")
    first_keep(root)
    assert (root / CHAMPION).read_text() == text_of(1)
    assert git(root, "status", "--porcelain") == ""


# --- what is the user's stays the user's ----------------------------------------------------------------------------


def test_staged_unstaged_and_untracked_changes_elsewhere_are_preserved(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (root / "mine.txt").write_text("one\nstaged\n")
    (root / "new.txt").write_text("new\n")
    git(root, "add", "mine.txt", "new.txt")
    (root / "mine.txt").write_text("one\nstaged\nunstaged\n")
    (root / "loose.txt").write_text("loose\n")
    git(root, "rm", "-q", "--cached", "kernels/attention/task.yaml")

    def seen() -> list[str]:
        return [git(root, "status", "--porcelain", "-uall"), git(root, "diff", "--cached"), git(root, "diff")]

    before = seen()
    first_keep(root)
    assert seen() == before
    assert git(root, "show", "HEAD:mine.txt") == "one\ntwo"
    assert git(root, "diff", "--name-only", "HEAD~2", "HEAD").splitlines() == [
        str(CHAMPION),
        "leaderboard.json",
        f"population/attention/runs/{RUN}.jsonl",
    ]


@pytest.mark.parametrize("how", ["staged", "modified", "untracked", "deleted"])
@pytest.mark.parametrize("where", [str(CHAMPION), "leaderboard.json", "population/attention/runs/x.jsonl"])
def test_foreign_changes_where_evo_writes_are_refused_by_name(tmp_path: Path, how: str, where: str) -> None:
    root = repository(tmp_path)
    file = root / where
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine\n")
    if how in ("modified", "deleted", "staged"):
        git(root, "add", "-A")
    if how in ("modified", "deleted"):
        git(root, "commit", "-qm", "x")
        file.write_text("changed\n")
    if how == "deleted":
        file.unlink()
    with pytest.raises(LedgerUnclean) as caught:
        start_ledger(root)
    assert where in caught.value.message
    assert caught.value.exit_code == 6
    assert caught.value.hint
    assert ("leaderboard --rebuild" in caught.value.hint) is (where == "leaderboard.json")


def test_what_init_lays_down_need_not_be_committed_first(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (root / "population").mkdir()
    (root / "population" / ".gitkeep").write_text("")
    (root / "leaderboard.json").write_text('{"version": 1, "entries": []}\n')
    first_keep(root)
    (root / "population" / ".gitkeep").unlink()
    assert problems(root) == []


def test_a_rebuilt_leaderboard_is_not_foreign(tmp_path: Path) -> None:
    root = repository(tmp_path)
    first_keep(root)
    rebuilt = (root / "leaderboard.json").read_bytes()
    (root / "leaderboard.json").write_text("{}\n")
    git(root, "commit", "-qam", "a bad merge")
    (root / "leaderboard.json").write_bytes(rebuilt)
    first_keep(root, RUN2)
    assert problems(root) == []


def test_failing_hooks_and_signing_are_bypassed(tmp_path: Path) -> None:
    root = repository(tmp_path)
    hooks = root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    names = (
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
    )
    for name in (*names, "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {root}/hook-ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    git(root, "config", "commit.gpgsign", "true")
    git(root, "config", "gpg.program", "false")
    git(root, "config", "user.signingkey", "none")
    first_keep(root)
    ledger, _, _ = start_ledger(root, RUN2, branch="other")
    ledger.close()
    assert not (root / "hook-ran").exists()


def test_without_an_identity_evo_commits_as_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    root = repository(tmp_path / "r", identity=False)
    git(root, "config", "user.useConfigOnly", "true")
    commit = first_keep(root)
    assert git(root, "show", "-s", "--format=%an %ae %cn %ce", commit) == "evo evo@localhost evo evo@localhost"


def test_a_surrounding_git_command_is_not_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = repository(tmp_path / "other")
    root = repository(tmp_path / "r")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))  # as in a hook of another repository
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    first_keep(root)
    monkeypatch.undo()
    assert problems(root) == []
    assert git(other, "log", "--format=%s") == "mine"


def test_git_grep_settings_do_not_hide_kept_trials(tmp_path: Path) -> None:
    root = repository(tmp_path)
    for name, value in (("grep.patternType", "fixed"), ("color.ui", "always"), ("log.showSignature", "true")):
        git(root, "config", name, value)
    commit = first_keep(root)
    history = History.open(root)
    assert history.commits() == {f"{RUN}-0001": commit}
    history.close()


# --- where the root may be ------------------------------------------------------------------------------------------


def test_a_root_in_a_subfolder(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    root = tmp_path / "sub [x]" / ".evo*"
    (root / "kernels" / "attention").mkdir(parents=True)
    first_keep(root)
    assert git(tmp_path, "ls-files", "-z").split("\0")[0] == f"sub [x]/.evo*/{CHAMPION}"
    (root / CHAMPION).write_text("foreign")
    with pytest.raises(LedgerUnclean, match="champions"):
        start_ledger(root, RUN2)


def test_a_folder_in_place_of_the_leaderboard_is_in_the_way(tmp_path: Path) -> None:
    root = repository(tmp_path)
    first_keep(root)
    (root / "leaderboard.json").unlink()
    (root / "leaderboard.json").mkdir()
    (root / "leaderboard.json" / "mine.txt").touch()
    with pytest.raises(LedgerUnclean, match=r"leaderboard\.json"):
        start_ledger(root, RUN2)


def test_worktrees_have_a_ledger_each(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    git(main, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = tmp_path / "side"
    ledger, _, _ = start_ledger(main)
    with ledger:
        first_keep(side, RUN2)  # though the other one is at work
        ledger.finish(date=DATE)
    assert problems(side) == []
    assert git(main, "log", "--format=%s") == "mine"


@pytest.mark.parametrize("kind", ["none", "bare"])
def test_no_working_tree_is_refused_with_a_hint(tmp_path: Path, kind: str) -> None:
    if kind == "bare":
        git(tmp_path, "init", "-q", "--bare")
    with pytest.raises(LedgerUnclean) as caught:
        Ledger.open(tmp_path, renderer(tmp_path))
    assert ("git init" if kind == "none" else "clone") in caught.value.hint


def test_a_merge_in_progress_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path)
    git(root, "switch", "-qc", "side")
    (root / "mine.txt").write_text("side\n")
    git(root, "commit", "-qam", "side")
    git(root, "switch", "-q", "main")
    (root / "mine.txt").write_text("main\n")
    git(root, "commit", "-qam", "main")
    git(root, "merge", "side", check=False)
    with refused(LedgerUnclean, "operation-in-progress") as caught:
        start_ledger(root)
    assert "--abort" in caught.value.hint
    git(root, "merge", "--abort")
    first_keep(root)  # the lock was let go


def test_a_file_outside_of_evos_folders_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    (tmp_path / "out").mkdir()
    (root / "kernels" / "linked").symlink_to(tmp_path / "out")
    ledger, _, _ = start_ledger(root)
    with ledger:
        for path in (Path("mine.txt"), Path("kernels/linked/x.cu"), Path("kernels/../mine.txt")):
            with refused(LedgerUnclean, "outside"):
                ledger.place(path, "x")
    assert (root / "mine.txt").read_text() == "one\ntwo\n"


# --- branches -------------------------------------------------------------------------------------------------------


def test_a_detached_head_is_refused_unless_a_branch_is_named(tmp_path: Path) -> None:
    root = repository(tmp_path)
    git(root, "switch", "-q", "--detach")
    with pytest.raises(LedgerUnclean, match="detached") as caught:
        start_ledger(root)
    assert "--branch" in caught.value.hint
    ledger, _, _ = start_ledger(root, branch="evo/night")
    ledger.close()
    assert git(root, "symbolic-ref", "HEAD") == "refs/heads/evo/night"


def test_a_new_branch_takes_the_users_changes_along(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (root / "mine.txt").write_text("staged\n")
    git(root, "add", "mine.txt")
    ledger, runs, _ = start_ledger(root, branch="evo/night")
    with ledger:
        keep(ledger, runs, record(1, parent=None), text_of(1))
        ledger.finish(date=DATE)
    assert git(root, "status", "--porcelain") == "M  mine.txt"
    assert git(root, "log", "--format=%s", "main") == "mine"


def test_a_switch_that_would_touch_the_users_changes_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path)
    git(root, "switch", "-qc", "side")
    (root / "mine.txt").write_text("side\n")
    git(root, "commit", "-qam", "side")
    git(root, "switch", "-q", "main")
    (root / "mine.txt").write_text("precious\n")
    with pytest.raises(LedgerUnclean, match=r"mine\.txt"):
        start_ledger(root, branch="side")
    assert (root / "mine.txt").read_text() == "precious\n"
    git(root, "restore", "mine.txt")
    ledger, _, _ = start_ledger(root, branch="side")
    ledger.close()
    assert (root / "mine.txt").read_text() == "side\n"


def test_a_disk_that_is_full_at_the_new_branch_is_no_fault_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evo.records.ledger.git import Git
    from evo.records.ledger.git_failures import GitFailed

    root = repository(tmp_path)

    def create_branch(*_: object) -> None:
        raise GitFailed("update-ref", 128, "fatal: unable to append to 'HEAD': No space left on device")

    monkeypatch.setattr(Git, "create_branch", create_branch)
    with refused(HarnessFault, "ENOSPC"):
        start_ledger(root, branch="faster")


@pytest.mark.parametrize("name", ["", "a..b", "-f", "a b", "x.lock", "a/"])
def test_a_name_that_is_no_branch_is_refused(tmp_path: Path, name: str) -> None:
    root = repository(tmp_path)
    with refused(UsageError, "branch-name"):
        start_ledger(root, branch=name)


@pytest.mark.parametrize(("there", "asked"), [("evo", "evo/first"), ("evo/first", "evo")])
def test_a_branch_whose_name_is_a_folder_of_the_other_is_named(tmp_path: Path, there: str, asked: str) -> None:
    root = repository(tmp_path)
    git(root, "branch", there)
    with refused(LedgerUnclean, "branch-in-way") as caught:
        start_ledger(root, branch=asked)
    assert f"git branch -m {there} " in caught.value.hint


@pytest.mark.parametrize("place", ["population", "population/attention", "population/attention/runs"])
def test_a_file_where_records_belong_ends_a_run_before_it_begins(tmp_path: Path, place: str) -> None:
    root = repository(tmp_path)
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text("notes\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "notes")
    with refused(LedgerUnclean, "not-a-folder") as caught:
        start_ledger(root)
    assert str(root / place) in caught.value.message
    assert (root / place).read_text() == "notes\n"
    (root / place).unlink()
    git(root, "commit", "-qam", "away")
    ledger, _, _ = start_ledger(root)
    ledger.close()


def test_a_branch_switched_under_evo_is_noticed(tmp_path: Path) -> None:
    root = repository(tmp_path)
    ledger, runs, _ = start_ledger(root)
    with ledger:
        git(root, "switch", "-qc", "elsewhere")
        with refused(LedgerUnclean, "another-branch"):
            keep(ledger, runs, record(1, parent=None), text_of(1))
    with refused(LedgerUnclean, "another-branch"):
        start_ledger(root, RUN2)
    git(root, "switch", "-q", "main")
    start_ledger(root, RUN2)[0].close()


# --- one at a time --------------------------------------------------------------------------------------------------


def test_a_second_evo_is_told_who_is_at_work(tmp_path: Path) -> None:
    root = repository(tmp_path)
    ledger, _, _ = start_ledger(root)
    script = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path\n"
        "from ledger_samples import start_ledger\nfrom evo.errors import LedgerUnclean\n"
        "try: start_ledger(Path(sys.argv[1]))\nexcept LedgerUnclean as e: print(e.message); sys.exit(e.exit_code)"
    )
    command = [sys.executable, "-c", script, str(root), str(Path(__file__).parents[2] / "support")]
    with ledger:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 6
        assert f"another evo (pid {os.getpid()} on" in done.stdout
        with refused(LedgerUnclean, "locked"):
            start_ledger(root)
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (root / ".git" / "evo.lock").write_text('{"pid": 1, "host": "x"}')
    first_keep(root)


def test_the_last_child_of_a_dead_process_is_waited_for(tmp_path: Path) -> None:
    root = repository(tmp_path)
    script = "import fcntl, sys, time; f = open(sys.argv[1], 'r+'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True)"
    lock = root / ".git" / "evo.lock"
    lock.write_text(json.dumps({"pid": 2**22 + 1, "host": socket.gethostname()}))  # above the largest pid there is
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{script}; time.sleep(1.5)", str(lock)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "1\n"
    first_keep(root)
    assert holder.wait() == 0
    holder.stdout.close()


def test_a_users_commit_in_between_is_built_upon(tmp_path: Path) -> None:
    root = repository(tmp_path)
    ledger, runs, _ = start_ledger(root)
    with ledger:
        keep(ledger, runs, record(1, parent=None), text_of(1))
        (root / "mine.txt").write_text("more\n")
        git(root, "commit", "-qam", "the user's")
        keep(ledger, runs, record(2, parent=text_of(1)), text_of(2))
        ledger.finish(date=DATE)
    assert git(root, "show", "HEAD:mine.txt") == "more"
    assert problems(root) == []


def test_a_lost_race_for_the_branch_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path)
    ledger, runs, _ = start_ledger(root)
    with ledger:
        plumbing = ledger._git
        real, raced = plumbing._commit_tree, []

        def commit_tree(*arguments: object) -> str:
            if not raced:
                raced.append(git(root, "commit", "-q", "--allow-empty", "-m", "in between"))
            return real(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(plumbing, "_commit_tree", commit_tree)
        keep(ledger, runs, record(1, parent=None), text_of(1))
        ledger.finish(date=DATE)
    assert "in between" in git(root, "log", "--format=%s")
    assert problems(root) == []


# --- faults and recovery --------------------------------------------------------------------------------------------


def test_killed_before_any_step_nothing_is_lost_or_doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    # Every instant is tried by tests/long/test_kill.py; here a sample, with the first steps always in it.
    for fatal in [*range(1, 4), *rng.sample(range(4, 180), 4)]:
        root = repository(tmp_path / str(fatal))
        run_until(root, monkeypatch, fatal)
        ledger, _, said = start_ledger(root, RUN2)
        with ledger:
            ledger.finish(date=DATE)
        assert problems(root) == [], f"killed at {fatal}: {said}"


@pytest.mark.long
def test_killed_by_the_system_at_random_instants(tmp_path: Path) -> None:
    kill_and_recover(repository(tmp_path), random.Random(3), kills=6)


@pytest.mark.long
def test_a_git_command_that_outlives_a_killed_evo_is_waited_for(tmp_path: Path) -> None:
    root, slow = repository(tmp_path / "repository"), tmp_path / "git"
    mark, over = tmp_path / "reads", tmp_path / "has read"
    real = shutil.which("git")
    late = f'touch {mark}; sleep 1.5; {real} "$@"; touch "{over}"; exit'
    slow.write_text(f'#!/bin/sh\ncase "$*" in *read-tree*) {late};; esac\nexec {real} "$@"\n')
    slow.chmod(0o755)
    loop = subprocess.Popen(
        [sys.executable, kill_driver.__file__, str(root), "1"], env=os.environ | {"PATH": f"{tmp_path}:{os.defpath}"}
    )
    while not mark.exists():
        assert loop.poll() is None
        time.sleep(0.01)
    loop.kill()
    loop.wait()
    with Ledger.open(root, renderer(root)) as ledger:
        assert over.exists()
        assert ledger.recover(date=DATE)
    assert problems(root) == []
    assert len(load_records(root)) == 1


@pytest.mark.parametrize("name", ["write", long("fsync")])
def test_a_full_disk_is_a_harness_fault_and_the_next_start_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for calls in range(1, 6):
        root = repository(tmp_path / str(calls))
        ledger, runs, _ = start_ledger(root)
        left = calls

        def full(*arguments: object, real: object = getattr(os, name)) -> object:
            nonlocal left
            left -= 1
            if left <= 0:
                raise OSError(28, "No space left on device")
            return real(*arguments)  # type: ignore[operator]

        with ledger:
            with monkeypatch.context() as patch:
                patch.setattr(disk.os, name, full)
                with refused(HarnessFault, "ENOSPC") as fault:
                    keep(ledger, runs, record(1, parent=None), text_of(1))
            assert fault.value.exit_code == 5
            assert "space" in fault.value.hint
            assert list(root.rglob("*.evo-tmp")) == []
            for path in (root / CHAMPION, root / "leaderboard.json", runs.path):
                assert not path.exists() or path.read_bytes() == b"" or path.read_bytes().endswith(b"\n")
        ledger, _, _ = start_ledger(root, RUN2)
        with ledger:
            ledger.finish(date=DATE)
        assert problems(root) == []


def test_a_full_disk_in_git_is_a_harness_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evo.records.ledger.git import Git
    from evo.records.ledger.git_failures import GitFailed

    failed = GitFailed("hash-object", 128, "error: unable to write file: No space left on device\nfatal: x")
    fault = failed.fault()
    assert isinstance(fault, HarnessFault)
    assert "space" in fault.hint
    unwritable = GitFailed("hash-object", 128, "error: unable to create temporary file: Read-only file system")
    assert "writable" in unwritable.fault().hint
    ledger, runs, _ = start_ledger(repository(tmp_path))
    real = Git.run

    def full(git: Git, *arguments: str, **options: object) -> bytes:
        if arguments[0] == "hash-object":
            raise failed
        return real(git, *arguments, **options)  # type: ignore[arg-type]

    with ledger:
        with monkeypatch.context() as patch:
            patch.setattr(Git, "run", full)
            with refused(HarnessFault, "ENOSPC"):
                keep(ledger, runs, record(1, parent=None), text_of(1))
        ledger.finish(date=DATE)


def test_a_torn_record_is_mended_and_reported(tmp_path: Path) -> None:
    root = repository(tmp_path)
    ledger, runs, _ = start_ledger(root)
    runs.append(record(1, parent=None, verdict=None))
    ledger.close()
    with runs.path.open("ab") as file:
        file.write(record(2, parent=text_of(1)).to_line().encode()[:300])
    ledger, _, said = start_ledger(root, RUN2)
    ledger.close()
    assert "cut a torn last line of 300 bytes" in said[0]
    assert "committed the records of the interrupted run" in said[1]
    assert [trial.number for trial in load_records(root)] == [1]
    start_ledger(root, "20260103T093000-cd34")[0].close()
    assert problems(root)[0].startswith("left over") is True  # only the note of the run that was just begun
    start_ledger(root)[0].finish(date=DATE)


def test_an_edit_of_the_users_is_not_overwritten_by_recovery(tmp_path: Path) -> None:
    root = repository(tmp_path)
    first_keep(root)
    ledger, _, _ = start_ledger(root, RUN2)
    ledger.place(CHAMPION, text_of(2))
    ledger.close()
    (root / CHAMPION).write_text("the user was here\n")
    with refused(LedgerUnclean, "changed-outside"):
        start_ledger(root, RUN2)
    assert (root / CHAMPION).read_text() == "the user was here\n"
    git(root, "restore", str(CHAMPION))
    ledger, _, said = start_ledger(root, RUN2)
    ledger.finish(date=DATE)
    ledger.close()
    assert "put back" in said[0]
    assert problems(root) == []


def test_locks_that_a_killed_evo_left_are_removed_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path)
    ledger, runs, _ = start_ledger(root)

    def die(*_: object) -> bool:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(ledger._git, "_advance", die)
        with pytest.raises(Killed):
            keep(ledger, runs, record(1, parent=None), text_of(1))
    ledger.close()
    for name in ("HEAD.lock", "refs/heads/main.lock"):
        (root / ".git" / name).write_text("")
    from evo.records.ledger.git import _CLAIM

    (root / ".git" / "index.lock").write_bytes(_CLAIM)
    (root / ".git/evo-index-1").write_text("")
    (root / CHAMPION).with_name(".x.cu.evo-tmp").write_text("half")
    ledger, _, said = start_ledger(root, RUN2)
    ledger.finish(date=DATE)
    ledger.close()
    assert len(said) == 5, said
    assert problems(root) == []
    (root / ".git" / "index.lock").write_text("")
    monkeypatch.setattr("evo.records.ledger.git._LOCK_WAIT_S", 0.2)
    ledger, runs, _ = start_ledger(root, "20260103T093000-cd34")
    with refused(LedgerUnclean, "locked"):
        keep(ledger, runs, record(1, parent=None, run="20260103T093000-cd34"), text_of(1))
    assert (root / ".git" / "index.lock").exists()
    (root / ".git" / "index.lock").unlink()
    ledger.finish(date=DATE)  # the keep that failed is finished first
    ledger.close()
    assert problems(root) == []


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"version": 9}', '{"version": 1, "kind": "keep", "who": 1}', '{"version": 1}']
)
def test_a_journal_that_cannot_be_read_is_never_guessed_at(tmp_path: Path, text: str) -> None:
    root = repository(tmp_path)
    (root / ".git" / "evo-journal.json").write_text(text)
    with refused(LedgerUnclean, "unreadable"):
        start_ledger(root)


# --- history --------------------------------------------------------------------------------------------------------


def test_history_is_plain_data(tmp_path: Path) -> None:
    root = repository(tmp_path)
    empty = History.open(repository(tmp_path / "unborn", commit=False))
    assert (empty.commits(), empty.versions(tmp_path / "unborn" / "x.cu")) == ({}, [])
    empty.close()
    ledger, runs, _ = start_ledger(root)
    with ledger:
        one = keep(ledger, runs, record(1, parent=None), text_of(1))
        two = keep(ledger, runs, record(2, parent=text_of(1)), text_of(2))
        ledger.finish(date=DATE)
    history = History.open(root)
    assert history.commits() == {f"{RUN}-0001": one, f"{RUN}-0002": two}
    assert history.commit_of(f"{RUN}-0002") == two
    assert history.commit_of("none") is None
    versions = history.versions(root / CHAMPION)
    assert [(row.commit, row.trial) for row in versions] == [(one, f"{RUN}-0001"), (two, f"{RUN}-0002")]
    assert versions[1].subject == "attention: unroll the loop 2 times"
    assert history.versions(root / "other.cu") == []
    assert history.text_at(one, root / CHAMPION) == text_of(1).encode()
    assert history.text_at("main~4", root / CHAMPION) is None
    for unknown in ("nope", "--all", ""):
        with pytest.raises(UsageError):
            history.text_at(unknown, root / CHAMPION)
    history.close()


def test_a_summary_cannot_forge_a_trailer(tmp_path: Path) -> None:
    root = repository(tmp_path)
    ledger, runs, _ = start_ledger(root)
    trial = record(
        1, parent=None, summary="x\n\nEvo-Trial: forged", reason="Evo-Trial: forged\n\nEvo-Trial: forged\0\ud800"
    )
    with ledger:
        commit = keep(ledger, runs, trial, text_of(1))
        assert ledger.history.commits() == {trial.trial: commit}
        ledger.finish(date=DATE)
    assert isinstance(load_records(root)[0], Record)
    assert problems(root) == []
