"""The loop's search from outside: refused patches with their parts, controls, patience, and going on with --resume."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from run_killer import CHAMPION, problems
from tiny import FAST, SLOW, environment, evo, evo_here, git, new_repository

from evo.device import parse_device
from evo.records.insights import outcomes, summarise
from evo.records.trials import load_records
from evo.search.events import Event, TrialBegun
from evo.search.loop import Settings, evolve

JOBS = ("--jobs", "2", "--cluster", "processes:2")
RUN = ("iterate", "scale", "--device", "sim:l4", "--operators", "rules", "--json")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_repository(tmp_path_factory.mktemp("search") / "repository")


def test_a_patch_of_two_changes_is_refused_with_its_parts(root: Path) -> None:
    patch = root / "two.cu"
    patch.write_text(FAST.replace("define THREADS 128", "define THREADS 64").replace("2.0f * x[i]", "x[i] + x[i]"))
    begun = ("--from", "ladder/10_fast.cu", "--patch", patch.name)
    ran = evo(*RUN[:4], "--operators", "patch", "--json", "--iterations", "1", *begun, cwd=root)
    assert ran.code == 0, ran.err
    start, refused, done = ran.lines
    assert (start["status"], refused["status"], done["kept"]) == ("correct", "refused", 0)
    assert refused["reason"].startswith("not one change: holds 2 changes: (1) line 5: 128 -> 64; (2) line 9 in scale:")
    assert "decision" not in refused
    patch.unlink()


@pytest.mark.long
def test_a_patch_of_two_changes_may_be_a_rewrite_which_is_counted_by_itself(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "repository")
    fast = SLOW.replace("void scale", "void quick").replace("launch scale", "launch quick")
    fast = fast.replace("THREADS * 16", "THREADS").replace("#define THREADS 32", "#define THREADS 128")
    body = fast[fast.index("{\n") + 2 : fast.rindex("}")]
    fast = fast.replace(body, FAST[FAST.index("{\n") + 2 : FAST.rindex("}")])
    (root / "quick.cu").write_text(fast)
    beside = fast + SLOW[SLOW.index('extern "C"') :]
    (root / "beside.cu").write_text(beside)
    words = (*RUN[:4], "--operators", "patch", "--json", "--iterations", "1")
    begin = evo(*words, "--from", "ladder/00_slow.cu", "--patch", "beside.cu", "--rewrites", "1", cwd=root)
    assert (begin.lines[1]["status"], begin.lines[1]["stage"]) == ("refused", "change")
    refused = evo_here("try", "quick.cu", "--task", "scale", "--device", "sim:l4", "--json", cwd=root)
    assert json.loads(refused.out)["stage"] == "change"
    tried = evo_here("try", "quick.cu", "--task", "scale", "--device", "sim:l4", "--json", "--rewrite", cwd=root)
    assert json.loads(tried.out)["decision"]["verdict"] == "keep"
    kept = evo(*words, "--patch", "quick.cu", "--rewrites", "1", cwd=root)
    assert (kept.lines[0]["kind"], kept.lines[0]["decision"]) == ("rewrite", "keep")
    (entry,) = json.loads((root / "leaderboard.json").read_text())["entries"]
    assert entry["rewrites"] == 1
    records = load_records(root, "scale")
    (insight,) = [each for each in summarise(records) if each.kept]
    assert (insight.operator, insight.change) == ("patch", "rewrite")
    assert set(outcomes(records, chip="sim-l4")) == {"patch (rewrite)"}


@pytest.mark.long
def test_patience_ends_a_control_and_resume_counts_on(root: Path) -> None:
    first = evo(*RUN, "--iterations", "3", "--search", "random", "--patience", "2", "--seed", "5", cwd=root)
    assert first.code == 0, first.err
    *trials, done = first.lines
    assert done["search"] == "random"
    assert done["trials"] == 2 or any(line.get("decision") == "keep" for line in trials)
    assert set(done["skipped"]) == {"known_code", "known_losers"}
    more = evo(*RUN, "--iterations", str(done["trials"]), "--resume", cwd=root)
    assert more.code == 0, more.err
    assert [line for line in more.lines if "trial" in line] == []
    assert more.lines[-1]["trials"] == done["trials"]
    assert "0 trials at most" in more.err.splitlines()[0]  # those of the last run count, and no note comes first


def test_a_trial_that_outlasts_the_budget_is_given_up_and_what_was_kept_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, now = new_repository(tmp_path / "repository"), [0.0]
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    told: list[Event] = []

    def watch(event: Event) -> None:
        told.append(event)
        if isinstance(event.about, TrialBegun) and event.about.kind != "start":
            now[0] = 91.0  # begun within the budget, and not at its end half a minute later

    settings = Settings(task="scale", device=parse_device("sim:l4"), operators=("ladder",), iterations=3, budget_s=60.0)
    done = evolve(settings, root, watch, clock=lambda: now[0])
    assert (done.trials, done.kept) == (0, 0)
    assert sum("budget" in event.note and "trial 2" in event.note for event in told) == 1
    (start,) = records = load_records(root, "scale", settled=True)
    assert (start.kind, done.champion) == ("start", start.variant)
    assert problems(root, records) == []


def test_questions_without_sense_are_refused(root: Path) -> None:
    for wrong in (
        ("--search", "best"),
        ("--target", "120%"),
        ("--resume", "--from", "ladder/00_slow.cu"),
        ("--jobs", "0"),
        JOBS,
    ):
        ran = evo_here(*RUN, *wrong, cwd=root)
        assert ran.code == 2
        assert ran.err.startswith("error: ")


@pytest.mark.long
def test_several_candidates_at_once_are_decided_in_the_order_of_their_proposals(tmp_path: Path) -> None:
    told = []
    for name in ("one", "two"):
        words = ("--iterations", "4", "--keep-neutral", "--cluster", "processes:2")
        ran = evo(*RUN, *words, cwd=new_repository(tmp_path / name))
        assert ran.code == 0, ran.err
        told.append([(line["operator"], line["variant"], line.get("decision")) for line in ran.lines[:-1]])
    assert told[0] == told[1]
    assert len(told[0]) == 5


CLOCK = {"date", "elapsed_s", "stages_s", "run", "trial", "commit", "again"}  # times, dates, and names made of them
SECRET = {
    "seed",
    "max_error",
    "rms_error",
    "budget",
    "inputs",
    "verified",
}  # what follows from the inputs, which no seed of a run tells


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(inner) for key, inner in value.items() if key not in CLOCK | SECRET}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.long
def test_a_seed_repeats_a_run_and_so_does_going_on_with_it(tmp_path: Path) -> None:
    command = ("iterate", "scale", "--device", "sim:l4", "--operators", "ladder,rules", "--keep-neutral")
    command = (*command, "--seed", "7", "--json")
    found = []
    for name, steps in (("one", [4]), ("two", [4]), ("three", [2, 3, 4])):
        root = new_repository(tmp_path / name)
        for place, iterations in enumerate(steps):
            begun = ("--resume",) if place else ("--from", "ladder/00_slow.cu")
            ran = evo(*command, "--iterations", iterations, *begun, cwd=root)
            assert ran.code == 0, ran.err
        records = load_records(root, settled=True)
        assert len({record.run for record in records}) == 1
        assert problems(root, records) == []
        board = json.loads((root / "leaderboard.json").read_text())
        subjects = [line for line in git(root, "log", "--format=%s").splitlines() if records[0].run not in line]
        found.append(
            (
                [timeless(json.loads(record.to_line())) for record in records],
                timeless(board),
                subjects[-4:],
                (root / CHAMPION).read_bytes(),
                timeless(ran.lines[-1]),
            )
        )
    one, two, three = found
    assert len(one[0]) == 5
    assert any(
        record["operator"] == "ladder" and record["evaluation"]["decision"]["verdict"] == "keep"
        for record in one[0][1:]
    )
    assert one == two
    assert one[:4] == three[:4]


@pytest.mark.long
def test_a_restart_changes_another_than_the_champion_and_is_gone_on_with_alike(tmp_path: Path) -> None:
    found = []
    for name, steps in (("whole", [15]), ("in parts", [14, 15])):
        root = tmp_path / name
        root.mkdir()
        git(root, "init", "-q")
        assert evo("init", cwd=root).code == 0
        task = root / "kernels/matmul/task.yaml"
        text = re.sub(r"(?m)^  (square[124]k|tall): .*\n", "", task.read_text())
        task.write_text(re.sub(r"(?m)^score: .*", "score: {square512: 1}", text))
        git(root, "add", "-A")
        git(root, "commit", "-qm", "tasks")
        for iterations in steps:
            chosen = ("--operators", "rules.work,rules.knob,rules.order", "--margin", "15%")
            words = (*chosen, "--keep-neutral", "--seed", "1", "--json", "--iterations", iterations)
            more = ("--resume",) if iterations != steps[0] else ()
            ran = evo("iterate", "matmul", "--device", "sim:l4", *words, *more, cwd=root)
            assert ran.code == 0, ran.err
        assert "nothing kept for a while" in ran.err
        records = load_records(root, "matmul", settled=True)
        found.append([(r.number, r.variant, r.parent, r.summary, r.verdict, r.gain) for r in records])
        tried = [record for record in records if "rival" in record.arguments]
        for record in tried:  # its parent was not kept, its rival was the champion
            (parent,) = [other for other in records if other.variant == record.parent]
            assert not parent.kept
            assert record.arguments["rival"] in {other.variant for other in records if other.kept}
            replaces = f"Replaces: {record.arguments['rival']}" in git(root, "log", "--format=%B")
            assert replaces == record.kept
        assert tried
    assert found[0] == found[1]


@pytest.mark.long
@pytest.mark.parametrize(("neutral", "reverts"), [(("--keep-neutral",), 3), ((), 0)])
def test_hybrid_turns_to_the_hardware_when_it_stalls_far_from_its_target(
    tmp_path: Path, neutral: tuple[str, ...], reverts: int
) -> None:
    """After three trials without a keep; at once where no small edit is worth a trial."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    assert evo("init", cwd=root).code == 0
    git(root, "add", "-A")
    git(root, "commit", "-qm", "tasks")
    rung = (root / "kernels/attention/ladder/40_mma.cu").read_text()
    (tmp_path / "slow.cu").write_text(re.sub(r"#define BLOCK_M \d+", "#define BLOCK_M 16", rung))
    words = ("--strategy", "hybrid", "--operators", "rules.flags,rules.order", "--from", str(tmp_path / "slow.cu"))
    ran = evo(
        "iterate", "attention", "--device", "sim:l4", *words, *neutral, "--iterations", reverts + 1, "--json", cwd=root
    )
    assert ran.code == 0, ran.err
    trials = [line for line in ran.lines if "trial" in line]
    operators = [(line["operator"], line["decision"]) for line in trials[1:]]
    assert [decision for _, decision in operators] == ["revert"] * reverts + ["keep"]
    assert [name == "derive" for name, _ in operators] == [False] * reverts + [True]
