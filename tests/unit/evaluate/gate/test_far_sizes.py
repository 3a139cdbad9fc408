"""Sizes that no case has: the largest lengths of several axes together, and mixtures of what the cases have apart."""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from task_folders import HALVED, HALVED_REFERENCE, written_task

from evo.evaluate.gate import TimedSizes, far_cases, far_sizes, wrong_beyond
from evo.evaluate.gate.mixed_cases import mixed_cases
from evo.evaluate.gate.threshold_cases import usual_limits
from evo.evaluate.prepare import Prepared
from evo.evaluate.session import EvaluationSession
from evo.results import FaultKind, Stage, Status
from evo.sim import Memory
from evo.spec.reference import Reference, load_reference
from evo.spec.task import Task, load_task, read_task

ROOT = Path(__file__).resolve().parents[4]
KERNEL = """\
// evo: task   halved
// evo: launch halve grid (ROWS) block (256) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void halve(const __half* x, __half* y, int rows, int cols) {
    const long long start = (INDEX)blockIdx.x * cols;
    for (int i = threadIdx.x; i < cols; i += 256) y[start + i] = __float2half(__half2float(x[start + i]) * 0.5f);
}
"""


def halved(folder: Path, longest: int) -> Task:
    return written_task(folder, HALVED.replace("300", str(longest)), HALVED_REFERENCE)


def looked_at(bench: EvaluationSession, task: Task, text: str, most: int = 1) -> list[TimedSizes]:
    prepared = bench.prepare(task, text)
    assert isinstance(prepared, Prepared)
    reference = bench.reference(task).beside()
    cases = far_cases(task, reference, 1)[:most]
    programs = bench.bound(task, prepared, cases) | dict(prepared.programs)
    return [seen for _, seen in far_sizes(task, programs, reference, bench.more_checkers(2), 1, cases)]


def test_an_index_that_is_cut_is_wrong_where_the_axes_are_longest_together(
    bench: EvaluationSession, tmp_path: Path
) -> None:
    task = halved(tmp_path, 1600)
    (right,) = looked_at(bench, task, KERNEL.replace("INDEX", "long long"))
    assert right.status is Status.CORRECT
    (cut,) = looked_at(bench, task, KERNEL.replace("(INDEX)blockIdx.x * cols", "blockIdx.x * cols & 0x1fffff"))
    assert cut.status is Status.WRONG


def test_several_sizes_are_looked_at_side_by_side_and_told_in_their_order(
    bench: EvaluationSession, tmp_path: Path
) -> None:
    task = halved(tmp_path, 1600)
    far, near = far_cases(task, bench.reference(task).beside(), 1)[:2]
    between = (near.axes["ROWS"] * near.axes["COLS"] + far.axes["ROWS"] * far.axes["COLS"]) // 2
    cut = KERNEL.replace("(INDEX)blockIdx.x * cols", f"(long long)blockIdx.x * cols % {between}")
    first, second = looked_at(bench, task, cut, 2)
    assert (first.status, second.status) == (Status.WRONG, Status.CORRECT)


def test_a_grid_larger_than_its_work_hides_no_wrong_numbers(bench: EvaluationSession, tmp_path: Path) -> None:
    task = halved(tmp_path, 1600)
    idle = KERNEL.replace("grid (ROWS)", "grid (7 * ROWS)").replace("blockIdx.x * cols", "(blockIdx.x / 7) * cols")
    idle = idle.replace("    const long", "    if (blockIdx.x % 7 != 3) return;\n    const long")
    right = looked_at(bench, task, idle.replace("INDEX", "long long"))
    assert all(seen.status is Status.CORRECT for seen in right)  # if enough of it was seen
    (cut,) = looked_at(
        bench, task, idle.replace("(INDEX)(blockIdx.x / 7) * cols", "(blockIdx.x / 7) * cols & 0x1fffff")
    )
    assert cut.status is Status.WRONG


def test_a_size_at_which_the_tasks_own_kernel_is_wrong_says_nothing(bench: EvaluationSession, tmp_path: Path) -> None:
    task = halved(tmp_path, 1600)
    cut = KERNEL.replace("(INDEX)blockIdx.x * cols", "blockIdx.x * cols & 0x1fffff")
    (task.folder / "ladder" / "00.cu").write_text(cut)
    reference, cases = bench.reference(task).beside(), far_cases(task, bench.reference(task).beside(), 1)[:1]
    prepared = bench.prepare(task, cut)
    assert isinstance(prepared, Prepared)
    programs = bench.bound(task, prepared, cases) | dict(prepared.programs)
    own = partial(bench.own_programs, task)
    assert list(far_sizes(task, programs, reference, bench.more_checkers(2), 1, cases, own)) == []


