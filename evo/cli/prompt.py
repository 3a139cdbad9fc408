"""`evo prompt`: the prompt of a language model, to read or to paste into a chat; and its answer, for `evo try`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from evo.cli import completion
from evo.cli.command_context import FileSubject, GlobalOptions, choose_task, find_file, session_of
from evo.cli.options import DEFAULT_ARCH, ArchWord, DeviceWord, Seed, TaskName, choose_device
from evo.cli.stage_line import stage
from evo.cli.terminal import out, say
from evo.errors import UsageError

if TYPE_CHECKING:
    from evo.evaluate.session import EvaluationSession
    from evo.operators.llm.prompts import PromptStrategy
    from evo.records.trials import Record
    from evo.results import Evaluation
    from evo.spec.task import Task
    from evo.spec.variant import Variant

StrategyWord = Annotated[
    str, Option("--strategy", metavar="NAME", help="See docs/llm.md.", autocompletion=completion.strategies)
]


def prompt(
    context: Context,
    task: TaskName = None,
    strategy: StrategyWord = "insight",
    start: Annotated[
        Path | None, Option("--from", metavar="FILE", help="The kernel to change (default: the champion).")
    ] = None,
    rewrite: Annotated[bool, Option("--rewrite", help="Ask for a rewrite.")] = False,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    seed: Seed = 0,
) -> int:
    """Print a prompt for a language model. Its answer goes to `evo try --edits FILE --task TASK`."""
    from evo.evaluate.session import EvaluationSession

    session = session_of(context)
    chosen, shown = choose_task(session.root(), task), _strategy(strategy)
    with EvaluationSession(choose_device(device), arch=arch, on_stage=stage) as bench:
        parent = _parent(session, chosen, bench, start)
        say(f"for {parent.path} on {bench.device}")
        text = prompt_text(session.root(), chosen, bench, parent, shown, rewrite=rewrite, seed=seed)
        stage("")
    out(text)
    return 0


def prompt_text(
    root: Path,
    task: Task,
    bench: EvaluationSession,
    parent: Variant,
    strategy: PromptStrategy,
    *,
    rewrite: bool,
    seed: int = 0,
) -> str:
    """The whole prompt as one text, as the first question of a run would have it."""
    import random

    from evo.operators.llm.prompts import prompt as messages_of
    from evo.operators.llm.question_contents import question_contents
    from evo.records.trials import load_records

    records = load_records(root, task.name)
    shown, _ = question_contents(
        task,
        bench,
        parent,
        records,
        strategy,
        margin=bench.default_margin,
        draw=random.Random(f"{seed}/1/donor"),
        rewrite=rewrite,
        timed=timed_of(task, bench, parent, records) if strategy.insights else None,
    )
    return "\n\n".join(message.content for message in messages_of(shown))


def timed_of(task: Task, bench: EvaluationSession, parent: Variant, records: Sequence[Record]) -> Evaluation | None:
    """The times of a kernel that no record has: it is checked and timed, but not proven. None if it fails."""
    from dataclasses import replace

    from evo.evaluate.pipeline import Job, evaluate
    from evo.evaluate.prepare import Prepared
    from evo.operators.llm.prompt_context import kept_record
    from evo.results import Fault
    from evo.search.single_trial import TrialJobs

    if kept_record(records, parent.id, (bench.chip_slug, bench.arch)) is not None:
        return None
    seed, path = 0, str(parent.path)
    if not bench.modelled:
        found = evaluate(TrialJobs(task=task, path=path, seed=seed).of_text(parent.text), bench)
    else:
        found = evaluate(Job(task=task, text=parent.text, path=path, seed=seed, upto="check"), bench)
        prepared = bench.prepare(task, parent.text, path=path)
        if found.status.passed and isinstance(prepared, Prepared):
            bench.on_stage("estimate")
            rows = bench.estimates(task, prepared, seed)
            if isinstance(rows, Fault):
                say(f"its times are not known: {rows.message}")
                return None
            found = replace(found, bench=rows)
    if not found.status.passed:
        say(f"its times are not known: it is {found.status}: {found.reason}")
        return None
    return found


def read_edits(
    session: GlobalOptions, file: Path | None, edits: Path, task_word: str | None, bench: EvaluationSession
) -> FileSubject:
    """What a model's answer makes of FILE, or of the champion. Raises UsageError if it cannot be applied."""
    from evo.operators.llm.edits import apply_reply
    from evo.operators.llm.reply_edits import Unusable, read_reply
    from evo.spec.source_text import read_source
    from evo.spec.variant import parse_variant

    chosen = choose_task(session.root(), task_word)
    parent = _parent(session, chosen, bench, file)
    reply = read_source(edits, wanted="the model's answer as a text")
    try:
        text = apply_reply(parent.text, read_reply(reply, rewrite=True))
    except Unusable as problem:
        raise UsageError(f"{edits}: {problem.problem}", hint=f"the edits are applied to {parent.path}") from None
    return FileSubject(chosen, parse_variant(text, path=edits), edits)


def _parent(session: GlobalOptions, task: Task, bench: EvaluationSession, start: Path | None) -> Variant:
    from evo.operators import first_rung
    from evo.search.single_trial import champion_of
    from evo.spec.variant import read_variant

    if start is not None:
        return read_variant(find_file(session, start, task.name))
    return champion_of(task, bench) or read_variant(first_rung(task))


def _strategy(name: str) -> PromptStrategy:
    from evo.operators.llm import STRATEGIES

    if name not in STRATEGIES:
        raise UsageError(f"unknown strategy {name!r}", hint=f"one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
