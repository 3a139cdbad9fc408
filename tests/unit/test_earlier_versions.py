"""What earlier versions of evo wrote is still read: modules by their old names, records, the leaderboard."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import commit_all, evo_here, git

from evo import MOVED
from evo.records.leaderboard import load
from evo.records.trials import load_records

ROOT = Path(__file__).parents[2]
FIRST_RUN = ROOT / "population" / "attention" / "runs" / "20261121T140046-8660.jsonl"  # as version 0.1.0 wrote it
LEADERBOARD = ROOT / "tests" / "data" / "earlier" / "leaderboard.json"  # the first one


def test_moved_modules_are_found_by_their_old_names_and_so_is_what_an_earlier_importer_wrote() -> None:
    # The first line of a reference, as evo/exchange/draft.py wrote it, before anything has the module's new name.
    probe = "from evo.exchange.module import ModuleReference\nprint(ModuleReference.__module__)\nimport importlib\n"
    for old, new in MOVED.items():
        probe += f"assert importlib.import_module({old!r}) is importlib.import_module({new!r})\n"
    done = subprocess.run([sys.executable, "-W", "always", "-c", probe], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == MOVED["evo.exchange.module"]
    for old, new in MOVED.items():
        assert re.search(rf"DeprecationWarning: {re.escape(old)} is now {re.escape(new)}\b", done.stderr)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A repository with the records of the first run and the leaderboard of its day."""
    (runs := tmp_path / "population" / "attention" / "runs").mkdir(parents=True)
    shutil.copy(FIRST_RUN, runs)
    shutil.copytree(ROOT / "kernels" / "attention", tmp_path / "kernels" / "attention")
    shutil.copy(LEADERBOARD, tmp_path)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_an_earlier_leaderboard_is_read(earlier: Path) -> None:
    (portable, native) = load(earlier).entries
    assert (portable.variant, native.variant) == ("fdfb82925180", "ca4375778b5e")
    assert portable.cases["b2"].time_us == 7.8284


def test_earlier_records_are_listed_shown_and_compared(earlier: Path) -> None:
    first, second, *_ = load_records(earlier)
    assert (first.operator, second.operator) == ("start", "ladder")
    assert [row["trial"] for row in evo_here("log", "--json", cwd=earlier).json][:2] == [first.trial, second.trial]
    shown = evo_here("show", second.trial, "--json", cwd=earlier).json
    assert (shown["variant"], shown["evaluation"]["decision"]["verdict"]) == (second.variant, "keep")
    changed = evo_here("diff", first.variant, second.variant, cwd=earlier)
    assert changed.code == 0
    assert changed.out.startswith("--- ")


# --- a repository that evo of 2026-11-21 (commit 0972431) evolved on the simulator: a start, and a rung that it kept

START, KEPT = "20261123T080452-7b78-0001", "20261123T080452-7b78-0002"


@pytest.fixture
def evolved(tmp_path: Path) -> Path:
    root = Path(shutil.copytree(ROOT / "tests" / "data" / "earlier" / "repository", tmp_path / "repository"))
    git(root, "init", "--quiet", "--initial-branch", "main")
    commit_all(root, "as it was left")
    return root


def test_an_earlier_champion_is_listed_with_its_trial_and_its_change(evolved: Path) -> None:
    (row,) = evo_here("leaderboard", "--json", cwd=evolved).json["entries"]
    assert (row["task"], row["chip"], row["timing"]) == ("scale", "sim-l4", "modelled")
    shown = evo_here("show", KEPT, "--json", cwd=evolved).json
    assert (shown["variant"], shown["kind"]) == (row["variant"], "rung")
    assert evo_here("diff", START, KEPT, cwd=evolved).code == 0


@pytest.mark.long
def test_an_earlier_trial_has_the_same_outcome_when_it_is_replayed(evolved: Path) -> None:
    ran = evo_here("replay", KEPT, "--json", cwd=evolved)
    assert (ran.code, ran.json["same"]) == (0, True)


@pytest.mark.long
def test_a_night_reviews_an_earlier_champion(evolved: Path) -> None:
    ran = evo_here(
        *("nightly", "scale", "--device", "sim:l4", "--no-redteam", "--iterations", 0, "--branch", "night", "--json"),
        cwd=evolved,
    )
    assert ran.code == 0, ran.err
    (champion,) = ran.json["champions"]
    assert (champion["task"], champion["state"]) == ("scale", "holds")
