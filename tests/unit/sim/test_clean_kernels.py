"""Kernels of many styles: right against NumPy, and without one alarm, in one thread and in two."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from harness import nvrtc, run

from evo import sim

sys.path.insert(0, str(Path(__file__).parents[2] / "data" / "sim"))
from clean_cases import CASES, CLEAN, compare


def test_every_file_has_a_case() -> None:
    assert {path.stem for path in CLEAN.glob("*.cu")} == set(CASES)
    assert len(CASES) >= 40


# The default suite is short: it runs every other kernel, and the lock and the barriers that blocks make themselves.
SHORT = {*sorted(CASES)[::2], "grid_barrier", "lock_released_by_store", "reduce_last_block", "spin_lock"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SHORT else [pytest.mark.long]) for name in sorted(CASES)]
)
def test_clean(name: str) -> None:
    for threads in (1, 2):
        check(name, threads)


@pytest.mark.parametrize("name", ["bits_in_unions", "calls_narrow", "grid_barrier"])
def test_clean_for_a_debugger(name: str) -> None:
    """Every value lives in memory: padding is moved, bit fields are read to be written, loops fall into pieces."""
    check(name, 1, "-G")


def check(name: str, threads: int, *options: str) -> None:
    case = CASES[name]
    text = (CLEAN / f"{name}.cu").read_text()
    inputs = tuple(
        i for i, a in enumerate(case.args) if isinstance(a, np.ndarray) and i not in (*case.expected, *case.scratch)
    )
    written = {"reduce_last_block", "scan_lookback", "spin_lock", "grid_barrier", "chain_of_blocks"}
    outputs, result = run(
        sim.load(nvrtc(text, *options)),
        "k",
        case.args,
        grid=case.grid,
        block=case.block,
        readonly=() if name in written else inputs,
        threads=threads,
        budget=50_000_000,
    )
    assert result.faults == ()
    compare(case, {index: outputs[index] for index in case.expected})
