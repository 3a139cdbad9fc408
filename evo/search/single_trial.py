"""One variant judged as a trial of the loop, whoever brings it: the loop itself, `evo try`, an agent over MCP.

`TrialJobs` is the only place that says what a trial asks of the pipeline, so that none of them can drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from evo.errors import SyntaxInvalid
from evo.evaluate.pipeline import Job, evaluate
from evo.evaluate.session import EvaluationSession
from evo.operators import Proposal, kind_of_edit, rung_of
from evo.results import Evaluation, Stage, Status
from evo.results.codec import copied
from evo.search.candidate import Candidate, candidate_of
from evo.spec.task import Task
from evo.spec.variant import Variant, parse_variant, read_variant


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTrial:
    """What the loop would have decided. parent: the champion it was held against; None if there is none yet."""

    evaluation: Evaluation
    parent: Variant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJobs:
    """What the trials of one run have in common, and their jobs.

    full=False leaves out what the decision does not need; a run takes it once, of its last champion.
    """

    task: Task
    path: Path | str
    seed: int
    margin: float | None = None
    neutral: bool = False
    full: bool = True

    def of(self, candidate: Candidate, rival: Variant | None) -> Job:
        """The job of one candidate, held against `rival`; without one it is a start."""
        job = self.of_text(candidate.variant.text, rival)
        return replace(job, prepared=candidate.prepared, promise=candidate.proposal.promise)

    def of_text(self, text: str, rival: Variant | None = None) -> Job:
        """A trial against its parent, with the library's times and the sanitizer's word on what is kept."""
        sanitize = self.full or rival is None  # a start is what a run falls back on
        known = {"path": str(self.path), "rival": rival.text if rival else None}
        return copied(Job, self, text=text, baseline=self.full, sanitize=sanitize, **known)


def champion_of(task: Task, bench: EvaluationSession) -> Variant | None:
    """The champion of this chip and arch, if there is one."""
    path = task.champion_path(bench.chip_slug, bench.arch)
    return read_variant(path) if path.is_file() else None


def judge_text(
    task: Task, text: str, bench: EvaluationSession, *, path: str, seed: int, rewrite: bool = False
) -> JudgedTrial:
    """Judge a text against the champion; writes nothing. rewrite: it may be more than one change.

    Raises EvoError for harness failures only.
    """
    parent = champion_of(task, bench)
    if parent is not None and (refused := refusal(task, text, parent, bench, rewrite)) is not None:
        return JudgedTrial(evaluation=refused, parent=parent)
    job = TrialJobs(task=task, path=path, seed=seed).of_text(text, parent)
    return JudgedTrial(evaluation=evaluate(job, bench), parent=parent)


def refusal(task: Task, text: str, parent: Variant, bench: EvaluationSession, rewrite: bool) -> Evaluation | None:
    """What the loop would refuse before it compiles anything: a file that is neither a rung nor one change."""
    try:
        variant = parse_variant(text)
    except SyntaxInvalid:
        return None  # the pipeline says what is wrong with it
    if parent.id == variant.id:
        return None
    rung = rung_of(task, variant)
    proposal = Proposal(
        operator="patch",
        kind="rung" if rung is not None else kind_of_edit(parent.text, text) if rewrite else "mutation",
        variant=variant,
        summary="",
        reason="",
        expected="",
        risk="",
        arguments={"rung": rung} if rung is not None else {},
    )
    reason = candidate_of(task, proposal, parent).refusal
    if reason is None:
        return None
    where = bench.environment(task)
    return Evaluation(variant=variant.id, status=Status.REFUSED, stage=Stage.CHANGE, reason=reason, environment=where)
