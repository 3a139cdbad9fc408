"""Every rule against its own examples, then what must hold for all of them on a realistic kernel."""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from rule_children import BY_NAME, TASKS, example
from task_folders import bare_task

from evo.cuda.compile import Binary, Cache, compile_source
from evo.cuda.source import classify, kernel_signatures, parse, syntax_errors, tree_difference
from evo.errors import UsageError
from evo.operators import RULES, Context, Rule, operator_docs, operators
from evo.operators.rules import Application, Example, RuleOperator, example_variant, families, rule_operators
from evo.operators.rules.operator import integers_of
from evo.spec.task import Task, read_task
from evo.spec.variant import Variant, parse_variant, read_variant

KERNEL = """\
// A small attention row: ünïcode in the header.
// evo: knob BLOCK in 32, 64, 128
// evo: knob PAD in 0, 8
// evo: flags -ftz=true
// evo: launch row grid (B) block (BLOCK) shared 0
#include <cuda_fp16.h>
#define BLOCK 64
#define PAD 0
#define TWICE(x) ((x) / 2.0f + expf(x))

__device__ float reduce(float v) {
  for (int m = 16; m > 0; m /= 2) v += __shfl_xor_sync(0xffffffffu, v, m);
  return v;
}

extern "C" __global__ void row(const half* q, float* o, float scale, int n) {
  __shared__ half tile[BLOCK][64];
  __shared__ float flat[BLOCK][32];
  float sum = 0.0f, top = -INFINITY;
  for (int i = 0; i < 32; ++i) {
    tile[threadIdx.x][i] = q[i * BLOCK + threadIdx.x];
  }
  fill(&flat[0][0], 32);
  #pragma unroll 4
  for (int i = 0; i < n; i += 2) {
    float s = __half2float(tile[i][0]) * scale;
    top = fmaxf(top, s);
    sum = sum * 0.5f + expf((s - top) * scale);
    int half_way = i / 2;
    double precise = sum / 3.0;
    o[half_way] = (float)precise;
  }
  o[threadIdx.x] = sum / reduce(sum);
  o[1] /= sum;
}
"""
FLAGS = ("--use_fast_math", "-ftz=true")
LONG_SUM = example("split_k")


def example_task(rule: Rule) -> Task | None:
    """The task of an example whose rule reads the kernel by its access form."""
    return read_task(TASKS / rule.name) if (TASKS / rule.name).exists() else None


@pytest.fixture
def parent() -> Variant:
    return parse_variant(KERNEL)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(task=task_in(tmp_path))


def task_in(folder: Path) -> Task:
    return bare_task(name="row", folder=folder, axes={"B": "int"}, flags=FLAGS)


def children(rule: Rule, variant: Variant, axes: tuple[str, ...] = ()) -> list[tuple[Application, Variant]]:
    found = []
    for application in rule.applications(variant, flags=FLAGS, axes=axes):
        child = rule.build(variant, application)
        if child is not None:
            found.append((application, child))
    return found


EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.name}-{i}") for rule in RULES for i, example in enumerate(rule.examples)
]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_example_comes_out_of_its_rule(rule: Rule, example: Example) -> None:
    before, after = example_variant(example.before), example_variant(example.after)
    built = [
        rule.build(before, a)
        for a in rule.applications(before, flags=example.flags, axes=example.axes, task=example_task(rule))
    ]
    assert after.text in [child.text for child in built if child is not None]


@pytest.mark.long
@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_example_compiles(rule: Rule, example: Example) -> None:
    for text in (example.before, example.after):
        variant = example_variant(text)
        whole = "#include <cuda_fp16.h>\n" + variant.text
        sizes = dict.fromkeys(variant.macros, 8)
        built = compile_source(whole, name=rule.name, macros=sizes, flags=variant.flags, cache=Cache(None))
        assert isinstance(built, Binary), built


