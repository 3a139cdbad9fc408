"""Limits counted again from first principles, on random shapes: what a person would do with a pencil."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from evo.analysis.roofline import limits
from evo.analysis.tiles import derive
from evo.errors import TaskInvalid
from evo.spec.chips import CHIPS, chip
from evo.spec.task import Case, load_task

ROOT = Path(__file__).parents[3]
SMALL = (1, 2, 3, 7, 13, 61)
SIZES = (*SMALL, 127, 509, 512, 1000, 4096, 8191)
HUGE = (*SIZES, 1_000_003)
# FLOP of one FMA pipe with tensor cores and bytes per second of DRAM, as the datasheets print them.
PRINTED = {
    "l4": (121e12, 300e9), "t4": (65e12, 320e9), "a10": (125e12, 600e9), "a100-40": (312e12, 1555e9),
    "a4000": (76.7e12, 448e9),
    "a100-80": (312e12, 2039e9), "l40s": (362e12, 864e9), "rtx3090": (71e12, 936e9), "rtx4090": (165.2e12, 1008e9),
    "h100-sxm": (989.4e12, 3.35e12), "h100-pcie": (756e12, 2.04e12), "h200": (989.4e12, 4.8e12),
    "b200": (2.25e15, 8e12),
}  # fmt: skip
Axes = dict[str, int]
Counts = dict[str, int]


def attention(draw: Callable[..., int]) -> tuple[Axes, Counts]:
    kv, group = draw(1, 2, 3, 8), draw(1, 2, 4)
    a = {"B": draw(*SMALL), "HQ": kv * group, "HKV": kv, "SQ": draw(*SIZES), "SK": draw(*SIZES), "D": draw(64, 128)}
    a["CAUSAL"] = draw(0, 1)
    seen = sum(min(row + 1, a["SK"]) if a["CAUSAL"] else a["SK"] for row in range(a["SQ"]))
    scores = a["B"] * a["HQ"] * seen
    elements = 2 * a["B"] * a["HQ"] * a["SQ"] * a["D"] + 2 * a["B"] * a["HKV"] * a["SK"] * a["D"]
    return a, {"flop": scores * 2 * 2 * a["D"], "exp": scores, "bytes": 2 * elements}


def matmul(draw: Callable[..., int]) -> tuple[Axes, Counts]:
    m, n, k = draw(*HUGE), draw(*HUGE), draw(*HUGE)
    return {"M": m, "N": n, "K": k}, {"flop": 2 * m * n * k, "bytes": 2 * (m * k + k * n + m * n)}


def softmax(draw: Callable[..., int]) -> tuple[Axes, Counts]:
    rows, cols = draw(*HUGE), draw(*HUGE)
    return {"ROWS": rows, "COLS": cols}, {"exp": rows * cols, "bytes": 2 * rows * cols * 2}


def rmsnorm(draw: Callable[..., int]) -> tuple[Axes, Counts]:
    rows, cols = draw(*HUGE), draw(*HUGE)
    return {"ROWS": rows, "COLS": cols}, {"bytes": 2 * (2 * rows * cols + cols)}


def conv2d(draw: Callable[..., int]) -> tuple[Axes, Counts]:
    a = {"N": draw(1, 3, 32), "H": draw(7, 28, 224), "W": draw(7, 13, 56), "C": draw(1, 3, 64, 127)}
    a |= {"K": draw(1, 8, 61), "R": draw(1, 3, 5), "S": draw(1, 3), "STRIDE": draw(1, 2, 3)}
    a |= {"PAD": draw(0, 1, 2), "DIL": 1}
    down, across = (
        len(range(0, a[size] + 2 * a["PAD"] - a[taps] + 1, a["STRIDE"])) for size, taps in (("H", "R"), ("W", "S"))
    )
    out = a["N"] * down * across * a["K"]
    read = a["N"] * a["H"] * a["W"] * a["C"] + a["K"] * a["R"] * a["S"] * a["C"]
    return a, {"flop": 2 * out * a["C"] * a["R"] * a["S"], "bytes": 2 * (read + out)}


def rope(draw: Callable[..., int]) -> tuple[Axes, Counts]:
    a = {"B": draw(*SMALL), "S": draw(*SIZES), "H": draw(1, 3, 32), "D": 2 * draw(1, 3, 32, 64), "T": 8191}
    elements = a["B"] * a["S"] * a["H"] * a["D"]
    return a, {"flop": 6 * (elements // 2), "bytes": 2 * 2 * elements + 2 * 4 * a["T"] * a["D"] // 2}


def moe_grouped_matmul(draw: Callable[..., int]) -> tuple[Axes, Counts]:
    t, e, d, f = draw(*HUGE), draw(1, 3, 64, 509), draw(*SIZES), draw(*SIZES)
    moved = 2 * (t * d + e * d * f + t * f) + 4 * (e + 1)
    return {"T": t, "E": e, "D": d, "F": f}, {"flop": 2 * t * d * f, "bytes": moved}


@pytest.mark.parametrize("drawn", [attention, matmul, softmax, rmsnorm, conv2d, rope, moe_grouped_matmul])
def test_counts_and_floors_of_random_shapes(drawn: Callable[[Callable[..., int]], tuple[Axes, Counts]]) -> None:
    rng = random.Random(drawn.__name__)
    task = load_task(ROOT, drawn.__name__)
    for _ in range(20):
        axes, counts = drawn(lambda *some: rng.choice(some))
        slug = rng.choice(sorted(PRINTED))
        found = limits(task, Case(name="drawn", axes=axes), chip(slug))
        row = found.to_json()
        where = f"{axes} on {slug}"
        assert row["bytes_compulsory"] == counts["bytes"], where
        assert {name: row[name] for name in counts if name != "bytes"} == {
            name: count for name, count in counts.items() if name != "bytes"
        }, where
        peak, dram = PRINTED[slug]
        assert found.floors_us["dram_cold"] == pytest.approx(counts["bytes"] / dram * 1e6, rel=0.02), where
        if "tensor" in found.floors_us and "flop" in counts:
            assert found.floors_us["tensor"] == pytest.approx(counts["flop"] / peak * 1e6, rel=0.02), where
        assert all(math.isfinite(us) and us >= 0 for us in found.floors_us.values()), where
        assert found.floor_us == max(
            (us for name, us in found.floors_us.items() if name == found.limiter), default=0.0
        ), where
        assert found.limiter not in found.estimated, where


def test_every_row_of_the_table_is_among_the_printed_ones() -> None:
    assert {str(row) for row in CHIPS} - PRINTED.keys() <= {"a100-80-pcie"}


@pytest.mark.parametrize("name", ["matmul", "softmax", "conv2d"])
def test_what_is_derived_for_odd_shapes_is_legal_or_refused_in_words(name: str) -> None:
    rng = random.Random(name)
    task = load_task(ROOT, name)
    drawn = {"matmul": matmul, "softmax": softmax, "conv2d": conv2d}[name]
    for _ in range(2):
        axes, _ = drawn(lambda *some: rng.choice([*some, *(8 * value for value in some if name != "conv2d")]))
        where = chip(rng.choice(sorted(PRINTED)))
        try:
            found = derive(task, where, Case(name="drawn", axes=axes))
        except TaskInvalid as refused:
            said = f"{refused} {refused.hint}"
        else:
            said = ""
        assert not said or re.search(r"no configuration is legal on \S+ \d+x ", said), said
        for one in found.candidates if not said else ():
            assert 32 <= one.threads <= where.threads_per_block
            assert one.shared_bytes <= where.shared_per_block_optin
            assert one.blocks >= 1
            assert all(math.isfinite(us) and us >= 0 for us in one.terms_us.values())
