"""Knob spaces that the search was not built on: made-up times of kinds that `synthetic_spaces` does not hold.

Changes of the search are decided by these. Each is a function of its seed; a space is the combinations of its knobs
that its condition allows, at most so many of them drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.search.knobs.space import Floats, KnobValue, MeasuredSpace, Points, Space, SpaceKnob

Mask = NDArray[np.bool_]
Random = np.random.Generator


@dataclass(frozen=True)
class Grid:
    """Combinations of knob values under a condition: `points` are indices, `self[name]` a column of values."""

    knobs: tuple[SpaceKnob, ...]
    points: Points

    def __getitem__(self, name: str) -> Floats:
        at = [knob.name for knob in self.knobs].index(name)
        return np.array(self.knobs[at].values, float)[self.points[:, at]]

    def index(self, name: str) -> NDArray[np.int64]:
        """Of each row, which of the knob's values it has."""
        return self.points[:, [knob.name for knob in self.knobs].index(name)].astype(np.int64)

    def only(self, rows: Mask | NDArray[np.int64]) -> Grid:
        return Grid(self.knobs, self.points[rows])


def grid(knobs: Mapping[str, Sequence[KnobValue]]) -> Grid:
    """The whole product."""
    declared = tuple(SpaceKnob(name, tuple(values)) for name, values in knobs.items())
    axes = np.meshgrid(*(np.arange(len(values), dtype=np.int16) for values in knobs.values()), indexing="ij")
    return Grid(declared, np.stack([axis.ravel() for axis in axes], axis=1))


def drawn(all_: Grid, count: int, rng: Random) -> Grid:
    """At most so many of the combinations."""
    total = len(all_.points)
    return all_ if total <= count else all_.only(np.sort(rng.choice(total, count, replace=False)))


def measured(name: str, at: Grid, log_time: Floats, failed: Mask | None = None) -> MeasuredSpace:
    times = np.exp(log_time)
    if failed is not None:
        times[failed] = np.nan
    return MeasuredSpace(Space(name, at.knobs, at.points), times)


def noise(at: Grid, share: float, rng: Random) -> Floats:
    found: Floats = share * rng.standard_normal(len(at.points))
    return found


def _ceil(a: Floats, b: Floats | float) -> Floats:
    return np.asarray(np.ceil(a / b), float)


# --- kinds


def tiny(seed: int) -> MeasuredSpace:
    """Twenty points."""
    rng = np.random.default_rng(seed)
    at = grid({"THREADS": [32, 64, 128, 256, 512], "UNROLL": [1, 2, 4, 8]})
    threads, unroll = np.log2(at["THREADS"]), np.log2(at["UNROLL"])
    return measured("tiny", at, 0.1 * (threads - 7.5) ** 2 + 0.05 * (unroll - 1.6) ** 2 + noise(at, 0.03, rng))


def reduction(seed: int) -> MeasuredSpace:
    """A memory-bound sum with an algorithm by word: what the other knobs do depends on it."""
    rng = np.random.default_rng(seed)
    at = grid(
        {
            "threads": [32, 64, 96, 128, 192, 256, 384, 512, 768, 1024],
            "items": [1, 2, 4, 8, 16, 32],
            "vector": ["float", "float2", "float4"],
            "method": ["atomic", "shuffle", "tree", "two_pass"],
            "blocks_per_sm": [1, 2, 4, 8, 16],
            "streaming": [False, True],
        }
    )
    threads, method = at["threads"], at.index("method")
    wide, each = 2.0 ** at.index("vector"), at["items"]
    in_flight = np.minimum(1, threads * at["blocks_per_sm"] * each * wide / 2**15) ** 0.5
    final = np.choose(
        method,
        [
            0.004 * threads * at["blocks_per_sm"] / each**0.5,
            0.02 * np.log2(threads),
            0.05 * np.log2(threads) + 0.1 * (threads > 512),
            np.full(len(threads), 0.25),
        ],
    )
    ragged = 0.08 * (np.mod(threads, 128) != 0) + 0.1 * (each * wide > 64)
    log = np.log(1 / in_flight + final) + ragged - 0.03 * at["streaming"] * (wide > 2) + noise(at, 0.015, rng)
    return measured("reduction", at, log, threads * at["blocks_per_sm"] > 2048 * 4)


def corner(seed: int) -> MeasuredSpace:
    """46,656 points, effects that add up, the best at the end of every knob's values."""
    rng = np.random.default_rng(seed)
    at = grid({f"p{i}": [1, 2, 3, 4, 5, 6] for i in range(6)})
    weights, signs = rng.uniform(0.02, 0.25, 6), rng.choice([-1, 1], 6)
    log = np.sum([w * s * at[f"p{i}"] for i, (w, s) in enumerate(zip(weights, signs, strict=True))], axis=0)
    return measured("corner", at, log + noise(at, 0.02, rng))


def idle_knobs(seed: int) -> MeasuredSpace:
    """Twelve knobs of which three matter, and only together."""
    rng = np.random.default_rng(seed)
    at = drawn(grid({f"k{i}": list(range(2 + i % 3)) for i in range(12)}), 20_000, rng)
    a, b, c = (at.index(name) for name in ("k2", "k5", "k8"))
    table = rng.gamma(1.2, 0.5, (4, 4, 4))
    return measured("idle_knobs", at, table[a, b, c] + noise(at, 0.02, rng))