def test_a_family_is_the_file_or_folder_that_its_rules_are_in() -> None:
    here = families.__name__ + "."
    for module in pkgutil.walk_packages(families.__path__, here):
        for rule in getattr(importlib.import_module(module.name), "RULES", ()):
            (placed,) = (each for each in RULES if each.name == rule.name)
            assert placed.family == module.name.removeprefix(here).split(".")[0], rule.name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_says_what_it_does(rule: Rule) -> None:
    texts = (rule.sentence, rule.reason, rule.expected, rule.risk, rule.next_if_kept, rule.next_if_reverted)
    assert all(texts)
    assert rule.sentence.endswith(".")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_children_are_single_readable_changes(rule: Rule, parent: Variant) -> None:
    for application, child in children(rule, parent):
        assert child.id != parent.id
        assert len(syntax_errors(child.text)) <= len(syntax_errors(parent.text))
        assert kernel_signatures(child.text).keys() == kernel_signatures(parent.text).keys()
        change = tree_difference(parent.text, child.text)
        assert classify(change).is_single, (application.summary, change)
        data, at, rest = parse(parent.text).data, 0, child.text.encode()
        for edit in sorted(application.edits, key=lambda edit: edit.span):
            kept, new = data[at : edit.span.start], edit.text.encode()
            assert rest.startswith(kept + new)
            rest, at = rest[len(kept) + len(new) :], edit.span.end
        assert rest == data[at:]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_lines_end_as_those_of_the_file(rule: Rule, parent: Variant) -> None:
    windows = parse_variant(parent.text.replace("\n", "\r\n"))
    for _, child in children(rule, windows):
        assert child.text.count("\n") == child.text.count("\r\n")


def summaries(name: str, variant: Variant) -> list[str]:
    rule = BY_NAME[name]
    axes = next((example.axes for example in rule.examples if example.axes), ())
    return [application.summary for application, _ in children(rule, variant, axes)]


def test_what_the_refusals_start_from_is_not_refused() -> None:
    assert summaries("split_k", example_variant(LONG_SUM))


def test_places_found_in_the_kernel(parent: Variant) -> None:
    assert summaries("knob", parent) == ["BLOCK 64 -> 32", "BLOCK 64 -> 128", "PAD 0 -> 8"]
    assert summaries("row_pad", parent) == ["tile: row pad 0 -> 8 half", "tile: row pad 0 -> 16 half"]
    assert summaries("flag", parent) == ["add flag --use_fast_math", "remove flag -ftz=true"]
    assert "loop over i (line 25): unroll 4 -> 2" in summaries("unroll", parent)
    assert not any("over m" in summary for summary in summaries("unroll", parent))


COARSE = example("coarsen")


def _summed(update: str, head: str) -> str:
    """The example of `coarsen` with another way to add up, which its statements may not show."""
    return COARSE.replace("sum += a[row] * b[i]", update).replace('extern "C"', f'{head}extern "C"')


def _added(method: str) -> str:
    """The same with a struct whose method adds up."""
    head = f"struct Adder {{\n  float v = 0.0f;\n  __device__ void add(float x) {{ {method} }}\n}};\n"
    text = _summed("sum.add(a[row] * b[i])", head).replace("float sum = 0.0f", "Adder sum")
    return text.replace("o[row] = sum", "o[row] = sum.v")


def test_each_output_of_a_thread_has_its_own_fields() -> None:
    texts = [child.text for _, child in children(BY_NAME["coarsen"], example_variant(_added("v += x;")), ())]
    assert texts
    for text in texts:
        assert "v[c] += x_2[c];" in text
        assert "o[row_at[c]] = v[c];" in text


