"""Rules see through kernels that only pass their work on, through other names of types, and through 64-bit indices."""

from __future__ import annotations

import pytest
from rule_children import BY_NAME, DATA, changed, passes

from evo.cuda.source import classify, new_dead_code, tree_difference
from evo.evaluate.session import EvaluationSession
from evo.operators.one_change import clutter
from evo.operators.rules.operator import integers_of
from evo.spec.task import read_task
from evo.spec.variant import Variant, parse_variant

FOREIGN = DATA / "foreign" / "kernels"
GELU = (FOREIGN / "gelu_forward" / "ladder" / "00_stranger.cu").read_text(encoding="utf-8")
ROWS = (FOREIGN / "layernorm_product_guard" / "ladder" / "00_stranger.cu").read_text(encoding="utf-8")


def children(rule: str, task: str, text: str) -> list[Variant]:
    """What a rule makes of a text, each shown to be one change."""
    known, variant = read_task(FOREIGN / task), parse_variant(text)
    found = []
    for place in BY_NAME[rule].applications(variant, flags=known.flags, axes=integers_of(known), task=known):
        child = BY_NAME[rule].build(variant, place)
        assert child is not None
        if place.is_schedule:
            assert clutter(text, child.text) is None
        else:
            assert classify(tree_difference(text, child.text)).is_single
        found.append(child)
    return found


def passed_on(text: str, head: str, call: str) -> str:
    """The kernel's body in a function of its own, which the kernel calls."""
    at = text.index('extern "C"')
    start = text.index("(", at)
    params = text[start : text.index(")", start) + 1]
    own = f"{head}{params}"
    own = own.replace("const float*", "const T*").replace("float*", "T*") if "template" in head else own
    body = text[text.index("{", start) :]
    name = text[at:start]
    return f"{text[:at]}{own} {body}\n{name}{params} {{\n    {call}\n}}\n"


GELU_CALLS = (
    ("__device__ void each", "each(inp, out, N);"),
    ("template <typename T>\n__device__ __forceinline__ void each", "each<float>(inp, out, N);"),
    ("template <class T>\nstatic __device__ void each", "each(inp, out, N);  // T is known by the pointers"),
)


@pytest.mark.parametrize(("head", "call"), GELU_CALLS)
def test_a_kernel_that_passes_its_work_on_is_seen_as_the_function(head: str, call: str) -> None:
    text = passed_on(GELU, head, call)
    first, *_ = children("neighbours", "gelu_forward", text)
    assert (
        first.text.split("__global__")[1] == children("neighbours", "gelu_forward", GELU)[0].text.split("__global__")[1]
    )
    assert new_dead_code(text, first.text) == ()


def test_the_functions_names_become_the_kernels() -> None:
    text = GELU.replace("inp[i]", "x[i]").replace("out[i]", "y[i]")
    text = passed_on(text, "__device__ void each", "each(inp, out, N);").replace(
        "each(const float* inp, float* out", "each(const float* x, float* y"
    )
    assert "inp_pack" in children("neighbours", "gelu_forward", text)[0].text


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("each(inp, out, N); __syncthreads();", id="more than a call"),
        pytest.param("if (N > 3) each(inp, out, N);", id="a test around the call"),
        pytest.param("each(out, out, N);", id="one array twice"),
    ],
)
def test_a_call_that_is_not_the_whole_work_stays(call: str) -> None:
    assert children("coarsen", "gelu_forward", passed_on(GELU, "__device__ void each", call)) == []


@pytest.mark.parametrize(
    ("call", "kind", "declared"),
    [("each(inp, out, N - 1);", "int N", "int N_ = N - 1;"), ("each(inp, out, N);", "short N", "short N_ = N;")],
)
def test_what_a_call_works_out_is_a_variable_of_the_functions_type(call: str, kind: str, declared: str) -> None:
    text = passed_on(GELU, "__device__ void each", call).replace("int N)", f"{kind})", 1)
    first, *_ = children("neighbours", "gelu_forward", text)
    assert declared in first.text
    assert "i < N_" in first.text


@pytest.mark.parametrize("named", ["typedef float real;", "using real = float;"])
def test_another_name_of_a_type_hides_nothing(named: str) -> None:
    text = ROWS.replace('extern "C"', f'{named}\nextern "C"').replace("const float* x =", "const real* x =")
    first, *_ = children("wide_access", "layernorm_product_guard", text)
    assert "const Float4 x_pack" in first.text
    assert named in first.text  # what is written stays


@pytest.mark.parametrize("kind", ["size_t", "const long long", "unsigned int"])
@pytest.mark.parametrize("rule", ["neighbours", "coarsen"])
def test_an_index_may_be_of_any_width(rule: str, kind: str) -> None:
    assert children(rule, "gelu_forward", GELU.replace("int i =", f"{kind} i ="))