def test_sizes_that_do_not_go_together_say_nothing(bench: EvaluationSession, tmp_path: Path) -> None:
    wide = HALVED.replace("300", "1600").replace("COLS: int}", "COLS: int, OUT: int}")
    wide = wide.replace(
        "role: out, dtype: float16, shape: [ROWS, COLS]", "role: out, dtype: float16, shape: [ROWS, OUT]"
    )
    for cols in (64, 37, 1, 9, 1600):
        wide = wide.replace(f"COLS: {cols}}}", f"COLS: {cols}, OUT: {cols}}}")
    task = written_task(tmp_path, wide, HALVED_REFERENCE)
    text = KERNEL.replace("int cols)", "int inner, int cols)").replace("(INDEX)blockIdx.x * cols", "blockIdx.x * cols")
    assert all(seen.status is Status.CORRECT for seen in looked_at(bench, task, text))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ("cols > 16384 ? 16384 : cols", "unwritten"),
        ("(unsigned short)cols == cols ? cols : 0", "unwritten"),
        ("cols; if (cols > 70000) row *= 2.0f", "where the original gives"),
    ],
)
@pytest.mark.parametrize("own", ["original.cu", "ladder/00_plain.cu"])
def test_what_the_tasks_own_kernel_does_beyond_all_cases_a_variant_does_too(
    bench: EvaluationSession, tmp_path: Path, changed: str, reason: str, own: str
) -> None:
    task = halved(tmp_path, 1600)
    loop = "float row = 0.5f;\n    const int last = cols;\n    for (int i = threadIdx.x; i < last; i += 256)"
    right = KERNEL.replace("INDEX", "long long").replace("for (int i = threadIdx.x; i < cols; i += 256)", loop)
    right = right.replace("* 0.5f", "* row")
    (task.folder / own).parent.mkdir(exist_ok=True)
    (task.folder / own).write_text(right)
    assert beyond(bench, task, right) == [None, None]  # each axis
    wrong = [row for row in beyond(bench, task, right.replace("last = cols", f"last = {changed}")) if row]
    assert wrong
    assert reason in wrong[0]


def test_blocks_without_work_tell_nothing_of_a_longer_size(bench: EvaluationSession, tmp_path: Path) -> None:
    """As of a grid that has room for the tiles of any load."""
    task = halved(tmp_path, 1600)
    right = KERNEL.replace("INDEX", "long long")
    (task.folder / "original.cu").write_text(right)
    idle = right.replace("grid (ROWS)", "grid (8 * ROWS)").replace(
        "{\n", "{\n    if (blockIdx.x >= gridDim.x / 8) return;\n", 1
    )
    assert idle.count("/ 8") == idle.count("8 * ROWS") == 1
    assert beyond(bench, task, idle) == [None, None]


COUNTS = """\
name: counts
description: How many numbers of each kind there are.
axes: {N: int}
tensors:
  - {name: x, role: in, dtype: int32, shape: [N], low: 0, high: 8}
  - {name: y, role: out, dtype: int32, shape: [8], init: zero}
tolerance: {rtol: 0, atol: 0, rival_error_factor: 2, because: whole numbers}
check: [{name: even, N: 640}, {name: ragged, N: 37}, {name: odd, N: 517}]
bench:
  main: {N: 40000}
"""
COUNTS_REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {"x": rng.integers(0, 8, case["N"]).astype(np.int32)}


def expected(inputs):
    return {"y": np.bincount(inputs["x"], minlength=8)}
"""
COUNT = """\
// evo: task   counts
// evo: launch count grid (ceil_div(N, 128)) block (128) shared 0
extern "C" __global__ void count(const int* x, int* y, int n) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) atomicAdd(&y[x[i]], 1);
}
"""


@pytest.mark.parametrize("timed", [40000, 1000])
def test_blocks_whose_sums_meet_tell_nothing_of_a_longer_size(
    bench: EvaluationSession, tmp_path: Path, timed: int
) -> None:
    task = written_task(tmp_path, COUNTS.replace("40000", str(timed)), COUNTS_REFERENCE)
    (task.folder / "original.cu").write_text(COUNT)
    assert not any(beyond(bench, task, COUNT.replace("128", "512")))


SPREAD = """\
name: spread
description: The variance of each row.
axes: {ROWS: int, COLS: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [ROWS, COLS]}
  - {name: y, role: out, dtype: float32, shape: [ROWS]}
