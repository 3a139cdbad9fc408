"""The numeric gate and the static rules, on arrays and texts made here."""

import numpy as np
import pytest
from task_folders import bare_task

from evo.evaluate import gate
from evo.results import Mismatch, MismatchKind, StaticRule, Status
from evo.spec.expectation import Expectation
from evo.spec.expr import parse
from evo.spec.task import Task, Tensor

SHAPE = (64, 32)


def task(dtype: str = "float16") -> Task:
    dims = (parse("64"), parse("32"))
    return bare_task(tensors=(Tensor(name="o", role="out", dtype=dtype, shape=dims),))


def expectation(trusted: bool = True) -> Expectation:
    exact = np.random.default_rng(1).normal(size=SHAPE)
    return Expectation({}, {"o": exact}, {"o": exact.astype(np.float16)} if trusted else None)


def status(output: np.ndarray, trusted: bool = True) -> tuple[Status, MismatchKind | None]:
    row = gate.compare(task(), "c", {"o": output.astype(np.float16)}, expectation(trusted))
    return row.status, row.mismatch.kind if row.mismatch else None


def test_the_rounded_truth_is_correct_with_its_errors_and_budget():
    row = gate.compare(task(), "c", {"o": expectation().expected["o"].astype(np.float16)}, expectation())
    assert row.status is Status.CORRECT
    assert 0 < row.max_error < row.budget["max_error"]
    assert 0 < row.rms_error < row.budget["rms_error"]


@pytest.mark.parametrize(
    ("break_it", "kind"),
    [
        (np.zeros_like, MismatchKind.TOLERANCE),
        (lambda y: y * 1.05, MismatchKind.TOLERANCE),
        (lambda y: y * 1.008, MismatchKind.MAX_ERROR),
        (lambda y: np.roll(y, 1, axis=0), MismatchKind.TOLERANCE),
        (lambda y: np.where(y == y.max(), np.nan, y), MismatchKind.NOT_FINITE),
        (lambda y: np.where(y == y.max(), np.inf, y), MismatchKind.NOT_FINITE),
    ],
)
def test_a_wrong_output_is_refused_for_its_reason(break_it, kind):
    assert status(break_it(expectation().expected["o"])) == (Status.WRONG, kind)


def test_poison_left_in_place_is_called_unwritten():
    output = expectation().expected["o"].astype(np.float16)
    output[-1] = np.frombuffer(b"\xff\xff" * SHAPE[1], np.float16)
    row = gate.compare(task(), "c", {"o": output}, expectation())
    assert row.mismatch == Mismatch(kind=MismatchKind.UNWRITTEN, tensor="o", index=(63, 0), elements=32)


def test_expected_infinities_are_held_to_their_sign():
    exact = expectation().expected["o"].copy()
    exact[0, 0] = -np.inf
    want = Expectation({}, {"o": exact}, {"o": exact.astype(np.float16)})
    assert gate.compare(task(), "c", {"o": exact.astype(np.float16)}, want).status is Status.CORRECT
    flipped = np.where(np.isinf(exact), np.inf, exact).astype(np.float16)
    assert gate.compare(task(), "c", {"o": flipped}, want).status is Status.WRONG


def test_integers_are_exact():
    want = Expectation({}, {"o": np.arange(64 * 32).reshape(SHAPE)}, None)
    got = np.arange(64 * 32, dtype=np.int32).reshape(SHAPE)
    assert gate.compare(task("int32"), "c", {"o": got}, want).status is Status.CORRECT
    got[3, 4] += 1
    row = gate.compare(task("int32"), "c", {"o": got}, want)
    assert row.mismatch == Mismatch(
        kind=MismatchKind.DIFFERENT, tensor="o", index=(3, 4), got=101, expected=100, elements=1
    )


def test_a_difference_in_one_bit_is_found():
    a = {"o": np.ones((2, 3), np.float32)}
    b = {"o": a["o"].copy()}
    assert gate.first_difference(a, b) is None
    b["o"][1, 2] = np.nextafter(np.float32(1), np.float32(2))
    assert gate.first_difference(a, b).index == (1, 2)


def cut(values: np.ndarray) -> np.ndarray:
    """Towards zero instead of to the nearest half."""
    halves = values.astype(np.float16)
    over = np.abs(halves.astype(np.float64)) > np.abs(values)
    return np.where(over, np.nextafter(halves, np.float16(0)), halves).astype(np.float16)


def test_truncation_is_a_bias_however_small_each_error():
    assert status(cut(expectation().expected["o"])) == (Status.WRONG, MismatchKind.BIAS)


def test_errors_to_both_sides_are_no_bias():
    halves = expectation().expected["o"].astype(np.float16)
    step = np.where(np.random.default_rng(0).random(SHAPE) < 0.5, np.float16(9), np.float16(-9))
    assert status(np.nextafter(halves, step))[0] is Status.CORRECT


def test_bias_is_judged_where_errors_are_independent_only():
    exact = expectation().expected["o"]
    for distribution, verdict in (("positive", Status.WRONG), ("outliers", Status.CORRECT)):
        want = Expectation({}, {"o": exact}, {"o": exact.astype(np.float16)}, distribution)
        assert gate.compare(task(), "c", {"o": cut(exact)}, want).status is verdict


