"""Idioms that rules on rows see through: pointers that walk, blocks of two dimensions, several elements a turn."""

from __future__ import annotations

import pytest
from long_cases import long
from rule_children import BY_NAME, built, changed, passes, task_of

from evo.evaluate.session import EvaluationSession
from evo.operators.rules import example_variant
from evo.spec.variant import Variant

ROWS = """\
// evo: launch k grid (ceil_div(B * T, 64)) block (64) shared 0
typedef unsigned int uint;
extern "C" __global__ void k(const float* inp, float* mean, float* out, int B, int T, int C) {{
    uint idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * T) return;
    float m = 0.0f;
{body}    mean[idx] = m;
}}
"""
WALKS = {
    "one pointer that goes back": """\
    const float* p = inp + (size_t)idx * C;
    const float* const end = p + C;
    while (p != end) { m += *p; ++p; }
    m /= C;
    p = inp + (size_t)idx * C;
    float* o = out + (size_t)idx * C;
    while (p < end) *o++ = *p++ - m;
""",
    "several to a line": """\
    const float *p = inp + idx * C, *end = p + C; const float* q = p; float* o = out + idx * C;
    while (p < end) { float v = *p++; m += v; } m /= C;
    while (q != end) { *o = *q - m; ++q; o += 1; }
""",
    "a parameter": """\
    inp += idx * C;
    out += idx * C;
    const float* end = inp + C;
    for (const float* p = inp; p != end; p++) m += *p;
    m /= C;
    while (inp < end) *out++ = *inp++ - m;
""",
    "a type that is found out": """\
    const float* const begin = inp + idx * C;
    const float* const end = begin + C;
    for (auto p = begin; p != end; ++p) m += *p;
    m /= C;
    auto o = out + idx * C;
    for (auto p = begin; p != end; ++p, ++o) *o = *p - m;
""",
    "beside": """\
    int k = idx * C;
    for (int i = 0; i < C; i++) { m += inp[k]; k++; }
    m /= C;
    k -= C;
    for (int i = 0; i < C; i++) { out[k] = inp[k] - m; ++k; }
""",
    "a test at the end": """\
    const float* p = inp + idx * C;
    const float* end = p + C;
    do { m += *p; } while (++p < end);
    m /= C;
    uint left = C;
    p -= C;
    float* o = out + idx * C;
    while (left-- > 0) *o++ = *p++ - m;
""",
    "backwards": """\
    for (int i = C - 1; i >= 0; --i) m += inp[idx * C + i];
    m /= C;
    const float* p = inp + idx * C + C;
    float* o = out + idx * C + C;
    while (p > inp + idx * C) { --p; --o; *o = *p - m; }
""",
    "an index that steps itself": """\
    const float* row = inp + idx * C;
    int i = 0;
    while (i < C) m += row[i++];
    m /= C;
    i = 0;
    while (i < C) { out[idx * C + i] = row[i] - m; i++; }
""",
}
GOES_BACK = WALKS["one pointer that goes back"]


def rows_of(body: str) -> list[Variant]:
    return built("row_lanes", ROWS.format(body=body))


@pytest.mark.parametrize("name", [long(name) if number else name for number, name in enumerate(WALKS)])
def test_pointers_that_walk_are_indices(bench: EvaluationSession, name: str) -> None:
    (child,) = rows_of(WALKS[name])
    assert child.text.count("+= 32") == 2
    assert not any(word in child.text for word in ("while", "++;", "*p", "*o", "end"))
    assert ("(size_t)idx * C" in child.text) == ("(size_t)idx * C" in WALKS[name])
    assert passes(bench, task_of("row_lanes"), child)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("m /= C;", "m /= p - inp;"),  # where the pointer ended
        ("{ m += *p; ++p; }", "{ m += *p; if (m < 0) ++p; ++p; }"),
        ("{ m += *p; ++p; }", "{ m += *p; if (m < 0) break; ++p; }"),
        ("*o++ = *p++ - m", "{ *o = *p++ - m; if (m > 0) ++o; }"),
        ("m /= C;", "m /= C; asm volatile(\"\" : \"+l\"(p));"),
        ("const float* p = inp", "const float* p = out"),  # both point into one tensor, and may meet
        ("*o++ = *p++ - m", "*o++ = *p++ - m, m = o[-1]"),
    ],
)  # fmt: skip
def test_a_pointer_that_something_else_depends_on_walks_on(written: str, otherwise: str) -> None:
    assert rows_of(changed(GOES_BACK, (written, otherwise))) == []


