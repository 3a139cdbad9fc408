"""One run of the loop seen from outside: decisions, git, JSON lines, leaderboard, and the commands that read them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_killer import CHAMPION, problems
from tiny import ANEW, FAST, SLOW, Ran, commit_all, environment, evo, evo_here, evolved, fails, git, new_repository

from evo.records.trials import load_records

ONE = ("iterate", "scale", "--device", "sim:l4", "--iterations", 1)
START = (*ONE[:-1], 0)
LINE = {"trial", "variant", "operator", "kind", "summary", "status", "timing", "elapsed_s"}


@pytest.fixture(scope="module")
def run() -> tuple[Path, Ran]:
    return evolved()


def decisions(ran: Ran) -> list[tuple[object, ...]]:
    names = ("operator", "summary", "status", "decision", "variant", "cases", "gain")
    return [tuple(line.get(name) for name in names) for line in ran.lines[:-1]]


def test_it_keeps_what_is_faster_and_reverts_the_rest(run: tuple[Path, Ran]) -> None:
    root, ran = run
    assert ran.code == 0, ran.err
    *trials, done = ran.lines
    verdicts = [(trial["operator"], trial["status"], trial.get("decision")) for trial in trials]
    assert verdicts[:3] == [("start", "correct", None), ("patch", "wrong", None), ("ladder", "correct", "keep")]
    assert {verdict for _, _, verdict in verdicts[3:]} == {"revert"}
    assert (done["done"], done["trials"], done["kept"]) == (True, len(trials) - 1, 1)
    assert done["champion"] == trials[2]["variant"]
    assert problems(root, load_records(root, settled=True)) == []


def test_a_budget_that_the_start_takes_ends_the_run_and_keeps_nothing(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    fails(evo(*ANEW, "--budget", "1s", cwd=root), 2, "--budget")
    assert load_records(root, "scale") == []
    assert git(root, "status", "--porcelain").split() == []
    assert git(root, "log", "--format=%s").splitlines() == ["a task"]


def test_a_budget_ends_the_self_test_of_a_slow_reference(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    reference = root / "kernels" / "scale" / "reference.py"
    reference.write_text(
        f"import time\n{reference.read_text()}".replace("    return", "    time.sleep(40)\n    return", 1)
    )
    commit_all(root)
    began = time.monotonic()
    fails(evo(*ANEW, "--budget", "1s", cwd=root), 2, "--budget", "self-test")
    assert time.monotonic() - began < 20
    assert git(root, "status", "--porcelain").split() == []


def test_every_line_has_the_fields_of_the_contract(run: tuple[Path, Ran]) -> None:
    *trials, done = run[1].lines
    for trial in trials:
        assert set(trial) >= LINE
        assert trial["timing"] == "modelled"  # also where there are no times
        assert ("cases" in trial) == (trial["status"] == "correct")
        assert ("commit" in trial) == (trial["kind"] == "start" or trial.get("decision") == "keep")
        assert ("parent" in trial) == (trial["kind"] != "start")
    assert {"done", "trials", "kept", "champion", "start", "end", "elapsed_s"} <= set(done)
    assert sum(done["waits_s"].values()) == pytest.approx(done["elapsed_s"], abs=0.05)
    assert {"open", "propose", "gate", "record"} <= set(done["waits_s"])
    looks = done["looks"]
    assert looks["edits"] >= looks["without_time"] + looks["faster"] > 0
    assert 0 < looks["elapsed_s"] < done["elapsed_s"]
    assert done["end"]["small"]["modelled_us"] < done["start"]["small"]["modelled_us"]


def test_first_looks_are_committed_and_listed(run: tuple[Path, Ran]) -> None:
    root, ran = run
    trials, done = [line["variant"] for line in ran.lines[:-1]], ran.lines[-1]
    looks = json.loads(evo("log", "--looks", "--json", cwd=root).out)
    assert len(looks) == done["looks"]["edits"]
    assert {look["parent"] for look in looks} <= set(trials)
    assert {look["variant"] for look in looks} & set(trials)
    assert sum(look.get("ratio", 0) > 1 for look in looks) == done["looks"]["faster"]
    assert sum("ratio" not in look for look in looks) == done["looks"]["without_time"]
    assert git(root, "ls-files", "population/scale/looks").split()
    listed = evo("log", "--looks", cwd=root).out
    assert all(look["variant"] in listed for look in looks)


def test_git_tells_the_story(run: tuple[Path, Ran]) -> None:
    root, ran = run
    trials = {line["commit"]: line["id"] for line in ran.lines if "commit" in line}
    subjects = git(root, "log", "--reverse", "--format=%s").splitlines()
    kept = ["scale: start from 00_slow.cu", "scale: rung 10_fast"]
    boards = [f"leaderboard: scale on sim-l4, trial {trial}" for trial in trials.values()]
    assert subjects[:5] == ["a task", kept[0], boards[0], kept[1], boards[1]]
    assert subjects[5:] == [f"scale: records of run {ran.lines[0]['id'][:-5]}"]
    for commit, trial in trials.items():
        assert git(root, "show", "-s", "--format=%(trailers:key=Evo-Trial,valueonly)", commit) == trial
        changed = git(root, "show", "--name-only", "--format=", commit).splitlines()
        assert changed[0] == str(CHAMPION)
        assert changed[1].startswith("population/scale/runs/")


def test_the_leaderboard_never_mixes_modelled_and_measured(run: tuple[Path, Ran]) -> None:
    root, ran = run
    text = (root / "leaderboard.json").read_text()
    (entry,) = json.loads(text)["entries"]
    places = {name: entry[name] for name in ("task", "chip", "arch", "loaded", "timing", "variant")}
    assert places == {
        "task": "scale",
        "chip": "sim-l4",
        "arch": "sm_89",
        "loaded": "sim",
        "timing": "modelled",
        "variant": ran.lines[-1]["champion"],
    }
    assert entry["cases"]["small"]["modelled_us"] > 0
    assert isinstance(entry["cases"]["small"]["model_version"], str)
    assert "p50" not in text
    assert entry["commit"] == next(line["commit"] for line in ran.lines if line.get("decision") == "keep")


@pytest.mark.long
def test_the_reading_commands_agree(run: tuple[Path, Ran]) -> None:
    root, ran = run
    trials = ran.lines[:-1]
    assert [row["trial"] for row in evo_here("log", "--json", cwd=root).json] == [trial["id"] for trial in trials]
    assert evo_here("show", trials[1]["id"], "--json", cwd=root).json["evaluation"]["status"] == "wrong"
    assert "-    return" not in evo_here("diff", trials[0]["id"], trials[2]["id"], cwd=root).out
    for trial in trials[:3]:
        assert evo("replay", trial["id"], "--json", cwd=root).json["same"] is True
    board = evo_here("leaderboard", "--rebuild", "--json", cwd=root).json
    assert board["entries"][0]["variant"] == ran.lines[-1]["champion"]
    assert git(root, "status", "--porcelain") == ""


def test_the_same_seed_makes_the_same_decisions(run: tuple[Path, Ran], tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    again = decisions(evo(*ANEW, "--patch", "wrong.cu", "--iterations", 2, "--json", cwd=root))
    assert [line[:4] for line in again][-1] == ("ladder", "rung 10_fast", "correct", "keep")
    assert again == decisions(run[1])[: len(again)]


@pytest.mark.long
def test_two_at_once(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    command = [sys.executable, "-m", "evo", *map(str, ONE)]
    both = [subprocess.Popen(command, cwd=root, stdout=-1, stderr=-1, text=True, env=environment()) for _ in range(2)]
    errors = [process.communicate(timeout=120)[1] for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 6], errors
    assert "another evo" in errors[codes.index(6)]
    assert problems(root, load_records(root, settled=True)) == []


@pytest.mark.long
def test_a_champion_edited_by_hand_becomes_a_start(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    assert evo(*START, cwd=root).code == 0
    for edited in (FAST + "// mine\n", FAST + "// mine again\n"):  # one id, two texts
        (root / CHAMPION).write_text(edited)
        commit_all(root)
        ran = evo(*START, "--json", cwd=root)
        assert (ran.code, ran.lines[0]["kind"]) == (0, "start"), ran.err
        assert "not what evo last kept" in ran.err
        assert ran.err.index(" at most") < ran.err.index("not what evo last kept")
        trial = ran.lines[-2]["id"]
        assert evo_here("show", trial, cwd=root).code == 0
        assert evo_here("diff", str(CHAMPION), trial, cwd=root).code == 0
    assert problems(root, load_records(root, settled=True)) == []


@pytest.mark.long
def test_a_champion_that_fails_is_refused_and_left_alone(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    (root / CHAMPION).parent.mkdir()
    for text, word in ((SLOW.replace("2.0f", "2.0g"), "uncompiled"), (SLOW.replace("2.0f", "3.0f"), "wrong")):
        (root / CHAMPION).write_text(text)
        commit_all(root)
        ran = evo(*ONE, cwd=root)
        fails(ran, 3, word, "--from ladder/00_slow.cu")
        assert (root / CHAMPION).read_text() == text
        assert git(root, "status", "--porcelain") == ""
    fails(evo(*ONE, "--from", "wrong.cu", cwd=root), 3, "wrong")
    assert (root / CHAMPION).read_text() == text