def test_without_a_trusted_implementation_one_rounding_is_the_budget():
    exact = expectation().expected["o"]
    assert status(exact, trusted=False)[0] is Status.CORRECT
    assert status(exact * 1.008, trusted=False) == (Status.WRONG, MismatchKind.RMS_ERROR)


def test_singles_without_a_trusted_implementation_may_not_be_bfloat16():
    exact = expectation().expected["o"]
    want = Expectation({}, {"o": exact}, None)
    honest = (exact * (1 + 1e-5)).astype(np.float32)
    assert gate.compare(task("float32"), "c", {"o": honest}, want).status is Status.CORRECT
    coarse = (honest.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    assert gate.compare(task("float32"), "c", {"o": coarse}, want).status is Status.WRONG


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_truth_beyond_the_type_may_be_the_largest_number_or_an_infinity():
    exact = expectation().expected["o"].copy()
    exact[0, 0], exact[1, 1] = 70000.0, -1e6
    want = Expectation({}, {"o": exact}, {"o": np.clip(exact, -65504, 65504).astype(np.float16)})
    for large in (np.inf, 65504):
        got = exact.astype(np.float16)
        got[0, 0], got[1, 1] = large, -large
        assert gate.compare(task(), "c", {"o": got}, want).status is Status.CORRECT
    for wrong in (np.nan, -np.inf, 1.0):
        got = exact.astype(np.float16)
        got[0, 0] = wrong
        assert gate.compare(task(), "c", {"o": got}, want).status is Status.WRONG


def test_subnormal_outputs_are_held_to_their_steps():
    exact = expectation().expected["o"] * 2.0**-18
    want = Expectation({}, {"o": exact}, {"o": exact.astype(np.float16)}, "tiny")
    assert gate.compare(task(), "c", {"o": exact.astype(np.float16)}, want).status is Status.CORRECT
    flushed = np.zeros(SHAPE, np.float16)
    assert gate.compare(task(), "c", {"o": flushed}, want).status is Status.WRONG


def test_what_the_inputs_make_uncertain_is_allowed():
    """Differences of equal values: each rounding of the inputs shows, and a kernel may lose a few."""
    zero = np.zeros(SHAPE)
    spread = np.full(SHAPE, 2e-6)
    noise = np.random.default_rng(0).normal(size=SHAPE) * 5e-6
    want = Expectation({}, {"o": zero}, {"o": zero.astype(np.float32)}, "equal", {"o": spread})
    assert gate.compare(task("float32"), "c", {"o": noise.astype(np.float32)}, want).status is Status.CORRECT
    certain = Expectation({}, {"o": zero}, {"o": zero.astype(np.float32)}, "equal")
    assert gate.compare(task("float32"), "c", {"o": noise.astype(np.float32)}, certain).status is Status.WRONG


def test_where_the_trusted_implementation_misses_the_tolerance_the_budgets_decide():
    exact = expectation().expected["o"]
    base = exact + np.random.default_rng(3).normal(size=SHAPE) * 0.02
    want = Expectation({}, {"o": exact}, {"o": base.astype(np.float16)})
    alike = exact + np.random.default_rng(4).normal(size=SHAPE) * 0.02
    assert gate.compare(task(), "c", {"o": alike.astype(np.float16)}, want).status is Status.CORRECT
    worse = exact + np.random.default_rng(4).normal(size=SHAPE) * 0.08
    assert gate.compare(task(), "c", {"o": worse.astype(np.float16)}, want).status is Status.WRONG


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("__device__ float cache[64];", StaticRule.STATE),
        ("static __device__ int calls = 0;", StaticRule.STATE),
        ("  long long t = clock64();", StaticRule.CLOCK),
        ('  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));', StaticRule.CLOCK),
        ('  asm("createpolicy.fractional.L2::evict_last.b64 p, 1.0;");', StaticRule.CACHE_POLICY),
        ("  float* p = (float*)malloc(4);", StaticRule.ALLOCATION),
        ('  printf("%d", i);', StaticRule.PRINT),
        ("  child<<<1, 1>>>(x);", StaticRule.LAUNCH),
    ],
)
def test_banned_constructs_are_named_with_their_line(line, rule):
    text = f"// clock64() in a comment is fine\n__device__ float half_of(float x) {{ return x / 2; }}\n{line}\n"
    problem = gate.static_problem(text)
    assert problem is not None
    assert (problem.line, problem.rule) == (3, rule)


@pytest.mark.parametrize(
    "line",
    [
        "__device__ __forceinline__ float f(float x) { return x; }",
        "__device__ const float TABLE[2] = {1.0f, 2.0f};",
        "__constant__ float TABLE[2] = {1.0f, 2.0f};",
        "template <int N> __device__ void g(float (&a)[N]) { a[0] = 0; }",
        "// printf(clock64())",
    ],
)
def test_ordinary_device_code_is_let_through(line):
    assert gate.static_problem(line + "\n") is None
