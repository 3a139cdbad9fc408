"""Where a variant fails is data: the stage of its evaluation, and the red team's word for the defence."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import BROKEN, FAST, SLOW, TASK_YAML, UNSAFE, WRONG, new_repository

from evo.audit.redteam import finding_of
from evo.evaluate import gate
from evo.evaluate.counted_stage import CountedStage
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.results import CaseCheck, Evaluation, Stage, StaticRule, Status
from evo.spec.task import Case, Task, load_task


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(new_repository(tmp_path_factory.mktemp("stages") / "repository"), "scale")


@pytest.mark.parametrize(
    ("text", "status", "stage", "defence"),
    [
        (FAST.replace("// evo: launch", "// evo: lunch"), Status.REFUSED, Stage.RULES, "static rules"),
        (
            FAST.replace("    if (i", '    printf("");\n    asm("trap;");\n    if (i'),
            Status.REFUSED,
            Stage.RULES,
            "static rules",
        ),
        (FAST.replace("128", "2048"), Status.REFUSED, Stage.LIMITS, "limits of the chip"),
        (BROKEN, Status.UNCOMPILED, Stage.COMPILE, "compiler: warnings are errors"),
        (WRONG, Status.WRONG, Stage.GATE, "gate: numbers"),
        (UNSAFE, Status.UNSAFE, Stage.GATE, "gate: memory and race checkers"),
    ],
    ids=["a line that is none", "inline assembly", "a block too large", "a name that is none", "wrong", "unsafe"],
)
def test_a_failure_names_its_stage(
    task: Task, bench: EvaluationSession, text: str, status: Status, stage: Stage, defence: str
) -> None:
    found = evaluate(Job(task=task, text=text, seed=3), bench)
    assert (found.status, found.stage) == (status, stage), found.reason
    assert finding_of(found).defence == defence
    assert Evaluation.from_json(found.to_json()).stage is stage


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ('printf("");', StaticRule.PRINT),
        ('asm volatile("pm" "event 1;");', StaticRule.PROFILER),
        ('\n#include "/etc/hostname"\n', StaticRule.INCLUDE),
    ],
    ids=["in the text", "in the PTX", "before the compiler"],
)
def test_a_refusal_names_its_rule(task: Task, bench: EvaluationSession, line: str, rule: StaticRule) -> None:
    found = evaluate(Job(task=task, text=FAST.replace("    if (i", f"    {line}\n    if (i"), seed=3), bench)
    assert (found.status, found.stage, found.rule) == (Status.REFUSED, Stage.RULES, rule), found.reason
    assert Evaluation.from_json(found.to_json()).rule is rule
    assert finding_of(found).facts == {"status": "refused", "stage": "rules", "rule": rule}


def test_what_passes_has_no_stage(task: Task, bench: EvaluationSession) -> None:
    found = evaluate(Job(task=task, text=FAST, seed=3), bench)
    assert found.status is Status.CORRECT
    assert found.stage is None
    assert "stage" not in found.to_json()


def test_the_stages_of_a_keep_name_its_looks_and_add_up(task: Task, bench: EvaluationSession) -> None:
    found = evaluate(Job(task=task, text=FAST, seed=3), bench)
    assert {"compile", "gate", "hunt", "estimate", "verify"} <= set(found.stages_s)
    assert found.elapsed_s is not None
    assert sum(found.stages_s.values()) == pytest.approx(found.elapsed_s, rel=0.01, abs=0.02)


UNLIKE = SLOW.replace("i < first + 16", "i <= first + 15")


def adopted(root: Path, text: str, work: str = "{flop: N, bytes: 8 * N}") -> Task:
    """The task as one whose reference is this kernel."""
    task = load_task(new_repository(root), "scale")
    (task.folder / "original.cu").write_text(text)
    (task.folder / "task.yaml").write_text(TASK_YAML.replace("{flop: N, bytes: 8 * N}", work))
    return load_task(root, "scale")


def test_a_start_that_is_the_reference_is_looked_at_where_it_is_timed_and_its_changes_everywhere(
    tmp_path: Path, bench: EvaluationSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(bench, "on_stage", told.append)
    task = adopted(tmp_path, SLOW)
    start = evaluate(Job(task=task, text=SLOW, seed=3), bench)
    assert start.status is Status.CORRECT
    assert "verify.timed" in start.stages_s
    assert "verify.hunt" not in start.stages_s
    for job in (Job(task=task, text=FAST, rival=SLOW, seed=5), Job(task=task, text=FAST, seed=6)):
        told.clear()
        assert "verify.hunt" in evaluate(job, bench).stages_s
        counted = [each for each in told if isinstance(each, CountedStage) and each.stage == "verify"]
        assert max(each.total for each in counted) > 20  # it is what a keep waits for, so how far it is shows


def test_a_change_that_fails_where_the_reference_fails_too_says_so(
    tmp_path: Path, bench: EvaluationSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> gate.TimedSizes:
        return gate.TimedSizes(
            status=Status.WRONG, reason="case far: wrong", case=CaseCheck(name="far", status=Status.WRONG)
        )

    monkeypatch.setattr(EvaluationSession, "timed_sizes", failing)
    task = adopted(tmp_path, SLOW)
    reasons = [evaluate(Job(task=task, text=FAST, rival=rival, seed=7), bench).reason or "" for rival in (SLOW, UNLIKE)]
    assert [reason.count("case far") for reason in reasons] == [2, 1]


def test_a_reference_that_is_simulated_costs_what_a_loop_over_all_sizes_does(tmp_path: Path) -> None:
    case = Case(name="one", axes={"N": 1000})
    assert gate.cost_of(adopted(tmp_path / "a", SLOW, "{bytes: 8 * N}"), case) == 9000
    assert gate.cost_of(adopted(tmp_path / "b", SLOW), case) == 9000
    assert gate.cost_of(adopted(tmp_path / "c", SLOW, "{bytes: 8 * N, simulated: 100 * N}"), case) == 400000
    assert gate.cost_of(adopted(tmp_path / "d", SLOW, "{bytes: 8 * N, simulated: 0.5 * N}"), case) == 9000
