"""source: spans are exact, edits touch nothing else, differences are the smallest, types are never wrong."""

from __future__ import annotations

import gc

import pytest

from evo.cuda.source import (
    BinaryExpression,
    Edit,
    Source,
    Span,
    classify,
    kernel_signatures,
    replace,
    syntax_errors,
    tree_difference,
)
from evo.cuda.source import parser as parser_module
from evo.cuda.source.parser import Node, read

TEXT = """\
// evo: knob BM in 16, 32
// evo: flags --use_fast_math
#define BM 16
#define PAD 8
#include <cuda_fp16.h>
__device__ float inv(float x) { return 1.0f / x; }
extern "C" __global__ void __launch_bounds__(128, 2) first(const half* __restrict__ q, float *o, float scale, int n) {
  __shared__ __align__(16) half tile[BM][64 + 8];
  // größer
  float sum = 0.0f;
  #pragma unroll 4
  for (int i = 0; i < BM; ++i) {
    sum += __expf(q[i] * scale) / sum;
    tile[i][0] = q[i / 2];
  }
  for (int j = threadIdx.x; j < n; j += blockDim.x) { o[j] = sum / n; }
}
extern "C" {
__global__ void second(const int *a, int* b) { b[0] = a[0]; }
}
__global__ void hidden(float* o) {}
"""


def test_nothing_of_the_parser_outlives_parsing() -> None:
    source = Source(TEXT)
    assert source.loops
    assert source.statements(source.functions[1])
    views = [
        o for o in gc.get_objects() if str(type(o).__module__).startswith("tree_sitter") and not isinstance(o, type)
    ]
    assert {type(view).__name__ for view in views} <= {"Parser", "Language"}


def test_names_of_the_shortest_expressions_are_found() -> None:
    source = Source("void f(const float* p, float c) { float a = *p; float b = c; float d = -c; }\n")
    values = [s.value for s in source.statements(source.functions[0]) if s.value is not None]
    assert [[name for name, _ in source.names(value)] for value in values] == [["p"], ["c"], ["c"]]
    assert source.renamed(values[0], {"p": "p[i]"}) == "*p[i]"


def test_parameters_without_names_are_counted() -> None:
    text = 'extern "C" __global__ void k(const float*, float* __restrict__ y, int, float (&)[4]) {}\n'
    assert [(p.type, p.name) for p in kernel_signatures(text)["k"]] == [
        ("const float*", ""),
        ("float*", "y"),
        ("int", ""),
        ("float (&)[4]", ""),
    ]
    assert kernel_signatures('extern "C" __global__ void k(void) {}') == {"k": []}


def test_signatures_cover_c_linkage_kernels_only() -> None:
    found = kernel_signatures(TEXT)
    assert {name: [(p.type, p.name) for p in params] for name, params in found.items()} == {
        "first": [("const half*", "q"), ("float*", "o"), ("float", "scale"), ("int", "n")],
        "second": [("const int*", "a"), ("int*", "b")],
    }
    assert found["first"][0].is_restrict
    assert found["first"][0].is_const
    assert not found["first"][1].is_restrict


def test_plain_text_has_no_errors_and_broken_text_says_where() -> None:
    assert syntax_errors(TEXT) == ()
    assert syntax_errors(TEXT.replace("b[0] = a[0];", "b[0] = ;"))[0].line == 19


@pytest.mark.parametrize(
    "edit", [("b[0] = a[0];", "b[0] = ;"), ("float x)", "float x"), ("return", "retur n"), ("#define BM 16", "#define")]
)
def test_errors_are_those_of_the_tree(edit: tuple[str, str]) -> None:
    text = TEXT.replace(*edit, 1)
    assert text != TEXT
    assert syntax_errors(text) == Source(text).problems != ()


def test_a_text_of_too_many_nodes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_module, "MOST_NODES", 50)
    text = TEXT + "// not read before\n"  # parsed texts are remembered
    assert len(syntax_errors(text)) == 1