@pytest.mark.parametrize("kind", ["int", "long long", "unsigned long", "uint32_t", "size_t"])
@pytest.mark.parametrize("name", ["split_k", "accumulators"])
def test_a_pragma_stays_with_its_loop(name: str, kind: str) -> None:
    rule = BY_NAME[name]
    loop = re.compile(r"( *)for \(int i = 0|( *)for \(int j = 0")
    text = loop.sub(lambda m: f"#pragma unroll 2\n{m[0].replace('int', kind)}", rule.examples[0].before)
    variant = example_variant(text)
    for _, child in children(rule, variant, next((e.axes for e in rule.examples if e.axes), ())):
        lines = [line.strip() for line in child.text.splitlines()]
        assert all(after.startswith(("for", "#")) for at, after in pairwise(lines) if at.startswith("#pragma unroll"))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("unroll", "  while (n) n--;\n"),
        ("unroll", "#define U 4\n  #pragma unroll U\n  for (int i = 0; i < 8; ++i) o[i] = x;\n"),
        ("unroll", "  for (int i = n; i; i >>= 1) o[i] = x;\n"),
        ("row_pad", "  __shared__ half t[8][8];\n  half* p = &t[0][0]; half* q = t[1]; o[0] = p[0] + q[0];\n"),
        ("row_pad", "  extern __shared__ float t[];\n  o[0] = t[0];\n"),
        ("row_pad", "  __shared__ float t[8];\n  o[0] = t[0];\n"),
        ("flag", "  o[0] = x;\n"),
        ("wide_access", "  for (int i = 0; i < n; ++i) o[i * 2] = a[i * 3];\n"),
        ("wide_access", "  for (int i = 0; i < n; ++i) o[i] = i > 2 ? a[i] : x;\n"),
        ("wide_access", "  for (int i = 0; i < n; i += 3) o[i] = a[i];\n"),
        ("wide_access", "  float v[8];\n  for (int i = 0; i < n; ++i) v[i] = a[i];\n  o[0] = v[0];\n"),
        ("wide_access", "  for (int i = 0; i < n; ++i) o[i] = a[i] + o[i + 1];\n"),
        ("accumulators", "  float s = 0.0f;\n  for (int i = 0; i < n; ++i) { s += a[i]; o[i] = s; }\n"),
        ("accumulators", "  float s = 0.0f;\n  for (int i = 0; i < n; ++i) s = s * x + a[i];\n  o[0] = s;\n"),
        ("xor_swizzle", "  __shared__ float t[8][12];\n  t[n][0] = x;\n  o[0] = t[0][n];\n"),
        ("xor_swizzle", "  __shared__ float t[8][8];\n  float* p = &t[n][0];\n  p[0] = x;\n  o[0] = t[0][n];\n"),
        ("float_literal", "  double d = 1.0; o[0] = d * 0.5;\n"),
        ("raster", "  o[blockIdx.x] = x;\n"),
        (
            "batch_online",
            "  float m = x;\n  for (int j = 0; j < n; ++j) { const float t = fmaxf(m, a[j]); m = t; }\n  o[0] = m;\n",
        ),
        ("split_k", LONG_SUM.replace("if (row >= n) return;", "")),
        ("split_k", LONG_SUM.replace("float s = 0.0f;", "float s = a[row];")),
        ("split_k", LONG_SUM.replace("s += mine[j * n];", "{ s += mine[j * n]; o[j] = s; }")),
        ("split_k", LONG_SUM.replace("o[row] = s * 2.0f;", "o[row] = s * 2.0f; o[0] = s;")),
        ("split_k", LONG_SUM.replace("mine[j * n]", "mine[j * n + blockIdx.z]")),
        (
            "split_k",
            LONG_SUM.replace("float s = 0.0f;", "float s = 0.0f; const float half = 0.5f;").replace("2.0f", "half"),
        ),
        ("coarsen", "  const int row = blockIdx.x * 32 + threadIdx.x;\n  o[row] = a[row];\n"),
        ("coarsen", _summed("o[row] = (sum += a[row] * b[i])", "")),
        ("coarsen", _summed("sum += a[row] * last, last = b[i]", "").replace("sum =", "last = 0.0f, sum =")),
        ("coarsen", _summed("one += a[row] * b[i]", "").replace("sum = 0.0f;", "sum = 0.0f;\n  float& one = sum;")),
        ("coarsen", _summed("{\n#if 1\n sum += a[row] * b[i];\n#endif\n}", "")),
        ("wide_access", "  for (int i = 0; i < n; ++i) {\n#ifdef N\n    x += 1.0f;\n#endif\n    o[i] = a[i];\n  }\n"),
        ("coarsen", _added('asm("add.f32 %0, %0, %1;" : "+f"(v) : "f"(x));')),
    ],
)  # fmt: skip
def test_rule_refuses_where_it_does_not_apply(rule: str, text: str) -> None:
    assert summaries(rule, example_variant(text)) == [] or rule == "flag"
    if rule == "flag":
        flag_rule = BY_NAME["flag"]
        assert flag_rule.applications(example_variant(text)) == ()


