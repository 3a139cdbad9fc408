"""A champion's figures, taken once when a run ends: percentiles of 1,000 samples, rivals, compute-sanitizer's word.

A trial takes no more than its decision needs. What a run has kept has passed the gate, the look at the timed sizes and
the confirmation in a fresh process; compute-sanitizer, which is slow, is asked of the last champion alone. If it finds
a fault there, the champion before it comes back, and so on down to one that was checked: a start always is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evo.operators import Proposal
from evo.results import Decision, Evaluation, Verdict
from evo.search.trial_log import TrialLog
from evo.spec.variant import Variant

_OPERATOR = "champion"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChampion:
    """A variant that was champion in this run, and the evaluation that it was kept with."""

    variant: Variant
    evaluation: Evaluation


def conclude(
    champions: Sequence[RunChampion],
    trial_log: TrialLog,
    path: Path,
    figures: Callable[[RunChampion], Evaluation],
    note: Callable[[str], None],
) -> RunChampion | None:
    """Record the last champion's figures, or put back the latest that holds; that one, None if none holds."""
    if not champions:
        return None
    last, why = champions[-1].variant, ""
    for each in reversed(champions):
        found = figures(each)
        if found.status.passed:
            _record(trial_log, path, each.variant, last, found, why)
            return RunChampion(variant=each.variant, evaluation=found)
        why = f"{each.variant.id} is {found.status}: {found.reason}"
        note(f"the champion does not hold: {why}")
    return None


def _record(trial_log: TrialLog, path: Path, variant: Variant, last: Variant, found: Evaluation, why: str) -> None:
    is_last = variant.id == last.id
    summary = f"figures of {variant.id}" if is_last else f"back to {variant.id}: {last.id} does not hold"
    reason = "percentiles, cold times and rivals are taken once, when the run ends" if is_last else why
    proposal = Proposal(
        operator=_OPERATOR,
        kind="review",
        variant=variant,
        summary=summary,
        reason=reason,
        expected="the figures that the leaderboard shows",
        risk="none: it has passed its gate",
    )
    trial = trial_log.begin(path, proposal, last)
    decision = Decision(verdict=Verdict.KEEP, reason=f"{summary}; claims no gain")
    trial_log.keep(trial, replace(found, decision=decision))