def mostly_failing(seed: int) -> MeasuredSpace:
    """Two combinations in three fail for want of registers or shared memory; the best is beside the edge."""
    rng = np.random.default_rng(seed)
    at = grid(
        {
            "bm": [16, 32, 48, 64, 96, 128, 192, 256],
            "bn": [16, 32, 48, 64, 96, 128, 192, 256],
            "bk": [8, 16, 32, 64],
            "stages": [1, 2, 3, 4, 5],
            "warps": [1, 2, 4, 8, 16],
            "swizzle": [0, 1],
        }
    )
    m, n, k, stages, warps = (at[name] for name in ("bm", "bn", "bk", "stages", "warps"))
    registers, shared = m * n / (32 * warps) + 24 + 2 * np.sqrt(m * n / warps), (m + n) * k * 2 * stages
    reuse = m * n / (m + n)
    hidden = np.minimum(1, 0.45 + 0.2 * stages) * np.minimum(1, warps / 4) ** 0.4
    log = -0.5 * np.log(reuse) - np.log(hidden) + 0.08 * (at["swizzle"] == 0) * np.log2(k / 4)
    log += 0.06 * np.abs(np.log2(m / n)) + np.log(_ceil(4096 / m * 4096 / n, 108) / (4096 / m * 4096 / n / 108))
    return measured("mostly_failing", at, log + noise(at, 0.02, rng), (registers > 160) | (shared > 48 * 1024))


def many_penalties(seed: int) -> MeasuredSpace:
    """Nine named choices, each wrong one slow by a factor, some only where others are right: few good points."""
    rng = np.random.default_rng(seed)
    at = drawn(grid({f"opt_{i}": [f"v{j}" for j in range(2 + i % 3)] for i in range(9)}), 15_000, rng)
    good = [int(rng.integers(2 + i % 3)) for i in range(9)]
    right = np.stack([at.index(f"opt_{i}") == good[i] for i in range(9)])
    factors = rng.uniform(0.1, 0.6, 9)
    log = -(factors[:, None] * right).sum(axis=0)
    for _ in range(4):
        a, b, c = rng.choice(9, 3, replace=False)
        log -= rng.uniform(0.1, 0.5) * (right[a] & right[b] & right[c])
    return measured("many_penalties", at, log + noise(at, 0.02, rng))


def words(seed: int) -> MeasuredSpace:
    """Only words: effects of one and of two, drawn."""
    rng = np.random.default_rng(seed)
    counts = {"layout": 4, "cache": 5, "schedule": 6, "math": 3, "sync": 4, "order": 5}
    at = grid({name: [f"{name[0]}{i}" for i in range(count)] for name, count in counts.items()})
    log, names = np.zeros(len(at.points)), list(counts)
    for i, a in enumerate(names):
        log += (0.3 * rng.standard_normal(counts[a]))[at.index(a)]
        for b in names[:i]:
            log += (0.12 * rng.standard_normal((counts[a], counts[b])))[at.index(a), at.index(b)]
    return measured("words", at, log + noise(at, 0.02, rng))


def valley(seed: int) -> MeasuredSpace:
    """50,625 points of four numbers with fractions, along a bent valley."""
    rng = np.random.default_rng(seed)
    at = grid({name: [round(0.1 + 0.06 * i, 2) for i in range(15)] for name in ("alpha", "beta", "gamma", "delta")})
    a, b, c, d = (at[name] for name in ("alpha", "beta", "gamma", "delta"))
    log = 6 * (b - 1.4 * (a - 0.2) ** 2 - 0.2) ** 2 + (a - 0.7) ** 2 + 3 * (c - 0.5 * b) ** 2 + 0.6 * np.abs(d - 0.34)
    return measured("valley", at, log + noise(at, 0.005, rng))


def noisy(seed: int) -> MeasuredSpace:
    """Smooth and broad under 8 % of noise; the best is partly luck."""
    rng = np.random.default_rng(seed)
    at = grid({"BM": [16, 32, 64, 128, 256], "BN": [16, 32, 64, 128, 256], "U": [1, 2, 4, 8], "W": [1, 2, 4, 8, 16]})
    m, n, u, w = (np.log2(at[name]) for name in ("BM", "BN", "U", "W"))
    log = 0.09 * (m - 6.2) ** 2 + 0.07 * (n - 6.6) ** 2 + 0.06 * (u - 1.5) ** 2 + 0.09 * (w - 0.4 * (m + n) + 2.8) ** 2
    return measured("noisy", at, log + noise(at, 0.08, rng))


