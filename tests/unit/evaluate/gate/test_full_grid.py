"""The wide look at timed sizes: all elements of a large output, known from a few places whose inputs repeat."""

from __future__ import annotations

import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from long_cases import long
from task_folders import written_task

from evo.device import DeviceName
from evo.device.output_extremes import Extreme, extremes_of, place_of
from evo.evaluate.gate import TimedSizes, at_timed_sizes, timed_sizes
from evo.evaluate.gate.full_grid import repeated, varied
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.evaluate.prepare import Prepared
from evo.results import Mismatch, MismatchKind, Stage, Status
from evo.spec.reference import load_reference
from evo.spec.task import Task, read_task


@pytest.fixture(autouse=True)
def _look_at_timed_sizes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the source suggests is hunted before, and would find some of these first."""
    monkeypatch.setattr(EvaluationSession, "hunt", lambda *_, **__: None)


TASK_YAML = """\
name: rows
axes: {ROWS: int, COLS: int}
tensors:
  - {name: x, role: in, dtype: float16, shape: [ROWS, COLS]}
  - {name: y, role: out, dtype: float16, shape: [ROWS, COLS]}
tolerance: {rtol: 4e-3, atol: 4e-4, rival_error_factor: 2, because: one rounding}
check:
  - {name: even, ROWS: 16, COLS: 64}
  - {name: ragged, ROWS: 7, COLS: 33}
bench:
  many: {ROWS: 40960, COLS: 128}
work: {flop: ROWS * COLS * 100, bytes: 4 * ROWS * COLS}
"""
REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {"x": rng.standard_normal((case["ROWS"], case["COLS"]), dtype=np.float32)}


def expected(inputs):
    x = inputs["x"].astype(np.float64)
    return {"y": x / np.sqrt(1.0 + (x * x).mean(axis=1, keepdims=True))}
"""
KERNEL = """\
// A warp to a row.
// evo: task   rows
// evo: launch rows grid (ceil_div(ROWS, 4)) block (128) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void rows(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * 4 + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = lane; i < cols; i += 32) {
        const float value = __half2float(x[(long long)row * cols + i]);
        sum += value * value;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    const float scale = rsqrtf(1.0f + sum / cols);
    for (int i = lane; i < cols; i += 32) {
        const float value = __half2float(x[(long long)row * cols + i]);
        y[(long long)row * cols + i] = __float2half(scale * value);
    }
}
"""
STORE = "y[(long long)row * cols + i] = __float2half(scale * value);"
ONE = "rows == 40960 && row == 30001 && i == 5"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return written_task(tmp_path_factory.mktemp("wide"), TASK_YAML, REFERENCE)


def looked_at(task: Task, bench: EvaluationSession, store: str) -> TimedSizes:
    prepared = bench.prepare(task, KERNEL.replace(STORE, store))
    assert isinstance(prepared, Prepared), prepared.reason
    return timed_sizes(task, prepared.programs, bench.reference(task), bench.checker, 11)


def test_an_honest_kernel_passes(task, bench):
    seen = looked_at(task, bench, STORE)
    assert seen.status is Status.CORRECT, seen.reason
    assert seen.unseen is None
    assert [row.name for row in seen.rows] == ["many"]


@pytest.mark.parametrize(
    ("store", "kind", "index", "count"),
    [
        long(STORE.replace("scale *", f"({ONE} ? 0.9f : 1.0f) * scale *"), MismatchKind.TOLERANCE, (30001, 5), 1),
        long(STORE.replace("scale *", f"({ONE} ? NAN : 1.0f) * scale *"), MismatchKind.NOT_FINITE, (30001, 5), 1),
        (f"if (!({ONE})) {STORE}", MismatchKind.UNWRITTEN, (30001, 5), 1),
        long(
            STORE.replace("row * cols", "(row == 30001 ? row + 1 : row) * cols"),
            MismatchKind.UNWRITTEN,
            (30001, 0),
            128,
        ),
        (
            STORE.replace("value)", "(row == 30001 ? __half2float(x[i]) : value))"),
            MismatchKind.TOLERANCE,
            (30001,),
            None,
        ),
    ],
    ids=["one value", "one NaN", "one left out", "one row in another's place", "another row's values"],
)
def test_a_single_element_of_millions_is_seen(task, bench, store, kind, index, count):
    seen = looked_at(task, bench, store)
    assert seen.status is Status.WRONG, seen.unseen
    found = seen.case.mismatch
    assert (seen.case.name, seen.case.inputs) == ("many", ("drawn",))
    assert (found.kind, found.index[: len(index)]) == (kind, index)
    assert count is None or found.elements == count


