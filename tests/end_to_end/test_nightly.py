"""A night on a small repository: what holds is left alone, what does not is demoted with its cause."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import fake_gpu
import pytest
from tiny import FAST, SLOW, commit_all, evo, evolved, fails, git, named, new_repository

import evo.audit.nightly.run as nightly_run
import evo.search.pipelined as flight
from evo.audit.nightly import Hooks, Night, NightCheck, NightlyRun, NightPlan, ReviewState
from evo.cli.shipped_tasks import attacked_folder, lay_down, shipped_folder
from evo.decide.sequential import decide_modelled as real
from evo.device import DeviceName
from evo.evaluate.pipeline import EvaluationSession
from evo.records.trials import load_records, rebuild_text
from evo.search.loop import Settings, evolve

SUPPORT = Path(__file__).resolve().parents[1] / "support"
SIM, GPU = DeviceName("sim", "l4"), DeviceName("gpu", "0")
FIRST_COMMENT, REWORDED = "One thread per element", "One thread for each element"
CLUMSY = "{ float v = 0.0f; for (int k = 0; k < 8; ++k) v += x[(i * 33 + k) % n]; y[i] = 2.0f * x[i] + 0.0f * v; }"


def night(root: Path, device: DeviceName = SIM, **plan: object) -> Night:
    """A night without doctor, attacks and loop, unless the plan says otherwise."""
    settings = {"device": device, "attacks": None, "iterations": 0, **plan}
    return NightlyRun(NightPlan(**settings), root, Hooks(machine=list, shipped=shipped_folder())).run()  # type: ignore[arg-type]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose champion was kept over a slower start."""
    return Path(shutil.copytree(evolved()[0], tmp_path / "mine"))


def champion(root: Path, place: str = "sim-l4-sm_89") -> Path:
    return root / "kernels" / "scale" / "champions" / f"{place}.cu"


def edit(root: Path, old: str, new: str, subject: str, file: Path | None = None) -> str:
    """Change a file by hand and commit it; the commit."""
    path = file if file is not None else champion(root)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    commit_all(root, subject)
    return git(root, "rev-parse", "HEAD")


def test_a_slow_edit_is_caught_demoted_and_bisected_to_its_commit(root: Path) -> None:
    kept = champion(root).read_text()
    edit(root, FIRST_COMMENT, REWORDED, "reword a comment")
    guilty = edit(root, "y[i] = 2.0f * x[i];", CLUMSY, "clean up")
    slow = champion(root).read_text()
    edit(root, "neighbours read", "neighbours still read", "reword it again")
    slow_now = champion(root).read_text()
    (root / "unrelated").write_text("nothing")
    commit_all(root, "something else")
    found = night(root)
    (one,) = found.champions
    assert (one.state, found.exit_code) == (ReviewState.DEMOTED, 1)
    assert one.cause is not None
    assert (one.cause.kind, one.cause.bad) == ("commit", guilty)
    assert REWORDED in champion(root).read_text() or champion(root).read_text() == kept
    # Nothing is lost: the slow text is a record, its place taken by a commit that says why, the tree clean.
    records = load_records(root, settled=True)
    assert [record.kind for record in records[-2:]] == ["start", "review"]
    assert rebuild_text(records, records[-2].trial) == slow_now != slow
    assert rebuild_text(records, records[-1].trial) == champion(root).read_text()
    assert records[-1].gain is None  # faster than what failed is no gain
    assert git(root, "status", "--porcelain") == ""
    board = json.loads((root / "leaderboard.json").read_text())["entries"]
    assert [entry["variant"] for entry in board] == [records[-1].variant]
    again = night(root)
    assert (again.champions[0].state, again.exit_code) == (ReviewState.HOLDS, 0)
    assert len(load_records(root)) == len(records)


def test_a_wrong_edit_makes_room_for_the_last_right_one(root: Path) -> None:
    kept = champion(root).read_text()
    guilty = edit(root, "2.0f * x[i]", "2.5f * x[i]", "another factor")
    (one,) = night(root).champions
    assert (one.state, one.note.partition(":")[0]) == (ReviewState.DEMOTED, "wrong")
    assert one.cause is not None
    assert (one.cause.kind, one.cause.bad) == ("commit", guilty)
    assert champion(root).read_text() == kept


def test_a_champion_that_does_not_compile_is_no_fault_of_the_machine(root: Path) -> None:
    guilty = edit(root, "y[i] =", "y[i] = nonsense +", "a slip")
    found = night(root)
    (one,) = found.champions
    assert (one.state, one.note.partition(":")[0]) == (ReviewState.DEMOTED, "uncompiled")
    assert one.cause is not None
    assert one.cause.bad == guilty
    assert [check.state for check in found.of("control")] == ["skipped"]
    assert found.exit_code == 1


