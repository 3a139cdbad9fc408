"""Restarts: when a line begins, from whom, what moves it on, and what ends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ledger_samples import record
from tiny import write_task

from evo.records.insights import summarise
from evo.records.trials import Record, kept_message
from evo.results import Evaluation, Verdict
from evo.search.restarts import AFTER, BETWEEN, LENGTH, Restarts
from evo.spec.task import Task, load_task
from evo.spec.variant import Variant, parse_variant

PLACES = ("sim-l4", "sm_89")
PLAIN = "// evo: launch k grid (1) block (32) shared 0\n#define N {}\nvoid k() {{}}\n"
SHARED = PLAIN.replace("shared 0", "shared (1024)")
TILED = "// evo: knob TILE in 16, 32\n#define TILE 16\n" + PLAIN


@pytest.fixture
def task(tmp_path: Path) -> Task:
    write_task(tmp_path)
    return replace(load_task(tmp_path, "scale"), name="attention", score={"b2": 1.0})


def shown(number: int, text: str, time_us: float, task: Task, verdict: Verdict = Verdict.REVERT) -> Record:
    found = record(number, parent=None, text=text.format(number), verdict=verdict, time_us=time_us)
    environment = replace(found.environment, task_hash=task.hash)
    return replace(found, evaluation=replace(found.evaluation, environment=environment))


def opened(task: Task, notes: list[str] | None = None) -> Restarts:
    return Restarts(task, PLACES, 0.1, (notes if notes is not None else []).append)


def champion_and_others(task: Task) -> tuple[Variant, list[Record]]:
    records = [
        shown(1, SHARED, 12.5, task),
        shown(2, TILED, 12.4, task),
        shown(3, PLAIN, 11.0, task),
        shown(4, PLAIN, 10.0, task, Verdict.KEEP),
    ]
    return parse_variant(PLAIN.format(4)), records


def idle(lines: Restarts, champion: Variant, times: int) -> None:
    for _ in range(times):
        lines.tell(champion, 1.0, passed=True, kept=False)


def test_a_line_is_due_after_a_while_and_begins_at_the_fastest_of_another_niche(task: Task) -> None:
    champion, records = champion_and_others(task)
    notes: list[str] = []
    lines = opened(task, notes)
    idle(lines, champion, AFTER - 1)
    assert not lines.is_due()
    assert lines.parent(champion) is champion
    idle(lines, champion, 1)
    assert lines.is_due()
    assert lines.begin(champion, records)
    assert lines.parent(champion).text == TILED.format(2)
    assert lines.gain == pytest.approx(0.806, abs=1e-3)
    assert "0.81x the champion's speed" in notes[0]


def test_no_line_begins_far_below_the_champion(task: Task) -> None:
    champion = parse_variant(PLAIN.format(4))
    records = [shown(1, SHARED, 12.6, task), shown(2, TILED, 25.0, task), shown(4, PLAIN, 10.0, task, Verdict.KEEP)]
    lines = opened(task)
    idle(lines, champion, AFTER)
    assert not lines.begin(champion, records)
    assert lines.parent(champion) is champion


def test_a_line_moves_on_with_what_beats_its_parent_and_ends_where_nothing_does(task: Task) -> None:
    champion, records = champion_and_others(task)
    lines = opened(task)
    lines.begin(champion, records)
    better, worse = parse_variant(PLAIN.format(8)), parse_variant(PLAIN.format(9))
    lines.tell(worse, 0.85, passed=True, kept=False)  # past its parent's 0.81, not past the margin
    assert lines.parent(champion).id != worse.id
    lines.tell(better, 0.95, passed=True, kept=False)
    assert (lines.parent(champion).id, lines.gain) == (better.id, 0.95)
    for _ in range(LENGTH):
        lines.tell(worse, None, passed=False, kept=False)
    assert lines.parent(champion) is champion
    idle(lines, champion, BETWEEN)
    assert lines.is_due()
    assert lines.begin(champion, records)
    assert lines.parent(champion).text == SHARED.format(1)
    lines.end()
    assert not lines.begin(champion, records)  # each elite once
    assert lines.parent(champion) is champion


def test_a_keep_ends_a_line_and_a_neighbour_begins_none(task: Task) -> None:
    champion, records = champion_and_others(task)
    lines = opened(task)
    lines.begin(champion, records)
    champions = parse_variant(PLAIN.format(5))
    lines.tell(champions, 1.2, passed=True, kept=True)
    assert lines.parent(champions) is champions
    own = shown(5, PLAIN, 8.0, task, Verdict.KEEP)
    assert not opened(task).begin(champions, [own])  # nobody else is known
    assert not opened(task).begin(champions, [shown(2, PLAIN, 9.0, task), own])


def test_what_came_of_an_earlier_start_begins_no_line(task: Task) -> None:
    """With --from a scalar kernel and rules alone, the top rung of an earlier run is no elite."""
    start = replace(shown(5, PLAIN, 50.0, task), evaluation=_undecided(shown(5, PLAIN, 50.0, task)))
    assert start.kept
    earlier = [shown(1, SHARED, 5.0, task), shown(2, TILED, 4.0, task, Verdict.KEEP)]
    now = [start, shown(6, TILED, 49.0, task), shown(7, PLAIN, 40.0, task, Verdict.KEEP)]
    champion, notes = parse_variant(PLAIN.format(7)), list[str]()
    lines = opened(task, notes)
    assert lines.begin(champion, [*earlier, *now])
    assert lines.parent(champion).text == TILED.format(6)
    assert not opened(task).begin(champion, [*earlier, start, now[-1]])


def _undecided(found: Record) -> Evaluation:
    return replace(found.evaluation, decision=None)


def test_what_was_held_against_another_than_its_parent_says_so_and_is_no_insight(task: Task) -> None:
    del task
    kept = record(2, parent="0" * 12, ratio=1.5)
    side = replace(kept, arguments={**kept.arguments, "rival": "1" * 12})
    assert f"Replaces: {'1' * 12}" in kept_message(side)
    assert f"The change was made to {kept.parent}, an elite beside" in " ".join(kept_message(side).split())
    assert "Replaces" not in kept_message(kept)
    assert [insight.timed for insight in summarise([kept])] == [1]
    assert [insight.timed for insight in summarise([side])] == [0]
