"""Messages of a run: the line of a trial, and at the end its result and the next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evo.analysis.roofline import BestFloor
from evo.evaluate.session import EvaluationSession
from evo.operators import INVERT_BELOW, STALLED_AFTER, WHEN_STALLED, Proposal
from evo.results import CaseBench, Control, Evaluation
from evo.results.bench import LAUNCH_BOUND
from evo.results.codec import copied
from evo.results.wording import bound_words, microseconds
from evo.search.events import TrialResult
from evo.search.trial_log import Trial
from evo.spec.task import Task
from evo.spec.variant import Variant

Cases = Mapping[str, CaseBench]

_NEAR = 0.85  # of the floor's speed: the little that is left is seldom worth a search
_FAR = 0.5  # of the floor's speed, below which a floor of bytes alone tells little of a kernel that computes
_STALLED = 12  # trials without a keep
_BYTES_ALONE = 0.9  # of a modelled time is DRAM's: whatever else a change makes better is hidden behind it
EXHAUSTED = "no operator has a proposal left that is worth a trial"


def reached(task: Task, bench: EvaluationSession, cases: Cases) -> float | None:
    """How fast the headline case runs, as a share of what its floor by the best rates known allows; None if unknown."""
    time_us, floor = _time(task, cases), bench.best_floor(task, task.headline)
    if not time_us or floor is None:
        return None
    # The time of a model has the launch in it. A measured one is of launches one after the other in a graph.
    launch_us = (cases[task.headline].launch_us or floor.launch_us or 0.0) if bench.modelled else 0.0
    return (floor.us + launch_us) / time_us


def launch_share(row: CaseBench, floor: BestFloor | None) -> float | None:
    """How much of a case's time the launch alone takes; None if that is not known."""
    if row.modelled_us is not None:
        return row.launch_share
    return min(floor.launch_us / row.time_us, 1.0) if floor is not None and floor.launch_us else None


def stalls(
    task: Task, bench: EvaluationSession, cases: Cases, since_kept: int, operators: Sequence[str]
) -> tuple[bool, ...]:
    """Whether the search has stalled: nothing was kept for a while, far from the target.

    Where an operator waits for that, it is asked once more as if it had: a search with nothing left has stalled too.
    """
    time_us, target_us = _time(task, cases), bench.target_us(task, task.headline)
    is_far = not time_us or not target_us or target_us / time_us < INVERT_BELOW
    stalled = since_kept >= STALLED_AFTER and is_far
    return (False, True) if is_far and not stalled and WHEN_STALLED in operators else (stalled,)


def satisfied(
    task: Task, bench: EvaluationSession, cases: Cases, since_kept: int, patience: int | None, target: float | None
) -> str | None:
    """Why a run may end before its trials are spent."""
    if patience is not None and since_kept >= patience:
        return f"nothing was kept in {since_kept} trials"
    share = reached(task, bench, cases)
    if target is not None and share is not None and share >= target:
        return f"{task.headline} has reached {share:.0%} of the speed that its floor allows"
    return None


