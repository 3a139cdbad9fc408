"""Sizes that a source suggests: which they are, and that a kernel that is wrong there alone is found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from long_cases import long
from tiny import FAST

from evo.audit.redteam import task_folder
from evo.device import RunRequest, RunResult
from evo.device.remote_device import RemoteSimulator
from evo.evaluate import gate
from evo.evaluate.before_keep import unverified
from evo.evaluate.gate import (
    QUICK,
    THOROUGH,
    TimedSizes,
    UnmetOutcome,
    all_distributions,
    patterns,
    unmet_outcomes,
)
from evo.evaluate.gate.scaled_cases import longest_cases, scaled_sizes
from evo.evaluate.gate.threshold_cases import AxisSpace, constants, threshold_cases, usual_limits
from evo.evaluate.pipeline import Job, evaluate
from evo.evaluate.prepare import Prepared, PrepareFailure
from evo.evaluate.session import EvaluationSession
from evo.results import Check, Stage, Status
from evo.spec.task import Case, Task, load_task, read_task
from evo.spec.variant import parse_variant, read_variant

ROOT = Path(__file__).resolve().parents[4]
ATTENTION = load_task(ROOT, "attention")


def hunted(bench: EvaluationSession, task: Task, text: str, seed: int = 1, share: float = THOROUGH) -> Check | None:
    prepared = bench.prepare(task, text)
    assert isinstance(prepared, Prepared)
    return bench.hunt(task, prepared, [bench.checker], seed, share=share)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("if (n > 3000) x = 1;", 3000),
        ("if (3000 <= n) x = 1;", 3000),
        ("if (n >> 9) x = 1;", 512),
        ("if (n / 700 > 0) x = 1;", 700),
        ("if (n & 4096) x = 1;", 4096),
        ("x = n > 30 * 50 ? 1 : 2;", 1500),
        ("if (n > 1 << 11) x = 1;", 2048),
        ("#define MANY 999\nif (n > MANY) x = 1;", 999),
        ("constexpr int MANY = 0x3E7;\nif (n > MANY) x = 1;", 999),
        ("#if N > 5000\n#endif", 5000),
    ],
)
def test_what_a_size_is_compared_with_is_found(code: str, expected: int) -> None:
    variant = parse_variant(f"// evo: launch k grid (1) block (32) shared 0\n{code}\n")
    assert expected in constants(variant)[0]


def test_comments_suggest_nothing() -> None:
    variant = parse_variant("// evo: launch k grid (1) block (32) shared 0\n// n > 777\n/* n > 778 */\n")
    assert not {777, 778} & set.union(*constants(variant))


def test_both_sides_and_every_flag_are_tried() -> None:
    text = (ATTENTION.folder / "ladder/10_shared.cu").read_text().replace("causal ?", "causal && queries < 250 ?")
    cases = threshold_cases(ATTENTION, parse_variant(text), 5, usual_limits(ATTENTION, THOROUGH))
    queries = {case.axes["SQ"] for case in cases}
    assert {249, 250, 251} <= queries
    assert {case.axes["CAUSAL"] for case in cases if case.axes["SQ"] >= 250} == {0, 1}
    assert any(case.axes["HQ"] > case.axes["HKV"] for case in cases if case.axes["SQ"] >= 250)
    assert {case.axes["SK"] % 8 for case in cases} >= {0, 1, 4, 7}


def test_each_check_case_is_made_larger_with_its_structure_kept() -> None:
    grouped = next(case for case in ATTENTION.check if case.name == "batched_grouped")
    pool = scaled_sizes(ATTENTION, AxisSpace.of(ATTENTION), [grouped], {"D": 64}, {"SQ": [256]})
    rows = [dict(zip(pool.sizes, map(int, row), strict=True)) for row in zip(*pool.sizes.values(), strict=True)]
    long = [row for row in rows if row["SQ"] >= 256 and (row["B"], row["HQ"], row["HKV"]) == (2, 4, 2)]
    assert {row["CAUSAL"] for row in long} == {0, 1}
    assert any(row["SQ"] == 256 for row in long)
    assert {row["SK"] for row in long} >= {65, 9}  # as it was, and short; as ragged
    assert any(row["SQ"] * row["SK"] > 1 << 17 and row["SK"] % 8 == 1 and row["SQ"] % 8 == 1 for row in long)


@pytest.fixture
def behind_a_size(bench: EvaluationSession) -> tuple[Task, Prepared, int]:
    """A kernel with code for one number of rows alone; the line of that condition."""
    softmax = load_task(ROOT, "softmax")
    first = "    largest = reduce<Largest>"
    plain = (softmax.folder / "ladder/10_block.cu").read_text()
    assert first in plain
    text = plain.replace(first, f"    if (rows == 12345) largest *= 2;\n{first}", 1)
    prepared = bench.prepare(softmax, text)
    assert isinstance(prepared, Prepared)
    return softmax, prepared, 1 + text[: text.index("rows == 12345")].count("\n")


def test_an_outcome_that_no_verified_size_has_is_named(
    bench: EvaluationSession, behind_a_size: tuple[Task, Prepared, int]
) -> None:
    task, prepared, line = behind_a_size

    def at_the_line(ran: Sequence[Case]) -> list[UnmetOutcome]:
        found = unmet_outcomes(task, prepared.variant, prepared.programs, bench.chip, 1, ran)
        return [one for one in found if one.source_line == line]

    (unmet,) = at_the_line(task.bench)
    assert all(case.axes["ROWS"] == 12345 for case in unmet.cases)
    assert at_the_line(unmet.cases[:1]) == []


@pytest.mark.parametrize("seen", [True, False])
def test_code_that_cannot_be_verified_is_refused(
    bench: EvaluationSession, behind_a_size: tuple[Task, Prepared, int], monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    task, prepared, line = behind_a_size
    look = TimedSizes(status=Status.CORRECT, unseen=None if seen else "its blocks take too many instructions")
    monkeypatch.setattr(gate, "timed_sizes", lambda *args, **options: look)
    found, count = unverified(bench, task, prepared, 1, [])
    if seen:
        assert found is None
        assert count >= 1
    else:
        assert found is not None
        assert (found.status, found.stage) == (Status.REFUSED, Stage.THRESHOLD)
        assert found.reason is not None
        assert found.reason.startswith(f"line {line}:")


def test_lengths_up_to_the_largest_are_run_beside_short_ragged_ones() -> None:
    softmax = load_task(ROOT, "softmax")
    cases = list(longest_cases(softmax, usual_limits(softmax, THOROUGH)))
    assert any(case.axes["ROWS"] > 16000 and case.axes["COLS"] % 4 and case.axes["COLS"] > 1 for case in cases)
    assert any(case.axes["COLS"] > 16000 for case in cases)


@pytest.mark.parametrize("name", ["20_groups_forgotten", "20_shifted_square"])
@pytest.mark.long
def test_a_threshold_behind_which_a_structure_is_forgotten_is_found(bench: EvaluationSession, name: str) -> None:
    text = (ROOT / f"evo/audit/redteam/attacks/attention/{name}.cu").read_text()
    for seed in range(3):
        found = hunted(bench, ATTENTION, text, seed)
        assert found is not None
        assert found.status is Status.WRONG


@pytest.mark.long
def test_a_threshold_that_a_loop_computes_is_crossed(bench: EvaluationSession) -> None:
    text = (ROOT / "evo/audit/redteam/attacks/softmax/20_lane_threshold.cu").read_text()
    found = hunted(bench, load_task(ROOT, "softmax"), text)
    assert found is not None
    assert found.status is Status.WRONG


@pytest.mark.parametrize("name", ["attention", "rope", "conv2d", "moe_grouped_matmul", "matmul"])
def test_sizes_go_together_as_in_the_cases_of_the_task(name: str) -> None:
    task = load_task(ROOT, name)
    limits = usual_limits(task, THOROUGH)
    cases = threshold_cases(task, read_variant(task.ladder()[0]), 3, limits)
    assert cases
    listed = [case.axes for case in (*task.check, *task.bench)]
    for case in cases:
        assert case.axes not in listed
        for axis, value in case.axes.items():
            assert min(axes[axis] for axes in listed) <= value <= max(axes[axis] for axes in listed)
        if name == "attention":
            assert case.axes["HQ"] % case.axes["HKV"] == 0
            assert case.axes["D"] in (64, 128)
        if name == "rope":
            assert case.axes["S"] <= case.axes["T"]
            assert case.axes["D"] % 2 == 0
    work = [task.work_of(case)["flop"] + task.work_of(case)["bytes"] for case in cases]
    assert max(work) <= limits.each
    assert sum(work) <= limits.total


def test_another_seed_has_other_cases() -> None:
    task = load_task(ROOT, "softmax")
    variant = read_variant(task.ladder()[0])
    limits = usual_limits(task, QUICK)
    one, same, other = (threshold_cases(task, variant, seed, limits) for seed in (1, 1, 2))
    assert one == same
    assert one != other


_FURTHER = [long(bound) for bound in ("n == 300", "n >> 9", "n / 300", "n - 300 > 0")]


@pytest.mark.parametrize("bound", ["n > 300", "gridDim.x > 3", *_FURTHER])
def test_a_tail_dropped_behind_a_threshold_is_found(bench: EvaluationSession, scale: Task, bound: str) -> None:
    text = FAST.replace("if (i < n)", f"if (i < n && !(({bound}) && i == n - 1 && n % 8))")
    text = text if bound != "n == 300" else text.replace("n % 8", "n % 8 == 4")
    found = hunted(bench, scale, text)
    assert found is not None
    assert found.status is Status.WRONG
    assert "unwritten" in (found.reason or "")


def test_an_honest_kernel_stands(bench: EvaluationSession, scale: Task) -> None:
    for seed in range(2):
        assert hunted(bench, scale, FAST, seed) is None
        assert hunted(bench, scale, FAST, seed, QUICK) is None


def test_an_honest_kernel_with_all_sizes_compiled_in_and_outcomes_that_no_arithmetic_tells_stands(
    bench: EvaluationSession, scale: Task
) -> None:
    text = FAST.replace("// evo: launch", "// evo: macro N\n// evo: launch", 1)
    text = text.replace("if (i < n)", "if (__popc(__ballot_sync(~0u, i < n)) > 0 && i < n)", 1)
    assert "ballot" in text
    assert hunted(bench, scale, text) is None


@pytest.mark.long
def test_of_many_sizes_that_are_compiled_in_some_are_compiled_again(bench: EvaluationSession) -> None:
    task = load_task(ROOT, "layernorm")
    rung = (ROOT / "kernels/layernorm/ladder/10_block.cu").read_text()
    text = rung.replace("// evo: launch", "// evo: macro ROWS\n// evo: macro COLS\n// evo: launch", 1)
    assert len({case.axes["COLS"] for case in task.check}) > 4
    assert hunted(bench, task, text) is None


def test_a_size_that_a_variant_refuses_is_left_alone(bench: EvaluationSession, scale: Task) -> None:
    text = FAST.replace("// evo: launch", "// evo: require N < 300 or N == 131072\n// evo: launch")
    assert hunted(bench, scale, text.replace("if (i < n)", "if (i < n && !(n > 300 && n % 8 && i == n - 1))")) is None


def test_every_distribution_meets_every_case(bench: EvaluationSession) -> None:
    """Which seed it is does not decide."""
    task = load_task(ROOT, "softmax")
    text = (ROOT / "evo/audit/redteam/attacks/softmax/18_lucky_with_maxima.cu").read_text()
    prepared = bench.prepare(task, text)
    assert isinstance(prepared, Prepared)
    reference = bench.reference(task)
    for seed in range(4):
        from evo.evaluate.gate.run_cases import spread_over_cases

        dealt = [name for case, name in spread_over_cases(task, reference, seed) if case.name == "ragged"]
        found = all_distributions(task, prepared.programs, reference, bench.checker, seed)
        assert found is not None or {"large", "outliers"} & set(dealt)


@pytest.mark.parametrize(
    "bound",
    [
        "(float)n * 1.37f > 511.5f",
        long("__clz(n) < 23"),
        "(long long)n * n > 90001ll",
        "__popc(n) > 8",
        "n * 7 % 251 == 12",
        "(n * 5 + 3) / 7 >= 244",
    ],
)
def test_a_threshold_that_no_number_of_the_text_shows_is_found(
    bench: EvaluationSession, scale: Task, bound: str
) -> None:
    text = FAST.replace("if (i < n)", f"if (i < n && !(({bound}) && i == n - 1))")
    found = hunted(bench, scale, text, share=QUICK)
    assert found is not None
    assert found.status is Status.WRONG


def test_a_kernel_that_decides_by_addresses_is_refused(bench: EvaluationSession, scale: Task) -> None:
    for base in ("0x7ull", "0x7full"):
        text = FAST.replace("if (i < n)", f"if (i < n && ((unsigned long long)x >> 40) == {base})")
        found = bench.prepare(scale, text)
        assert isinstance(found, PrepareFailure)
        assert found.stage is Stage.RULES
    aligned = FAST.replace("if (i < n)", "if (i < n && ((unsigned long long)x & 15) == 0)")
    assert isinstance(bench.prepare(scale, aligned), Prepared)


@pytest.mark.parametrize(
    ("name", "pattern", "seed"),
    [
        ("softmax/18_constant_by_prefix", "structured", 3),
        ("rmsnorm/18_two_magic_values", "compared", 3),
        ("gather_rows/18_repeated_ids", "uneven", 3),
    ],
)
def test_inputs_with_a_structure_show_what_drawn_ones_hide(
    bench: EvaluationSession, name: str, pattern: str, seed: int
) -> None:
    task = read_task(task_folder(name.split("/", maxsplit=1)[0], ROOT / "kernels"))
    prepared = bench.prepare(task, (ROOT / f"evo/audit/redteam/attacks/{name}.cu").read_text())
    assert isinstance(prepared, Prepared)
    found = patterns(task, prepared.programs, bench.reference(task), [bench.checker], seed, share=THOROUGH)
    assert found is not None
    assert found.cases[0].inputs == (pattern,)


def test_of_the_largest_numbers_no_more_is_asked_than_the_own_kernel_gives(bench: EvaluationSession) -> None:
    """Their squares overflow in float32, which a reference that computes in float64 does not show."""
    task = read_task(ROOT / "tests/data/foreign/kernels/rmsnorm_thread_rows")
    prepared = bench.prepare(task, (ROOT / "benchmarks/experts/rmsnorm_thread_rows.cu").read_text())
    assert isinstance(prepared, Prepared)
    looked = partial(patterns, task, prepared.programs, bench.reference(task), [bench.checker], 40, share=THOROUGH)
    found = looked()
    assert found is not None
    assert found.cases[0].inputs == ("outermost",)
    assert looked(honest=partial(bench.own_programs, task)) is None


def test_what_was_looked_at_before_a_keep_is_said(bench: EvaluationSession, scale: Task) -> None:
    found = evaluate(Job(task=scale, text=FAST, seed=4, upto="timed"), bench)
    assert found.check is not None
    said = found.check.verified
    assert said is not None
    assert said.outcomes is not None
    assert said.exercised is not None
    assert 0 < said.exercised <= said.outcomes
    assert said.sizes > len(scale.check)
    assert {"drawn", "structured", "shifted"} <= set(said.inputs)
    assert said.large >= len(scale.bench)
    assert found.check.to_json()["verified"]["sizes"] == said.sizes


OFF = "((unsigned long long)x & 15) != 0"
WHOLES = "__all_sync(~0u, {value} == rintf({value}) && fabsf({value}) <= 128)"


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        (f"if ({OFF}) return;", True),  # what a view's first element may be
        long(f"if ({OFF}) {{{{ if (i < n) y[i] = x[i] + x[i]; return; }}}}", False),
        (f"if ({WHOLES}) {{{{ if (i < n) y[i] = 2 * (signed char)(int){{value}}; return; }}}}", True),  # 128 is none
        (f"if ({WHOLES}) {{{{ if (i < n) y[i] = 2 * (short)(int){{value}}; return; }}}}", False),
    ],
)
def test_what_no_address_and_no_drawn_number_shows_is_run(
    line: str, is_wrong: bool, bench: EvaluationSession, scale: Task
) -> None:
    before = line.format(value="(i < n ? x[i] : 0.0f)")
    text = FAST.replace("    if (i", f"    {before}\n    if (i")
    assert text != FAST
    prepared = bench.prepare(scale, text)
    assert isinstance(prepared, Prepared), prepared
    found = bench.hunt(scale, prepared, [bench.checker], 3, share=THOROUGH)
    found = found or patterns(scale, prepared.programs, bench.reference(scale), [bench.checker], 3, share=THOROUGH)
    assert (found is not None) == is_wrong


def test_no_inputs_are_run_twice(bench: EvaluationSession, scale: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patterns that leave a tensor as others do are one run."""
    runs: list[bytes] = []

    def counted(self: RemoteSimulator, request: RunRequest, **limits: float) -> RunResult:
        runs.append(b"".join(array.tobytes() for array in request.inputs.values()))
        return plain(self, request, **limits)

    plain = RemoteSimulator.run
    monkeypatch.setattr(RemoteSimulator, "run", counted)
    prepared = bench.prepare(scale, FAST)
    assert isinstance(prepared, Prepared)
    looked, reference = gate.Looked(), bench.reference(scale)
    for _ in range(2):
        assert patterns(scale, prepared.programs, reference, [bench.checker], 1, share=THOROUGH, looked=looked) is None
    assert len(runs) == len(set(runs))