def test_functions_and_bounds() -> None:
    source = Source(TEXT)
    assert [(f.name, f.is_kernel) for f in source.functions] == [
        ("inv", False),
        ("first", True),
        ("second", True),
        ("hidden", False),
    ]
    first = source.functions[1]
    assert first.bounds is not None
    assert source.slice(first.bounds) == "__launch_bounds__(128, 2)"
    assert source.slice(first.body).startswith("{\n  __shared__")


def test_loops_know_trips_and_pragma() -> None:
    counted, strided = Source(TEXT).loops
    assert (counted.variable, counted.trips, counted.factor, counted.indent) == ("i", 16, "4", "  ")
    assert counted.pragma is not None
    assert Source(TEXT).slice(counted.pragma) == "  #pragma unroll 4\n"
    assert (strided.trips, strided.pragma) == (None, None)


def test_constants_whose_name_is_declared_once_are_numbers() -> None:
    source = Source(
        "constexpr int DIM = 16;\nstatic const unsigned int WAYS = 4;\nconst int SIZE = 3;\nint changed = 2;\n"
        "template <int TILE> __device__ void f(int SIZE) { const int TILE_2 = 5; const int half = TILE / 2; }\n"
        "__global__ void k() { const int twice = 1; { const int twice = 2; } }\n"
    )
    names = ("DIM", "WAYS", "SIZE", "changed", "TILE", "TILE_2", "half", "twice")
    assert [source.integer(name) for name in names] == [16, 4, None, None, None, 5, None, None]


def test_shared_arrays_calls_and_defines() -> None:
    source = Source(TEXT)
    (tile,) = source.shared_arrays
    assert (tile.name, tile.function) == ("tile", "first")
    assert [source.slice(dim) for dim in tile.dims] == ["BM", "64 + 8"]
    assert [(call.name, call.types) for call in source.calls] == [("__expf", (None,))]
    assert [(d.name, d.value, d.line) for d in source.defines] == [("BM", "16", 3), ("PAD", "8", 4)]


def divisions(source: Source) -> list[BinaryExpression]:
    return [binary for binary in source.binaries if binary.operator == "/"]


def test_divisions_have_types() -> None:
    source = Source(TEXT)
    assert [(source.slice(d.span), d.left_type, d.right_type) for d in divisions(source)] == [
        ("1.0f / x", "float", "float"),
        ("__expf(q[i] * scale) / sum", "float", "float"),
        ("i / 2", "int", "int"),
        ("sum / n", "float", "int"),
    ]


@pytest.mark.parametrize(
    ("declaration", "expression", "expected"),
    [
        ("float4 v;", "v.x", "float"),
        ("half h;", "h", "half"),
        ("float a[4];", "a[1]", "float"),
        ("const float* p;", "*p", "float"),
        ("double d;", "d", "double"),
        ("int i;", "(float)i", "float"),
        ("int i;", "static_cast<float>(i)", "float"),
        ("float f; int i;", "f + i", "float"),
        ("float f; double d;", "f * d", "double"),
        ("auto f = g();", "f", None),
        ("float f;", "unknown(f)", None),
        ("float f; { int f; }", "f", None),
        ("float f;", "__shfl_xor_sync(0xffffffff, f, 1)", "float"),
        ("float f;", "fmaxf(f, 1.0f)", "float"),
        ("bool c; float f;", "(c ? f : 1.0f)", "float"),
        ("bool c; float f;", "(c ? f : 1)", None),
        ("unsigned int u;", "u", "int"),
        ("float* p;", "&p[0]", None),
    ],
)
def test_expression_types(declaration: str, expression: str, expected: str | None) -> None:
    (division,) = divisions(Source(f"__device__ void f() {{ {declaration} x = 1 / ({expression}); }}"))
    assert division.right_type == expected


