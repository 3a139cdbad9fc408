"""Macros, functions, endless loops, sums in several variables and running means: rules see what they stand for."""

from __future__ import annotations

import pytest
from rule_children import DATA, built, changed, example, passes

from evo.cuda.source import parse
from evo.evaluate.session import EvaluationSession
from evo.operators.rules.operator import integers_of
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.written_out import written_out
from evo.spec.task import Task, read_task
from evo.spec.variant import parse_variant

DATA = DATA / "rules"
HEAD = """\
// evo: launch k grid (ceil_div(B * T, 64)) block (64) shared 0
{top}extern "C" __global__ void k(const float* inp, float* mean, float* out, int B, int T, int C) {{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * T) return;
    const float* x = inp + (size_t)idx * C;
    float m = 0.0f;
{body}    mean[idx] = m;
}}
"""
REST = "    m /= C;\n    for (int i = 0; i < C; i++) out[idx * C + i] = x[i] - m;\n"
FOUR = "float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};"
LOOPS = {
    "a break in front": "int i = 0; while (true) { if (i >= C) break; m += x[i]; ++i; }",
    "no test": "for (int i = 0;; ++i) { if (!(i < C)) { break; } m += x[i]; }",
    "a break at the end": "int i = 0; for (;;) { m += x[i]; if (++i == C) break; }",
    "a break before the end": "int most = C + 5; for (int i = 0; i < most; ++i) { if (i >= C) break; m += x[i]; }",
    "otherwise a break": "int i = 0; while (1) { if (i < C) { m += x[i]; i++; } else break; }",
    "four sums": f"{FOUR} int i = 0; for (; i + 3 < C; i += 4) for (int u = 0; u < 4; ++u) acc[u] += x[i + u];\n"
    "    for (; i < C; ++i) acc[0] += x[i];\n    m = (acc[0] + acc[1]) + (acc[2] + acc[3]);",
    "sums by remainder": f"{FOUR} for (int i = 0; i < C; ++i) acc[i & 3] += x[i];\n"
    "    for (int u = 0; u < 4; ++u) m += acc[u];",
    "two variables": "for (int i = 0, n = C;; ++i) { if (i >= n) break; m += x[i]; }",
    "cleared one by one": "float acc[2]; acc[0] = 0.0f; acc[1] = 0.0f;\n"
    "    for (int i = 0; i < C; ++i) acc[i % 2] += x[i];\n    m = acc[0] + acc[1];",
    "two sums": "float a = 0.0f, b = 0.0f; int i = 0;\n"
    "    for (; i + 1 < C; i += 2) { a += x[i]; b = fmaf(x[i + 1], 1.0f, b); }\n"
    "    if (i < C) a += x[i];\n    m = a + b;",
}  # fmt: skip
CALLS = {
    "a sum": ("float sum_of(const float* p, int n) { float s = 0.0f; for (int i = 0; i < n; ++i) s += p[i];"
              " return s; }",
              "m = sum_of(x, C);"),
    "by reference": ("void add(const float* p, int n, float& s) { for (int i = 0; i < n; ++i) s += p[i]; }",
                     "add(x, C, m);"),
    "by address": ("void add(const float* p, const float* end, float* s) { while (p != end) *s += *p++; }",
                   "add(x, x + C, &m);"),
    "a pointer that it moves": ("float next(const float*& p) { return *p++; }",
                                "const float* p = x; for (int i = 0; i < C; ++i) m += next(p);"),
    "an early return": ("float at(const float* p, int i, int n) { if (i >= n) return 0.0f; float v = p[i]; return v; }",
                        "for (int i = 0; i < C; ++i) m += at(x, i, C);"),
}  # fmt: skip
ROW = """\
struct Row {
    const float* values;
    int n, unused;
    __device__ float at(int i) const { return values[i]; }
    __device__ float operator()(int i) const { return at(i); }
    __device__ float sum() const {
        float total = 0.0f;
        for (int i = 0; i < n; ++i) total += at(i);
        return total;
    }
    __device__ void add(float& to, int i) { to += values[i]; }
};
"""
METHODS = {
    "a loop": "Row r = {x, C}; m = r.sum();",
    "an operator": "const Row r{x, C, 0}; for (int i = 0; i < r.n; ++i) m += r(i);",
    "two structs": "Row r = {x, C}, other = {x, C}; for (int i = 0; i < r.n; ++i) m += 0.5f * (r.at(i) + other(i));",
    "by reference": "Row r = {x, C}; for (int i = 0; i < C; ++i) r.add(m, i);",
}  # fmt: skip
MACROS = {
    "a loop": ("#define EACH(i, n) for (int i = 0; i < (n); ++i)\n", "EACH(i, C) m += x[i];"),
    "an element": ("#define AT(p, r, c) (p)[(size_t)(r) * C + (c)]\n",
                   "for (int i = 0; i < C; ++i) m += AT(inp, idx, i);"),
    "a statement": ("#define ADD(i) do { m += x[i]; } while (0)\n", "for (int i = 0; i < C; ++i) ADD(i);"),
    "a pointer inside": ("#define ADD(o) s##o += p[i + o]\n",
                         "const float* p = x; float s0 = 0.0f, s1 = 0.0f; int i = 0;\n"
                         "    for (; i + 1 < C; i += 2) { ADD(0); ADD(1); }\n    while (i < C) { s0 += p[i]; i++; }\n"
                         "    m = s0 + s1;"),
    "half a block": ("#define BEGIN for (int i = 0; i < C; ++i) {\n#define END }\n", "BEGIN m += x[i]; END"),
}  # fmt: skip
WELFORD = {
    "by the turn": "float q = 0.0f;\n    for (int i = 0; i < C; ++i) {"
    " float d = x[i] - m; m += d / (i + 1); q += d * (x[i] - m); }",
    "by a count": "float q = 0.0f; int n = 0; for (int i = 0; i < C; ++i) { float v = x[i]; n++; float d = v - m;\n"
    "        m += d / n; q += d * (v - m); }",
    "by a float": "float q = 0.0f, n = 0.0f; for (int i = 0; i < C; ++i) { float v = x[i]; n += 1.0f;\n"
    "        float d = v - m;\n"
    "        m += d * (1.0f / n); q += d * (v - m); }",
}  # fmt: skip
KERNELS = {
    **{name: HEAD.format(top="", body=f"    {body}\n{REST}") for name, body in LOOPS.items()},
    **{n: HEAD.format(top=f"__device__ {top}\n", body=f"    {body}\n{REST}") for n, (top, body) in CALLS.items()},
    **{f"macro: {n}": HEAD.format(top=top, body=f"    {body}\n{REST}") for n, (top, body) in MACROS.items()},
    **{f"method: {n}": HEAD.format(top=ROW, body=f"    {body}\n{REST}") for n, body in METHODS.items()},
    **{
        f"mean {n}": HEAD.format(top="", body=f"    {body}\n    out[idx * C] = q;\n").replace(
            "    out[idx * C] = q;\n", "    for (int i = 0; i < C; i++) out[idx * C + i] = x[i] - m + 0.0f * q;\n"
        )
        for n, body in WELFORD.items()
    },
}