def test_a_comment_swallows_no_code_behind_it() -> None:
    text = " ".join(ROWS.format(body=GOES_BACK).partition("{")[2].split())
    head = ROWS.format(body="").partition("{")[0]
    (child,) = built("row_lanes", f"{head}{{ {text}\n")
    assert not any("//" in line and ";" in line.partition("//")[2] for line in child.text.splitlines())


PLAIN = """\
    const float* x = inp + idx * C;
    for (int i = 0; i < C; i++) m += x[i];
    m /= C;
    for (int i = 0; i < C; i++) out[idx * C + i] = x[i] - m;
"""
FLAT = ROWS.format(body=PLAIN).replace("block (64)", "block (16, 4)")
NUMBERS = {
    "in one line": "uint idx = blockIdx.x * 64 + threadIdx.y * 16 + threadIdx.x;",
    "by its sizes": "uint idx = (blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;",
    "in words": "int x_ = threadIdx.x, y_ = threadIdx.y;\n    const int tid = y_ * blockDim.x + x_;\n"
    "    uint idx = blockIdx.x * (blockDim.x * blockDim.y) + tid;",
    "with other words": "const int tid = threadIdx.x + blockDim.x * threadIdx.y;\n"
    "    const int per_block = blockDim.x * blockDim.y;\n    uint idx = tid + per_block * blockIdx.x;",
}
INDEX = "uint idx = blockIdx.x * blockDim.x + threadIdx.x;"


@pytest.mark.parametrize("name", [long(name) if number else name for number, name in enumerate(NUMBERS)])
def test_a_block_whose_threads_are_counted_through_is_a_row(bench: EvaluationSession, name: str) -> None:
    task = task_of("row_lanes")
    (child,) = built("row_lanes", changed(FLAT, (INDEX, NUMBERS[name])), task)
    assert "(ceil_div(B * T, WARPS)) block (32 * WARPS)" in child.text
    assert "threadIdx.y" not in child.text
    assert passes(bench, task, child)


@pytest.mark.parametrize("changes", [
    ((INDEX, "uint idx = blockIdx.x * 64 + threadIdx.x * 4 + threadIdx.y;"),),  # down the columns of the block
    ((INDEX, "uint idx = blockIdx.x * 64 + threadIdx.y * 16 + (threadIdx.x ^ 1);"),),
    ((INDEX, NUMBERS["in one line"]), ("mean[idx] = m;", "mean[idx] = m + threadIdx.y;")),
    ((INDEX, NUMBERS["in one line"]), ("mean[idx] = m;", "mean[idx] = m + blockDim.x;")),
    ((INDEX, "uint idx = blockIdx.x * 64 + AT;"), ("typedef", "#define AT (threadIdx.y * 16 + threadIdx.x)\ntypedef")),
])  # fmt: skip
def test_a_block_of_two_dimensions_that_is_none_stays(changes: tuple[tuple[str, str], ...]) -> None:
    task = task_of("row_lanes")
    assert built("row_lanes", changed(FLAT, *changes), task) == []


