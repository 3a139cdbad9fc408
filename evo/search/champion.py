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
from evo.search.trial_log import Notebook
from evo.spec.variant import Variant

_OPERATOR = "champion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowned:
    """A variant that was champion in this run, and the evaluation that it was kept with."""

    variant: Variant
    evaluation: Evaluation


def conclude(
    crowned: Sequence[Crowned],
    notebook: Notebook,
    path: Path,
    figures: Callable[[Crowned], Evaluation],
    note: Callable[[str], None],
) -> Crowned | None:
    """Record the last champion's figures, or put back the latest that holds; that one, None if none holds."""
    if not crowned:
        return None
    last, why = crowned[-1].variant, ""
    for each in reversed(crowned):
        found = figures(each)
        if found.status.passed:
            _record(notebook, path, each.variant, last, found, why)
            return Crowned(variant=each.variant, evaluation=found)
        why = f"{each.variant.id} is {found.status}: {found.reason}"
        note(f"the champion does not hold: {why}")
    return None


def _record(notebook: Notebook, path: Path, variant: Variant, last: Variant, found: Evaluation, why: str) -> None:
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
    trial = notebook.begin(path, proposal, last)
    decision = Decision(verdict=Verdict.KEEP, reason=f"{summary}; claims no gain")
    notebook.keep(trial, replace(found, decision=decision))
