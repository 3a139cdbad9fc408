"""A Gaussian process over points with few values per coordinate.

The correlation of two points is a product over coordinates of (1 - r) + r k(distance / l): with small r an effect is
shared by all other knobs' values, with large r it holds nearby only, so main effects and interactions of any order are
one model. Each factor is a small table; the whole matrix is exp(sum of logarithms), one matrix product over one-hot
rows. Hyperparameters are posterior modes, found by sign-based steps (Rprop, Riedmiller and Braun 1993) on the exact
gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evo.search.knobs.features import Coordinate
from evo.search.knobs.space import Floats

_ROOT5 = 5.0**0.5
_JITTER = 1e-6
# Normal priors of hyperparameters (mean, deviation), and what is believed of the signal's deviation.
_LENGTH, _SHARE, _NOISE = (-0.3, 0.8), (0.5, 1.2), (-4.6, 1.5)
_SIGNAL, _SIGNAL_WEIGHT, _SLOPE_DEVIATION = 0.4, 4.0, 0.5


class Surrogate:
    """Fit to values at points; predicts means and deviations over a pool that it is extended along."""

    def __init__(self, coordinates: Sequence[Coordinate]) -> None:
        self.count = len(coordinates)
        self.sizes = [len(coordinate.positions) for coordinate in coordinates]
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.distances = []
        for coordinate in coordinates:
            parts = coordinate.positions[:, None, :] - coordinate.positions[None, :, :]
            far = np.sqrt((parts**2).sum(axis=2))
            self.distances.append(np.where(far > 0, 1e6, 0.0) if coordinate.categorical else far)
        self.theta = self._priors(0)

    def _priors(self, part: int) -> Floats:
        """The mean (0) or deviation (1) of the prior of each hyperparameter."""
        return np.concatenate([np.full(self.count, _LENGTH[part]), np.full(self.count, _SHARE[part]), [_NOISE[part]]])

    # --- the kernel

    def tables(self, theta: Floats) -> tuple[list[Floats], list[Floats], list[Floats]]:
        """Per coordinate the logarithm of its factor, and its derivatives by length and by share."""
        logs, by_length, by_share = [], [], []
        for index, far in enumerate(self.distances):
            share = 1 / (1 + np.exp(-theta[self.count + index]))
            u = _ROOT5 * far * np.exp(-theta[index])
            decay = np.exp(-u)
            k = (1 + u + u * u / 3) * decay
            factor = np.maximum(1 - share + share * k, 1e-12)
            logs.append(np.log(factor))
            by_length.append(share * (u * u * (1 + u) / 3) * decay / factor)
            by_share.append((k - 1) * share * (1 - share) / factor)
        return logs, by_length, by_share

    def one_hot(self, codes: NDArray[np.int32]) -> NDArray[np.float32]:
        rows = np.zeros((len(codes), int(self.offsets[-1])), np.float32)
        rows[np.arange(len(codes))[:, None], codes + self.offsets[:-1]] = 1
        return rows

    def rows(self, logs: Sequence[Floats], codes: NDArray[np.int32]) -> Floats:
        return np.concatenate([table[codes[:, i]] for i, table in enumerate(logs)], axis=1)

    def _sum_of(self, logs: Sequence[Floats], codes: NDArray[np.int32]) -> Floats:
        total = np.zeros((len(codes), len(codes)))
        for index, table in enumerate(logs):
            column = codes[:, index]
            total += table[column[:, None], column[None, :]]
        return total

    # --- fitting

    def loss(self, theta: Floats, codes: NDArray[np.int32], y: Floats, trend: Floats) -> tuple[float, Floats]:
        """Negative log posterior of the hyperparameters and its gradient."""
        logs, by_length, by_share = self.tables(theta)
        smooth = np.exp(self._sum_of(logs, codes))
        noise = np.exp(theta[-1])
        matrix = smooth.copy()
        matrix[np.diag_indices(len(y))] += noise + _JITTER
        lower = np.linalg.cholesky(matrix)
        inverse = np.linalg.inv(matrix)
        residual = y - self._mean(inverse, y, trend)
        alpha = inverse @ residual
        weight = len(y) + _SIGNAL_WEIGHT
        scale = (residual @ alpha + _SIGNAL_WEIGHT * _SIGNAL**2) / weight
        value = 0.5 * weight * np.log(scale) + np.log(np.diag(lower)).sum()
        outer = inverse - np.outer(alpha, alpha) / scale
        inner = outer * smooth
        gradient = np.zeros_like(theta)
        hot = self.one_hot(codes).astype(np.float64)
        spread = hot.T @ inner @ hot
        for index in range(self.count):
            own = slice(self.offsets[index], self.offsets[index + 1])
            gradient[index] = 0.5 * (spread[own, own] * by_length[index]).sum()
            gradient[self.count + index] = 0.5 * (spread[own, own] * by_share[index]).sum()
        gradient[-1] = 0.5 * noise * np.trace(outer)
        deviations = self._priors(1)
        off = (theta - self._priors(0)) / deviations
        return float(value + 0.5 * (off @ off)), gradient + off / deviations

    def _mean(self, inverse: Floats, y: Floats, trend: Floats) -> Floats:
        """The generalised least squares mean: a constant, and a slope on the trend that is believed to be 1."""
        level, slope = self._level(inverse, y, trend)
        return level + slope * trend

    def _level(self, inverse: Floats, y: Floats, trend: Floats) -> tuple[float, float]:
        ones = np.ones(len(y))
        a, b = inverse @ ones, inverse @ trend
        ridge = (_SIGNAL / _SLOPE_DEVIATION) ** 2
        system = np.array([[ones @ a, trend @ a], [ones @ b, trend @ b + ridge]])
        right = np.array([y @ a, y @ b + ridge])
        level, slope = np.linalg.solve(system + 1e-12 * np.eye(2), right)
        return float(level), float(slope)

    def learn(self, codes: NDArray[np.int32], y: Floats, trend: Floats, steps: int) -> None:
        """Move the hyperparameters towards their mode from where they are."""
        theta = self.theta.copy()
        least, best = np.inf, theta.copy()
        step, last = np.full(len(theta), 0.15), np.zeros(len(theta))
        for _ in range(steps):
            value, gradient = self.loss(theta, codes, y, trend)
            if value < least:
                least, best = value, theta.copy()
            same = gradient * last
            step = np.where(same > 0, step * 1.3, np.where(same < 0, step * 0.5, step)).clip(1e-3, 0.7)
            gradient = np.where(same < 0, 0, gradient)
            last = gradient
            theta = np.clip(theta - np.sign(gradient) * step, -9, 4)
        self.theta = best

    # --- predicting over a pool

    def watch(self, pool: NDArray[np.int32]) -> None:
        """The points that are to be predicted from now on; `condition` has to follow."""
        self._pool = np.zeros((int(self.offsets[-1]), len(pool)), np.float32)
        self._pool[pool + self.offsets[:-1], np.arange(len(pool))[:, None]] = 1

    def condition(self, codes: NDArray[np.int32]) -> None:
        """Condition on points."""
        self._logs = self.tables(self.theta)[0]
        self._noise = float(np.exp(self.theta[-1])) + _JITTER
        self.codes = codes
        matrix = np.exp(self._sum_of(self._logs, codes))
        matrix[np.diag_indices(len(codes))] += self._noise
        self._inverse = np.linalg.inv(np.linalg.cholesky(matrix))  # of the lower triangle
        rows = self.rows(self._logs, codes).astype(np.float32)
        cross = np.exp(rows @ self._pool)
        self._white = self._inverse.astype(np.float32) @ cross

    def extend(self, code: NDArray[np.int32]) -> None:
        """Condition on one point more with the same hyperparameters."""
        n = len(self.codes)
        total = np.zeros(n)
        for index, table in enumerate(self._logs):
            total += table[self.codes[:, index], code[index]]
        along = self._inverse @ np.exp(total)
        rest = math.sqrt(max(1 + self._noise - float(along @ along), 1e-9))
        grown = np.zeros((n + 1, n + 1))
        grown[:n, :n] = self._inverse
        grown[n, :n] = -(along @ self._inverse) / rest
        grown[n, n] = 1 / rest
        self._inverse = grown
        self.codes = np.concatenate([self.codes, code[None, :]])
        row = np.exp(self.rows(self._logs, code[None, :]).astype(np.float32) @ self._pool)[0]
        new = (row - along.astype(np.float32) @ self._white) / np.float32(rest)
        self._white = np.concatenate([self._white, new[None, :]])

    def predict(self, y: Floats, trend: Floats, pool_trend: Floats) -> tuple[Floats, Floats]:
        """Means and deviations over the pool, given the values at the conditioned points."""
        inverse = self._inverse.T @ self._inverse
        level, slope = self._level(inverse, y, trend)
        white = self._inverse @ (y - level - slope * trend)
        scale = (white @ white + _SIGNAL_WEIGHT * _SIGNAL**2) / (len(y) + _SIGNAL_WEIGHT)
        mean = level + slope * pool_trend + white.astype(np.float32) @ self._white
        left = np.maximum(1 - np.einsum("ij,ij->j", self._white, self._white), 1e-6)
        return mean.astype(np.float64), np.sqrt(scale * left)
