"""Knob spaces from formulas, for comparing searches where few measured ones are at hand. Their times are made up.

Each follows a kind of kernel: occupancy by threads, registers and shared memory, wave quantisation, reuse against
halos, coalescing, spills; drawn constants stand for the chip. `rough` is a table of random effects with a narrow good
pocket. Every space is a function of its seed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from evo.search.knobs.space import KnobValue, MeasuredSpace, Space, SpaceKnob

Row = tuple[KnobValue, ...]
_THREADS, _REGISTERS, _SHARED, _BLOCKS = 1536, 65_536, 100 * 1024, 24


def _measured(
    name: str, knobs: dict[str, Sequence[KnobValue]], rows: Sequence[Row], times: Sequence[float]
) -> MeasuredSpace:
    declared = tuple(SpaceKnob(knob, tuple(values)) for knob, values in knobs.items())
    whole = Space(name, declared)
    legal = np.array([whole.point(row) for row in rows], np.int16)
    return MeasuredSpace(Space(name, declared, legal), np.array(times, float))


def _blocks_per_sm(threads: int, registers: float, shared: float) -> int:
    """Resident blocks; 0 where none fits."""
    if not 1 <= threads <= 1024:
        return 0
    warps = -(-threads // 32)
    allocated = -(-min(255, registers) // 8) * 8 * 32 * warps
    return int(min(_THREADS // (warps * 32), _REGISTERS // allocated, _SHARED // (shared + 1024), _BLOCKS))


def _waves(blocks: int, at_once: float) -> float:
    return math.ceil(blocks / at_once) * at_once / blocks


def convolution(seed: int) -> MeasuredSpace:
    """A 15 x 15 convolution on an imaginary chip: 4,362 combinations, some tens within 5 %."""
    rng = np.random.default_rng(seed)
    knobs: dict[str, Sequence[KnobValue]] = {
        "block_size_x": [16 * i for i in range(1, 17)],
        "block_size_y": [1, 2, 4, 8, 16],
        "tile_size_x": [1, 2, 3, 4],
        "tile_size_y": [1, 2, 3, 4],
        "read_only": [0, 1],
        "use_padding": [0, 1],
        "use_shmem": [0, 1],
    }
    sms, staged, cached, l1 = rng.integers(40, 110), rng.uniform(0.4, 1.5), rng.uniform(0.8, 1.3), rng.uniform(0.7, 2.2)
    rows, times = [], []
    for row in itertools.product(*knobs.values()):
        x, y, a, b, read_only, padding, shared = row
        if x * y > 1024 or (padding and (x % 32 == 0 or not shared)):
            continue
        if shared and (x * a + 14) * (y * b + 14) >= 12 * 1024:
            continue
        outputs = a * b
        held = (x * a + 14 + padding) * (y * b + 14) * 4 if shared else 0
        resident = _blocks_per_sm(x * y, 24 + outputs * 2 + (6 if shared else 0), held)
        rows.append(row)
        if resident == 0:
            times.append(math.nan)
            continue
        conflicts = 1 + 0.9 * bool(shared and x % 32 != 0 and not padding and x < 32)
        wave = _waves(math.ceil(4096 / (x * a)) * math.ceil(4096 / (y * b)), sms * resident)
        narrow = (1 + 0.25 * math.log2(max(1, 32 / x))) * (1 + 0.2 * math.log2(y))
        path = staged * conflicts if shared else l1 * (cached if read_only else 1) * narrow
        memory = (0.8 / b + 0.2 if shared else 1 / a + 1 / b) * path
        halo = (x * a + 14) * (y * b + 14) / (x * a * y * b) * (0.35 if shared else 0.05)
        parallel = min(1.0, resident * x * y / _THREADS * (0.6 + 0.3 * outputs)) ** 0.6
        ragged = 1 + 0.15 * ((x * y) % 32 != 0)
        times.append((1 + memory + halo) / parallel * wave * ragged * np.exp(0.015 * rng.standard_normal()))
    return _measured(f"convolution{seed}", knobs, rows, times)


def dedispersion(seed: int) -> MeasuredSpace:
    """11,000 of the combinations of a dedispersion kernel: smooth and broad, a fifth cannot be launched."""
    rng = np.random.default_rng(seed)
    knobs: dict[str, Sequence[KnobValue]] = {
        "block_size_x": [1, 2, 4, 8, *(16 * i for i in range(1, 33))],
        "block_size_y": [1, 2, 4, 8, 16, 32, 64, 128],
        "tile_size_x": list(range(1, 9)),
        "tile_size_y": list(range(1, 9)),
        "tile_stride_x": [0, 1],
        "tile_stride_y": [0, 1],
        "loop_unroll_factor_channel": [0, 1, 2, 4, 8],
        "blocks_per_sm": [0, 1, 2, 3, 4],
    }
    sms, bandwidth, _ = rng.integers(40, 110), rng.uniform(0.6, 1.4), rng.uniform(0.5, 2)
    legal = [
        row
        for row in itertools.product(*knobs.values())
        if 32 <= row[0] * row[1] <= 1024 and (row[4] == 0 or row[2] > 1) and (row[5] == 0 or row[3] > 1)
    ]
    drawn = rng.choice(len(legal), min(len(legal), 11_000), replace=False)
    rows = [legal[i] for i in sorted(drawn)]
    times = []
    for x, y, a, b, stride_x, stride_y, unroll, least in rows:
        threads, outputs = x * y, a * b
        wanted = 22 + outputs * 1.6 + unroll * 2
        cap = _REGISTERS // (least * threads) if least else 255
        spilled = max(0.0, wanted - cap)
        registers = min(wanted, max(cap, 16)) if least else wanted
        resident = _blocks_per_sm(threads, registers, 0)
        if resident == 0 or least * threads > _THREADS:
            times.append(math.nan)
            continue
        wave = _waves(math.ceil(25_000 / (x * a)) * math.ceil(2048 / (y * b)), sms * resident)
        reuse = 1 / (1 + 0.25 * math.log2(y * b)) + 0.12 * bool(stride_x) * (1 if x < 32 else -0.3)
        coalesced = 1 + max(0, math.log2(32 / x)) * 0.25 + (0.08 * a if not stride_x else 0)
        parallel = min(1, resident * threads / _THREADS * (1 + 0.35 * math.log2(1 + outputs))) ** 0.7
        loop = 1 + 0.3 / (1 + unroll) + 0.02 * unroll + 0.5 / outputs
        ragged = 1 + 0.05 * (x % 32 != 0) + 0.1 * (threads % 32 != 0)
        time = (reuse * coalesced / bandwidth + 0.3 * loop) / parallel * wave**0.8 * (1 + 0.03 * spilled)
        times.append(time * ragged * (1 + 0.05 * stride_y * (b > 4)) * np.exp(0.01 * rng.standard_normal()))
    return _measured(f"dedispersion{seed}", knobs, rows, times)


def gemm(seed: int) -> MeasuredSpace:
    """12,000 of the combinations of a tiled matrix multiplication, with the knob names of CLBlast."""
    rng = np.random.default_rng(seed)
    sides, dims, widths = [16, 32, 64, 128], [8, 16, 32], [1, 2, 4, 8]
    knobs: dict[str, Sequence[KnobValue]] = {
        "MWG": sides,
        "NWG": sides,
        "KWG": [16, 32],
        "MDIMC": dims,
        "NDIMC": dims,
        "MDIMA": dims,
        "NDIMB": dims,
        "VWM": widths,
        "VWN": widths,
        "SA": [0, 1],
        "SB": [0, 1],
    }

    def fits(row: Row) -> bool:
        m, n, k, a, b, p, q, v, w, *_ = row
        threads = a * b
        if m % (a * v) or n % (b * w) or m % (p * v) or n % (q * w) or threads % p or threads % q:
            return False
        return not (k % (threads / p) or k % (threads / q))

    legal = [row for row in itertools.product(*knobs.values()) if fits(row)]
    rows = [legal[i] for i in sorted(rng.choice(len(legal), min(len(legal), 12_000), replace=False))]
    staged, _, l1 = rng.uniform(0.5, 2), rng.uniform(0.5, 2), rng.uniform(0.3, 1.5)
    times = []
    for m, n, k, a, b, p, q, v, w, in_a, in_b in rows:
        threads, outputs = a * b, (m // a) * (n // b)
        registers = outputs + 20 + m // a + n // b + v + w
        resident = _blocks_per_sm(threads, registers, (m * k * 4 if in_a else 0) + (n * k * 4 if in_b else 0))
        if resident == 0:
            times.append(math.nan)
            continue
        path = (1 / (m // a) + 1 / (n // b)) * (staged * (in_a + in_b) / 2 + l1 * 2.2 * (2 - in_a - in_b) / 2)
        parallel = min(1, resident * threads / _THREADS * (1 + 0.2 * outputs)) ** 0.6
        time = (1 + path * (1 + 0.25 / v + 0.25 / w) + 12 * (1 / m + 1 / n)) / parallel
        time *= (1 + 0.02 * max(0, registers - 255)) * (1 + 0.15 * (16 / k - 0.5))
        time *= (1 + 0.1 * abs(math.log2(p / a))) * (1 + 0.08 * abs(math.log2(q / b)))
        wave = _waves((4096 // m) * (4096 // n), 58 * resident)
        times.append(time * wave**0.7 * np.exp(0.01 * rng.standard_normal()))
    return _measured(f"gemm{seed}", knobs, rows, times)


def hotspot(seed: int, *, large: bool = False) -> MeasuredSpace:
    """A stencil with temporal tiling: about 18,000 combinations, or some 230,000."""
    rng = np.random.default_rng(seed + 100)
    sides = [1, 2, 4, 8, 16, *(32 * i for i in range(1, 33))] if large else [2, 4, 8, 16, 32, 48, 64, 96, 128, 256, 512]
    tiles = list(range(1, 11)) if large else [1, 2, 3, 4, 6]
    steps = list(range(1, 11)) if large else [1, 2, 3, 4, 6, 8]
    knobs: dict[str, Sequence[KnobValue]] = {
        "block_size_x": sides,
        "block_size_y": [1, 2, 4, 8, 16, 32],
        "tile_size_x": tiles,
        "tile_size_y": tiles,
        "temporal_tiling_factor": steps,
        "loop_unroll_factor_t": list(range(1, 11)) if large else [1, 2, 3, 4],
        "sh_power": [0, 1],
        "blocks_per_sm": [0, 1, 2, 3, 4] if large else [0, 2, 4],
    }
    declared = tuple(SpaceKnob(name, tuple(values)) for name, values in knobs.items())
    grid = np.meshgrid(*(np.arange(len(values), dtype=np.int16) for values in knobs.values()), indexing="ij")
    legal = np.stack([axis.ravel() for axis in grid], axis=1)
    x, y, a, b, t, u, s, p = (np.array(v, float)[legal[:, i]] for i, v in enumerate(knobs.values()))
    wide, high = x * a, y * b
    fits = (x * y >= 32) & (x * y <= 1024) & (t % u == 0) & (wide > 2 * t) & (high > 2 * t)
    fits &= ((wide + 2 * t) * (high + 2 * t) * (2 + s) * 4 <= 48 * 1024) & (p * x * y <= _THREADS)
    legal = legal[fits]
    x, y, a, b, t, u, s, p = (column[fits] for column in (x, y, a, b, t, u, s, p))
    sms, bandwidth, work = rng.integers(40, 110), rng.uniform(0.6, 1.6), rng.uniform(0.3, 0.9)
    threads, outputs = x * y, a * b
    useful, held = threads * outputs, (x * a + 2 * t) * (y * b + 2 * t)
    wanted = np.minimum(20 + outputs * 2.2 + u * 1.5, 255)
    registers = np.where(p > 0, np.minimum(wanted, _REGISTERS / np.maximum(p, 1) / threads), wanted)
    resident = np.minimum(_THREADS // threads, _REGISTERS // (np.ceil(registers / 8) * 8 * np.ceil(threads / 32) * 32))
    resident = np.minimum(np.minimum(resident, _SHARED // (held * 4 * (2 + s) + 1024)), _BLOCKS)
    at_once = sms * np.maximum(resident, 1)
    blocks = np.ceil(4096 / (x * a)) * np.ceil(4096 / (y * b))
    wave = np.ceil(blocks / at_once) * at_once / blocks
    memory = bandwidth * held / useful / t * (1 + 0.2 * np.maximum(0, np.log2(32 / x))) * (1 + 0.2 * (1 - s))
    compute = (held / useful) ** 0.7 * (work * (1 + 0.15 * (x % 32 != 0)) + 0.25 / np.minimum(u, 4) + 0.02 * u)
    parallel = np.minimum(1, np.maximum(resident, 1) * threads / _THREADS * (1 + 0.2 * np.log2(1 + outputs))) ** 0.6
    time = (memory + compute) / parallel * wave**0.8 * (1 + 0.03 * (wanted - registers))
    time *= np.ceil(threads / 32) * 32 / threads * np.exp(0.012 * rng.standard_normal(len(legal)))
    time[resident < 1] = np.nan
    return MeasuredSpace(Space(f"hotspot{seed}{'-large' if large else ''}", declared, legal), time)


def transposition(seed: int) -> MeasuredSpace:
    """A memory-bound copy: words and truth values as knobs, times in steps of a coarse clock, hundreds of ties."""
    rng = np.random.default_rng(seed + 200)
    order = ["row", "column", "diagonal", "morton"]
    cache = ["ca", "cg", "cs", "none"]
    width = {"float": 1, "float2": 2, "float4": 4}
    knobs: dict[str, Sequence[KnobValue]] = {
        "TILE": [16, 32, 64],
        "ROWS": [1, 2, 4, 8, 16, 32],
        "PAD": [0, 1, 2, 4],
        "VECTOR": list(width),
        "ORDER": order,
        "UNROLL": [1, 2, 4, 8, 16],
        "CACHE": cache,
        "NON_TEMPORAL": [False, True],
    }
    by_order = dict(zip(order, rng.permutation([0, 0.1, 0.25, 0.05]), strict=True))
    by_cache = dict(zip(cache, rng.permutation([0, 0.02, 0.06, 0.15]), strict=True))
    rows, times = [], []
    for row in itertools.product(*knobs.values()):
        tile, high, pad, vector, how, unroll, kept, past = row
        lanes = width[vector]
        if tile % high or unroll > tile // high or not 32 <= tile * high // lanes <= 1024 or (pad % lanes and pad != 1):
            continue
        banks = (0.6 if pad == 0 else 0.0 if pad == 1 else 0.06 * pad) * (0.8 if how == "diagonal" else 1)
        parallel = min(1, tile * high / lanes / 256) ** 0.3 * min(1, 0.55 + 0.12 * unroll * lanes)
        time = 1 + banks * (tile / 32) ** 0.5 * 0.5 + by_order[how] + by_cache[kept] * (1 + past) + 0.25 * (tile == 16)
        time = round(max(time / parallel * (1 + 0.04 * past), 1.08) * 40) / 40
        rows.append(row)
        times.append(time if rng.random() > 0.01 else math.nan)
    return _measured(f"transposition{seed}", knobs, rows, times)


def rough(seed: int, knobs_: int = 7) -> MeasuredSpace:
    """Nameless knobs, random effects of one and of two, and three settings that must meet: one good pocket."""
    rng = np.random.default_rng(seed)
    values = [list(range(int(count))) for count in rng.integers(2, 9, knobs_)]
    rows = list(itertools.product(*values))
    if len(rows) > 9000:
        rows = [rows[i] for i in sorted(rng.choice(len(rows), 9000, replace=False))]
    at, total = np.array(rows), np.zeros(len(rows))
    for i in range(knobs_):
        total += (np.cumsum(rng.standard_normal(len(values[i]))) * 0.3)[at[:, i]]
        for j in range(i):
            if rng.random() < 0.4:
                total += (rng.standard_normal((len(values[i]), len(values[j]))) * 0.25)[at[:, i], at[:, j]]
    pocket = np.ones(len(rows), bool)
    for knob in rng.choice(knobs_, 3, replace=False):
        pocket &= at[:, knob] == rng.integers(len(values[knob]))
    total[pocket] -= 1.0
    time = np.exp(total + 0.05 * rng.standard_normal(len(rows)))
    time[rng.random(len(rows)) < 0.03] = math.nan
    return _measured(f"rough{seed}", {f"k{i}": found for i, found in enumerate(values)}, rows, list(time))


SYNTHETIC: dict[str, Callable[[], MeasuredSpace]] = {
    "convolution1": lambda: convolution(1),
    "convolution2": lambda: convolution(2),
    "dedispersion1": lambda: dedispersion(1),
    "dedispersion2": lambda: dedispersion(2),
    "gemm1": lambda: gemm(1),
    "gemm2": lambda: gemm(2),
    "hotspot1": lambda: hotspot(1),
    "transposition1": lambda: transposition(1),
    "rough1": lambda: rough(1),
    "rough2": lambda: rough(2),
    "rough3": lambda: rough(3),
    "hotspot1-large": lambda: hotspot(1, large=True),
}