def factored(seed: int) -> MeasuredSpace:
    """Tiles within tiles: each level divides the one above it, one combination in sixty is legal."""
    rng = np.random.default_rng(seed)
    sides = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96]
    at = grid({"outer_i": sides, "middle_i": sides, "outer_j": sides, "middle_j": sides, "vec": [1, 2, 4, 8]})
    oi, mi, oj, mj, v = (at[name] for name in ("outer_i", "middle_i", "outer_j", "middle_j", "vec"))
    legal = (np.mod(oi, mi) == 0) & (np.mod(oj, mj) == 0) & (np.mod(mj, v) == 0) & (mi * mj <= 512) & (oi * oj >= 64)
    at = at.only(legal)
    oi, mi, oj, mj, v = (at[name] for name in ("outer_i", "middle_i", "outer_j", "middle_j", "vec"))
    spill, capacity = np.maximum(0, np.log2(mi * mj / 64)), np.maximum(0, np.log2(oi * oj * 8 / 16384))
    log = np.log(1 / oi + 1 / oj + 0.3 / mi + 0.3 / mj + 0.1 + 0.2 / v) + 0.35 * spill + 0.3 * capacity
    return measured("factored", at, log + 0.05 * (np.mod(oj, 8) != 0) + noise(at, 0.01, rng))


def cliffs(seed: int) -> MeasuredSpace:
    """Times in steps: whole waves, a cache that overflows, alignment; 60,000 points, many of them alike."""
    rng = np.random.default_rng(seed)
    all_ = grid(
        {
            "tx": [4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64],
            "ty": [1, 2, 3, 4, 5, 6, 7, 8],
            "rx": [1, 2, 3, 4, 5, 6],
            "ry": [1, 2, 3, 4, 5, 6],
            "depth": [1, 2, 4, 8, 16],
            "prefetch": [0, 1, 2],
        }
    )
    at = drawn(all_.only((all_["tx"] * all_["ty"] >= 32) & (all_["tx"] * all_["ty"] <= 512)), 60_000, rng)
    x, y, a, b, depth = (at[name] for name in ("tx", "ty", "rx", "ry", "depth"))
    blocks = _ceil(np.full(len(x), 1920.0), x * a) * _ceil(np.full(len(x), 1080.0), y * b)
    resident = np.floor(np.minimum(1536 / (_ceil(x * y, 32) * 32), 65536 / (x * y * (18 + 3 * a * b))))
    wave = _ceil(blocks, 68 * np.maximum(resident, 1))
    footprint = (x * a + 8) * (y * b + 8) * depth * 4
    log = np.log(wave * x * y * a * b * (1 + 3 / (a * b)) * (1 + 0.5 * (footprint > 24_576)) * (1 + 0.4 / depth))
    log += 0.2 * (np.mod(x, 8) != 0) + np.array([0.1, 0, 0.04])[at.index("prefetch")] * (depth < 8)
    return measured("cliffs", at, log + noise(at, 0.005, rng), resident < 1)


def algorithms(seed: int) -> MeasuredSpace:
    """A word decides which of the other knobs are read: three spaces in one, the best in the least of them."""
    rng = np.random.default_rng(seed)
    at = grid(
        {
            "algorithm": ["direct", "implicit", "winograd"],
            "block": [32, 64, 128, 256],
            "tile": [1, 2, 4, 8],
            "split": [1, 2, 4, 8, 16],
            "unroll": [0, 1, 2, 3],
            "flag": [False, True],
            "limit": [0, 32, 64, 128],
        }
    )
    kind = at.index("algorithm")
    block, tile, split = np.log2(at["block"]), np.log2(at["tile"]), np.log2(at["split"])
    direct = 0.8 + 0.1 * (block - 7) ** 2 + 0.15 * (tile - 2) ** 2
    implicit = 0.45 + 0.2 * np.abs(split - 2) + 0.1 * (block - tile - 5) ** 2 + 0.1 * (at["unroll"] == 0)
    winograd = 0.9 - 0.95 * ((split == 0) & (tile == 1)) + 0.12 * np.abs(block - 6) + 0.15 * (at["limit"] == 32)
    log = np.choose(kind, [direct, implicit, winograd]) + 0.02 * at["flag"]
    return measured("algorithms", at, log + noise(at, 0.02, rng), (kind == 2) & (tile == 3))


def bumps(seed: int) -> MeasuredSpace:
    """Nameless integers with several basins of unlike depth, far apart: 40,000 points."""
    rng = np.random.default_rng(seed)
    at = drawn(grid({f"x{i}": list(range(11)) for i in range(5)}), 40_000, rng)
    where = at.points / 10.0
    total = np.zeros(len(where))
    for depth in (1.3, 1.0, 0.9, 0.8, 0.7, 0.6):
        far = ((where - rng.random(5)) ** 2 * rng.uniform(2, 9, 5)).sum(axis=1)
        total = np.maximum(total, depth * np.exp(-far))
    return measured("bumps", at, -total + noise(at, 0.02, rng))


HELD_OUT: dict[str, Callable[[], MeasuredSpace]] = {
    make.__name__: (lambda make=make, seed=number: make(seed))  # type: ignore[misc]
    for number, make in enumerate(
        (
            tiny,
            reduction,
            corner,
            idle_knobs,
            mostly_failing,
            many_penalties,
            words,
            valley,
            noisy,
            factored,
            cliffs,
            algorithms,
            bumps,
        ),
        start=1,
    )
}
