"""Who is crossed with: the best of each kind of kernel before the second best of one kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ledger_samples import record
from tiny import write_task

from evo.records.trials import Record
from evo.records.trials.elites import elites, niche_of
from evo.results import CompileReport, Evaluation, KernelResources, Status
from evo.spec.task import Task, load_task

PLAIN = "// evo: launch k grid (1) block (32) shared 0\n#define N {}\nvoid k() {{}}\n"
SHARED = "// evo: launch k grid (1) block (32) shared (1024)\n#define N {}\nvoid k() {{}}\n"
TILED = "// evo: knob TILE in 16, 32\n#define TILE 16\n" + PLAIN


@pytest.fixture
def task(tmp_path: Path) -> Task:
    write_task(tmp_path)
    return replace(load_task(tmp_path, "scale"), name="attention", score={"b2": 1.0})


def passed(number: int, text: str, time_us: float, sass: dict[str, int] | None = None, task: str = "") -> Record:
    found = record(number, parent=None, text=text.format(number), verdict=None, time_us=time_us)
    bench = record(number, parent=None, time_us=time_us).bench
    kernels = (KernelResources(name="k", sass=sass or {"FFMA": 4}),)
    environment = replace(found.environment, task_hash=task)
    evaluation = Evaluation(
        variant=found.variant,
        status=Status.CORRECT,
        environment=environment,
        bench=bench,
        compile=CompileReport(variant=found.variant, arch="sm_89", status="compiled", kernels=kernels),
    )
    return replace(found, evaluation=evaluation)


@pytest.mark.parametrize(
    ("text", "sass", "niche"),
    [
        (PLAIN, {"FFMA": 1}, (False, False, ())),
        (SHARED, {"FFMA": 1}, (True, False, ())),
        (TILED, {"HMMA": 8}, (False, True, ("TILE",))),
    ],
)
def test_a_niche_is_memory_units_and_tiles(text: str, sass: dict[str, int], niche: tuple[object, ...]) -> None:
    assert niche_of(passed(1, text, 1.0, sass), text.format(1)) == niche


def test_the_best_of_each_niche_comes_before_the_second_best_of_one(task: Task) -> None:
    made: list[tuple[str, float, dict[str, int] | None]] = [(PLAIN, 11.0 + number, None) for number in range(6)]
    made += [(SHARED, 50.0, None), (TILED, 90.0, None), (PLAIN, 95.0, {"HMMA": 2})]
    records = [passed(n, text, time, sass, task.hash) for n, (text, time, sass) in enumerate(made, start=1)]
    found = elites(records, task, ("sim-l4", "sm_89"), champion="none")
    assert [round(elite.time_us) for elite in found] == [11, 50, 90, 95]
    alike = elites(records[:7], task, ("sim-l4", "sm_89"), champion=records[0].variant)
    assert [round(elite.time_us) for elite in alike] == [12, 13, 14, 50]