@pytest.fixture(scope="module")
def task() -> Task:
    return read_task(DATA / "row_lanes")


def view(text: str, task: Task) -> str:
    """The text with everything written out."""
    variant = parse_variant(text)
    ctx = RuleContext(variant=variant, source=parse(text), axes=integers_of(task), task=task)
    return ctx.source.replace(written_out(ctx))


@pytest.mark.parametrize("name", KERNELS)
def test_lanes_share_what_is_written_out(task: Task, name: str) -> None:
    (child,) = built("row_lanes", KERNELS[name], task)
    assert "__shfl_xor_sync" in child.text


@pytest.mark.parametrize("name", ["macro: a pointer inside", "method: two structs"])  # the long suite has all of them
def test_what_is_written_out_is_right(bench: EvaluationSession, task: Task, name: str) -> None:
    (child,) = built("row_lanes", KERNELS[name], task)
    assert passes(bench, task, child)


@pytest.mark.long
@pytest.mark.parametrize("rule", ["row_lanes", "row_blocks", "wide_access", "accumulators", "neighbours"])
@pytest.mark.parametrize("name", KERNELS)
def test_every_child_of_what_is_written_out_is_right(
    bench: EvaluationSession, task: Task, name: str, rule: str
) -> None:
    for child in built(rule, KERNELS[name], task)[:2]:
        assert passes(bench, task, child), child.text


@pytest.mark.parametrize(
    ("name", "written", "otherwise"),
    [
        ("a break in front", "if (i >= C) break;", "if (x[i] < 0.0f) break;"),  # the turns depend on data
        ("a break in front", "if (i >= C) break; m += x[i];", "m += x[i]; if (m < 0) break; if (i >= C - 1) break;"),
        ("four sums", "m = (acc[0] + acc[1])", "m = acc[0] * 2.0f + (acc[0] + acc[1])"),
        ("four sums", "(acc[2] + acc[3])", "(acc[2] + acc[2])"),
        ("sums by remainder", "acc[i & 3] += x[i];", "{ acc[i & 3] += x[i]; if (acc[0] > 9.0f) acc[1] = 0.5f; }"),
        ("a sum", "s += p[i];", "{ if (p[i] < 0.0f) return s; s += p[i]; }"),
        ("mean by a count", "n++;", "n += 2;"),
        ("mean by the turn", "m += d / (i + 1)", "m += d / (i + 2)"),
        ("mean by the turn", "d * (x[i] - m)", "d * m"),
        ("method: a loop", "total += at(i);", "{ total += at(i); if (total < 0.0f) return total; }"),
    ],
)
def test_what_is_another_thing_is_not_shared_out(task: Task, name: str, written: str, otherwise: str) -> None:
    assert built("row_lanes", changed(KERNELS[name], (written, otherwise)), task) == []


