"""What one question shows, put together from the task, the records and the device by a strategy."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from evo.evaluate.session import EvaluationSession
from evo.operators.llm.case_table import case_table
from evo.operators.llm.endpoint import data, joined
from evo.operators.llm.hardware_context import hardware_context, target_share
from evo.operators.llm.prompt_context import insights, not_the_champion, past_solutions, task_context, timed_record
from evo.operators.llm.prompts import PromptParts, PromptStrategy
from evo.records.trials import Record, elites
from evo.results import Evaluation
from evo.spec.task import Task
from evo.spec.variant import Variant

Hardware = Callable[[Variant, float | None], Sequence[str]]


def question_contents(
    task: Task,
    bench: EvaluationSession,
    parent: Variant,
    records: Sequence[Record],
    strategy: PromptStrategy,
    *,
    margin: float,
    draw: random.Random,
    rewrite: bool = False,
    stalled: int = 0,
    hardware: Hardware | None = None,
    timed: Evaluation | None = None,
) -> tuple[PromptParts, str]:
    """What a question about a parent shows, and the strategy's name as it was carried out.

    draw: chooses the donor of a crossover. stalled: trials since something was kept. hardware: gives the context of
    `inversion`; without it, it is found anew. timed: the parent's times, if no record has them.
    """
    places = (bench.chip_slug, bench.arch)
    record = timed_record(records, parent.id, places)
    own = record.evaluation if record is not None else timed
    found = strategy.select(records, task, places, parent.id)
    donor = elites.draw(found, draw) if draw.random() < 0.5 and not rewrite else None
    shown = PromptParts(
        task=task_context(task, bench.chip, bench.arch, bench.environment(task).toolkit, parent),
        donor=donor,
        rewrite=rewrite,
    )
    if strategy.insights:
        table = case_table(task, own, bench.chip, margin)
        times = f"Its times by case:\n{data('times', chr(10).join(table))}" if table else ""
        times = joined([times, not_the_champion(records, own, task, places)])
        shown = replace(shown, times=times, insights=insights(records, task.name, places, parent))
    if strategy.solutions:
        own_us = own.score_us(task.score) if own is not None else None
        shown = replace(shown, solutions=past_solutions([each for each in found if each != donor], own_us))
    headline = own.case_us(task.headline) if own else None
    if strategy.inverts != "never":
        share = target_share(task, bench.chip, task.headline, headline)
        if strategy.inverted(stalled, share):
            context = hardware(parent, headline) if hardware else hardware_context(task, parent, bench, headline)
            return replace(shown, hardware=context), strategy.name if strategy.inverts == "always" else "inversion"
    return shown, "insight" if strategy.inverts == "stalled" else strategy.name