def test_a_loop_over_the_grid_may_have_its_variable_in_front() -> None:
    text = GELU.replace("    if (i < N) {", "    for (; i < N; i += gridDim.x * blockDim.x) {")
    assert children("wide_access", "gelu_forward", text)


WALK = "for (; idx < B * T; idx += gridDim.x * blockDim.x) {"
WALKS = (
    (("    if (idx < B * T) {", f"    {WALK}"), ("grid (ceil_div(B * T, 256))", "grid (64)")),
    (
        ("    int idx = blockIdx.x * blockDim.x + threadIdx.x;\n", ""),
        (
            "    if (idx < B * T) {",
            "    for (int idx = blockIdx.x * blockDim.x + threadIdx.x; idx < B * T; idx += blockDim.x * gridDim.x) {",
        ),
    ),
)


@pytest.mark.parametrize("changes", WALKS)
def test_rows_that_the_grid_walks_are_rows_of_threads(changes: tuple[tuple[str, str], ...]) -> None:
    text = changed(ROWS, *changes)
    first, *_ = children("row_lanes", "layernorm_product_guard", text)
    assert first.launches[0].grid[0].text == "ceil_div(B * T, WARPS)"
    assert "gridDim" not in first.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        pytest.param("idx += gridDim.x * blockDim.x", "idx += 2 * gridDim.x * blockDim.x", id="every other row"),
        pytest.param("        mean[b * T + t] = m;", "        mean[b * T + t] = m; if (m > 3) break;", id="an end"),
        pytest.param("idx < B * T;", "idx < B * T - eps;", id="no number of axes"),
    ],
)
def test_a_walk_of_another_kind_stays(written: str, otherwise: str) -> None:
    text = ROWS.replace("    if (idx < B * T) {", f"    {WALK}").replace(written, otherwise)
    assert otherwise in text
    assert children("row_lanes", "layernorm_product_guard", text) == []


ARGMAX = (FOREIGN / "argmax_rows" / "ladder" / "00_stranger.cu").read_text(encoding="utf-8")
BOTH = "if (v > best) { best = v; at = c; }"


def test_one_comparison_written_twice_is_one() -> None:
    twice = ARGMAX.replace(BOTH, "at = v > best ? c : at;\n            best = v > best ? v : best;")
    assert children("row_lanes", "argmax_rows", twice)
    after = ARGMAX.replace(BOTH, "best = v > best ? v : best;\n            at = v > best ? c : at;")
    assert children("row_lanes", "argmax_rows", after) == []  # the second asks about what the first has changed


PAIRS = (FOREIGN / "pairwise_distance" / "ladder" / "00_stranger.cu").read_text(encoding="utf-8")
TERM = "float t = x[i * D + k] - y[j * D + k];"
LOOP = "for (int k = 0; k < D; ++k) {"
PRODUCTS = {
    "a head that moves two": (
        (LOOP, "for (int a = i * D, b = j * D, end = a + D; a < end; ++a, b++) {"),
        (TERM, "float t = x[a] - y[b];"),
    ),
    "a head that moves another by twos": (
        (LOOP, "for (int k = 0, b = j * D * 2; k < D; ++k, b += 2) {"),
        ("y[j * D + k]", "y[b / 2]"),
    ),
    "a power": (("s += t * t;", "s += powf(t, 2.0f);"),),
    "both tests at once": (("i < N && j < M", "i < N & j < M"),),
}


@pytest.mark.parametrize("idiom", PRODUCTS)
def test_a_product_is_one_in_other_words(bench: EvaluationSession, idiom: str) -> None:
    child, *_ = children("tile_product", "pairwise_distance", changed(PAIRS, *PRODUCTS[idiom]))
    assert passes(bench, read_task(FOREIGN / "pairwise_distance"), child)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("for (int k = 0, b = j * D; k < D; ++k, b += 2) {", TERM),  # every other element of one
        ("for (int k = 0, b = j * D; k < D; ++k, ++b) {", "b += k;"),
        ("for (int k = 0, b = j * D; k < D && b < 7; ++k, ++b) {", TERM),
        ("for (int k = 0, b = j * D; k < D; k += 2, ++b) {", TERM),
    ],
)
def test_heads_that_move_several_in_another_way_are_no_product(head: str, body: str) -> None:
    text = changed(PAIRS, (LOOP, f"{head}\n            {body if body != TERM else ''}"), ("y[j * D + k]", "y[b]"))
    assert children("tile_product", "pairwise_distance", text) == []
