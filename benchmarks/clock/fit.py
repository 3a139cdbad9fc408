"""Fit the constants of the timing model to the fit families of the clock's data set, and print them.

    python benchmarks/clock/fit.py [--rounds 12]

Least squares of the logarithm of modelled over measured time: its scatter within each family counts fully, its mean
over a family little, and each constant is drawn to its reference value and held within its bounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from dataset import H200, read
from scipy.optimize import least_squares

from evo.sim.timing_parameters import CONSTANTS, FITTED

WITHIN, MEAN, DRAWN = 3.0, 0.35, 0.12
_SHARE, _CLOCKS = (0.5, 2.0), (0.75, 1.4)  # of the reference that a fitted value may be
_SMALLEST = 0.05


def bounds_of(name: str) -> tuple[float, float]:
    """Least and most that a constant may become."""
    if name == "tail":
        return _SMALLEST, 1.0
    if name == "p":
        return 1.2, 8.0
    reference = CONSTANTS[name].reference
    low, high = _SHARE if name.endswith("_share") else _CLOCKS
    if reference <= 0:
        return _SMALLEST, 400.0
    loose = 4.0 if "assumed" in CONSTANTS[name].source else 1.0
    return max(_SMALLEST, reference * low / loose), reference * high * loose


def main(words: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--rounds", type=int, default=12, help="evaluations of the gradient")
    asked = made.parse_args(words)
    rows = [row for row in read() if not row.held_out]
    families, at = np.unique([row.family for row in rows], return_inverse=True)
    count = np.bincount(at)
    measured = np.log([row.us for row in rows])
    names = list(CONSTANTS)
    limits = np.log([bounds_of(name) for name in names])
    start = np.clip(np.log([max(FITTED[name], _SMALLEST) for name in names]), limits[:, 0] + 1e-6, limits[:, 1] - 1e-6)
    reference = np.log([max(CONSTANTS[name].reference, _SMALLEST) for name in names])
    weight = 1 / np.sqrt(count[at])

    def residuals(x: np.ndarray) -> np.ndarray:
        constants = dict(zip(names, np.exp(x), strict=True))
        off = np.log([row.modelled(H200, constants)[0] for row in rows]) - measured
        mean = np.bincount(at, off) / count
        return np.concatenate([WITHIN * weight * (off - mean[at]), MEAN * mean, DRAWN * (x - reference)])

    found = least_squares(
        residuals, start, bounds=(limits[:, 0], limits[:, 1]), loss="soft_l1", f_scale=0.3, max_nfev=asked.rounds
    )
    print(f"# {len(rows)} variants, {len(families)} families, cost {found.cost:.4f}")
    for name, value in zip(names, np.exp(found.x), strict=True):
        print(f"{name} {value:.4g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