COLUMNS = """\
// evo: launch k grid (ceil_div(C, 128)) block (32, 4) shared 0
extern "C" __global__ void k(const float* x, float* mean, float* centred, int R, int C) {
    const int tid = threadIdx.y * blockDim.x + threadIdx.x;
    const int per_block = blockDim.x * blockDim.y;
    for (int c = blockIdx.x * per_block + tid; c < C; c += gridDim.x * per_block) {
        float sum = 0.0f;
        for (int r = 0; r != R; ++r) sum += x[r * C + c];
        sum /= R;
        for (int r = 0; r != R; ++r) centred[r * C + c] = x[r * C + c] - sum;
        mean[c] = sum;
    }
}
"""


def test_columns_that_such_blocks_walk_over_the_grid_are_shared(bench: EvaluationSession) -> None:
    task = task_of("column_lanes")
    first, *_ = built("column_lanes", COLUMNS, task)
    assert "block (COLUMNS * LANES)" in first.text
    assert not any(word in first.text for word in ("gridDim", "per_block", "tid"))
    assert passes(bench, task, first)


def test_a_step_that_is_no_constant_is_not_known() -> None:
    text = changed(COLUMNS, ("* blockDim.y;\n", "* blockDim.y;\n    per_block *= 2;\n"), ("const int per", "int per"))
    assert built("column_lanes", text) == []


TWICE = PLAIN.replace("i < C; i++) m += x[i];", "i < C - C % 2; i += 2) { m += x[i]; m += x[i + 1]; }").replace(
    "    m /= C;", "    if (C % 2) m += x[C - 1];\n    m /= C;"
)


def test_lanes_share_a_walk_by_several_elements_a_turn(bench: EvaluationSession) -> None:
    """Each statement adds to the same sum: the lanes combine it once."""
    task = task_of("row_lanes")
    for rule, step in (("row_lanes", "2 * 32"), ("row_blocks", "2 * LANES")):
        (child,) = built(rule, ROWS.format(body=TWICE), task)
        assert f"; i += {step})" in child.text
        assert child.text.count("__shfl_xor_sync") == 1
        assert passes(bench, task, child)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("m += x[i + 1];", "m += x[i + 2];"),  # leaves elements out
        ("m += x[i + 1];", "m *= x[i + 1];"),
        ("m += x[i + 1];", "m += x[i + 1] * m;"),
        ("m += x[i]; m", "m += x[i]; out[idx * C + i] = m; m"),  # a sum that is looked at
        ("i += 2", "i += C / 16"),
        ("x[i + 1]", "x[(i + 1) % 3]"),
    ],
)
def test_another_walk_by_several_elements_stays(written: str, otherwise: str) -> None:
    assert rows_of(changed(TWICE, (written, otherwise))) == []


HALVES = PLAIN.replace("m += x[i];", "m += x[i] * inp[idx * (C / 4) + i / 4];")


def test_neighbours_may_share_an_element() -> None:
    (child,) = rows_of(HALVES)
    assert "inp[idx * (C / 4) + i / 4]" in child.text
    assert rows_of(changed(HALVES, ("i / 4]", "4 * i]"))) == []
    assert rows_of(changed(PLAIN, ("out[idx * C + i]", "out[idx * C + i / 2]"))) == []  # who comes last has written


FOUR = """\
    const float* x = inp + idx * C;
    float m_2 = 0.0f, m_3 = 0.0f, m_4 = 0.0f;
    int i = 0;
    for (; i + 3 < C; i += 4) { m += x[i]; m_2 += x[i + 1]; m_3 += x[i + 2]; m_4 += x[i + 3]; }
    for (; i < C; ++i) m += x[i];
    m = (m + m_2 + m_3 + m_4) / C;
    for (int j = 0; j < C; ++j) out[idx * C + j] = x[j] - m;
"""


