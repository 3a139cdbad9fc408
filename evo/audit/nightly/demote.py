"""The two ledger steps of a review: an earlier champion put back in its place, and figures recorded anew.

Both are trials of a run like any other, with a record of kind `review`: nothing of the history is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evo.audit.nightly.champion_history import Version
from evo.operators import Proposal
from evo.results import Decision, Evaluation, Json, Verdict
from evo.search.trial_log import Notebook

_OPERATOR = "nightly"
_ANEW = " (timed anew)"


def put_back(
    notebook: Notebook,
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
        _record_found(notebook, path, lost, lost_evaluation, why)
    known = dict(arguments)
    if evaluation.decision is None:
        evaluation = replace(evaluation, decision=Decision(verdict=Verdict.KEEP, reason=f"in its place again: {why}"))
    elif (gain := evaluation.decision.gain) is not None:
        # Faster than what failed is no gain: the leaderboard must not show it as one.
        known["against_demoted"] = gain.to_json()
        evaluation = replace(evaluation, decision=replace(evaluation.decision, gain=None))
    proposal = Proposal(
        operator=_OPERATOR,
        kind="review",
        variant=winner.variant,
        summary=f"back to {winner.variant.id}: {lost.variant.id} no longer holds",
        reason=why,
        expected="what it did when it was the champion before",
        risk="none: it has passed its gate again",
        arguments=known,
    )
    trial = notebook.begin(path, proposal, lost.variant)
    return notebook.keep(trial, evaluation)


def renew(
    notebook: Notebook, path: Path, head: Version, evaluation: Evaluation, why: str, arguments: Mapping[str, Json]
) -> str:
    """Record the champion's figures as they are tonight; the commit. Its text stays as it is."""
    name = head.record.summary if head.record is not None else head.variant.id
    proposal = Proposal(
        operator=_OPERATOR,
        kind="review",
        variant=head.variant,
        summary=f"{name.removesuffix(_ANEW)}{_ANEW}",
        reason=why,
        expected="figures that the next review can be held against",
        risk="none: the text is the same",
        arguments=dict(arguments),
    )
    decision = Decision(verdict=Verdict.KEEP, reason=f"timed anew, claims no gain: {why}")
    trial = notebook.begin(path, proposal, head.variant)
    return notebook.keep(trial, replace(evaluation, decision=decision))


def _record_found(notebook: Notebook, path: Path, lost: Version, evaluation: Evaluation, why: str) -> None:
    """The whole text of a champion that no trial has, as a start that was not kept, so that it is never lost."""
    proposal = Proposal(
        operator=_OPERATOR,
        kind="start",
        variant=lost.variant,
        summary=f"found in the champion's place: {lost.words()}",
        reason="it stood in the champion's file without a trial of evo's",
        expected="nothing: it is recorded because it goes",
        risk="none",
    )
    trial = notebook.begin(path, proposal, None)
    decision = Decision(verdict=Verdict.REVERT, reason=why)
    notebook.revert(trial, replace(evaluation, decision=decision))