def test_neighbours_come_first(context: Context) -> None:
    text = "// evo: knob N in 1, 2, 4, 8, 16\n#define N 4\n// evo: launch k grid (1) block (32) shared 0\n"
    (operator,) = operators(["rules.knob"])
    tried: set[str] = set()
    seen = []
    while proposal := operator.propose(
        parse_variant(text), rng=random.Random(1), context=Context(task=context.task, tried=tried)
    ):
        seen.append(proposal.arguments["to"])
        tried.add(parse_variant(proposal.text).id)
    assert set(seen[:2]) == {2, 8}
    assert set(seen[2:]) == {1, 16}


@pytest.mark.parametrize("operator", rule_operators(), ids=lambda operator: operator.name)
def test_operator_is_deterministic_and_never_repeats(operator: RuleOperator, parent: Variant, context: Context) -> None:
    def run(seed: int) -> list[str]:
        rng, tried, texts = random.Random(seed), set[str](), []
        for _ in range(60):
            proposal = operator.propose(parent, rng=rng, context=Context(task=context.task, tried=tried))
            if proposal is None:
                break
            assert (proposal.operator, proposal.kind) == (operator.name, "mutation")
            texts.append(proposal.text)
            tried.add(parse_variant(proposal.text).id)
        return texts

    first = run(3)
    assert first == run(3)
    assert len(first) == len(set(first))
    assert first or operator.name.removeprefix("rules.") in (
        "atomics",
        "precision",
        "tile",
        *("work", "order", "vector", "loop", "shuffle", "staging", "prefetch"),
    )


def test_operators_by_name(tmp_path: Path) -> None:
    names = [operator.name for operator in operators(["ladder", "rules"])]
    assert names[0] == "ladder"
    assert {"rules.knob", "rules.unroll", "rules.flags"} <= set(names)
    assert [o.name for o in operators(["rules.knob", "patch"], patch=tmp_path / "x.cu")] == ["rules.knob", "patch"]
    for bad in (["nope"], ["patch"], ["rules.nope"]):
        with pytest.raises(UsageError):
            operators(bad)


def test_docs_have_one_row_per_rule() -> None:
    rows = operator_docs()
    rules = [row for row in rows if row.name.startswith("rules.") and row.family != "plan"]
    assert len({row.name for row in rules}) == len(rules) == len(RULES)
    assert all(row.before != row.after for row in rules)


@pytest.mark.parametrize("name", ["layernorm", "rmsnorm", "softmax"])
def test_elements_that_stay_where_they_are_are_not_counted_out(name: str) -> None:
    """A transposition is looked for in the kernel of a row, whose headline has millions of elements."""
    folder = Path(__file__).parents[3] / "kernels" / name
    row = read_variant(folder / "ladder" / "00_scalar.cu")
    rule = BY_NAME["tile_transposed"]
    tracemalloc.start()
    try:
        rule.applications(row, axes=integers_of(task := read_task(folder)), task=task)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