def test_replace_keeps_every_other_byte() -> None:
    source = Source(TEXT)
    spans = [d.span for d in divisions(source)]
    child = source.replace([Edit(span, "Ω") for span in spans])
    rest, at = b"", 0
    for span in spans:
        rest, at = rest + source.data[at : span.start] + "Ω".encode(), span.end
    assert child.encode() == rest + source.data[at:]
    assert replace("ab", [Edit(Span(1, 1), "-")]) == "a-b"
    with pytest.raises(ValueError, match="overlap"):
        source.replace([Edit(Span(0, 5), ""), Edit(Span(4, 6), "")])


def test_pointer_reads_and_writes() -> None:
    source = Source(TEXT)
    first, second = source.functions[1], source.functions[2]
    assert not source.is_written(first, "q")
    assert source.is_written(first, "o")
    assert source.is_written(second, "b")
    passed_on = Source("__device__ void f(float* p) { g(p); h(&p[3]); }")
    assert passed_on.is_written(passed_on.functions[0], "p")


def test_a_walk_holds_what_is_below_a_node_in_text_order() -> None:
    def below(node: Node) -> list[Node]:
        return [node, *(inner for child in node.children for inner in below(child))]

    root = read(TEXT.encode())
    for node in root.walk():
        assert list(node.walk()) == below(node)


def test_deep_text_does_not_break_the_walk() -> None:
    deep = "__device__ float f(float x) { return " + "(" * 3000 + "x" + ")" * 3000 + " / x; }"
    assert divisions(Source(deep))[0].left_type is None


def test_comments_and_blanks_are_no_difference() -> None:
    change = tree_difference(
        TEXT, TEXT.replace("// größer", "/* smaller\n */").replace("  float sum", "    float   sum")
    )
    assert (change.regions, change.lines_added, change.lines_removed) == ((), 0, 0)
    assert classify(change).kind == "none"
    assert not classify(change).is_single


@pytest.mark.parametrize(
    ("before", "after", "kind", "scope"),
    [
        ("#define BM 16", "#define BM 32", "knob", ""),
        ("#define PAD 8", "#define PAD 16", "define", ""),
        ("// evo: flags --use_fast_math\n", "", "flags", ""),
        ("#pragma unroll 4", "#pragma unroll", "pragma", "first"),
        ("__launch_bounds__(128, 2)", "__launch_bounds__(128, 3)", "bounds", "first"),
        ("__launch_bounds__(128, 2)", "", "bounds", "first"),
        ("float *o", "float* __restrict__ o", "signature", "first"),
        ("1.0f / x", "__frcp_rn(x)", "body", "inv"),
        ("__align__(16)", "__align__(32)", "body", "first"),
        ("#include <cuda_fp16.h>", "#include <mma.h>", "include", ""),
    ],
)
def test_one_change_is_classified(before: str, after: str, kind: str, scope: str) -> None:
    change = tree_difference(TEXT, TEXT.replace(before, after))
    verdict = classify(change)
    assert (verdict.kind, verdict.is_single) == (kind, True)
    assert [region.scope for region in change.regions] == [scope] * len(change.regions)
    assert max(change.lines_added, change.lines_removed) == 1


def test_regions_are_small_and_share_their_statement() -> None:
    change = tree_difference(TEXT, TEXT.replace("1.0f / x", "2.0f * (1.0f / (x))"))
    assert change.statements == 1
    assert all(len(region.before) <= 8 for region in change.regions)


def test_two_functions_are_not_one_change() -> None:
    verdict = classify(tree_difference(TEXT, TEXT.replace("1.0f / x", "x").replace("b[0] = a[0]", "b[1] = a[0]")))
    assert not verdict.is_single
    assert verdict.why.startswith("holds 2 changes: (1) line")


def test_two_knobs_are_not_one_change() -> None:
    verdict = classify(tree_difference(TEXT, TEXT.replace("BM 16", "BM 32").replace("PAD 8", "PAD 4")))
    assert not verdict.is_single