def test_two_loops_of_one_sum_have_their_own_words_of_shared_memory(bench: EvaluationSession) -> None:
    text = ROWS.format(
        body="""\
    const float* x = inp + idx * C;
    for (int i = 0; i < C / 2; ++i) m += x[i];
    for (int i = C / 2; i < C; ++i) m += x[i];
    m /= C;
    for (int i = 0; i < C; ++i) out[idx * C + i] = x[i] - m;
"""
    )
    task = task_of("row_lanes")
    (child,) = built("row_blocks", text, task)
    assert child.text.count("__shared__ float") == 2
    assert passes(bench, task, child)


@pytest.mark.long
def test_a_loop_over_what_another_left_is_each_lanes_own(bench: EvaluationSession) -> None:
    (child,) = rows_of(FOUR)
    assert child.text.count("+= 32") == 2
    assert child.text.count("__shfl_xor_sync") == 4
    assert passes(bench, task_of("row_lanes"), child)
    (other,) = rows_of(changed(FOUR, ("i + 3 < C", "i + 3 < C / 2")))  # half of the row is no rest
    assert other.text.count("+= 32") == 3
    assert passes(bench, task_of("row_lanes"), other)
    for written, otherwise in (
        ("m_2 + m_3", "m_2 * i + m_3"),
        ("for (; i < C", "i += 1; for (; i < C - i"),
    ):
        assert rows_of(changed(FOUR, (written, otherwise))) == []


SUM = "  float s = 0.0f;\n  for (int i = 0; i < n; ++i) { s += a[i]; s += x; }\n  o[0] = s;\n"


def test_several_additions_to_one_sum_are_one_for_rules_on_statements() -> None:
    """Several accumulators take them all; where the sum is read in between, it stays one."""
    (rule,) = (BY_NAME["accumulators"],)
    first, *_ = rule.applications(example_variant(SUM))
    child = rule.build(example_variant(SUM), first)
    assert child is not None
    assert child.text.count("s_4 += ") == 2
    for otherwise in ("s += a[i]; s *= x;", "s += a[i]; o[i] = s; s += x;", "s += a[i]; s = fmaxf(s, x);"):
        assert not rule.applications(example_variant(changed(SUM, ("s += a[i]; s += x;", otherwise))))


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("m /= C;", "m /= k - idx * C;"),  # what it counted
        ("{ m += inp[k]; k++; }", "{ m += inp[k] * k; k++; }"),
        ("{ m += inp[k]; k++; }", "{ m += inp[k]; if (m > 0) k++; }"),
        ("k -= C;", "k -= C; int* at = &k; *at = 0;"),
    ],
)
def test_an_index_that_is_also_a_number_stays(written: str, otherwise: str) -> None:
    assert rows_of(changed(WALKS["beside"], (written, otherwise))) == []


def test_a_walk_that_a_thread_ends_is_as_long_as_most_are(bench: EvaluationSession) -> None:
    """The first thread's turn is none: what is left of it is not what each lane takes again."""
    text = ROWS.format(body=changed(PLAIN, ("m += x[i];", "m += x[i] * (1.0f / C);"), ("    m /= C;\n", "")))
    ends = changed(text, ("i < C; i++) m", "i <= C - 1 - (int)(idx % 1); i++) m"))
    (child,) = built("row_lanes", ends)
    assert passes(bench, task_of("row_lanes"), child)
    short = changed(text, ("i < C; i++) m", "i <= (int)idx; i++) m"), ("i < C; i++) out", "i <= (int)idx; i++) out"))
    assert len(built("row_lanes", short)) == 1


GRID = changed(
    ROWS.format(body=PLAIN),
    (f"    {INDEX}\n    if (idx >= B * T) return;\n",
     "    for (long long idx = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
     "         idx < B * T; idx += (long long)gridDim.x * blockDim.x) {\n"),
    ("mean[idx] = m;", "mean[idx] = m;\n    }"),
)  # fmt: skip


def test_a_loop_over_the_grid_may_count_in_more_bits(bench: EvaluationSession) -> None:
    (child,) = built("row_lanes", GRID)
    assert "gridDim" not in child.text
    assert passes(bench, task_of("row_lanes"), child)


