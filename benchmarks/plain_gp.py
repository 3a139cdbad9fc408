"""A plain Gaussian process, for comparison: ranks of values, Matern-5/2 with one length per knob, expected improvement.

20 random points, lengths by maximum likelihood every 20 evaluations, 3,000 random candidates; failures count as slow.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize
from scipy.special import ndtr

from evo.search.knobs.draws import Draws
from evo.search.knobs.space import Floats, Point, Space

_FIRST, _REFIT, _CANDIDATES = 20, 20, 3000


class PlainGp:
    """The strategy."""

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        self._space, self._rng = space, np.random.default_rng(seed)
        self._draws = Draws(space, self._rng)
        self._sizes = np.maximum(np.array(space.sizes) - 1, 1)
        self._at: list[Point] = []
        self._costs: list[float] = []
        self._theta = np.zeros(len(space.knobs) + 1)

    def tell(self, point: Point, cost: float | None, *, legal: bool = True) -> None:
        del legal
        self._draws.seen.add(point)
        self._at.append(point)
        self._costs.append(math.nan if cost is None else math.log(cost))

    def ask(self) -> Point | None:
        y = np.array(self._costs)
        if len(y) < _FIRST or np.isnan(y).all():
            return self._draws.draw()
        y = np.where(np.isnan(y), np.nanmax(y), y)
        y = (y - y.mean()) / (y.std() + 1e-12)
        x = np.array(self._at) / self._sizes
        if len(y) % _REFIT == 0:
            bounds = [(-3.0, 3.0)] * len(self._space.knobs) + [(-9.0, 0.0)]
            start = np.append(np.zeros(len(self._space.knobs)), -5.0)
            found = minimize(self._loss, start, (x, y), "L-BFGS-B", bounds=bounds, options={"maxiter": 6})
            self._theta = found.x
        drawn = [tuple(int(v) for v in row) for row in self._space.drawn(_CANDIDATES, self._rng)]
        drawn = [point for point in drawn if point not in self._draws.seen]
        if not drawn:
            return self._draws.draw()
        far = np.array(drawn) / self._sizes
        matrix = self._kernel(x, x) + (math.exp(self._theta[-1]) + 1e-8) * np.eye(len(y))
        factor = cho_factor(matrix, lower=True)
        cross = self._kernel(x, far)
        mean = cross.T @ cho_solve(factor, y)
        spread = solve_triangular(factor[0], cross, lower=True)
        deviation = np.sqrt(np.maximum(1 - (spread**2).sum(axis=0), 1e-9))
        u = (y.min() - mean) / deviation
        gain = deviation * (u * ndtr(u) + np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi))
        return drawn[int(np.argmax(gain))]

    def _kernel(self, a: Floats, b: Floats) -> Floats:
        a, b = a / np.exp(self._theta[:-1]), b / np.exp(self._theta[:-1])
        far = np.sqrt(5 * np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T, 0))
        found: Floats = (1 + far + far**2 / 3) * np.exp(-far)
        return found

    def _loss(self, theta: Floats, x: Floats, y: Floats) -> float:
        self._theta = theta
        matrix = self._kernel(x, x) + (math.exp(theta[-1]) + 1e-8) * np.eye(len(y))
        try:
            lower = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return 1e10
        white = solve_triangular(lower, y, lower=True)
        return float(0.5 * len(y) * np.log(white @ white) + np.log(np.diag(lower)).sum())