@pytest.mark.long
def test_two_sizes_at_once_show_what_one_after_the_other_shows(task, bench):
    prepared = bench.prepare(task, KERNEL.replace(STORE, f"if (!({ONE})) {STORE}"))
    cases = [*task.check[:2], *task.bench, *task.check[:1]]
    alone, together = (
        timed_sizes(task, prepared.programs, bench.reference(task), bench.checker, 11, cases=cases, beside=more)
        for more in ((), bench.more_checkers(2)[1:])
    )
    assert together.status is Status.WRONG
    assert together.case.name == "many"
    assert together == alone


def test_what_is_right_for_the_inputs_of_the_task_alone_is_seen(task, bench):
    """Normal values never reach 6.5 here, so only other inputs at that size show that larger ones are cut off."""
    clipped = STORE.replace("value)", "(rows == 40960 ? fminf(fmaxf(value, -6.5f), 6.5f) : value))")
    seen = looked_at(task, bench, clipped)
    assert seen.status is Status.WRONG, seen.unseen
    assert (seen.case.name, seen.case.inputs) == ("many", ("mixed",))


def test_a_gpu_too_is_given_other_inputs_at_timed_sizes(task, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3] / "support"))
    folder = tmp_path / "rows"
    shutil.copytree(task.folder, folder)
    (folder / "task.yaml").write_text(TASK_YAML.replace("40960", "640"))
    clipped = STORE.replace("value)", "(rows == 640 ? fminf(fmaxf(value, -6.5f), 6.5f) : value))")
    with EvaluationSession(DeviceName("gpu", "0"), arch="native", opener="stand_in_gpu:StandInGpu") as gpu:
        small = read_task(folder)
        honest = evaluate(Job(task=small, text=KERNEL, seed=4, upto="timed"), gpu)
        found = evaluate(Job(task=small, text=KERNEL.replace(STORE, clipped), seed=4, upto="timed"), gpu)
    assert honest.status is Status.CORRECT, honest.reason
    assert found.status is Status.WRONG
    assert (found.stage, found.check.failed.inputs) == (Stage.VERIFY, ("mixed",))
    assert found.check.mismatch.kind is MismatchKind.TOLERANCE


@pytest.mark.parametrize("blocks", ["of a part", long("of all")])
def test_what_every_block_leaves_out_of_a_grid_too_large_to_run(task, bench, monkeypatch, blocks):
    """Each block that runs writes a little less than it is due: nothing else would tell."""
    monkeypatch.setattr(at_timed_sizes, "_TRIFLE", 10)
    monkeypatch.setattr(at_timed_sizes, "_WIDE", 500_000)
    monkeypatch.setattr(at_timed_sizes, "_BUDGET", 1_000_000 if blocks == "of a part" else 200_000_000)
    seen = looked_at(task, bench, f"if (rows != 40960 || i < 126) {STORE}")
    if blocks == "of all":
        assert seen.status is Status.WRONG
        unwritten = Mismatch(kind=MismatchKind.UNWRITTEN, tensor="y", index=(0, 126), elements=81920)
        assert seen.case.mismatch == unwritten
    else:
        assert seen.status is Status.CORRECT, seen.reason
        assert "its blocks write 252 words of y, and are due 256" in seen.unseen


