"""The timed cases as the decision sees them: time, weight, what limits each, and how much can be left to gain.

The least time of a case is what no kernel of the task can go below by the same figures: on the simulator the launch and
the largest of its floors and of its compulsory bytes through L2 or DRAM; on a GPU the largest floor alone.
"""

from __future__ import annotations

import math

from evo.analysis.roofline import limits
from evo.errors import SyntaxInvalid
from evo.operators.llm.hardware_context import limits_of
from evo.results import CaseBench, Evaluation
from evo.spec.chips import Chip
from evo.spec.task import Case, Task

_TERMS = 3  # of a case's estimate that are shown


def case_table(task: Task, own: Evaluation | None, chip: Chip, margin: float) -> list[str]:
    """One line for each timed case, and what is left to gain against the margin. Nothing without times."""
    if own is None or not own.bench:
        return []
    rows = {row.name: row for row in own.bench}
    lines = [_line(task, case, rows[case.name], chip) for case in task.bench if case.name in rows]
    modelled = "from a simulator's model of the chip: for ranking only, never measured"
    lines.insert(0, f"Times are {modelled if own.environment.timing == 'modelled' else 'measured'}.")
    lines.append(_rule(margin, modelled=any(row.terms_us for row in own.bench)))
    gain = possible_gain(task, own, chip)
    if gain is not None:
        needed = 1 / (1 - margin)
        lines.append(f"With all scored cases at their least time: {gain:.2f}x. The margin asks for {needed:.2f}x.")
        if not can_pay(gain, margin):
            lines.append("No change can be kept: not even the least times pass the margin.")
    return lines


def can_pay(gain: float, margin: float) -> bool:
    """Whether a gain can pass the margin."""
    return gain >= 1 / (1 - margin)


def possible_gain(task: Task, own: Evaluation | None, chip: Chip) -> float | None:
    """How much faster the score could become if each case took its least time; None if that is not known."""
    rows = {row.name: row for row in own.bench} if own is not None else {}
    logs, weights = 0.0, 0.0
    for name, weight in task.score.items():
        row = rows.get(name)
        least = least_us(task, task.case(name), row, chip) if row is not None else None
        if row is None or least is None or not row.time_us:
            return None
        logs += weight * math.log(max(1.0, row.time_us / least))
        weights += weight
    return math.exp(logs / weights) if weights else None


def least_us(task: Task, case: Case, row: CaseBench, chip: Chip) -> float | None:
    """What no kernel of the task can go below at this case; None if the task states no work."""
    try:
        found = limits(task, case, chip)
    except SyntaxInvalid:
        return None
    if not found.floor_us:
        return None
    if row.terms_us is None:
        return found.floor_us
    fits = found.bytes_compulsory <= chip.l2_bytes
    through_l2 = found.bytes_compulsory / chip.l2_bytes_per_s * 1e6 if chip.l2_bytes_per_s else 0.0
    work = max(found.floor_us, through_l2, 0.0 if fits else found.floor_cold_us)
    return (row.launch_us or chip.launch_s * 1e6) + work


def _line(task: Task, case: Case, row: CaseBench, chip: Chip) -> str:
    axes = ", ".join(f"{name}={value}" for name, value in case.axes.items())
    weight = task.score.get(case.name)
    said = f"weight {weight:g}" if weight is not None else "not scored"
    line = f"{case.name} ({axes}; {said}): {_us(row.time_us)} us"
    if row.terms_us:
        terms = sorted(row.terms_us.items(), key=lambda term: -term[1])[:_TERMS]
        line += f", limited by {row.limiter}; terms " + ", ".join(f"{name} {_us(us)}" for name, us in terms)
    elif (found := limits_of(task, case, chip)) is not None and found.limiter:  # a measured time does not tell it
        line += f"; the largest of its floors is {found.limiter}"
    if (least := least_us(task, case, row, chip)) is not None:
        line += f"; no kernel takes less than {_us(least)} us ({row.time_us / least:.2f}x)"
    if row.baseline is not None:
        line += f"; the library ({row.baseline.name}) takes {_us(row.baseline.p50_us)} us"
    return line


def _us(time: float) -> str:
    return f"{time:,.0f}" if time >= 1000 else f"{time:.4g}"


def _rule(margin: float, *, modelled: bool) -> str:
    return (
        f"Kept is what makes the weighted geometric mean of the scored cases at least {margin:.0%} shorter and no case"
        " more than 2 % slower."
        + (" A term that is not the largest cannot shorten a case by being made smaller." if modelled else "")
    )
