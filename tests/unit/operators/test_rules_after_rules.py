"""Rules on what other rules wrote: a gain kept first must not put the next one out of reach."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_children import BY_NAME, changed, passes
from tiny import evo

from evo.cuda.source import parse
from evo.evaluate.session import EvaluationSession
from evo.operators.rules.operator import integers_of
from evo.spec.task import Task, load_task
from evo.spec.variant import Variant, parse_variant, read_variant

REPOSITORY = Path(__file__).parents[3]
FOREIGN = REPOSITORY / "tests" / "data" / "foreign"
MATMUL = load_task(REPOSITORY, "matmul")
SCALAR = parse_variant((MATMUL.folder / "ladder" / "00_scalar.cu").read_text(encoding="utf-8"))


def after(variant: Variant, name: str, words: str = "", task: Task = MATMUL) -> Variant:
    """The child that a rule makes at its first place whose summary holds the words."""
    rule = BY_NAME[name]
    places = rule.applications(variant, flags=task.flags, axes=integers_of(task), task=None if task is MATMUL else task)
    place = next(place for place in places if words in place.summary)
    child = rule.build(variant, place)
    assert child is not None
    return child


def offers(variant: Variant, name: str, task: Task = MATMUL) -> list[str]:
    rule = BY_NAME[name]
    known = None if task is MATMUL else task
    places = rule.applications(variant, flags=task.flags, axes=integers_of(task), task=known)
    return [place.summary for place in places]


@pytest.mark.parametrize("index", ["row", "col"])
@pytest.mark.parametrize("chain", [["wide_access"], ["compile_in"], ["wide_access", "compile_in"]])
def test_outputs_are_gathered_after_wide_loads_and_known_sizes(chain: list[str], index: str) -> None:
    variant = SCALAR
    for name in chain:
        variant = after(variant, name)
    child = after(variant, "coarsen", f"4 outputs per thread along {index}")
    both = after(child, "coarsen", f"2 outputs per thread along {'col' if index == 'row' else 'row'}")
    assert "ROW_REPEAT" in both.text
    assert "COL_REPEAT" in both.text


def test_outputs_of_two_axes_have_a_pointer_each(bench: EvaluationSession) -> None:
    """Which of them an output reads through is its own; only what they point at is stored for outputs that exist."""
    pointed = changed(
        SCALAR.text,
        ("    float sum = 0.0f;", "    const __half* left = a + (long long)row * k;\n    float sum = 0.0f;"),
        ("a[(long long)row * k + i]", "left[i]"),
        ("    c[(long long)row * n + col] =", "    __half* to = c + (long long)row * n + col;\n    to[0] ="),
    )
    both = after(
        after(parse_variant(pointed), "coarsen", "4 outputs per thread along row"),
        "coarsen",
        "2 outputs per thread along col",
    )
    assert "left[r_2]" not in both.text  # of a row alone
    assert "__half* to[COL_REPEAT][ROW_REPEAT];" in both.text
    assert passes(bench, MATMUL, both)


def test_all_outputs_of_a_thread_take_the_wide_loop_or_none() -> None:
    child = after(after(SCALAR, "wide_access"), "coarsen", "4 outputs per thread along row")
    assert "bool i_wide = true;" in child.text
    assert (
        "i_wide = i_wide && reinterpret_cast<unsigned long long>(&a[(long long)row_at[r] * k]) % 16 == 0;" in child.text
    )


def test_blocks_share_a_sum_whose_sizes_are_known() -> None:
    assert offers(after(SCALAR, "compile_in"), "split_k") == offers(SCALAR, "split_k") != []
    moved = after(SCALAR, "compile_in").text.replace("    int n = N;\n", "    int n = N;\n    n += 0;\n")
    assert not offers(parse_variant(moved), "split_k")


def test_what_a_wide_loop_leaves_is_not_widened_again() -> None:
    assert offers(SCALAR, "wide_access")
    assert not offers(after(SCALAR, "wide_access"), "wide_access")


@pytest.mark.long
def test_a_chain_of_rules_stays_correct(tmp_path: Path) -> None:
    child = after(after(after(SCALAR, "wide_access"), "compile_in"), "coarsen", "4 outputs per thread along row")
    path = tmp_path / "chain.cu"
    path.write_text(after(child, "coarsen", "2 outputs per thread along col").text, encoding="utf-8")
    ran = evo("check", path, "--device", "sim:l4", cwd=REPOSITORY)
    assert ran.code == 0, ran.out + ran.err


def test_the_kernel_that_adds_up_parts_is_not_split_again() -> None:
    """Every kernel would be given the parts of its parts, as launch lines name no arguments."""
    assert offers(SCALAR, "split_k")
    assert offers(after(SCALAR, "split_k"), "split_k") == []


def test_what_a_block_added_up_is_added_up_once() -> None:
    task = load_task(FOREIGN, "histogram256")
    child = after(read_variant(task.ladder()[0]), "private_copy", task=task)
    assert offers(child, "private_copy", task) == []


def test_a_copy_for_a_block_is_named_apart_from_what_the_kernel_declares() -> None:
    task = load_task(FOREIGN, "histogram256")
    variant = read_variant(task.ladder()[0])
    body = variant.text.index("{", variant.text.index("__global__")) + 1
    named = parse_variant(f"{variant.text[:body]}\n    int own = 0, own_ = own;\n    (void)own_;{variant.text[body:]}")
    assert "own__[" in after(named, "private_copy", task=task).text


def test_a_tile_behind_blocks_in_groups_calls_axes_as_the_kernel_does() -> None:
    task = load_task(FOREIGN, "heat_stencil")
    grouped = after(read_variant(task.ladder()[0]), "raster", task=task)
    child = after(grouped, "tile_halo", task=task)
    source = parse(child.text)
    used = {name for name, _ in source.names(source.functions[0].body)}
    assert "height" in used
    assert not used & {"H", "W"}


def test_lanes_that_look_for_the_best_element_load_in_wide_pieces() -> None:
    task = load_task(FOREIGN, "argmax_rows")
    shared = after(read_variant(task.ladder()[0]), "row_lanes", task=task)
    assert any("4 elements per access to x" in words for words in offers(shared, "wide_access", task))
    tested = "(theirs == best && their_other < at)"
    assert tested in shared.text
    kept_first = parse_variant(shared.text.replace(f" || {tested}", ""))  # of equal ones, whichever lane has it
    assert offers(kept_first, "wide_access", task) == []


@pytest.mark.parametrize(
    ("statement", "arrays"),
    [
        ("sum += a[row * n + j] * x[j];", "a, x"),
        ("sum = fmaf(a[static_cast<size_t>(row) * n + j], x[j], sum);", "a, x"),
        ("sum = sum + a[row * n + j] * x[j];", "a, x"),
        ("sum = sum + a[row * n + j] > x[j];", None),
        ("sum = fmaf(sum, x[j], a[row * n + j]);", None),
        ("sum = a[row * n + j] + x[j];", None),
        ("sum += a[row * n + j]; x_last = sum * x[j];", None),
    ],
)
def test_lanes_that_add_up_load_in_wide_pieces_however_the_sum_is_written(statement: str, arrays: str | None) -> None:
    variant = parse_variant(
        "// evo: task matmul\n// evo: launch mv grid (M) block (32) shared 0\n"
        'extern "C" __global__ void mv(const float* a, const float* x, float* y, int n) {\n'
        "    const int lane = threadIdx.x % 32;\n    int row = blockIdx.x;\n    float sum = 0.0f, x_last = 0.0f;\n"
        f"    for (int j = lane; j < n; j += 32) {{\n        {statement}\n    }}\n"
        "    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);\n"
        "    if (lane == 0) y[row] = sum + x_last;\n}\n"
    )
    found = [words.rpartition(" to ")[2] for words in offers(variant, "wide_access")]
    assert set(found) == ({arrays} if arrays else set())


def test_what_a_test_guards_is_loaded_in_wide_pieces_if_the_test_reads_it_too() -> None:
    head = (
        "// evo: task matmul\n// evo: launch most grid (M) block (32) shared 0\n"
        'extern "C" __global__ void most(const float* a, const float* b, float* y, int n) {\n    float best = 0.0f;\n'
    )
    loop = (
        "    for (int j = 0; j < n; ++j) {\n        if (a[j] > best) best = a[j];\n    }\n"
        "    y[blockIdx.x] = best;\n}\n"
    )
    assert offers(parse_variant(head + loop), "wide_access")
    assert offers(parse_variant(head + loop.replace("best = a", "best = b")), "wide_access") == []


STRIDED = """// evo: task matmul
// evo: launch k grid (1) block (128)
extern "C" __global__ void k(const float* a, float* o, int n) {
    float own[4];
    for (int i = 0; i < 4; ++i) own[i] = a[4 * threadIdx.x + i];
    float s = own[0];
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += a[i];
    o[threadIdx.x] = s;
}
"""


@pytest.mark.parametrize("words", ["loop over i (line 5)", "loop over i (line 7)"])
def test_what_a_wide_loop_leaves_is_not_worked_on(words: str) -> None:
    """Neither the turns behind it nor those of addresses that are not aligned."""
    parent = parse_variant(STRIDED)
    child = after(parent, "wide_access", words)
    for name in ("wide_access", "accumulators"):
        assert len(offers(child, name)) == len([each for each in offers(parent, name) if words not in each])


def test_an_array_of_pointers_is_no_row_of_elements() -> None:
    pointers = "    const float* p[4];\n    for (int c = 0; c < 4; ++c) p[c] = &a[c * n];\n"
    parent = parse_variant(STRIDED.replace("    float own[4];\n", f"    float own[4];\n{pointers}"))
    lines = {each.partition("(line ")[2].partition(")")[0] for each in offers(parent, "wide_access")}
    assert lines == {"7", "9"}