tolerance: {rtol: 1e-3, atol: 1e-2, rival_error_factor: 64, because: it adds one number after the other}
check: [{name: even, ROWS: 4, COLS: 64}, {name: ragged, ROWS: 3, COLS: 37}]
bench:
  main: {ROWS: 64, COLS: 256}
"""
SPREAD_REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {"x": (64 + rng.standard_normal((case["ROWS"], case["COLS"]))).astype(np.float32)}


def expected(inputs):
    return {"y": inputs["x"].astype(np.float64).var(axis=1)}
"""
VARIANCE = """\
// evo: task   spread
// evo: launch spread grid (ROWS) block (32) shared 0
extern "C" __global__ void spread(const float* x, float* y, int rows, int cols) {
    const float* row = x + (long long)blockIdx.x * cols;
    if (threadIdx.x) return;
    float sum = 0.f, squares = 0.f;
    for (int i = 0; i < cols; i++) { sum += row[i]; squares += row[i] * row[i]; }
    y[blockIdx.x] = squares / cols - sum / cols * (sum / cols);
}
"""
IN_DOUBLES = (
    ("float sum = 0.f, squares = 0.f", "double sum = 0, squares = 0"),
    ("row[i] * row[i]", "(double)row[i] * row[i]"),
)


@pytest.mark.parametrize(("last", "is_told"), [("cols", False), ("min(cols, 20000)", True)])
def test_what_long_sums_of_the_original_err_beyond_all_cases_is_not_held_against_a_variant(
    bench: EvaluationSession, tmp_path: Path, last: str, is_told: bool
) -> None:
    task = written_task(tmp_path, SPREAD, SPREAD_REFERENCE)
    (task.folder / "original.cu").write_text(VARIANCE)
    exact = VARIANCE.replace("i < cols", f"i < {last}")
    for old, new in IN_DOUBLES:
        exact = exact.replace(old, new)
    assert any(beyond(bench, task, exact)) is is_told


def beyond(bench: EvaluationSession, task: Task, text: str) -> list[str | None]:
    prepared = bench.prepare(task, text)
    assert isinstance(prepared, Prepared)
    bind, own = partial(bench.bound, task, prepared), partial(bench.own_programs, task)
    found = wrong_beyond(task, bind, own, bench.reference(task).beside(), bench.checker, 1)
    return [row.reason if row is not None else None for _, row, _ in found]


