"""Loops, pointers, functions and launches in other idioms: rules find their places, or leave them alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rule_children import BY_NAME, DATA, changed, example, passes, task_of

from evo.evaluate.session import EvaluationSession
from evo.operators.rules.operator import integers_of
from evo.spec.task import Task, read_task
from evo.spec.variant import Variant, parse_variant

ROWS = """\
// evo: launch k grid ({grid}) block ({block}) shared 0
extern "C" __global__ void k(const float* inp, float* mean, float* out, int B, int T, int C) {{
    int idx = {index};
{body}}}
"""
FLAT = ("ceil_div(B * T, 64)", "64", "blockIdx.x * blockDim.x + threadIdx.x")
LOOPS = {
    "while": """\
    if (idx >= B * T) return;
    const float* x = inp + idx * C;
    float m = 0.0f;
    unsigned i = 0;
    while (i < C) { m += x[i]; i++; }
    m /= C;
    i = 0;
    while (i < C) {
        out[idx * C + i] = x[i] - m;
        i += 1;
    }
    mean[idx] = m;
""",
    "pointers": """\
    if (idx < B * T) {
        const float* p = inp + idx * C;
        const float* end = p + C;
        float m = 0.0f;
        for (const float* q = p; q != end; ++q) m += *q;
        m = m / C;
        float* o = out + (size_t)idx * C;
        while (p < end) *o++ = *p++ - m;
        mean[idx] = m;
    }
""",
    "down": """\
    if (idx >= B * T) return;
    const float* x = inp + idx * C;
    float m = 0.0f;
    int n = C;
    while (n--) m += *x++;
    m /= C;
    for (int i = 0; i < C; i++) out[idx * C + i] = inp[idx * C + i] - m;
    mean[idx] = m;
""",
}
PLAIN = """\
    const float* x = inp + idx * C;
    float m = 0.0f;
    for (int i = 0; i < C; i++) m += x[i];
    m = m / C;
    for (int i = 0; i < C; i++) out[idx * C + i] = x[i] - m;
    mean[idx] = m;
