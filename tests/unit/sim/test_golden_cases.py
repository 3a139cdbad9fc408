"""Every golden case gives the bits that a GPU gave, or lies within its bound of them.

The bits are measured by tests/gpu/test_goldens.py, whose golden_bits.xz is stored as tests/data/sim/golden_h200.xz.
What is not among them is run, and must not fault. Without the file every case is run and the comparison is skipped.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict

import golden_bits
import goldens
import goldens_cuda
import numpy as np
import pytest
from long_cases import long

from evo.cuda.compile import toolkit_version

PRESENT = golden_bits.STORED.exists()
ABOUT, STORED = golden_bits.unpacked(golden_bits.STORED.read_bytes()) if PRESENT else ({}, {})
needs_measurement = pytest.mark.skipif(not PRESENT, reason=f"{golden_bits.STORED.name} is not measured yet")
FAMILIES: dict[str, list[goldens.Golden]] = defaultdict(list)
for _golden in goldens.opcodes():
    FAMILIES[_golden.name.split(".")[0]].append(_golden)


def check(group: str, cases: list[goldens.Golden]) -> None:
    """Runs all cases; none may differ from the GPU beyond its bound, and none may go without a comparison."""
    wrong: list[object] = []
    others: list[str] = []
    for golden in cases:
        mine = golden.simulated()
        measured = STORED.get(f"{group}:{golden.name}")
        if measured is None or measured.digest != golden_bits.digest_of(golden.ptx, golden.inputs):
            others.append(golden.name)  # not measured, or of another compiler
            continue
        row = golden_bits.compared(asdict(golden) | {"group": group}, mine, measured.outputs)
        if not row["agrees"] and not golden.known:
            wrong.append((golden.name, row["beyond_bound"], row["differing"]))
    assert wrong == []
    if group != "opcode" and ABOUT.get("compiler") == toolkit_version():
        assert others == []
    if not PRESENT:
        pytest.skip(f"ran without a fault; {golden_bits.STORED.name} is not measured yet")


# By default one case of seven of what takes seconds; all of it in the long suite.
SOME_OR_ALL = pytest.mark.parametrize("every", [7, long(1)])


@pytest.mark.parametrize("every", [4, long(1)])
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"cvt"}))
def test_opcodes_give_the_gpus_bits(family: str, every: int) -> None:
    check("opcode", FAMILIES[family][::every])


@SOME_OR_ALL
def test_conversions_give_the_gpus_bits(every: int) -> None:
    check("opcode", FAMILIES["cvt"][::every])


@SOME_OR_ALL
def test_warp_and_tensor_kernels_give_the_gpus_bits(every: int) -> None:
    check("warp", list(goldens_cuda.kernels(every))[::every])


@SOME_OR_ALL
def test_library_functions_give_the_gpus_bits(every: int) -> None:
    check("function", list(goldens_cuda.functions(every=every))[::every])


@needs_measurement
def test_most_cases_were_measured() -> None:
    names = {f"opcode:{golden.name}" for cases in FAMILIES.values() for golden in cases}
    assert ABOUT["device"] == "NVIDIA H200"
    assert len(names & set(STORED)) >= 0.95 * len(names)
    same = [g for cases in FAMILIES.values() for g in cases if f"opcode:{g.name}" in STORED]
    for golden in same:
        assert STORED[f"opcode:{golden.name}"].digest == golden_bits.digest_of(golden.ptx, golden.inputs), golden.name


@needs_measurement
def test_a_single_wrong_bit_is_seen() -> None:
    (golden,) = (g for g in FAMILIES["add"] if g.name == "add.rn.f32")
    measured = STORED["opcode:add.rn.f32"]
    wrong = [array.copy() for array in measured.outputs]
    at = int(np.flatnonzero(np.isfinite(wrong[0]))[7])
    wrong[0].view(np.uint32)[at] ^= 1
    row = golden_bits.compared(asdict(golden) | {"group": "opcode"}, wrong, measured.outputs)
    assert (row["agrees"], row["beyond_bound"]) == (False, 1)
    assert golden_bits.compared(asdict(golden) | {"group": "opcode"}, measured.outputs, measured.outputs)["agrees"]