def test_a_pointer_that_a_header_moves_is_an_index(bench: EvaluationSession) -> None:
    text = changed(
        COLUMNS, ("block (32, 4)", "block (128)"),
        ("    const int tid = threadIdx.y * blockDim.x + threadIdx.x;\n", ""),
        ("    const int per_block = blockDim.x * blockDim.y;\n", ""),
        ("blockIdx.x * per_block + tid", "blockIdx.x * blockDim.x + threadIdx.x"), ("per_block", "blockDim.x"),
        ("for (int r = 0; r != R; ++r) sum += x[r * C + c];",
         "const float* p = x + c;\n        for (int r = 0; r < R; ++r, p += C) sum += *p;"),
    )  # fmt: skip
    first, *_ = built("column_lanes", text, task_of("column_lanes"))
    assert passes(bench, task_of("column_lanes"), first)


STORED = """\
// evo: launch k grid (B * T) block (32) shared 0
extern "C" __global__ void k(const float* inp, float* mean, float* out, int B, int T, int C) {
    const float* x = inp + (size_t)blockIdx.x * C;
    float* o = out + (size_t)blockIdx.x * C;
    float m = 0.0f;
    for (int i = threadIdx.x; i < C; i += 32) {
        o[i] = x[i];
        m += x[i];
    }
    for (int step = 16; step > 0; step /= 2) m += __shfl_xor_sync(0xffffffffu, m, step);
    m /= C;
    for (int i = threadIdx.x; i < C; i += 32) o[i] -= m;
    if (threadIdx.x == 0) mean[blockIdx.x] = m;
}
"""


def test_loops_that_touch_the_same_elements_are_dealt_together(bench: EvaluationSession) -> None:
    """Of two loops, one of which finishes what the other stored: the first alone would be a race."""
    task = task_of("row_lanes")
    found = built("wide_access", STORED, task)
    assert [child.text.count("_wide &&") for child in found] == [2, 2]
    assert [child.text.count("const bool") for child in found] == [1, 1]  # one test for both
    assert passes(bench, task, found[0])


@pytest.mark.parametrize(
    ("written", "otherwise", "alone"),
    [
        ("i += 32) o[i] -= m;", "i += 32) { int at = i ^ 1; if (at < C) o[at] -= m; }", 0),  # not as they were stored
        ("i < C; i += 32) o[i] -= m;", "i <= C - 1; i += 32) o[i] -= m;", 0),  # as many, but who knows
        ("    m /= C;\n", "    m /= C;\n    __syncthreads();\n", 4),
    ],
)
def test_others_are_dealt_alone_behind_a_barrier(written: str, otherwise: str, alone: int) -> None:
    found = built("wide_access", changed(STORED, (written, otherwise)), task_of("row_lanes"))
    assert [child.text.count("_wide &&") for child in found] == [1] * alone


def test_turns_up_to_the_last_one_come_in_wide_pieces(bench: EvaluationSession) -> None:
    text = changed(STORED, ("        o[i] = x[i];\n", ""), ("o[i] -= m", "o[i] = x[i] - m"))
    text = text.replace("i < C; i += 32", "i <= C - 1; i += 32")
    task = task_of("row_lanes")
    first, *_ = built("wide_access", text, task)
    assert "+ 3 <= C - 1;" in first.text
    assert passes(bench, task, first)


def test_what_an_index_begins_with_stays_declared(bench: EvaluationSession) -> None:
    """Where the step of a loop over the grid used it too, and is gone."""
    text = changed(
        GRID,
        ("    for (long long idx = blockIdx.x * (long long)blockDim.x",
         "    const int per = blockDim.x;\n    for (int idx = blockIdx.x * per"),
        ("(long long)gridDim.x * blockDim.x", "gridDim.x * per"),
    )  # fmt: skip
    (child,) = built("row_lanes", text)
    assert passes(bench, task_of("row_lanes"), child)
