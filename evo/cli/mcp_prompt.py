"""The prompt `improve` of `evo mcp`: what a language model of the loop would be shown, with the tools to answer by."""

from __future__ import annotations

from collections.abc import Sequence

from evo.operators.llm.case_table import case_table
from evo.operators.llm.endpoint import data
from evo.operators.llm.prompt_context import insights, task_context, timed_record
from evo.operators.llm.prompts import PromptParts, prompt
from evo.records.trials import Record
from evo.spec.chips import Chip
from evo.spec.task import Task
from evo.spec.variant import Variant

_ANSWER = """\
You have the tools of this server: send the blocks as `edits` to `try`, and the lines SUMMARY, REASON, EXPECTED and RISK
as `summary`, `reason`, `expected` and `risk`. Its answer is the verdict; `profile` shows where the time goes. Nothing
is kept without `commit`."""


def improve_prompt(
    task: Task,
    parent: Variant,
    records: Sequence[Record],
    chip: Chip,
    places: tuple[str, str],
    toolkit: str,
    margin: float,
) -> str:
    """The task, the kernel with its times and limiters, what was tried, and the grammar of launch lines."""
    own = timed_record(records, parent.id, places)
    table = case_table(task, own.evaluation if own is not None else None, chip, margin)
    shown = PromptParts(
        task=task_context(task, chip, places[1], toolkit, parent),
        times=f"Its times by case:\n{data('times', chr(10).join(table))}" if table else "",
        insights=insights(records, task.name, places, parent),
    )
    return "\n\n".join([*(message.content for message in prompt(shown)), _ANSWER])