def advice(task: Task, bench: EvaluationSession, cases: Cases, *, since_kept: int, is_exhausted: bool = False) -> str:
    """One line for the end of a run: what binds the headline case, and what follows from it.

    is_exhausted: no operator of the run has a proposal left.
    """
    time_us, share, floor = _time(task, cases), reached(task, bench, cases), bench.best_floor(task, task.headline)
    if time_us is None:
        return f"{task.headline}: the champion was not timed in this run"
    row = cases[task.headline]
    word = "modelled" if bench.modelled else "measured"
    said = f"{task.headline}: {microseconds(time_us)} µs {word}"
    if share is None or floor is None:
        return f"{said}; no floor to compare with (`evo limits {task.name}` says why)"
    launch = launch_share(row, floor)
    if launch is not None and launch >= LAUNCH_BOUND:
        larger = "a larger headline case would show more of the kernel (`headline` in task.yaml)"
        return f"{said}, launch-bound: the launch alone is {launch:.0%} of it; {larger}"
    if row.clear_share >= LAUNCH_BOUND:
        asked = "`init: zero` in task.yaml and scratch lines ask for that"
        return f"{said}, {row.clear_share:.0%} of it to clear buffers before each launch: {asked}"
    binds, taken = _binding(row)
    if row.limiter == "dram" and taken >= _BYTES_ALONE and share < _NEAR:  # whatever a floor of the L2 would allow
        return f"{said}, {binds}: only fewer of them would make it faster"
    part = "under 1%" if share < 0.01 else f"{share:.0%}" if share < 1 else "all"  # an estimate may be passed
    if "flop" in task.work or share >= _FAR:
        said += f", limited by {floor.words}: {part} of the speed that it allows"
    else:
        said += f"; moving its bytes would take {part} of that ({floor.words}), its arithmetic is not stated"
    if (rival := row.baseline) is not None:
        said += f"; {rival.name} takes {microseconds(rival.p50_us)} µs"
        if rival.p50_us < time_us and since_kept >= _STALLED:
            return f"{said}: the search has stalled behind the library; use the library, or start from a higher rung"
    if share >= _NEAR:
        return f"{said}: near its limit; further gains are small"
    if since_kept >= _STALLED:
        return (
            f"{said}: nothing kept in {since_kept} trials; another rung or operator would bring more than more trials"
        )
    if is_exhausted:
        return (
            f"{said}; {binds}, and nothing left to try: a rung by hand or another operator would bring more"
            " (`evo explain FILE.cu` shows what the rules see of a kernel)"
        )
    return f"{said}; {binds}; go on with --resume"


def _binding(row: CaseBench) -> tuple[str, float]:
    """What the champion itself is bound by, not its floor, and how much of a modelled time that is."""
    term = row.limiter or ""
    share = (row.terms_us or {}).get(term, 0.0) / (row.modelled_us or 1.0)
    return (f"now bound by {bound_words(term)} ({share:.0%} of the time)" if share else "there is room left"), share


def _time(task: Task, cases: Cases) -> float | None:
    row = cases.get(task.headline)
    return row.time_us if row is not None and row.time_us > 0 else None


def spent(trials: int) -> str:
    """Why a run ends whose time is over."""
    if trials:
        return "the time budget is spent"
    return "the start took the whole time budget: a longer --budget, or shorter bench cases, leave time for trials"


def control_words(place: str, noise: Control, *, is_raised: bool = False) -> str:
    """What an A/A control has shown, and at which worker of a cluster. is_raised: the margin has grown to the noise."""
    said = (
        f"A/A control{f' at {place}' if place else ''}: the champion against itself scatters by {noise.sd:.2%} a pair "
        f"({noise.pairs} pairs{_ago(noise.age_s)}), which supports a margin of {noise.smallest_margin:.2%} and more"
    )
    return f"{said}: that is the margin of this run (--margin asks for another)" if is_raised else said


def _ago(age_s: float | None) -> str:
    return f", measured {max(1, round(age_s / 60))} min ago" if age_s is not None else ""


def by_case(bench: Sequence[CaseBench]) -> dict[str, CaseBench]:
    """Bench figures by case name."""
    return {row.name: row for row in bench}


def trial_result(
    trial: Trial, proposal: Proposal, parent: Variant | None, evaluation: Evaluation, commit: str | None
) -> TrialResult:
    """One trial as the loop's watchers are told of it."""
    decision = evaluation.decision
    return copied(
        TrialResult,
        proposal,
        evaluation,
        trial=trial.number,
        id=trial.id,
        variant=evaluation.variant,
        parent=parent.id if parent else None,
        reason=evaluation.reason or (decision.reason if decision else None),
        decision=decision.verdict if decision else None,
        timing=evaluation.environment.timing,
        cases=by_case(evaluation.bench),
        gain=decision.gain if decision else None,
        commit=commit,
    )