def test_a_night_that_ends_early_says_so_in_its_own_words(root: Path) -> None:
    (root / "leaderboard.json").write_text('{"version": 1, "entries": [')
    commit_all(root, "a slip")
    found = night(root)
    assert "1 fault" in found.verdict
    assert (found.chip, found.exit_code) == ("sim-l4", 5)
    broken = NightlyRun(
        NightPlan(device=SIM, attacks=None), root, Hooks(machine=_no_machine, shipped=shipped_folder())
    ).run()
    assert "no permission" in broken.of("night")[0].text


def test_a_task_that_has_no_kernel_yet_is_no_fault(root: Path) -> None:
    empty = Path(shutil.copytree(root / "kernels" / "scale", root / "kernels" / "empty"))
    (empty / "task.yaml").write_text((empty / "task.yaml").read_text().replace("name: scale", "name: empty"))
    for file in empty.rglob("*.cu"):
        file.unlink()
    commit_all(root, "a task that was imported")
    found = night(root, tasks=("empty",), iterations=1)
    assert [(check.name, check.state) for check in found.of("iterate")] == [("empty", "skipped")]
    assert "no kernel" in found.of("iterate")[0].text
    assert found.exit_code == 0


def _no_machine() -> list[NightCheck]:
    raise PermissionError("no permission")


def test_a_changed_task_is_named_where_no_champion_passes_any_more(root: Path) -> None:
    before = champion(root).read_text()
    reference = root / "kernels" / "scale" / "reference.py"
    guilty = edit(root, "2.0 * inputs", "3.0 * inputs", "the factor is three", reference)
    found = night(root, iterations=1)
    (one,) = found.champions
    assert (one.state, found.exit_code) == (ReviewState.FAILING, 1)
    assert one.cause is not None
    assert one.cause.kind == "environment"
    assert guilty[:12] in one.cause.task_commits[0]
    assert champion(root).read_text() == before
    assert [check.state for check in found.of("iterate")] == ["skipped"]


@pytest.mark.long
def test_another_environment_is_no_regression_and_is_recorded_anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evo.evaluate.session.harness_version", lambda: "9.9+another")
    found = night(root)
    (one,) = found.champions
    assert (one.state, found.exit_code) == (ReviewState.HOLDS, 0)
    assert any("harness 9.9+another" in words for words in one.differences)
    assert one.renewed is not None
    assert night(root).champions[0].differences == ()  # from now on the figures can be compared


@pytest.mark.long
def test_a_keep_that_only_another_environment_bears_out_is_laid_to_the_environment(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "mine")
    ladder = root / "kernels" / "scale" / "ladder"
    (ladder / "00_slow.cu").rename(ladder / "20_slow.cu")
    commit_all(root)
    with pytest.MonkeyPatch.context() as then:  # when an older evo judged the slow rung the faster one
        then.setattr("evo.evaluate.session.harness_version", lambda: "0.0+older")
        turned = lambda theirs, ours, *more, **words: real(ours, theirs, *more)  # noqa: E731
        then.setattr("evo.evaluate.pipeline.decide_modelled", turned)
        then.setattr("evo.search.bandit._FAR", 0.0)
        evolve(Settings(task="scale", device=SIM, iterations=1, operators=("ladder",)), root, lambda _: None)
    kept = git(root, "log", "--format=%H", "--grep", "rung 20_slow", "--", str(champion(root)))
    (one,) = night(root).champions
    assert (one.state, one.cause.kind if one.cause else "") == (ReviewState.DEMOTED, "environment")
    assert one.cause is not None
    assert one.cause.bad == kept
    assert any("0.0+older" in words for words in one.differences)
    assert FIRST_COMMENT in champion(root).read_text()


@pytest.mark.long
def test_a_figure_that_its_text_does_not_give_is_corrected(root: Path) -> None:
    (file,) = (root / "population" / "scale" / "runs").glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for case in lines[-1]["evaluation"]["bench"]:
        case["modelled_us"] = round(case["modelled_us"] / 2, 4)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert evo("leaderboard", "--rebuild", cwd=root).code == 0
    commit_all(root, "a better figure")
    found = night(root)
    (one,) = found.champions
    assert (one.state, found.exit_code) == (ReviewState.SLOWER, 1)
    assert "2.00x its recorded time" in one.note
    assert one.renewed is not None
    assert night(root).exit_code == 0


@pytest.mark.long
def test_without_history_in_git_the_records_are_enough(root: Path, tmp_path: Path) -> None:
    edit(root, "y[i] = 2.0f * x[i];", CLUMSY, "clean up")
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", root.as_uri(), shallow], check=True)
    (one,) = night(shallow).champions
    assert one.state is ReviewState.DEMOTED


# --- on a GPU that is faked -----------------------------------------------------------------------------------------


