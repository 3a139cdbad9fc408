"""The pipeline's two halves, a sweep that overlaps them, and what "simpler" means."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from refusals import refused
from tiny import BROKEN, FAST, SLOW, UNSAFE, WRONG, new_repository

from evo.errors import UsageError
from evo.evaluate.harness import harness_version
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate, evaluate_all
from evo.evaluate.prepare import Prepared, simpler
from evo.results import Ground, Status, Verdict
from evo.spec.task import Task, load_task

LONGER = FAST.replace("    if (i < n)", "    const float two = 2.0f;\n    if (i < n)").replace("2.0f * x", "two * x")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(new_repository(tmp_path_factory.mktemp("evaluate") / "mine"), "scale")


def prepared(bench: EvaluationSession, task: Task, text: str) -> Prepared:
    found = bench.prepare(task, text)
    assert isinstance(found, Prepared)
    return found


def test_a_sweep_keeps_the_order_and_says_for_each_what_alone_would(bench: EvaluationSession, task: Task) -> None:
    texts = [WRONG, SLOW, BROKEN, FAST, UNSAFE, "\n" + FAST]
    jobs = [Job(task=task, text=text, rival=SLOW, seed=3) for text in texts]
    swept = list(evaluate_all(iter(jobs), bench, ahead=3))
    assert [job for job, _ in swept] == jobs
    for job, evaluation in swept[:-1]:
        alone = evaluate(job, bench)
        assert (evaluation.status, evaluation.reason) == (alone.status, alone.reason)
        assert (evaluation.bench, evaluation.check, evaluation.decision) == (alone.bench, alone.check, alone.decision)
        assert evaluation.elapsed_s is not None
        assert 0 < sum(evaluation.stages_s.values()) <= evaluation.elapsed_s
    last = swept[-1][1]
    assert last.same_code_as == swept[3][1].variant
    assert last.decision == swept[3][1].decision


def test_a_sweep_can_be_left_early(bench: EvaluationSession, task: Task) -> None:
    asked: list[int] = []

    def jobs() -> Iterator[Job]:
        for number in range(1000):
            asked.append(number)
            yield Job(task=task, text=FAST + f"// {number}\n", upto="check")

    sweep = evaluate_all(jobs(), bench, ahead=2)
    assert next(sweep)[1].status is Status.CORRECT
    sweep.close()
    assert len(asked) <= 5


def test_a_parent_that_does_not_run_is_a_usage_error(bench: EvaluationSession, task: Task) -> None:
    with refused(UsageError, "rival-fails"):
        evaluate(Job(task=task, text=FAST, rival=BROKEN), bench)


def test_simpler_is_fewer_of_one_thing_and_more_of_none(bench: EvaluationSession, task: Task) -> None:
    short, long = prepared(bench, task, FAST), prepared(bench, task, LONGER)
    assert simpler(long, short) == "1 fewer lines"
    assert simpler(short, long) is None
    assert simpler(short, short) is None


def test_neutral_is_kept_on_the_simulator_when_asked(bench: EvaluationSession, task: Task) -> None:
    job = Job(task=task, text=FAST, rival=LONGER)
    decision = evaluate(job, bench).decision
    assert decision is not None
    assert decision.verdict is Verdict.REVERT
    decision = evaluate(Job(task=task, text=FAST, rival=LONGER, neutral=True), bench).decision
    assert decision is not None
    assert decision.verdict is Verdict.KEEP_NEUTRAL
    assert decision.ground is Ground.NEUTRAL


def test_the_harness_is_named_by_what_makes_results(bench: EvaluationSession, task: Task) -> None:
    version, _, digest = bench.environment(task).harness.partition("+")
    assert (version, len(digest)) == (harness_version().partition("+")[0], 12)
