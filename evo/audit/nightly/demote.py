"""The two ledger steps of a review: restoring an earlier champion, and recording new figures.

Both are trials of a run with a record of kind `review`, and no history is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evo.audit.nightly.champion_history import Version
from evo.operators import Proposal
from evo.results import Decision, Evaluation, Json, Verdict
from evo.search.trial_log import TrialLog

_OPERATOR = "nightly"
_ANEW = " (timed again)"


def restore(
    trial_log: TrialLog,
    path: Path,
    *,
    lost: Version,
    winner: Version,
    evaluation: Evaluation,
    lost_evaluation: Evaluation | None,
    why: str,
    arguments: Mapping[str, Json],
) -> str:
    """Make an earlier version the champion again; the commit. A text that evo never recorded is recorded first."""
    if lost.record is None and lost_evaluation is not None:
        _record_found(trial_log, path, lost, lost_evaluation, why)
    known = dict(arguments)
    if evaluation.decision is None:
        evaluation = replace(evaluation, decision=Decision(verdict=Verdict.KEEP, reason=f"champion again: {why}"))
    elif (gain := evaluation.decision.gain) is not None:
        # A time better than a failed variant's is no gain, and the leaderboard must not show one.
        known["against_demoted"] = gain.to_json()
        evaluation = replace(evaluation, decision=replace(evaluation.decision, gain=None))
    proposal = Proposal(
        operator=_OPERATOR,
        kind="review",
        variant=winner.variant,
        summary=f"back to {winner.variant.id}: {lost.variant.id} no longer holds",
        reason=why,
        expected="its earlier times as champion",
        risk="none: it has passed its gate again",
        arguments=known,
    )
    trial = trial_log.begin(path, proposal, lost.variant)
    return trial_log.keep(trial, evaluation)


def renew(
    trial_log: TrialLog, path: Path, head: Version, evaluation: Evaluation, why: str, arguments: Mapping[str, Json]
) -> str:
    """Record the champion's figures of tonight; return the commit. Its text does not change."""
    name = head.record.summary if head.record is not None else head.variant.id
    proposal = Proposal(
        operator=_OPERATOR,
        kind="review",
        variant=head.variant,
        summary=f"{name.removesuffix(_ANEW)}{_ANEW}",
        reason=why,
        expected="figures for the next review to compare with",
        risk="none: the text is the same",
        arguments=dict(arguments),
    )
    decision = Decision(verdict=Verdict.KEEP, reason=f"timed again, claims no gain: {why}")
    trial = trial_log.begin(path, proposal, head.variant)
    return trial_log.keep(trial, replace(evaluation, decision=decision))


def _record_found(trial_log: TrialLog, path: Path, lost: Version, evaluation: Evaluation, why: str) -> None:
    """Record the whole text of a champion without a trial, as a start that was not kept; it is then never lost."""
    proposal = Proposal(
        operator=_OPERATOR,
        kind="start",
        variant=lost.variant,
        summary=f"found in the champion's file: {lost.words()}",
        reason="it was in the champion's file without a trial",
        expected="nothing; it is recorded because it is replaced",
        risk="none",
    )
    trial = trial_log.begin(path, proposal, None)
    decision = Decision(verdict=Verdict.REVERT, reason=why)
    trial_log.revert(trial, replace(evaluation, decision=decision))
