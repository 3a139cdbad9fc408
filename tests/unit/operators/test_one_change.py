"""One change, told from the trees: edits from outside that hide, move, rename and respell things."""

from __future__ import annotations

import pytest
from rule_children import changed

from evo.cuda.source import classify, split, syntax_errors, tree_difference
from evo.operators import edit_key
from evo.spec.variant import variant_id

TEXT = """\
// Block softmax.
// evo: knob   THREADS in 64, 128
// evo: knob   ITEMS in 1, 2
// evo: launch softmax grid (ROWS) block (THREADS) shared 0
#include <cuda_fp16.h>
#define THREADS 128
#define ITEMS 2
#define SCALE(v) ((v) * 1.0f)
#define LOAD(i) __half2float(in[i])

__device__ float warp_max(float v) {
    for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
    return v;
}

__device__ float warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

extern "C" __global__ void softmax(const __half* in, __half* out, int rows, int cols) {
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += THREADS) largest = fmaxf(largest, LOAD(i));
    largest = warp_max(largest);
    __syncthreads();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += THREADS) sum += expf(SCALE(LOAD(i)) - largest);
    sum = warp_sum(sum);
    const float inverse = 1.0f / sum;
    // sum *= 1.0f;
    for (int i = threadIdx.x; i < cols; i += THREADS) out[i] = __float2half(expf(SCALE(LOAD(i)) - largest) * inverse);
}
"""
WARP_MAX = TEXT[TEXT.index("__device__ float warp_max") : TEXT.index("__device__ float warp_sum")]
WARP_SUM = TEXT[TEXT.index("__device__ float warp_sum") : TEXT.index('extern "C"')]
KNOBS = ("// evo: knob   THREADS in 64, 128\n", "// evo: knob   ITEMS in 1, 2\n")
MOVED = ("    float largest = -INFINITY;\n", "    __syncthreads();\n")
FASTER = ("1.0f / sum", "__frcp_rn(sum)")
LOOP = "    for (int i = threadIdx.x; i < cols; i += THREADS) "

Edits = tuple[tuple[str, str], ...]


def edited(edits: Edits) -> str:
    text = TEXT
    for before, after in edits:
        text = changed(text, (before, after))
    return text


@pytest.mark.parametrize(
    "edits",
    [
        (("    // sum *= 1.0f;", "    sum *= 1.0f;"),),
        (("    __syncthreads();", "    // __syncthreads();"),),
        (("1.0f / sum;", "1.0f /* / sum */;"),),
        (("    // sum *= 1.0f;", "    // a comment goes on behind this \\"),),
        (("SCALE(v) ((v)", "SCALE (v) ((v)"),),
        ((WARP_MAX + WARP_SUM, WARP_SUM + WARP_MAX),),
        ((MOVED[0], ""), (MOVED[1], MOVED[1] + MOVED[0])),
        (("inverse", "reciprocal"),),
        (("warp_max", "warp_maximum"),),
        (("expf(", "__expf("),),
        (("((v) * 1.0f)", "(v)"),),
        (("SCALE(v) ((v) * 1.0f)", "SCALE(v, f) ((v) * (f))"), ("SCALE(LOAD(i))", "SCALE(LOAD(i), 1.0f)")),
        (("warp_sum(float v)", "warp_sum(float v, int from)"), ("warp_sum(sum)", "warp_sum(sum, 16)")),
        ((KNOBS[0] + KNOBS[1], KNOBS[1] + KNOBS[0]),),
        (("    __syncthreads();", "#if 0\n    __syncthreads();\n#endif"),),
        (("    float sum = 0.0f;", "    const float start = 0.0f;\n    float sum = start;"),),
        (("    float sum = 0.0f;", "    float more = sum_of(cols);\n    float sum = more;"),),
        (("    const float inverse", "    float one = 1.0f;\n    const float inverse"),),
        (("float sum = 0.0f", "const float sum = 1.0f"),),
        ((KNOBS[1], KNOBS[1] + "// evo: require THREADS % 64 == 0\n"), ("= threadIdx.x", "= threadIdx.x % 64")),
        (("    ", "\t"), FASTER),
        (("\n", "\r\n"), FASTER),
    ],
)  # fmt: skip
def test_one_change_however_it_is_spelt(edits: Edits) -> None:
    verdict = classify(tree_difference(TEXT, edited(edits)))
    assert verdict.is_single, verdict.why