def test_whole_numbers_that_rise_still_rise_where_inputs_repeat(tmp_path):
    """Boundaries and sorted labels: a kernel may rely on their order."""
    folder = tmp_path / "rows"
    (folder / "ladder").mkdir(parents=True)
    label = "  - {name: label, role: in, dtype: int32, shape: [ROWS]}\n  - {name: y,"
    (folder / "task.yaml").write_text(TASK_YAML.replace("  - {name: y,", label))
    drawn = 'return {"label": np.arange(case["ROWS"]) // 3, "x":'
    (folder / "reference.py").write_text(REFERENCE.replace('return {"x":', drawn, 1))
    task = read_task(folder)
    case, reference = task.bench[0], load_reference(task)
    inputs, kinds = repeated(task, case, "ROWS", reference.inputs(case, 1), np.array([5, 70, 900]), 1)
    assert set(kinds) == {0, 1, 2}
    assert sorted(set(inputs["label"])) == [1, 23, 300]
    assert (np.diff(inputs["label"]) >= 0).all()
    other = varied(task, case, reference, "ROWS", 40, 1)
    assert other is not None
    assert (np.diff(other.inputs["label"]) >= 0).all()
    assert len(set(other.groups)) == 40


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (np.float16, "float16"),
        (np.float32, "float32"),
        (np.float64, "float64"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (ml_dtypes.float8_e4m3fn, "float8_e4m3"),
        (np.uint8, "uint8"),
        (np.int64, "int64"),
        (np.bool_, "bool"),
    ],
)
def test_folding_finds_the_extremes_and_their_places(kind, dtype, masked):
    rng = np.random.default_rng(3)
    values = (rng.standard_normal((40, 7)) * 5).astype(kind)
    kinds = rng.permutation(np.r_[np.arange(3), rng.integers(-1, 3, 37)])
    written = rng.random((40, 7)) < 0.3 if masked else np.ones((40, 7), np.bool_)
    flat, known = values.reshape(-1), written.reshape(-1) if masked else None
    folded = extremes_of(flat, known, kinds, dtype)
    for at in range(21):
        mine = (kinds == at // 7) & written[:, at % 7]
        assert folded.seen[at] == mine.any()
        if mine.any():
            column = values[mine, at % 7].astype(np.float64)
            assert (float(folded.low[at]), float(folded.high[at])) == (column.min(), column.max())
            for lowest, value in ((True, folded.low[at]), (False, folded.high[at])):
                sought = Extreme(output="y", at=at, lowest=lowest)
                place = place_of(flat, known, kinds, dtype, sought)
                assert flat[place] == value
                assert mine[place // 7]


@pytest.mark.parametrize("rows", [[], [5], [5, 9, 31]])
def test_of_a_sample_only_the_rows_that_it_wrote_are_seen(rows: list[int]) -> None:
    values = np.random.default_rng(4).standard_normal((40, 7)).astype(np.float16)
    kinds = np.arange(40) % 9 - 1
    written = np.zeros(values.shape, np.bool_)
    written[rows, 2:] = True
    folded = extremes_of(values.reshape(-1), written.reshape(-1), kinds, "float16")
    expected = np.zeros((8, 7), np.bool_)
    expected[[kinds[row] for row in rows if kinds[row] >= 0], 2:] = True
    assert np.array_equal(folded.seen, expected.reshape(-1))
    for row in rows:
        if kinds[row] >= 0:
            assert np.array_equal(folded.low.reshape(8, 7)[kinds[row], 2:], values[row, 2:])


@pytest.mark.parametrize("nan", [np.nan, -np.nan])
def test_folding_hides_no_nan_and_no_number_among_them(nan):
    values = np.zeros((6, 2), np.float32)
    values[:, 1] = nan
    values[3] = nan, 1.0
    folded = extremes_of(values.reshape(-1), None, np.zeros(6, np.int64), "float32")
    for element in range(2):
        both = np.array([folded.low[element], folded.high[element]])
        assert np.isnan(both).sum() == 1