@pytest.fixture
def measured(tmp_path: Path, faked_gpu: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose champion takes 10 microseconds on the fake GPU, and its start 20."""
    for module in (flight, nightly_run):
        monkeypatch.setattr(module, "EvaluationSession", functools.partial(EvaluationSession, opener=fake_gpu.OPENER))
    root = new_repository(tmp_path / "mine")
    folder = root / "kernels" / "scale"
    reference = (folder / "reference.py").read_text()
    (folder / "reference.py").write_text(f'{reference}\n\ndef rivals():\n    return {{"library": None}}\n')
    for rung, text, kernel in (("00_slow", SLOW, "slow_20"), ("10_fast", FAST, "fast_10")):
        (folder / "ladder" / f"{rung}.cu").write_text(named(text, kernel))
    commit_all(root)
    evolve(Settings(task="scale", device=GPU, iterations=1, operators=("ladder",)), root, lambda _: None)
    return root


@pytest.mark.long
def test_measured_champions_are_held_against_records_and_library(measured: Path) -> None:
    (one,) = night(measured, GPU).champions
    assert one.state is ReviewState.HOLDS
    assert [(held.against, held.case, held.verdict) for held in one.pairs[1:]] == [
        ("library", "small", "faster"),
        ("broken", "small", "refused"),
    ]
    gain = one.pairs[1].champion_faster_by
    assert gain is not None
    assert gain.low is not None
    assert gain.high is not None
    assert gain.low < 1.2 < gain.high
    assert one.cases[0].library_us == pytest.approx(12.0)
    place = champion(measured, "h200-sm_89")
    guilty = edit(measured, "fast_10", "fast_13", "rename it", place)
    found = night(measured, GPU)
    (one,) = found.champions
    assert one.state is ReviewState.DEMOTED
    assert one.cause is not None
    assert one.cause.bad == guilty
    assert "fast_10" in place.read_text()
    record = load_records(measured)[-1]
    assert (record.kind, record.timing) == ("review", "measured")
    assert record.arguments["against_demoted"]["confirmed"] is True  # type: ignore[index,call-overload]


@pytest.mark.long
def test_a_slow_machine_is_not_a_slow_champion(measured: Path, tmp_path: Path) -> None:
    (tmp_path / "gpu" / "slow").write_text("1.2")
    found = night(measured, GPU)
    (one,) = found.champions
    assert (one.state, found.exit_code) == (ReviewState.CHANGED, 0)
    assert "the machine" in one.note
    assert one.renewed is None


@pytest.mark.long
def test_an_unquiet_machine_compares_nothing(measured: Path, tmp_path: Path) -> None:
    (tmp_path / "gpu" / "bias").write_text("0.8")  # a program is measured as faster than itself
    found = night(measured, GPU)
    assert found.exit_code == 5
    assert [check.state for check in found.of("control")] == ["fault"]
    assert found.champions[0].state is ReviewState.FAULT


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_command_leaves_what_ci_reads(root: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.md"
    job.write_text("before\n")
    fails(evo("nightly", "--device", "sim:l4", "--only", "nonsense", cwd=root), 2, "no attack", "nonsense")
    ran = evo(
        "nightly", "--device", "sim:l4", "--no-redteam", "--budget", "20s", "--iterations", "2",
        "--branch", "evo/night", "--out", tmp_path / "out", cwd=root, env={"GITHUB_STEP_SUMMARY": str(job)},
    )  # fmt: skip
    assert ran.code == 0, ran.err
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [".gitignore", "junit.xml", "nightly.json", "report.html", "summary.md"]
    assert job.read_text() == "before\n" + ran.out == "before\n" + (tmp_path / "out" / "summary.md").read_text()
    told = json.loads((tmp_path / "out" / "nightly.json").read_text())
    assert (told["exit_code"], told["timing"], told["branch"]) == (0, "modelled", "evo/night")
    assert ElementTree.parse(tmp_path / "out" / "junit.xml").getroot().get("failures") == "0"
    assert "<html" in (tmp_path / "out" / "report.html").read_text()
    assert git(root, "branch", "--show-current") == "evo/night"


def test_a_night_in_a_repository_of_ones_own_attacks_the_shipped_tasks(root: Path, tmp_path: Path) -> None:
    assert attacked_folder(root) == attacked_folder(None) == shipped_folder()
    lay_down(tmp_path / "copies")
    assert attacked_folder(tmp_path / "copies") == tmp_path / "copies" / "kernels"


def test_git_ignores_the_folder_that_a_night_makes(root: Path) -> None:
    fails(evo("nightly", "--device", "sim:l4", "--only", "nonsense", cwd=root), 2, "no attack")
    assert (root / "nightly").is_dir()
    assert git(root, "status", "--porcelain") == ""


def test_bad_requests_are_refused_before_the_night_begins(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    fails(evo("nightly", "--device", "sim:l4", "--out", file, cwd=root), 2, "not a folder")
    (root / "leaderboard.json").write_text("{")
    found = NightlyRun(NightPlan(device=SIM), root, Hooks(machine=list, shipped=shipped_folder())).run()
    assert (found.exit_code, [check.step for check in found.checks]) == (6, ["ledger"])
    broken = NightCheck(step="doctor", name="git", state="fault", text="not on PATH")
    assert NightlyRun(NightPlan(device=SIM), root, Hooks(machine=lambda: [broken], shipped=root)).run().exit_code == 5