def test_a_comparison_of_floats_is_negated_as_a_whole(task: Task) -> None:
    text = HEAD.format(top="", body=f"    while (true) {{ if (m >= x[0]) break; m += x[1]; }}\n{REST}")
    assert "while (!(m >= x[0]))" in view(text, task)


def test_a_number_behind_a_macro_stays_a_knob(task: Task) -> None:
    top = "// evo: knob STEP in 1, 2\n#define STEP 1\n#define EACH(i) for (int i = 0; i < C; i += STEP)\n"
    assert "i += STEP) m += x[i];" in view(HEAD.format(top=top, body=f"    EACH(i) m += x[i];\n{REST}"), task)


def test_a_macro_that_the_compiler_decides_stays(task: Task) -> None:
    top = "#ifdef WIDE\n#define ADD(i) m += 2.0f * x[i]\n#else\n#define ADD(i) m += x[i]\n#endif\n"
    assert "ADD(i);" in view(HEAD.format(top=top, body=f"    for (int i = 0; i < C; ++i) ADD(i);\n{REST}"), task)


def test_an_argument_that_steps_stays_where_it_is(task: Task) -> None:
    top = "__device__ float twice(float v) { float w = v + v; return w; }\n"
    text = HEAD.format(top=top, body=f"    int i = 0; while (i < C) m += twice(x[i++]);\n{REST}")
    assert "m += twice(x[i++]);" in view(text, task)


def test_names_that_clash_are_told_apart(task: Task) -> None:
    top = "__device__ float sum_of(const float* p, int n) { float m = 0.0f; for (int i = 0; i < n; ++i) m += p[i];"
    top += " return m; }\n"
    body = f"    float a = sum_of(x, C); m = sum_of(x, C - 1) + a * 0.0f + x[C - 1];\n{REST}"
    assert "float m_2 = 0.0f;" in view(HEAD.format(top=top, body=body), task)


BLOCK = example("warp_sums")


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("atomicAdd(&total, v * v);", "if (threadIdx.x == 0) atomicAdd(&total, v * v);"),
        ("atomicAdd(&total, v * v);", "y[0] = atomicAdd(&total, v * v);"),
        ("atomicAdd(&total, v * v);", "atomicAdd(&total, v * v); if (total > 9.0f) v = 0.0f;"),
        ("block (256)", "block (48)"),
        ("    if (threadIdx.x == 0) total = 0.0f;", "    if (threadIdx.x >= R) return;\n    total = 0.0f;"),
    ],
)
def test_atomics_that_are_no_sum_of_all_threads_stay(written: str, otherwise: str) -> None:
    text = changed(BLOCK, (written, otherwise))
    assert built("warp_sums", text, read_task(DATA / "warp_sums")) == []


def test_sums_of_a_block_by_atomics_are_right(bench: EvaluationSession) -> None:
    task = read_task(DATA / "warp_sums")
    loop = "for (int first = 0; first < C; first += blockDim.x) {\n"
    loop += "        int c = first + threadIdx.x;\n        if (c < C) {"
    text = BLOCK.replace("for (int c = threadIdx.x; c < C; c += blockDim.x) {", loop, 1)
    text = text.replace("atomicAdd(&total, v * v);\n", "atomicAdd(&total, v * v);\n        }\n")
    (child,) = built("warp_sums", text, task)
    assert passes(bench, task, child)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("struct Row {", "template <int N> struct Row {"),
        ("{ return values[i]; }", "{ return this->values[i]; }"),
        ("int n, unused;", "int n, unused;\n    __device__ float operator[](int i) const { return values[i]; }"),
        ("int n, unused;", "int n, unused;\n    __device__ Row(const float* p, int k) : values(p), n(k), unused(0) {}"),
        ("Row r = {x, C};", "Row r = {x, C}; Row* p = &r; m = p->at(0) - x[0];"),
    ],
)
def test_a_struct_that_is_more_than_its_fields_stays(task: Task, written: str, otherwise: str) -> None:
    text = changed(KERNELS["method: a loop"], (written, otherwise))
    assert "Row" in view(text, task).partition("extern")[2]


def test_what_a_child_declares_stands_in_front_of_a_struct(task: Task) -> None:
    """Not within it, where its first method is."""
    for child in built("wide_access", KERNELS["method: a loop"], task):
        assert child.text.index("struct alignas") < child.text.index("struct Row")
