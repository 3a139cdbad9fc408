"""evo's search of a knob space: a Gaussian process of log time and expected improvement.

Everything is cheap beside one evaluation: the model is fitted anew when it has grown by an eighth, and extended by one
row in between; large spaces are scored over a pool of random points and of the best ones' neighbourhoods. Points that
failed, or that turned out not to be legal, are learned by models of their own kind, which weigh the improvement.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from evo.search.knobs import features
from evo.search.knobs.draws import Draws
from evo.search.knobs.gaussian_process import Surrogate
from evo.search.knobs.space import Floats, Point, Points, Space

_NEAR = 8  # of the best points, the neighbourhoods are in the pool
_MUTATED = 400
_LEARNED = 300
_LIKELY = 100  # or a thirtieth of the pool, is looked at where legal points have to be guessed
_JUDGED = 300  # of the most promising points, the chance to work is looked at
_UNRELATED = 0.35  # spread of plain values of costs that have no logarithm
_FARTHEST = 700.0  # of those from their middle: as far as logarithms of positive costs can be
_FIRST = 4  # points before anything is known
_WHOLE = 16_000  # spaces up to this are scored whole
_POOL = 8_000  # points drawn of larger ones
_GROWTH = 1.12  # of the points seen, from which the model is fitted anew
_STEPS = 12  # of a fit
_CAP = 1.0  # of the slow tail, over the distance of the median from the best
_FAILED_AT = 0.8  # the quantile of the costs that failures are put at
_WALKED = 256  # of a space this small the rest is walked, the best point's neighbours first, once the model
_SETTLED = 1e-4  # sees less improvement than this left, of the logarithm


class Searcher:
    """`ask` gives a point, `tell` takes its time. Deterministic by the seed."""

    def __init__(self, space: Space, *, seed: int = 0) -> None:
        self.space = space
        self._rng = np.random.default_rng(seed)
        self._draws = Draws(space, self._rng)
        self._coordinates = features.coordinates(space)
        self._model = Surrogate(self._coordinates)
        self._judge = FeasibilityModel(space, self._coordinates)
        self._points: list[Point] = []
        self._costs: list[float] = []  # NaN where it failed
        self._pool: Points = np.zeros((0, len(space.knobs)), np.int16)
        self._taken = np.zeros(0, bool)
        self._fitted = 0
        self._conditioned = 0
        self._plan: list[Point] | None = None

    # --- the protocol

    def ask(self) -> Point | None:
        """The next point; None when every one was tried."""
        if self._plan is None:
            self._plan = self._first_points()
        while self._plan:
            point = self._plan.pop(0)
            if point not in self._draws.seen:
                return point
        if not self._coordinates or sum(not math.isnan(cost) for cost in self._costs) < 2:
            return self._likely()
        return self._improving()

    def tell(self, point: Point, cost: float | None, *, legal: bool = True) -> None:
        """The point's time: None if it failed; `legal=False` if it is outside the space."""
        self._draws.seen.add(point)
        if legal:
            self._points.append(point)
            self._costs.append(math.nan if cost is None else cost)
        self._judge.tell(point, legal=legal, succeeded=cost is not None)
        if len(self._pool):
            self._taken |= (self._pool == np.array(point, np.int16)).all(axis=1)

    # --- before anything is known

    def _first_points(self) -> list[Point]:
        """A few points that differ, each among the better ones by the rules of thumb."""
        drawn = self.space.drawn(2000, self._rng)
        if not len(drawn) or not self._coordinates:
            return []
        belief = -features.expected(self.space, drawn) / 0.3 + self._rng.gumbel(size=len(drawn))
        codes = features.codes(self.space, self._coordinates, drawn)
        rows = self._model.rows(self._model.tables(self._model.theta)[0], codes).astype(np.float32)
        hot = self._model.one_hot(codes)
        chosen = [int(np.argmax(belief))]
        nearest = np.zeros(len(drawn))
        while len(chosen) < min(_FIRST, len(drawn)):
            nearest = np.maximum(nearest, np.exp(rows[chosen[-1]] @ hot.T))
            score = belief + 4 * np.log(np.maximum(1 - nearest, 1e-9))
            score[chosen] = -np.inf
            chosen.append(int(np.argmax(score)))
        return [_point(drawn[row]) for row in chosen]

    def _likely(self) -> Point | None:
        """A new point; if points have failed, the one of a few drawn that most likely works."""
        if not self._judge.has_failures:
            return self._draws.draw()
        drawn = self.space.drawn(4000, self._rng)
        fresh = [row for row in range(len(drawn)) if _point(drawn[row]) not in self._draws.seen]
        if not fresh:
            return self._draws.draw()
        drawn = drawn[fresh]
        score = (
            self._judge.log_chance(drawn)
            - 0.3 * features.expected(self.space, drawn)
            + 0.1 * self._rng.gumbel(size=len(drawn))
        )
        return _point(drawn[int(np.argmax(score))])

    # --- by the model

    def _targets(self) -> Floats:
        """Log costs with the slow tail cut off, failures beside the slow ones."""
        costs = np.array(self._costs)
        good = ~np.isnan(costs)
        if costs[good].min() > 0:
            y = np.log(costs)
        else:
            spread = np.subtract(*np.quantile(costs[good], [0.75, 0.25])) or float(np.ptp(costs[good])) or 1.0
            with np.errstate(over="ignore"):
                y = np.clip((costs - np.median(costs[good])) / spread * _UNRELATED, -_FARTHEST, _FARTHEST)
        y[~good] = np.quantile(y[good], _FAILED_AT)
        middle = float(np.median(y))
        capped: Floats = np.minimum(y, middle + _CAP * max(middle - float(y.min()), 0.1))
        return capped

    def _improving(self) -> Point | None:
        points = np.array(self._points, np.int16)
        y, trend = self._targets(), features.expected(self.space, points)
        codes = features.codes(self.space, self._coordinates, points)
        n = len(y)
        if n >= max(self._fitted + 1, self._fitted * _GROWTH) or not self._fitted or self._taken.all():
            some = self._telling(y)
            self._model.learn(codes[some], y[some], trend[some], _STEPS)
            self._fitted = n
            self._refresh_pool(y)
            self._model.condition(codes)
        else:
            for row in range(self._conditioned, n):
                self._model.extend(codes[row])
        self._conditioned = n
        if self._taken.all():
            return self._likely()
        mean, deviation = self._model.predict(y, trend, self._pool_trend)
        score = improvement(mean, deviation, float(y.min()))
        score[self._taken] = -np.inf
        if len(self._pool) <= _WALKED and float(score.max()) < math.log(_SETTLED):
            return self._neighbour(points[int(np.argmin(y))]) or self._likely()
        if not self._judge.has_failures:
            return _point(self._pool[int(np.argmax(score))])
        few = self._candidates(score)
        return _point(self._pool[few[int(np.argmax(score[few] + self._judge.log_chance(self._pool[few])))]])

    def _neighbour(self, best: NDArray[np.int16]) -> Point | None:
        """A point one knob away from the best, at random; None when all were tried.

        The model may be wrong about it: one point of a slow neighbourhood can be the best of all, and those of the
        slow points that are near the best are fewest.
        """
        near = np.flatnonzero(((self._pool != best).sum(axis=1) == 1) & ~self._taken)
        return _point(self._pool[int(self._rng.choice(near))]) if len(near) else None

    def _telling(self, y: Floats) -> NDArray[np.int64]:
        """The points that hyperparameters are learned from: of many, the best and some of the others."""
        order = np.argsort(y, kind="stable")
        if len(order) <= _LEARNED:
            return np.arange(len(order))
        best, others = order[: _LEARNED // 2], order[_LEARNED // 2 :]
        return np.sort(np.concatenate([best, self._rng.choice(others, _LEARNED // 2, replace=False)]))

    def _candidates(self, score: Floats) -> NDArray[np.int64]:
        """The most promising points; if the legal ones are unknown, only among those that most likely are."""
        order = np.flatnonzero(~self._taken)
        if self.space.legal is None and self._judge.has_outsiders:
            order = order[np.argsort(-self._judge.log_chance(self._pool[order]), kind="stable")]
            return order[: max(_LIKELY, len(order) // 30)]
        return order[np.argsort(-score[order], kind="stable")[:_JUDGED]]

    def _refresh_pool(self, y: Floats) -> None:
        """Draw a new pool, if the space is too large to score whole."""
        if self.space.legal is not None and len(self.space.legal) <= _WHOLE:
            if len(self._pool):
                return
            self._pool = self.space.legal
        else:
            parts = [self.space.drawn(_POOL, self._rng)]
            for row in np.argsort(y, kind="stable")[:_NEAR]:
                parts.append(self.space.neighbours(self._points[row])[:_MUTATED])
                parts.append(self.space.mutated(self._points[row], _MUTATED, self._rng))
            points = np.concatenate(parts)
            self._pool = points[np.unique(self.space.keys(points), return_index=True)[1]]
        seen = self.space.keys(np.array(sorted(self._draws.seen), np.int16))
        self._taken = np.isin(self.space.keys(self._pool), seen)
        self._pool_trend = features.expected(self.space, self._pool)
        self._model.watch(features.codes(self.space, self._coordinates, self._pool))


class FeasibilityModel:
    """How likely a point is to work, from those that did and did not.

    Conditions of spaces are about few knobs, so evidence is counted by value and by pair of values of two knobs. Where
    points turned out not to be legal the evidence of all pairs adds up; where legal ones failed the worst pair counts.
    """

    def __init__(self, space: Space, coordinates: list[features.Coordinate]) -> None:
        self._space, self._coordinates = space, coordinates
        self._rows: list[NDArray[np.int32]] = []
        self._works: list[bool] = []
        self.has_failures = False
        self.has_outsiders = False

    def tell(self, point: Point, *, legal: bool, succeeded: bool) -> None:
        self._rows.append(features.codes(self._space, self._coordinates, np.array([point], np.int16))[0])
        self._works.append(legal and succeeded)
        self.has_failures = self.has_failures or not (legal and succeeded)
        self.has_outsiders = self.has_outsiders or not legal

    def log_chance(self, points: Points) -> Floats:
        """About the logarithm of the probability that each point works, up to a constant."""
        codes = features.codes(self._space, self._coordinates, points)
        rows, works = np.array(self._rows), np.array(self._works)
        base = (works.sum() + 2) / (len(works) + 2.5)
        total = np.zeros(len(points))
        count = codes.shape[1]
        for a in range(count):
            for b in range(a, count):
                found = self._pair(codes, rows, works, a, b, base)
                total = total + _SHARED * found if self.has_outsiders else np.minimum(total, found)
        return total

    def _pair(
        self, codes: NDArray[np.int32], rows: NDArray[np.int32], works: NDArray[np.bool_], a: int, b: int, base: float
    ) -> Floats:
        sizes = [len(self._coordinates[index].positions) for index in (a, b)]
        if sizes[0] * sizes[1] > _MOST_PAIRS:
            return np.zeros(len(codes))
        cells = rows[:, a] * sizes[1] + rows[:, b]
        seen = np.bincount(cells, minlength=sizes[0] * sizes[1])
        good = np.bincount(cells, weights=works, minlength=sizes[0] * sizes[1])
        chance = (good + _BELIEF * base) / (seen + _BELIEF)
        found: Floats = np.log(chance / base)[codes[:, a] * sizes[1] + codes[:, b]]
        return found


_SHARED = 0.5  # pairs share knobs, so their evidence overlaps
_MOST_PAIRS = 20_000
_BELIEF = 1.5  # trials that the base rate is worth


def _point(row: Points) -> Point:
    return tuple(int(value) for value in row)


def improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """The logarithm of the expected improvement below `best` of normal predictions."""
    u = (best - mean) / deviation
    density = np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
    # The normal distribution by Abramowitz and Stegun 26.2.17, to 1e-7; far below, its asymptotic series.
    t = 1 / (1 + 0.2316419 * np.abs(u))
    tail = density * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    below = np.where(u > 0, 1 - tail, tail)
    gain = np.maximum(density + u * below, 0)
    far = -0.5 * u * u - 2 * np.log(np.maximum(np.abs(u), 1)) - 0.919
    found: Floats = np.log(deviation) + np.where(u < -4, far, np.log(np.maximum(gain, 1e-300)))
    return found
