"""How well the modelled clock ranks variants that were measured: `make bench-clock`.

Per family (a kernel under its knobs or as rules change it, at one case): rank correlations, the share of pairs told
right, what the model's favourite loses, and what a loop that keeps at its own threshold would keep or miss wrongly.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from dataset import EARLIER, FILE, H200, SECOND, THIRD, Row, by_family, read
from numpy.typing import NDArray
from scipy.stats import kendalltau, spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from public import public
from reliability import by_limiter, reliability
from report import say, table, write_json
from second import ASIDE, WORKED_ON
from shipped import rungs, spaces

from evo.decide.modelled import ENOUGH, MARGIN, probability_faster
from evo.sim.timing_model import MODEL_VERSION, calibration_of

LEAST = 6  # variants of a family
LOW = 0.7  # a rank correlation
SPREAD = 1.10  # of a family's times; below, there is no order to tell
APART = 0.85  # of the pairs over 10 % apart that are told right: a correlation of such pairs alone (gamma) of 0.7


@dataclass(frozen=True)
class Judged:
    """Figures of one family. told_*: of pairs that differ by more; false_keeps: of pairs that are kept, the child is
    no faster; missed_keeps: of pairs with a gain past the threshold, not kept. Absent (nan) without such pairs."""

    family: str
    held_out: bool
    variants: int
    spread: float
    spearman: float
    kendall: float
    told_5: float
    told_10: float
    regret: float
    kept: int
    false_keeps: float
    missed_keeps: float


def judged(family: str, rows: Sequence[Row], modelled: NDArray[np.float64], limiters: Sequence[str] | None) -> Judged:
    """The figures of one family. limiters: what bounds each; None for a model that keeps past the margin alone."""
    measured = np.array([row.us for row in rows])
    i, j = np.triu_indices(len(rows), 1)
    truth, said = np.log(measured[i] / measured[j]), np.log(modelled[i] / modelled[j])
    right = np.sign(truth) == np.sign(said)
    truth, said = np.concatenate([truth, -truth]), np.concatenate([said, -said])  # each as parent and as child
    kept = said > -math.log(1 - MARGIN)
    if limiters is not None:
        parents = [limiters[at] for at in (*i, *j)]
        kept &= np.array([_enough(of, ratio) for of, ratio in zip(parents, said, strict=True)])
    real = truth > -math.log(1 - MARGIN)
    ordered = len(set(modelled.round(6))) > 1 and len(set(measured)) > 1
    return Judged(
        family=family,
        held_out=rows[0].held_out,
        variants=len(rows),
        spread=float(measured.max() / measured.min()),
        spearman=float(spearmanr(measured, modelled).statistic) if ordered else math.nan,
        kendall=float(kendalltau(measured, modelled).statistic) if ordered else math.nan,
        told_5=_share(right, np.abs(truth[: len(i)]) > math.log(1.05)),
        told_10=_share(right, np.abs(truth[: len(i)]) > math.log(1.10)),
        regret=float(measured[modelled.argmin()] / measured.min() - 1),
        kept=int(kept.sum()),
        false_keeps=_share(truth <= 0, kept),
        missed_keeps=_share(~kept, real),
    )


def _enough(limiter: str, log_ratio: float) -> bool:
    chance = probability_faster(MODEL_VERSION, limiter, math.exp(log_ratio))
    return chance is None or chance >= ENOUGH


def _share(what: NDArray[np.bool_], of: NDArray[np.bool_]) -> float:
    return float(what[of].mean()) if of.any() else math.nan


def summary(name: str, found: Sequence[Judged]) -> list[str]:
    """One row of the table at the end: medians and means over families whose times differ.

    Of the families below 0.7, in brackets, those that are below it by their pairs over 10 % apart too: the others'
    variants are mostly alike within less than that.
    """
    wide = [one for one in found if one.spread > SPREAD]
    kept = sum(one.kept for one in wide)
    false = sum(one.kept * one.false_keeps for one in wide if one.kept)

    def mean(of: str) -> float:
        return float(np.nanmean([getattr(one, of) for one in wide]))

    ranks = [one.spearman for one in wide]
    unordered = [one for one in wide if one.spearman < LOW]
    apart = [one for one in unordered if one.told_10 < APART]
    return [
        name, str(len(wide)), f"{np.nanmedian(ranks):.3f}", f"{np.nanmin(ranks):.2f}",
        f"{len(unordered)} ({len(apart)})",
        f"{mean('told_5'):.3f}", f"{mean('told_10'):.3f}", f"{np.median([o.regret for o in wide]):.3f}",
        f"{mean('regret'):.3f}", f"{false / max(kept, 1):.3f}", f"{mean('missed_keeps'):.3f}",
    ]  # fmt: skip


_HEAD = ["family", "side", "variants", "spread", "Spearman", "Kendall", ">5 %", ">10 %", "regret", "false", "missed"]
_SUMMARY = [
    "", "families", "median Spearman", "least", "below 0.7 (apart)", ">5 %", ">10 %", "median regret", "mean regret",
    "false keeps", "missed keeps",
]  # fmt: skip


def _line(one: Judged, side: str) -> list[str]:
    figures = (
        one.spearman, one.kendall, one.told_5, one.told_10, one.regret, one.false_keeps, one.missed_keeps,
    )  # fmt: skip
    return [one.family, side, str(one.variants), f"{one.spread:.2f}", *(f"{value:.2f}" for value in figures)]


def of_all(families: Mapping[str, Sequence[Row]]) -> tuple[list[Judged], dict[str, list[Judged]]]:
    """The figures of each family, and those of the earlier versions that all its rows have."""
    now: list[Judged] = []
    before: dict[str, list[Judged]] = {}
    for name, rows in families.items():
        found = [row.modelled(H200) for row in rows]
        now.append(judged(name, rows, np.array([us for us, _ in found]), [limiter for _, limiter in found]))
        for version in EARLIER:
            if all(version in row.before for row in rows):
                said = np.array([row.before[version] for row in rows])
                before.setdefault(version, []).append(judged(name, rows, said, None))
    return now, before


def second(*, aside: bool) -> str:
    """The tables of the second set; families set aside have no lines of their own unless asked for."""
    families = by_family(read(SECOND))
    side = {name: rows[0].side for name, rows in families.items()}
    now, before = of_all(families)
    shown = [one for one in now if aside or side[one.family] != ASIDE]
    sides = [
        summary(f"{label or 'second set'}, {version}", [one for one in of if label in ("", side[one.family])])
        for label in ("", WORKED_ON, ASIDE)
        for version, of in (*before.items(), (MODEL_VERSION, now))
    ]
    tables = (
        table(_HEAD, [_line(one, side[one.family]) for one in shown]),
        table(_SUMMARY, sides),
        reliability(families.values(), "said, second set"),
        by_limiter(families.values()),
        reliability((rows for name, rows in families.items() if side[name] == ASIDE), f"said, {ASIDE}"),
    )
    return "\n".join(tables)


def third() -> str:
    """The tables of the third set, one quantity a kernel, to which anything may be fitted."""
    families = by_family(read(THIRD))
    now, before = of_all(families)
    sides = [summary(f"third set, {version}", of) for version, of in (*before.items(), (MODEL_VERSION, now))]
    return "\n".join((table(_HEAD, [_line(one, "causes") for one in now]), table(_SUMMARY, sides)))


def main(words: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--data", type=Path, default=FILE)
    made.add_argument("--only", default="", metavar="TEXT", help="only families with this in their name")
    made.add_argument("--json", type=Path, default=None, metavar="FILE", help="write the figures of every family")
    made.add_argument("--aside", action="store_true", help="also the families of the second set that are set aside")
    made.add_argument("--spaces", type=int, default=0, metavar="N", help="also N points of each shipped space")
    asked = made.parse_args(words)
    say(f"model {MODEL_VERSION}, {calibration_of(H200)}; data: one H200, {asked.data.name}")
    data = [row for row in read(asked.data) if asked.only in row.family]
    families = {name: rows for name, rows in by_family(data).items() if len(rows) >= LEAST}
    now, before = of_all(families)
    say(table(_HEAD, [_line(one, "held out" if one.held_out else "fit") for one in now]))
    sides = [
        summary(f"{label}, {version}", [one for one in of if one.held_out is side])
        for label, side in (("fit", False), ("held out", True))
        for version, of in (*before.items(), (MODEL_VERSION, now))
        if any(one.held_out is side and one.spread > SPREAD for one in of)
    ]
    say(table(_SUMMARY, sides))
    say(reliability((rows for rows in families.values() if rows[0].held_out), "said, held out"))
    say(by_limiter(families.values()))
    if asked.data == FILE and not asked.only:
        say(second(aside=asked.aside))
        say(third())
    say(public())
    say(rungs(data))
    if asked.spaces:
        say(spaces(asked.spaces))
    if asked.json:
        write_json(asked.json, {one.family: asdict(one) for one in now})
    return 0


if __name__ == "__main__":
    sys.exit(main())
