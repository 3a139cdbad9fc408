"""How often the modelled clock tells the faster of two variants, by what it says of their ratio: the table in
`evo/decide/modelled.py`, fitted to pairs of the fit families and of the second set's that are not set aside, with what
held-out families give beside it.

    python benchmarks/clock/accuracy.py

The chance that a child modelled to be exp(s) times faster is faster: 1 - floor - (1/2 - floor) exp(-s / scale). Every
family counts alike. By the term that bounds the parent, if at least eight families have it; else all together.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
from dataset import H200, SECOND, Row, by_family, read
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from report import say, table
from second import WORKED_ON

FAMILIES, PAIRS = 8, 4  # of a term, and of a family under it
PAST = math.log(1.1)  # what decides is past the margin
STEPS = (0.0, 0.05, 0.105, 0.2, 0.4, 0.8, math.inf)
Pairs = dict[str, list[tuple[float, bool]]]  # by family: said, and whether it is so


def pairs_of(families: Iterable[Row]) -> dict[str, Pairs]:
    """By limiter of the parent, and `any`: pairs that the model says differ."""
    found: dict[str, Pairs] = defaultdict(lambda: defaultdict(list))
    for family, rows in by_family(families).items():
        said = [row.modelled(H200) for row in rows]
        for (parent_us, limiter), parent in zip(said, rows, strict=True):
            for (child_us, _), child in zip(said, rows, strict=True):
                if (ratio := math.log(parent_us / child_us)) > 0.005:
                    for name in (limiter, "any"):
                        found[name][family].append((ratio, parent.us > child.us))
    return {name: {f: p for f, p in of.items() if len(p) >= PAIRS} for name, of in found.items()}


def fitted(of: Pairs) -> tuple[float, float]:
    """Scale and floor of the largest likelihood."""
    said = np.array([ratio for pairs in of.values() for ratio, _ in pairs])
    right = np.array([so for pairs in of.values() for _, so in pairs])
    weight = np.array([1 / len(pairs) for pairs in of.values() for _ in pairs])

    def loss(x: np.ndarray) -> float:
        scale, floor = np.exp(x[0]), 0.5 / (1 + np.exp(-x[1]))
        chance = np.clip(1 - floor - (0.5 - floor) * np.exp(-said / scale), 1e-6, 1 - 1e-6)
        return float(-(weight * np.where(right, np.log(chance), np.log(1 - chance))).sum())

    best = minimize(loss, [math.log(0.2), -3.0], method="Nelder-Mead")
    return float(np.exp(best.x[0])), float(0.5 / (1 + np.exp(-best.x[1])))


def _cells(of: Pairs) -> list[str]:
    cells = []
    for low, high in pairwise(STEPS):
        shares = []
        for pairs in of.values():
            if inside := [so for ratio, so in pairs if low <= ratio < high]:
                shares.append(sum(inside) / len(inside))
        cells.append(f"{np.mean(shares):.2f} of {len(shares)}" if shares else "-")
    return cells


def main() -> int:
    first = read()
    fit = pairs_of(row for row in (*first, *read(SECOND)) if not row.held_out or row.side == WORKED_ON)
    held = pairs_of(row for row in first if row.held_out)
    rows = []
    for name, of in sorted(fit.items(), key=lambda item: -len(item[1])):
        scale, floor = fitted(of)
        past = {family: apart for family, pairs in of.items() if (apart := [p for p in pairs if p[0] > PAST])}
        beyond = " ".join(f"{value:.3f}" for value in fitted(past)) if past else ""
        rows.append([name, "fit", str(len(of)), f"{scale:.3f}", f"{floor:.3f}", beyond, *_cells(of)])
        rows.append([name, "held out", str(len(held.get(name, {}))), "", "", "", *_cells(held.get(name, {}))])
    steps = [f"{math.exp(low):.2f}x" for low in STEPS[:-1]]
    say(table(["limiter", "side", "families", "scale", "floor", "past 1.1x", *steps], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