"""
KERNELS = {
    **{name: ROWS.format(grid=FLAT[0], block=FLAT[1], index=FLAT[2], body=body) for name, body in LOOPS.items()},
    "one thread a block": ROWS.format(grid="B, T", block="1", index="blockIdx.x * T + blockIdx.y", body=PLAIN),
    "two axes": ROWS.format(
        grid="ceil_div(T, 32), B",
        block="32",
        index="blockIdx.x * 32 + threadIdx.x",
        body="    if (idx >= T) return;\n    idx += blockIdx.y * T;\n" + PLAIN,
    ).replace("int idx = blockIdx", "int t = blockIdx").replace("idx >= T", "t >= T").replace(
        "idx += blockIdx.y * T", "const int idx = blockIdx.y * T + t"
    ),
    "warps of a block": ROWS.format(
        grid="ceil_div(T, 32), ceil_div(B, 4)",
        block="32, 4",
        index="blockIdx.x * 32 + threadIdx.x",
        body="    int b = blockIdx.y * 4 + threadIdx.y;\n    if (b >= B || t >= T) return;\n"
        "    int idx = b * T + t;\n" + PLAIN,
    ).replace("int idx = blockIdx", "int t = blockIdx"),
}  # fmt: skip
COUNTS = """\
// evo: scratch counts int32 [256] init=zero
// evo: launch count grid (240) block (192) shared 0
// evo: launch copy_out grid (1) block (256) shared 0
__device__ void tally(int* to, unsigned char v) { atomicAdd(&to[v], 1); }
extern "C" __global__ void count(const unsigned char* data, int* bins, int* counts, int n) {
    for (unsigned i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) tally(counts, data[i]);
}
extern "C" __global__ void copy_out(const unsigned char* data, int* bins, int* counts, int n) {
    bins[threadIdx.x] = counts[threadIdx.x];
}
"""


def children(rule: str, text: str, task: Task) -> list[Variant]:
    variant = parse_variant(text)
    places = BY_NAME[rule].applications(variant, flags=task.flags, axes=integers_of(task), task=task)
    return [child for each in places if (child := BY_NAME[rule].build(variant, each)) is not None]


def rows(text: str) -> list[Variant]:
    return children("row_lanes", text, task_of("row_lanes"))


@pytest.mark.long
@pytest.mark.parametrize("name", KERNELS)
def test_rows_in_other_idioms_are_shared_out_and_right(bench: EvaluationSession, name: str) -> None:
    task = task_of("row_lanes")
    (child,) = rows(KERNELS[name])
    assert passes(bench, task, child)


@pytest.mark.parametrize("name", KERNELS)
def test_rows_in_other_idioms_are_found(name: str) -> None:
    (child,) = rows(KERNELS[name])
    assert child.text.count("__shfl_xor_sync") == 1
    assert child.text.count("+= 32") == 2
    assert not any(word in child.text for word in ("while", "*p++", "n--", "end", "(blockIdx.x * 64"))


@pytest.mark.parametrize(
    ("name", "written", "otherwise"),
    [
        ("while", "out[idx * C + i] = x[i] - m;\n        i += 1;", "i += 1;\n        out[idx * C + i - 1] = x[i - 1];"),
        ("while", "mean[idx] = m;", "mean[idx] = m + i;"),  # the variable is read behind the loop
        ("while", "i++; }", "if (x[i] < 0) break; i++; }"),
        ("pointers", "mean[idx] = m;", "mean[idx] = m + *o;"),
        ("down", "m += *x++;", "m += *x++ * n;"),
        ("one thread a block", "mean[idx] = m;", "mean[idx] = m + threadIdx.x;"),
        ("warps of a block", "mean[idx] = m;", "mean[idx] = m + threadIdx.x;"),
    ],
)  # fmt: skip
def test_what_a_view_cannot_show_stays(name: str, written: str, otherwise: str) -> None:
    assert rows(changed(KERNELS[name], (written, otherwise))) == []


def test_functions_of_one_statement_hide_no_atomic() -> None:
    task = read_task(DATA / "foreign" / "kernels" / "histogram256")
    child = children("private_copy", COUNTS, task)[0]
    assert "tally" not in child.text
    assert "atomicAdd(&own[data[i]], 1)" in child.text


@pytest.mark.long
def test_functions_of_one_statement_are_written_out_right(bench: EvaluationSession) -> None:
    task = read_task(DATA / "foreign" / "kernels" / "histogram256")
    child = children("private_copy", COUNTS, task)[0]
    assert passes(bench, task, child)


def test_what_a_function_reads_twice_is_read_once() -> None:
    task = read_task(DATA / "foreign" / "kernels" / "histogram256")
    text = COUNTS.replace("atomicAdd(&to[v], 1)", "if (v < 256) atomicAdd(&to[v], 1)")
    assert "unsigned char v = data[i];" in children("private_copy", text, task)[0].text


TALLY = """\
template <typename T, int BINS>
__device__ __forceinline__ void tally(const T* in, int* out, unsigned n, unsigned at, unsigned step)
{
    while (at < n) {
        T v = in[at];
        if (v < BINS) atomicAdd(&out[v], 1);
        at += step;
    }
}
extern "C" __global__ void count(const unsigned char* data, int* bins, int* counts, int n) {
    tally<unsigned char, 256>(data, counts, n, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}
"""


def tallied() -> Variant:
    lines = [line for line in COUNTS.splitlines(keepends=True) if "tally" not in line]
    text = "".join(lines).replace('extern "C" __global__ void count(', "@", 1)
    head, rest = text.split("@")
    text = head + TALLY + rest.split("}\n", 1)[1]
    return children("private_copy", text, read_task(DATA / "foreign" / "kernels" / "histogram256"))[0]


def test_what_a_template_is_given_is_worked_out_once() -> None:
    child = tallied()
    assert "unsigned at = blockIdx.x * blockDim.x + threadIdx.x;" in child.text
    assert "if (v < 256) atomicAdd(&own[v], 1);" in child.text


@pytest.mark.long
def test_what_a_template_is_given_is_right(bench: EvaluationSession) -> None:
    task = read_task(DATA / "foreign" / "kernels" / "histogram256")
    assert passes(bench, task, tallied())


SEARCH = """\
// evo: launch greedy grid (ceil_div(N, 128)) block (128) shared 0
extern "C" __global__ void greedy(const float* inp, int* idx, int n, int c)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    const float* p = inp + (size_t)row * c;
    int best = 0;
    for (int v = 1; v < c; v++)
        if (p[v] > p[best]) best = v;
    idx[row] = best;
}
"""


def searched(text: str) -> list[Variant]:
    task = read_task(DATA / "foreign" / "kernels" / "argmax_rows")
    return children("row_lanes", text, task)


@pytest.mark.parametrize("search", ["if (p[v] > p[best]) best = v;", "best = p[v] > p[best] ? v : best;"])
def test_a_search_that_keeps_only_the_place_is_shared_out(search: str) -> None:
    (child,) = searched(changed(SEARCH, ("if (p[v] > p[best]) best = v;", search)))
    assert "if (p[v] > best_value) { best_value = p[v]; best = v; }" in child.text
    assert child.text.count("__shfl_xor_sync") == 2


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("int best = 0;", "int best = -1;"),
        ("p[v] > p[best]", "p[v] > p[best + 1]"),
        ("const float* p = inp + (size_t)row * c;", "const float* p = inp + (size_t)row * c; p++;"),
        ("best = v;", "best = v + 1;"),
    ],
)
def test_another_search_is_left_alone(written: str, otherwise: str) -> None:
    assert searched(SEARCH.replace(written, otherwise)) == []


SCAN = example("scan_lanes")
EXCLUSIVE = (
    "            total += x[n * L + l];\n            y[n * L + l] = total;\n",
    "            y[n * L + l] = total;\n            total += x[n * L + l];\n",
)


def scanned(text: str) -> list[Variant]:
    return children("scan_lanes", text, task_of("scan_lanes"))


def test_sums_before_the_element_come_from_the_lane_before() -> None:
    assert EXCLUSIVE[0] in SCAN
    warp, block = scanned(SCAN.replace(*EXCLUSIVE))
    assert "y[n * L + l] = total_before;" in warp.text
    assert "y[n * L + l] = total_before;" in block.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("y[n * L + l] = total;", "y[l * N + n] = total;"),
        ("            y[n * L + l] = total;\n", ""),
        ("y[n * L + l] = total;", "y[n * L + l] = total + (l > 0 ? y[n * L + l - 1] : 0);"),
        ("last[n] = total;", "last[n] = total; __syncthreads();"),
        ("++l", "l += 2"),
    ],
)
def test_what_is_no_running_sum_along_memory_stays(written: str, otherwise: str) -> None:
    assert scanned(changed(SCAN, (written, otherwise))) == []


@pytest.mark.long
def test_a_place_that_lanes_find_is_right(bench: EvaluationSession) -> None:
    task = read_task(DATA / "foreign" / "kernels" / "argmax_rows")
    assert passes(bench, task, searched(SEARCH)[0])


@pytest.mark.long
def test_sums_before_the_element_are_right(bench: EvaluationSession, tmp_path: Path) -> None:
    folder = shutil.copytree(DATA / "rules" / "scan_lanes", tmp_path / "scan_lanes")
    reference = (folder / "reference.py").read_text(encoding="utf-8")
    other = reference.replace('"y": y,', '"y": y - inputs["x"],')
    assert other != reference
    (folder / "reference.py").write_text(other, encoding="utf-8")
    task = read_task(folder)
    for child in scanned(SCAN.replace(*EXCLUSIVE)):
        assert passes(bench, task, child)


DOUBLES = example("float_sums")


def in_floats(text: str) -> list[Variant]:
    return children("float_sums", text, task_of("float_sums"))


def test_sums_in_double_become_floats_plainly_or_with_their_rests() -> None:
    plain, exact = in_floats(DOUBLES)
    assert "double" not in plain.text + exact.text
    assert "sqrtf(power / L + 1e-5f)" in plain.text
    assert "_lost" not in plain.text
    assert exact.text.count("_lost = 0;") == 2


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [("double mean = 0.0, power", "float mean = 0.0f, power"), ("0.0, power", "1e300, power")],
)
def test_floats_are_left_alone_and_so_are_numbers_that_no_float_holds(written: str, otherwise: str) -> None:
    text = changed(DOUBLES, (written, otherwise))
    if "1e300" not in text:
        text = text.replace("(double)", "").replace(
            "const double scale = 1.0 / sqrt(power / L + 1e-5)", "float scale = 1"
        )
    assert in_floats(text) == []


@pytest.mark.long
def test_sums_with_their_rests_are_right(bench: EvaluationSession) -> None:
    task = task_of("float_sums")
    assert passes(bench, task, in_floats(DOUBLES)[1])


IN_MEMORY = """\
// evo: launch centre grid (ceil_div(B * T, 256)) block (256) shared 0
extern "C" __global__ void centre(const float* inp, float* mean, float* out, int B, int T, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T) {
        mean[idx] = 0;
        for (int i = 0; i < C; i++) {
            mean[idx] += inp[idx * C + i];
        }
        mean[idx] /= C;
        const float m = mean[idx];
        for (int i = 0; i < C; i++) out[idx * C + i] = inp[idx * C + i] - m;
    }
}
"""


def test_a_sum_in_memory_is_seen_as_a_variable() -> None:
    text = IN_MEMORY.replace("        mean[idx] /= C;\n        const float m = mean[idx];\n", "").replace(" - m", "")
    (child,) = rows(text)
    assert "sum += inp[idx * C + i];" in child.text
    assert "if (lane == 0) mean[idx] = sum;" in child.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("mean[idx] += inp[idx * C + i];", "mean[idx] += inp[idx * C + i] * mean[idx];"),
        ("mean[idx] += inp[idx * C + i];", "mean[idx] += inp[idx * C + i]; if (i > 9) return;"),
    ],
)
def test_another_sum_in_memory_stays_there(written: str, otherwise: str) -> None:
    assert rows(changed(IN_MEMORY, (written, otherwise))) == []


def test_a_sum_in_memory_that_begins_with_a_number_has_it_once() -> None:
    (child, *_) = rows(changed(IN_MEMORY, ("mean[idx] = 0;", "mean[idx] = 1;")))
    assert "if (lane > 0) sum = 0;" in child.text
