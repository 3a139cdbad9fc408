"""Whether the probabilities that the loop decides by are so: of pairs not fitted to, how often the child is faster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from dataset import H200, Row
from report import table

from evo.decide.modelled import ENOUGH, MARGIN, probability_faster
from evo.sim.timing_model import MODEL_VERSION

STEPS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
Said = tuple[float, bool]  # the probability, and whether the child is faster


def pairs_of(rows: Sequence[Row]) -> list[Said]:
    """Pairs of a family whose child is modelled to be faster."""
    modelled = [row.modelled(H200) for row in rows]
    found = []
    for (parent_us, limiter), parent in zip(modelled, rows, strict=True):
        for (child_us, _), child in zip(modelled, rows, strict=True):
            chance = probability_faster(MODEL_VERSION, limiter, parent_us / child_us)
            if chance is not None and chance > STEPS[0]:
                found.append((chance, parent.us > child.us))
    return found


def reliability(families: Iterable[Sequence[Row]], title: str) -> str:
    """A table: by what is said, the pairs, the mean of what is said, and the share that is faster; families alike."""
    of = [pairs for rows in families if (pairs := pairs_of(rows))]
    lines = []
    for low, high in pairwise(STEPS):
        inside = [each for pairs in of if (each := [(c, so) for c, so in pairs if low <= c < high or c == high == 1])]
        if not inside:
            continue
        said, so = (float(np.mean([np.mean([pair[at] for pair in pairs]) for pairs in inside])) for at in (0, 1))
        spread = float(np.std([np.mean([pair[1] for pair in pairs]) for pairs in inside])) / math.sqrt(len(inside))
        pairs = str(sum(map(len, inside)))
        lines.append([f"{low:.2f} to {high:.2f}", str(len(inside)), pairs, f"{said:.3f}", f"{so:.3f} ± {spread:.3f}"])
    return table([title, "families", "pairs", "mean said", "faster"], lines)


def by_limiter(families: Iterable[Sequence[Row]]) -> str:
    """A table: by what bounds the parent, pairs over 10 % apart and the share told right, keeps and false ones."""
    told: dict[str, list[bool]] = {}
    false: dict[str, list[bool]] = {}
    of: dict[str, int] = {}
    for rows in families:
        modelled = [(*row.modelled(H200), row.us) for row in rows]
        pairs = [(parent, child) for parent in modelled for child in modelled if parent is not child]
        for limiter in {limiter for _, limiter, _ in modelled}:
            of[limiter] = of.get(limiter, 0) + 1
        for (parent_us, limiter, before), (child_us, _, after) in pairs:
            if abs(math.log(before / after)) > math.log(1.10):
                told.setdefault(limiter, []).append((parent_us > child_us) == (before > after))
            gain = parent_us / child_us
            if gain > 1 / (1 - MARGIN) and (probability_faster(MODEL_VERSION, limiter, gain) or 1.0) >= ENOUGH:
                false.setdefault(limiter, []).append(before <= after)
    lines = [
        [limiter, str(of[limiter]), str(len(right)), f"{np.mean(right):.3f}", str(len(wrong)), _mean(wrong)]
        for limiter, right in sorted(told.items(), key=lambda item: -len(item[1]))
        for wrong in (false.get(limiter, []),)
    ]
    return table(["bound by", "families", "pairs", ">10 %", "kept", "false"], lines)


def _mean(values: Sequence[bool]) -> str:
    return f"{np.mean(values):.3f}" if values else "-"