@pytest.mark.parametrize(
    ("edits", "count"),
    [
        ((("inverse", "reciprocal"), ("expf(", "__expf(")), 2),
        ((("inverse", "reciprocal"), ("largest", "peak")), 2),
        ((("expf(", "__expf("), ("* inverse", "/ sum")), 2),
        ((("= fmaxf(largest", "= max(largest"), ("__float2half(expf", "__float2half(__expf")), 2),
        ((("__float2half(expf", "__float2half_rn(__expf"),), 2),
        (((LOOP + "largest", f"#pragma unroll 4\n{LOOP}largest"), (LOOP + "sum", f"#pragma unroll 4\n{LOOP}sum")), 2),
        ((("((v) * 1.0f)", "(v)"), ("__half2float(in[i])", "(float)in[i]")), 2),
        ((("    __syncthreads();", "#if 0\n    __syncthreads();\n#endif"), FASTER), 2),
        ((("#include <cuda_fp16.h>", "#include <cuda_fp16.h>\n#include <cuda_bf16.h>"), FASTER), 2),
        ((("THREADS 128", "THREADS 64"), FASTER), 2),
        ((("__half* in", "__half* __restrict__ in"), ("void softmax", "void __launch_bounds__(64) softmax")), 2),
        (((KNOBS[0], KNOBS[0] + "// evo: flags --use_fast_math -ftz=true\n"),), 2),
        (((LOOP + "largest", f"{LOOP.replace('+= THREADS', '+= 64')}largest"), ("half(expf", "half(1.0f * expf")), 2),
        ((("v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d))", "v = (fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d)))"),
          ("v += __shfl_xor_sync(0xffffffffu, v, d)", "v += (__shfl_xor_sync(0xffffffffu, v, d))")), 2),
        ((("1.0f / sum", "(1.0f / sum)"), ("largest = warp_max(largest)", "largest = (warp_max(largest))")), 2),
        ((("const float inverse = 1.0f", "const float one = 1.0f, inverse = one"), ("= -INFINITY", "= -1e30f")), 2),
    ],
)  # fmt: skip
def test_several_changes_and_each_by_itself_is_whole(edits: Edits, count: int) -> None:
    change = tree_difference(TEXT, edited(edits))
    assert not classify(change).is_single
    alone = split(TEXT, change)
    assert len(alone) == count
    for words, text in alone:
        assert classify(tree_difference(TEXT, text)).is_single, words
        assert not syntax_errors(text), words


def test_all_indices_of_a_shared_array_are_one_layout() -> None:
    text = TEXT.replace(
        "    __syncthreads();", "    __shared__ float t[8][64];\n    t[rows][cols] = 1.0f;\n    __syncthreads();"
    )
    text = text.replace("1.0f / sum", "t[cols][rows] / sum")
    moved = text.replace("t[rows][cols]", "t[rows][(cols) ^ (rows & 63)]").replace(
        "[cols][rows]", "[cols][(rows) ^ (cols & 63)]"
    )
    assert classify(tree_difference(text, moved)).is_single
    assert not classify(tree_difference(text, moved.replace("expf(", "__expf("))).is_single


def test_remarks_are_no_change() -> None:
    for after in ("in 1, 2      a remark", "in  1,  2"):
        assert not tree_difference(TEXT, TEXT.replace("in 1, 2", after, 1)).regions


@pytest.mark.parametrize("text", ["a = 1; // b \\\nc();\n", "a = 1; // b \\\r\nc();\n"])
def test_a_comment_that_goes_on_hides_the_next_line(text: str) -> None:
    assert variant_id(text) == variant_id("a = 1;\n")
    assert variant_id(text) != variant_id(text.replace("\\", ""))


def test_an_edit_is_known_again_by_other_names_and_blanks() -> None:
    def key(before: str, after: str) -> str:
        return edit_key(tree_difference(TEXT, TEXT.replace(before, after)), TEXT)

    assert key("1.0f / sum", "__frcp_rn(sum)") == key("1.0f / sum", "__frcp_rn( sum )")
    assert key("sum = 0.0f;", "sum = 0; float e = 0;") == key("sum = 0.0f;", "sum = 0;\n  float  other=0;")
    assert key("1.0f / sum", "__frcp_rn(sum)") != key("1.0f / sum", "__frcp_rz(sum)")
