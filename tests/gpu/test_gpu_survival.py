"""Twenty real variants on a GPU, eight of them hostile at a size that the simulator's checks do not see."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from hostile import HOSTILE, hostile
from tiny import FAST, SLOW, new_repository

from evo.device import DeviceName, gpu_present
from evo.evaluate.gate import run_cases as cases
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate_all
from evo.results import Status, Verdict
from evo.spec.task import load_task

pytestmark = pytest.mark.gpu


def test_twelve_right_results_and_eight_right_statuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not gpu_present():
        pytest.skip("no GPU")
    monkeypatch.setattr(cases, "_RUN_LIMIT_S", 20.0)
    task = load_task(new_repository(tmp_path / "mine"), "scale")
    good = [FAST.replace("#define THREADS 128", f"#define THREADS {threads}") for threads in (32, 64, 128)]
    texts: dict[str, str] = {}
    names = list(HOSTILE)
    for number in range(12):
        other = good[number % 3].replace("if (i < n)", f"if (n == -{number}) y[0] = 0.0f;\n    if (i < n)")
        texts[f"good {number}"] = good[number] if number < 3 else other
        if number < len(names):
            texts[names[number]] = hostile(names[number])
    with EvaluationSession(DeviceName("gpu", "0")) as bench:
        jobs = [Job(task=task, text=text, path=name, rival=SLOW) for name, text in texts.items()]
        found = {job.path: evaluation for job, evaluation in evaluate_all(jobs, bench)}
    for name, evaluation in found.items():
        print(f"{name:14} {evaluation.status:10} {evaluation.elapsed_s:6.2f} s {evaluation.reason or ''}")
    for name, misdeed in HOSTILE.items():
        assert found[name].status in misdeed.on_gpu, (name, found[name].status, found[name].reason)
    for number in range(12):
        evaluation = found[f"good {number}"]
        assert evaluation.status is Status.MEASURED, (number, evaluation.reason)
        assert evaluation.decision is not None


def test_where_the_time_of_a_sweep_goes(tmp_path: Path) -> None:
    """Prints the stages of each variant. The champion is measured first, then losers and duplicates against it."""
    if not gpu_present():
        pytest.skip("no GPU")
    task = load_task(new_repository(tmp_path / "mine"), "scale")
    slower = [SLOW.replace("#define THREADS 32", f"#define THREADS {threads}") for threads in (32, 64, 128)]
    with EvaluationSession(DeviceName("gpu", "0")) as bench:
        bench.control(task, FAST, 1)
        print("A/A control:", bench.controls[task.hash])
        jobs = [Job(task=task, text=text, rival=FAST) for text in slower * 2]
        found = [evaluation for _, evaluation in evaluate_all(jobs, bench)]
    for evaluation in found:
        stages = " ".join(f"{name} {seconds:.3f}" for name, seconds in evaluation.stages_s.items())
        print(f"{evaluation.elapsed_s:.2f} s: {stages}")
        assert evaluation.decision is not None
        assert evaluation.decision.verdict is Verdict.REVERT
    first = found[:3]
    on_gpu = [e.stages_s["bench.warm_up"] + e.stages_s["bench.pairs"] + e.stages_s["bench.capture"] for e in first]
    print("GPU time of a loser, median s:", statistics.median(on_gpu))
    assert statistics.median(on_gpu[1:]) < 0.2
    assert all("machine code of" in str(e.reason) for e in found[3:])
