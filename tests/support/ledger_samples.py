"""Records with made-up evaluations, repositories, and one step of a loop, for tests of ledger and population."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from evo.records import leaderboard
from evo.records.ledger import History, KeptTrial, Ledger
from evo.records.trials import Record, RunFile, kept_message, load_records, make_diff, rebuild_text, trial_id
from evo.results import CaseBench, Decision, Environment, Estimate, Evaluation, Gain, Status, Timing, Verdict
from evo.results.codec import as_written
from evo.spec.variant import variant_id

RUN = "20260101T093000-ab12"
DATE = "2026-01-01T09:30:00+00:00"
CHAMPION = Path("kernels/attention/champions/sim-l4-sm_89.cu")


def text_of(number: int) -> str:
    return f"// variant {number}\n// evo: launch k grid (1) block (32) shared 0\n#define N {number}\nvoid k() {{}}\n"


def environment(loaded: str = "sim", chip: str | None = None) -> Environment:
    return Environment(
        device="sim:l4" if loaded == "sim" else "gpu:0",
        chip=chip or ("sim-l4" if loaded == "sim" else "l4"),
        arch="sm_89",
        loaded=loaded,
        toolkit="13.0",
        harness="0.1.0",
        task_hash="abc",
        detail={"driver": "580"},
    )


def case(loaded: str, time_us: float) -> CaseBench:
    if loaded == "sim":
        estimate = Estimate(
            modelled_us=time_us,
            model_version="1",
            chip="l4",
            calibration="uncalibrated",
            limiter="dram",
            terms_us={"dram": time_us},
            blocks_run=4,
            blocks_total=4,
        )
        return CaseBench.modelled("b2", estimate)
    warm = Timing(p50_us=time_us, p90_us=time_us * 1.1, p99_us=time_us * 1.2, mean_us=time_us, std_us=0.1, samples=1000)
    return CaseBench(name="b2", warm=warm, cold=warm, tflop_per_s=12.5)


def evaluation(
    variant: str, verdict: Verdict | None, *, loaded: str = "sim", ratio: float = 1.25, time_us: float = 10.0
) -> Evaluation:
    if verdict is None:
        return Evaluation(variant=variant, status=Status.WRONG, reason="case b2: off", environment=environment(loaded))
    low, high = (None, None) if loaded == "sim" else (ratio - 0.05, ratio + 0.05)
    return Evaluation(
        variant=variant,
        status=Status.CORRECT if loaded == "sim" else Status.MEASURED,
        reason=None,
        environment=environment(loaded),
        bench=(case(loaded, time_us),),
        decision=Decision(verdict=verdict, reason="because", gain=Gain(ratio=ratio, low=low, high=high)),
        elapsed_s=1.5,
    )


def record(
    number: int,
    *,
    parent: str | None,
    text: str | None = None,
    verdict: Verdict | None = Verdict.KEEP,
    run: str = RUN,
    task: str = "attention",
    loaded: str = "sim",
    ratio: float = 1.25,
    time_us: float = 10.0,
    **fields: object,
) -> Record:
    """A trial; `parent` is the parent's text, None for a start."""
    text = text_of(number) if text is None else text
    outcome = evaluation(variant_id(text), verdict, loaded=loaded, ratio=ratio, time_us=time_us)
    given: dict[str, object] = {
        "trial": trial_id(run, number),
        "run": run,
        "number": number,
        "task": task,
        "variant": variant_id(text),
        "parent": None if parent is None else variant_id(parent),
        "operator": "rules.unroll",
        "kind": "start" if parent is None else "mutation",
        "summary": f"unroll the loop {number} times",
        "reason": "fewer branches",
        "evaluation": as_written(outcome),
        "diff": text if parent is None else make_diff(parent, text),
        "date": DATE,
        "elapsed_s": 2.0,
        **fields,
    }
    return Record(**given)  # type: ignore[arg-type]


def git(folder: Path, *arguments: str, check: bool = True, data: str | None = None) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False, input=data)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip()


def repository(folder: Path, *, commit: bool = True, identity: bool = True) -> Path:
    """A git repository with a task folder and a file of the user's."""
    return Path(shutil.copytree(_template(commit, identity), folder, dirs_exist_ok=True))


@functools.cache
def _template(commit: bool, identity: bool) -> Path:
    """Made once in a process: git takes longer to start, five times, than a copy to make."""
    folder = Path(tempfile.mkdtemp(prefix="evo-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    git(folder, "init", "-q", "-b", "main", "--template=")
    if identity:
        git(folder, "config", "user.name", "Kim")
        git(folder, "config", "user.email", "kim@example.org")
    (folder / "kernels" / "attention").mkdir(parents=True)
    (folder / "kernels" / "attention" / "task.yaml").write_text("name: attention\n")
    (folder / "mine.txt").write_text("one\ntwo\n")
    if commit:
        git(folder, "add", "-A")
        git(folder, "-c", "user.name=Kim", "-c", "user.email=k@x", "commit", "-qm", "mine")
    return folder


def renderer(root: Path):
    def render(commits: Mapping[str, str]) -> str:
        return leaderboard.render(load_records(root), commits)

    return render


def start_ledger(root: Path, run: str = RUN, branch: str | None = None) -> tuple[Ledger, RunFile, list[str]]:
    ledger = Ledger.open(root, renderer(root))
    try:
        said = ledger.recover(date=DATE)
        ledger.prepare(branch)
        runs = RunFile(root, "attention", run)
        ledger.begin(task="attention", run=run, run_file=runs.path)
    except BaseException:
        ledger.close()
        raise
    return ledger, runs, said


def keep(ledger: Ledger, runs: RunFile, trial: Record, text: str) -> str:
    commit = ledger.keep(
        KeptTrial(
            task=trial.task,
            chip=trial.place[0],
            trial=trial.trial,
            champion=CHAMPION,
            text=text,
            lines=runs.line(trial),
            run_size=runs.size,
            message=kept_message(trial),
            date=trial.date,
        )
    )
    runs.added()
    return commit


def problems(root: Path) -> list[str]:
    """What is wrong in a repository at rest: dirt, gaps, doubles, or git, records and files that disagree."""
    found = []
    if dirt := git(root, "status", "--porcelain"):
        found.append(f"not clean: {dirt}")
    records = load_records(root)  # checks that numbers are contiguous
    kept = [trial for trial in records if trial.kept]
    trailers = [line for line in git(root, "log", "--format=%(trailers:key=Evo-Trial,valueonly)").splitlines() if line]
    if sorted(trailers) != [trial.trial for trial in kept]:
        found.append(f"commits {sorted(trailers)} for trials {[trial.trial for trial in kept]}")
    if kept and (root / CHAMPION).read_bytes().decode() != rebuild_text(records, kept[-1].trial):
        found.append("the champion is not the last kept text")
    history = History.open(root)
    rendered = renderer(root)(history.commits())
    history.close()
    board = root / "leaderboard.json"
    if kept and (board.read_text() if board.exists() else None) != rendered:
        found.append("the leaderboard is not what the records give")
    leaderboard.load(root)
    git_folder = Path(git(root, "rev-parse", "--absolute-git-dir"))
    left = [path.name for path in git_folder.glob("evo*") if path.name != "evo.lock" and "torn" not in path.name]
    if left or (git_folder / "index.lock").exists():
        found.append(f"left over: {left}")
    return found
