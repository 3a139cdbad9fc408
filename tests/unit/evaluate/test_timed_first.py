"""A trial of the loop on a GPU: timing first, and the numbers at the timed sizes before anything is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny import FAST, new_repository

from evo.device import DeviceName
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate, finish, start
from evo.results import Evaluation, Status, Verdict
from evo.spec.task import Task, load_task

SUPPORT = Path(__file__).resolve().parents[2] / "support"
# The stand-in says that a block of fewer threads is faster.
PARENT = FAST
CHILD = FAST.replace("#define THREADS 128", "#define THREADS 32")
# At powers of two from 65536 on: no number of the text leads there, so only the timed size shows it.
AT_TIMED_SIZES = "y[i] = __popc(n) == 1 && __clz(n) < 16 ? 3.0f * x[i] : 2.0f * x[i]"
WRONG_THERE = CHILD.replace("y[i] = 2.0f * x[i]", AT_TIMED_SIZES)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(new_repository(tmp_path_factory.mktemp("timed_first") / "mine"), "scale")


@pytest.fixture(scope="module")
def bench() -> Iterator[EvaluationSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(SUPPORT))
        with EvaluationSession(DeviceName("gpu", "0"), opener="stand_in_gpu:StandInGpu") as bench_session:
            yield bench_session


def trial(bench: EvaluationSession, task: Task, text: str, rival: str, *, full: bool = False) -> Evaluation:
    return evaluate(Job(task=task, text=text, rival=rival, seed=5, full=full), bench)


def cases(evaluation: Evaluation) -> set[str]:
    assert evaluation.check is not None
    return {row.name for row in evaluation.check.cases}


def test_the_texts_are_what_they_say() -> None:
    assert AT_TIMED_SIZES in WRONG_THERE
    assert len({PARENT, CHILD, WRONG_THERE}) == 3


def test_what_is_slower_is_not_held_to_the_reference_at_timed_sizes_and_says_so(
    bench: EvaluationSession, task: Task
) -> None:
    found = trial(bench, task, PARENT, CHILD)
    assert (found.status, found.kept) == (Status.MEASURED, False)
    assert cases(found) == {"even", "ragged"}
    assert found.check is not None
    assert found.check.unseen is not None


def test_what_is_kept_has_passed_at_every_timed_size(bench: EvaluationSession, task: Task) -> None:
    found = trial(bench, task, CHILD, PARENT)
    assert found.decision is not None
    assert found.decision.verdict is Verdict.KEEP
    assert found.decision.gain is not None
    assert found.decision.gain.confirmed
    assert cases(found) == {"even", "ragged", "small"}
    assert found.check is not None
    assert found.check.unseen is None


def test_what_is_fast_and_wrong_at_a_timed_size_is_wrong(bench: EvaluationSession, task: Task) -> None:
    found = trial(bench, task, WRONG_THERE, PARENT)
    assert (found.status, found.decision, found.bench) == (Status.WRONG, None, ())
    assert "small" in (found.reason or "")


def test_what_somebody_asks_to_be_judged_is_held_to_everything(bench: EvaluationSession, task: Task) -> None:
    slow_and_wrong = WRONG_THERE.replace("#define THREADS 32", "#define THREADS 128")
    assert trial(bench, task, slow_and_wrong, CHILD, full=True).status is Status.WRONG
    assert cases(trial(bench, task, PARENT, CHILD, full=True)) == {"even", "ragged", "small"}


@pytest.mark.parametrize("more", [{"rival": None}, {"rival": PARENT, "full": False, "promise": 2.0}])
def test_the_gpu_checks_what_is_sure_beside_the_simulator_and_once(
    bench: EvaluationSession, task: Task, more: dict[str, Any]
) -> None:
    job = Job(task=task, text=CHILD, seed=5, **more)
    started = start(job, bench, bench.checker)
    assert started.is_on_target
    found = finish(started, bench)
    assert found.check is not None
    names = [row.name for row in found.check.cases]
    assert names == [*["even", "ragged"] * 2, "small"]  # on the simulator, on the GPU, and at the timed size there
    wrong = start(replace(job, text=CHILD.replace("2.0f * x[i]", "n == 77 ? 0.0f : 2.0f * x[i]")), bench, bench.checker)
    assert wrong.check is not None
    assert (wrong.check.status, wrong.is_on_target) == (Status.WRONG, False)


@pytest.mark.parametrize(("text", "rival"), [(CHILD, PARENT), (PARENT, CHILD)])
def test_the_stages_add_up_to_the_elapsed_time(bench: EvaluationSession, task: Task, text: str, rival: str) -> None:
    found = trial(bench, task, text, rival)
    assert found.elapsed_s is not None
    assert sum(found.stages_s.values()) == pytest.approx(found.elapsed_s, abs=0.01)
    assert found.stages_s["rest"] < 0.2 * found.elapsed_s
