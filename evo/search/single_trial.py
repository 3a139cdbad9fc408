"""One variant judged as a trial of the loop, whoever brings it: the loop itself, `evo try`, an agent over MCP.

`trial_job` is the only place that says what a trial asks of the pipeline, so that none of them can drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from evo.errors import SyntaxInvalid
from evo.evaluate.pipeline import Job, evaluate
from evo.evaluate.session import Workbench
from evo.operators import Proposal, not_one_change, rung_of
from evo.results import Evaluation, Status
from evo.spec.task import Task
from evo.spec.variant import Variant, parse_variant, read_variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What the loop would have decided. parent: the champion it was held against; None where there is none yet."""

    evaluation: Evaluation
    parent: Variant | None


def trial_job(
    task: Task,
    text: str,
    *,
    path: str,
    seed: int,
    rival: str | None,
    margin: float | None = None,
    neutral: bool = False,
) -> Job:
    """A trial: against its parent, with the library's times and the sanitizer's word on what is kept."""
    return Job(
        task=task,
        text=text,
        path=path,
        seed=seed,
        rival=rival,
        margin=margin,
        neutral=neutral,
        baseline=True,
        sanitize=True,
    )


def champion_of(task: Task, bench: Workbench) -> Variant | None:
    """The champion of this chip and arch, where there is one."""
    path = task.champion_path(bench.chip_slug, bench.arch)
    return read_variant(path) if path.is_file() else None


def attempt(task: Task, text: str, bench: Workbench, *, path: str, seed: int) -> Attempt:
    """Judge a text against the champion; writes nothing. Raises EvoError for harness failures only."""
    parent = champion_of(task, bench)
    if parent is not None and (refusal := _refusal(task, text, parent)) is not None:
        where, variant = bench.environment(task), parse_variant(text).id
        refused = Evaluation(variant=variant, status=Status.REFUSED, reason=refusal, environment=where)
        return Attempt(evaluation=refused, parent=parent)
    job = trial_job(task, text, path=path, seed=seed, rival=parent.text if parent else None)
    return Attempt(evaluation=evaluate(job, bench), parent=parent)


def _refusal(task: Task, text: str, parent: Variant) -> str | None:
    """What the loop would refuse before it compiles anything: a file that is neither a rung nor one change."""
    try:
        rung = rung_of(task, text)
    except SyntaxInvalid:
        return None  # the pipeline says what is wrong with it
    if parent.id == parse_variant(text).id:
        return None
    proposal = Proposal(
        operator="patch",
        kind="mutation" if rung is None else "rung",
        text=text,
        summary="",
        reason="",
        expected="",
        risk="",
        arguments={"rung": rung} if rung is not None else {},
    )
    return not_one_change(task, proposal, parent)
