"""Rules that read a kernel by its access form: their examples pass the gate, idioms do not hide a kernel, and what
they must not touch they leave alone."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from long_cases import long
from rule_children import BY_NAME, DATA, TASKS, built, changed, example, of_example, passes, task_of

from evo.cuda.source import new_dead_code
from evo.evaluate.session import EvaluationSession
from evo.operators import Context, operators
from evo.operators.one_change import not_one_change
from evo.operators.rules.operator import integers_of
from evo.spec.task import read_task
from evo.spec.variant import parse_variant, read_variant

FOREIGN = DATA / "foreign" / "kernels"
NAMES = sorted(path.name for path in TASKS.iterdir())
SLOW = (
    "attention_mma",
    "block_walks",
    "column_blocks",
    "convolution_mma",
    "float_sums",
    "grouped_mma",
    "keep_turns",
    "scan_lanes",
    "tile_mma",
    "tile_stream",
    "turn_axes",
    # The children of these are checked in the file of the rule, and those of the products below.
    "block_trees",
    "column_lanes",
    "lone_walks",
    "neighbours",
    "row_blocks",
    "row_lanes",
    "tile_halo",
    "tile_product",
    "warp_sums",
)  # seconds each


@pytest.mark.parametrize(
    "name",
    [long(name) if name in SLOW else name for name in NAMES],
)
def test_examples_pass_the_gate(bench: EvaluationSession, name: str) -> None:
    task = task_of(name)
    before = parse_variant(example(name))
    assert passes(bench, task, built(name, before, task)[0])


# The idioms of one kernel, each with what it is written as otherwise.
IDIOMS = (
    ("unsigned int idx", "int idx"),
    ("unsigned int idx", "const unsigned idx"),
    ("unsigned int idx", "size_t idx"),
    ("idx < B * T", "idx < (T * B)"),
    ("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x + blockDim.x * blockIdx.x"),
    ("blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.x * 256 + threadIdx.x"),
    ("float m = 0.0f;", "double m = 0.0;"),
    ("for (int i = 0; i < C; i++) m += x[i];", "for (int i = 0; i < C; ++i) { float v = x[i]; m = m + v; }"),
    ("if (idx < B * T) {", "if (idx >= B * T) return;\n    {"),
)


@pytest.mark.parametrize(("written", "otherwise"), IDIOMS)
def test_idioms_hide_nothing(written: str, otherwise: str) -> None:
    task = task_of("row_lanes")
    text = example("row_lanes")
    (child,) = built("row_lanes", changed(text, (written, otherwise)), task)
    assert child.text.count("__shfl_xor_sync") == 1
    assert "if (lane == 0) mean[idx] = m;" in child.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("m += x[i];", "m = m * 0.5f + x[i];"),  # each turn needs the one before
        ("x[i] - m;", "x[C - 1 - i] - m;"),  # lanes would walk backwards: another rule's business
        ("mean[idx] = m;", "mean[idx] = m; __syncthreads();"),
    ],
)
def test_row_lanes_leaves_alone_what_it_cannot_prove(written: str, otherwise: str) -> None:
    task = task_of("row_lanes")
    text = example("row_lanes").replace(written, otherwise)
    assert built("row_lanes", text, task) == []


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("// evo: macro M\n", ""),  # how many tiles there are is not known when compiled
        ("(ceil_div(N, BN),", "(ceil_div(N, 32),"),  # columns do not come in tiles
        ('extern "C"', '__device__ int rows() { return BM; }\nextern "C"'),  # another function has the one size
        ("    float sum", "#if BM > 16\n#endif\n    float sum"),  # so has the preprocessor
    ],
)
def test_tiles_get_a_second_size_only_where_the_kernel_alone_knows_them(written: str, otherwise: str) -> None:
    assert len(of_example("sized_tiles")) == 4
    assert len(of_example("sized_tiles", ("BN in 16, 32, 64", "BN in 32, 48"))) == 1  # rows alone have another size
    assert of_example("sized_tiles", (written, otherwise)) == []


SUMMED_ALL = "        total += w;\n"  # for each key that counts, as the output does


@pytest.mark.long
@pytest.mark.parametrize(
    ("written", "otherwise", "count"),
    [
        ("j <= row; j++", "j < min(row + 1, L); j++", 5),
        ("s * scale - top", "scale * (s - top / scale)", 5),
        ("expf(s * scale - top)", "exp2f((s * scale - top) * 1.4426950408889634f)", 5),
        (SUMMED_ALL, SUMMED_ALL.replace("+= w", "= total * 0.5f + w"), 0),  # a sum that forgets
        (SUMMED_ALL, "        if (j > 0) total += w;\n", 0),  # not the keys that the output has
        ("float w = expf(s * scale - top);", "float w = expf(s * scale - top) + 1.0f;", 0),
        ("for (int d = 0; d < D; d++) s +=", "for (int d = 0; d < D / 2; d++) s +=", 0),  # half of a row
        ("k[(first + j) * D + d]);\n        float", "k[(first + j / 2) * D + d]);\n        float", 0),
    ],
)
def test_attention_is_told_from_what_is_not_one(written: str, otherwise: str, count: int) -> None:
    task = task_of("attention_mma")
    text = example("attention_mma")
    assert len(built("attention_mma", changed(text, (written, otherwise)), task)) == count


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        long("linear_forward", "tile_product"),  # rows of two dimensions, a sum that begins with a bias
        long("bmm_ijk", "tile_product"),  # one index of a thread stands for two
        long("sgemm_uint", "tile_product"),  # in a template that only the old body used
        long("pairwise_distance", "tile_product"),  # a sum of squares of differences
        long("crossentropy_rows", "row_lanes"),  # loops in functions
        ("argmax_rows", "row_lanes"),  # values with their places
        long("softmax_online_rows", "row_lanes"),  # a maximum and the sum that it scales
        long("nchw_to_nhwc", "tile_transposed"),  # a struct of sizes, 64-bit indices
        long("dot_atomic", "private_copy"),
    ],
)
def test_what_strangers_write(bench: EvaluationSession, name: str, rule: str) -> None:
    folder = FOREIGN / name
    child = built(rule, read_variant(folder / "ladder" / "00_stranger.cu"), read_task(folder))[0]
    assert new_dead_code((folder / "ladder" / "00_stranger.cu").read_text(encoding="utf-8"), child.text) == ()
    assert passes(bench, read_task(folder), child)


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ((("c[row * N + col] = tmp", "c[row * N + col] += tmp"),), 4),  # its own element alone
        ((("tmp += a[row * K + i] * b[col * K + i]", "tmp += fabsf(a[row * K + i] - b[col * K + i])"),), 4),
        ((("tmp += a[row * K + i] * b[col * K + i]", "tmp += a[row * K + i] * b[col * K + i] + 1.0f"),), 0),
        ((("double", "float"), ("float tmp", "double tmp"), ("const float* b", "const double* b")), 0),  # not 4 bytes
        ((("b[col * K + i]", "b[col * K + i / 2]"),), 0),
        ((("i < K", "i < K - 1"),), 0),
    ],
)
def test_products_of_floats_are_streamed(changes: tuple[tuple[str, str], ...], count: int) -> None:
    task, text = task_of("tile_stream"), example("tile_stream")
    for written, otherwise in changes:
        text = text.replace(written, otherwise)
    found = built("tile_stream", text, task)
    assert len(found) == count
    assert all("cp.async" in child.text for child in found)


# The norms of both rows beside their product, in a loop of its own or in the product's.
BESIDE = "tmp += a[row * K + i] * b[col * K + i];"
NORMS = """{ tmp += a[row * K + i] * b[col * K + i]; u += a[row * K + i] * a[row * K + i]; }
        float v = 0.0f;
        for (int j = 0; j < K; ++j) v += fabsf(b[col * K + j]);"""


def beside(norms: str) -> str:
    text = example("tile_product")
    text = text.replace(BESIDE, norms).replace("float tmp = 0.0;", "float tmp = 0.0, u = 1.0f;")
    return text.replace("tmp + bias[col]", "tmp / (u * v + 1.0f) + bias[col]")


@pytest.mark.parametrize("rule", ["tile_product", long("tile_stream")])
def test_sums_of_single_rows_are_taken_beside_the_product(bench: EvaluationSession, tmp_path: Path, rule: str) -> None:
    folder = tmp_path / "tile_product"
    shutil.copytree(TASKS / "tile_product", folder)
    reference = (folder / "reference.py").read_text(encoding="utf-8")
    whole = '(inputs["a"] @ inputs["b"].T)'
    norms = '((1 + (inputs["a"] ** 2).sum(1))[:, None] * abs(inputs["b"]).sum(1) + 1)'
    changed = reference.replace('inputs["a"] @ inputs["b"].T', f"{whole} / {norms}")
    assert changed != reference
    (folder / "reference.py").write_text(changed, encoding="utf-8")
    task = read_task(folder)
    child = built(rule, beside(NORMS), task)[0]
    assert passes(bench, task, child), child.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("j < K", "j < K - 1"),  # not all of the row
        ("v += fabsf(b[col * K + j])", "v = fmaxf(v, b[col * K + j])"),  # no sum
        ("v += fabsf(b[col * K + j])", "v += fabsf(b[col * K + j] - a[row * K + j])"),  # of both
        ("v += fabsf(b[col * K + j])", "v += b[col * K + j] + 1.0f"),  # zeros around a tile would count
        ("v += fabsf(b[col * K + j])", "v += b[j * N + col]"),  # of another column
    ],
)
def test_other_sums_beside_a_product_stay(written: str, otherwise: str) -> None:
    text = beside(changed(NORMS, (written, otherwise)))
    assert built("tile_product", text) == []


def test_a_tiled_product_is_tiled_anew(bench: EvaluationSession) -> None:
    folder = FOREIGN / "sgemm_tiled"
    child = built("tile_product", read_variant(folder / "ladder" / "00_stranger.cu"), read_task(folder))[0]
    assert "= alpha * sum[i][j];" in child.text
    assert passes(bench, read_task(folder), child)


@pytest.mark.parametrize(
    ("name", "family"), [("bmm_ijk", "tile"), ("small_inverse", "unroll"), ("softmax_rows", "work")]
)
def test_what_a_rule_proposes_may_be_tried(name: str, family: str) -> None:
    task = read_task(FOREIGN / name)
    parent = read_variant(FOREIGN / name / "ladder" / "00_stranger.cu")
    (operator,) = operators([f"rules.{family}"])
    proposal = operator.propose(parent, rng=random.Random(0), context=Context(task=task))
    assert proposal is not None
    assert proposal.kind in ("mutation", "schedule")
    assert not_one_change(task, proposal, parent) is None


def test_a_schedule_of_two_kernels_is_refused() -> None:
    task = read_task(FOREIGN / "dot_atomic")
    parent = read_variant(FOREIGN / "dot_atomic" / "ladder" / "00_stranger.cu")
    (operator,) = operators(["rules.atomics"])
    proposal = operator.propose(parent, rng=random.Random(0), context=Context(task=task))
    assert proposal is not None
    assert not_one_change(task, proposal, parent) is None
    both = parse_variant(proposal.text.replace("out[0] = acc[0]", "out[0] = 1.0f * acc[0]"))
    assert not_one_change(task, replace(proposal, variant=both), parent) is not None


@pytest.mark.parametrize(
    ("grid", "element"),
    [("ceil_div(N, 4)", "i"), ("ceil_div(N, 128)", "128 * i")],  # a grid that would not follow; rows of 128
)
def test_the_block_size_is_left_alone_where_it_is_not_known_what_follows(grid: str, element: str) -> None:
    text = (
        f"// evo: launch k grid ({grid}) block (128) shared 0\n"
        'extern "C" __global__ void k(const float* a, float* o, int n) {\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"    if (i < n) o[{element}] = a[{element}];\n"
        "}\n"
    )
    assert BY_NAME["block_size"].applications(parse_variant(text)) == ()
    sound = parse_variant(text.replace(grid, "ceil_div(N, 128)").replace(element, "i"))
    assert BY_NAME["block_size"].applications(sound) != ()


@pytest.mark.parametrize(
    ("rule", "written", "otherwise"),
    [
        ("convolution_mma", "c < C; c++", "c < C - 1; c++"),  # a channel is left out
        ("convolution_mma", "r < R; r++", "r < R; r += 2"),
        ("convolution_mma", "pixel >= N * P * Q)", "pixel >= N * P * Q || pixel % 2)"),  # not all results are stored
        (
            "convolution_mma",
            "            for (int c",
            "            if (r != s) for (int c",
        ),  # no border
        ("grouped_mma", "int e = expert_of[t];", "int e = expert_of[t] * (f < F / 2);"),  # the column decides too
        ("grouped_mma", "int e = expert_of[t];", "int e = expert_of[blockIdx.y];"),
        ("grouped_mma", "t >= T || f >= F", "t >= T || f >= F || f == t"),
        ("grouped_mma", "d < D; d++", "d < D; d += 2"),
        ("grouped_mma", "d++)\n", "d++) if (d != t)\n"),
    ],
)
def test_what_is_no_whole_product_stays_scalar(rule: str, written: str, otherwise: str) -> None:
    task, text = task_of(rule), example(rule)
    assert built(rule, text, task)
    assert not built(rule, changed(text, (written, otherwise)), task)


def test_a_group_is_looked_up_as_the_author_does() -> None:
    """A search by halves, cut out of the kernel and put into a function of the row."""
    task, text = task_of("grouped_mma"), example("grouped_mma")
    search = "int e = 0;\n    for (int i = 1; i < E; i++)\n        if (expert_of[i] <= t) e = i;"
    child = built("grouped_mma", text.replace("int e = expert_of[t];", search), task)[0]
    assert "[&](int t) {\n        int e = 0;\n        for (int i = 1; i < E; i++)" in child.text


@pytest.mark.parametrize(
    ("name", "rung", "rule"),
    [
        ("matmul", "00_scalar", "tile_mma"),
        ("conv2d", "00_direct", "convolution_mma"),
        ("moe_grouped_matmul", "00_scalar", "grouped_mma"),
        ("attention", "00_scalar", "attention_mma"),
    ],
)
def test_the_scalar_rungs_find_their_way_to_tensor_cores(name: str, rung: str, rule: str) -> None:
    folder = Path(__file__).parents[3] / "kernels" / name
    task, before = read_task(folder), read_variant(folder / "ladder" / f"{rung}.cu")
    assert BY_NAME[rule].applications(before, flags=task.flags, axes=integers_of(task), task=task)