def test_what_no_block_of_a_sample_has_written_is_not_worked_out(
    bench: EvaluationSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out, usual = [], Reference.expectation
    monkeypatch.setattr(
        Reference, "expectation", lambda self, case, seed: worked_out.append(case.name) or usual(self, case, seed)
    )
    task = halved(tmp_path, 1600)
    idle = KERNEL.replace("    const long", "    if (blockIdx.x != 1 << 30) return;\n    const long")
    looked_at(bench, task, idle.replace("INDEX", "long long"))
    assert not [name for name in worked_out if name not in {case.name for case in (*task.check, *task.bench)}]


def test_far_sizes_fit_the_memory_of_a_simulator(tmp_path: Path) -> None:
    """Three axes of 40,000 would be 256 TB."""
    task = halved(tmp_path, 40000)
    text = (
        (task.folder / "task.yaml").read_text().replace("{ROWS: int, COLS: int}", "{ROWS: int, COLS: int, DEEP: int}")
    )
    text = text.replace("shape: [ROWS, COLS]}", "shape: [ROWS, COLS, DEEP]}", 1)
    text = text.replace("COLS: 64}", "COLS: 64, DEEP: 3}").replace("COLS: 37}", "COLS: 37, DEEP: 40000}")
    text = text.replace("COLS: 1}", "COLS: 1, DEEP: 1}").replace("COLS: 9}", "COLS: 9, DEEP: 5}")
    (task.folder / "task.yaml").write_text(text.replace("COLS: 40000}", "COLS: 40000, DEEP: 7}"))
    task = read_task(task.folder)
    cases = far_cases(task, load_reference(task), 1)
    assert cases
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert all(sum(tensor.size_bytes(case) for tensor in task.tensors) < max(room, 16 << 30) for case in cases)


def test_of_a_tensor_that_starts_at_zero_what_is_no_longer_zero_is_compared(
    tmp_path: Path, bench: EvaluationSession
) -> None:
    task = halved(tmp_path, 1600)
    text = (task.folder / "task.yaml").read_text()
    (task.folder / "task.yaml").write_text(text.replace("{name: y, role: out,", "{name: y, role: out, init: zero,"))
    task = read_task(task.folder)
    (right,) = looked_at(bench, task, KERNEL.replace("INDEX", "long long"))
    assert right.status is Status.CORRECT
    (cut,) = looked_at(bench, task, KERNEL.replace("(INDEX)blockIdx.x * cols", "blockIdx.x * cols & 0x1fffff"))
    assert cut.status is Status.WRONG


def test_each_tensor_gets_more_elements_than_any_timed_size_has() -> None:
    """Of attention, queries and keys have no length in common; axes that chance relates are changed together."""
    task = load_task(ROOT, "attention")
    cases = far_cases(task, load_reference(task), 5)
    for tensor in task.tensors:
        most = max(math.prod(tensor.dims(case)) for case in task.bench)
        assert max(math.prod(tensor.dims(case)) for case in cases) > most


@pytest.mark.long
def test_an_index_of_32_bits_does_not_survive_more_elements_than_it_counts(
    bench: EvaluationSession, tmp_path: Path
) -> None:
    task = halved(tmp_path, 47000)
    (case, *_) = far_cases(task, bench.reference(task).beside(), 1)
    assert case.axes["ROWS"] * case.axes["COLS"] > 2**31
    (right,) = looked_at(bench, task, KERNEL.replace("INDEX", "long long"))
    assert right.status is Status.CORRECT
    (narrow,) = looked_at(bench, task, KERNEL.replace("INDEX", "int"))
    assert narrow.status is Status.UNSAFE
    assert narrow.fault is not None
    assert narrow.fault.kind is FaultKind.OUT_OF_BOUNDS


IN_PLACE = """\
// evo: task   halved
// evo: launch halve grid (ceil_div(ROWS * COLS, 256)) block (256) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void halve(__half* x, int rows, int cols) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < rows * cols) x[i & MASK] = __float2half(__half2float(x[i & MASK]) * 0.5f);
}
"""


@pytest.mark.parametrize(("mask", "status"), [("0x7fffffff", Status.CORRECT), ("0x1ffff", Status.WRONG)])
def test_of_a_tensor_in_place_only_what_blocks_changed_is_compared(
    tmp_path: Path, bench: EvaluationSession, mask: str, status: Status
) -> None:
    task = halved(tmp_path, 650)  # all blocks of a timed size run, and few of so large a one
    text = (task.folder / "task.yaml").read_text()
    text = text.replace("  - {name: y, role: out, dtype: float16, shape: [ROWS, COLS]}\n", "")
    (task.folder / "task.yaml").write_text(text.replace("name: x, role: in,", "name: x, role: inout,"))
    reference = task.folder / "reference.py"
    reference.write_text(reference.read_text().replace('"y":', '"x":'))
    (seen,) = looked_at(bench, read_task(task.folder), IN_PLACE.replace("MASK", mask))
    assert seen.status is status


def test_a_large_buffer_repeats_its_pattern_and_keeps_what_is_written_apart() -> None:
    pattern = np.arange(1, 3001, dtype=np.uint16)
    buffer = Memory().allocate(6 << 30, fill=pattern.view(np.uint8))
    values = buffer.bytes.view(np.uint16)
    far = np.asarray([0, 2999, 3000, 1_000_000_007, len(values) - 1])
    assert values[far].tolist() == pattern[far % 3000].tolist()
    values[3000] = 0
    assert [int(values[at]) for at in (0, 3000, 6000)] == [1, 0, 1]


def test_mixtures_bring_every_two_counts_of_different_cases_together() -> None:
    conv = load_task(ROOT, "conv2d")
    made = mixed_cases(conv, 1, usual_limits(conv, 2.0))
    met = {(case.axes["STRIDE"], case.axes["DIL"]) for case in made}
    assert met >= {(stride, dilation) for stride in (1, 2, 3) for dilation in (1, 2)}
    assert any(case.axes["R"] == case.axes["S"] == 1 and case.axes["STRIDE"] > 1 for case in made)
    known = [case.axes for case in (*conv.check, *conv.bench)]
    assert all(case.axes not in known for case in made)


@pytest.mark.parametrize("name", ["dilation_and_stride", "pointwise_with_stride"])
@pytest.mark.long
def test_what_is_wrong_for_two_axes_together_is_found(bench: EvaluationSession, name: str) -> None:
    task = load_task(ROOT, "conv2d")
    prepared = bench.prepare(task, (ROOT / f"evo/audit/redteam/attacks/conv2d/20_{name}.cu").read_text())
    assert isinstance(prepared, Prepared)
    found = bench.hunt(task, prepared, [bench.checker], 1, share=2.0)
    assert found is not None
    assert found.status is Status.WRONG
    assert found.stage is Stage.THRESHOLD
