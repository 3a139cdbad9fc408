"""Rules on kernels as `evo adopt` brings them: what decides is which elements are touched, not how the text says it."""

from __future__ import annotations

import pytest
from rule_children import BY_NAME, built, changed, example, task_of

from evo.spec.variant import parse_variant


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("found[threadIdx.x] = i < n ? x[i] : 0.0f;",
         "if (i < n) found[threadIdx.x] = x[i]; else found[threadIdx.x] = 0;"),
        ("s = blockDim.x / 2; s > 0; s /= 2", "s = 128; s > 0; s >>= 1"),
        ("for (int i = 0; i < (n + 255) / 256; ++i) total += part[i];",
         "int i = 0;\n    while (i < (n + 255) / 256) { total += part[i]; i++; }"),
    ],
)  # fmt: skip
def test_a_sum_is_one_in_any_idiom(written: str, otherwise: str) -> None:
    text = example("whole_sum")
    found = built("whole_sum", changed(text, (written, otherwise)))
    assert any("float4 four_x" in child.text for child in found)


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("i < n ? x[i] : 0.0f;", "i < n - 1 ? x[i] : 0.0f;"),  # an element is left out
        ("i < n ? x[i] : 0.0f;", "i < n ? x[i / 2] : 0.0f;"),  # elements count twice
        ("total += part[i];", "total += part[i] * part[i];"),  # the parts are not summed up: each has its elements
        ("total += part[i];", "total = fmaxf(total, part[i]);"),
        ("part[blockIdx.x] = found[0];", "part[blockIdx.x] = sqrtf(found[0]);"),
        ("part[blockIdx.x] = found[0];", "part[gridDim.x - 1 - blockIdx.x] = found[0];"),
        ("found[threadIdx.x] += found[threadIdx.x + s];", "found[threadIdx.x] *= found[threadIdx.x + s];"),
    ],
)
def test_what_is_no_sum_of_everything_is_left_alone(written: str, otherwise: str) -> None:
    text = example("whole_sum")
    found = built("whole_sum", changed(text, (written, otherwise)))
    assert not any("float4 four_x" in child.text for child in found)


TURNED = """// evo: task tile_transposed
// evo: launch turn grid (W, ceil_div(H, 32), B) block (32) shared 0 args (x, y, B, H, W)
extern "C" __global__ void turn(const float* x, float* y, int B, int H, int W) {
    const int column = blockIdx.x, first = blockIdx.y * 32;
    const float* from = x + blockIdx.z * W * H;
    float* to = y + blockIdx.z * W * H + column * H;
    int row = first + threadIdx.x;
    if (row < H) to[row] = 2.0f * from[row * W + column];
}
"""


@pytest.mark.parametrize(
    "text",
    [
        TURNED,
        # sizes that the kernel does not get are added to its parameters
        TURNED.replace("y, B, H, W)", "y, H)").replace("y, int B, int H, int W)", "y, int H)").replace("W", "gridDim.x")
        .replace("grid (gridDim.x", "grid (W"),
        # a loop over the rows of a column
        TURNED.replace("ceil_div(H, 32)", "1").replace("if (row < H)", "for (; row < H; row += 32)"),
    ],
)  # fmt: skip
def test_a_transposition_is_one_in_any_idiom(text: str) -> None:
    (child, *_) = built("tile_transposed", text)
    assert "tile[32][32 + 1]" in child.text
    assert [len(line.args or ()) for line in child.launches] == [5]


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [("row * W", "(row / 2) * W"), ("if (row < H)", "if (row < H - 1)"), ("+ column]", "+ (column + row) % W]")],
)
def test_what_is_no_transposition_is_left_alone(written: str, otherwise: str) -> None:
    assert built("tile_transposed", changed(TURNED, (written, otherwise))) == []


def test_bins_of_any_integer_are_counted_in_a_copy_of_the_block() -> None:
    text = example("private_copy")
    unsigned = text.replace("int *counts", "unsigned *counts").replace("counts int32", "counts uint32")
    assert unsigned.count("unsigned *counts") == 2
    (child, *_) = built("private_copy", unsigned)
    assert "__shared__ unsigned own[256]" in child.text


def test_a_constant_that_only_the_old_tiles_used_goes_with_its_knob() -> None:
    text = (
        "// evo: task tile_product\n// evo: knob TILE in 8, 16\n"
        "// evo: launch mm grid (ceil_div(N, TILE), ceil_div(M, TILE)) block (TILE, TILE) shared 0\n"
        "constexpr int TILE = 16;\n"
        'extern "C" __global__ void mm(const float* a, const float* b, const float* bias, float* c,'
        " int M, int N, int K) {\n"
        "    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;\n"
        "    if (row >= M || col >= N) return;\n    float sum = 0;\n"
        "    for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[col * K + k];\n    c[row * N + col] = sum;\n}\n"
    )
    (child, *_) = built("tile_product", text)
    assert "TILE" not in child.text


COUNTED = """// evo: task private_copy
// evo: launch count grid (240) block (192) shared 0
extern "C" __global__ void count(const unsigned char* data, int* bins, int n) {
    unsigned i = threadIdx.x + blockIdx.x * blockDim.x;
    const int stride = blockDim.x * gridDim.x;
    while (i < n) {
        atomicAdd(&bins[data[i]], 1);
        i += stride;
    }
}
"""


def test_a_while_over_the_grid_is_the_for_that_it_is() -> None:
    found = built("wide_access", COUNTED, task_of("private_copy"))
    assert "while" not in found[0].text
    assert "UnsignedChar16 data_pack" in found[0].text


@pytest.mark.parametrize(
    ("first", "grid"),
    [("threadIdx.x + blockIdx.x * blockDim.x", "5 * chip.sms"), ("blockIdx.x * 192 + threadIdx.x", "240")],
)
def test_blocks_that_stride_over_any_grid_are_as_many_on_each_sm(first: str, grid: str) -> None:
    text = COUNTED.replace("threadIdx.x + blockIdx.x * blockDim.x", first)
    (child, *_) = built("private_copy", text)
    assert [part.text for part in child.launches[0].grid] == [grid]


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("atomicAdd(&bins[data[i]], 1);", "atomicAdd(&bins[data[i++]], 1);"),
        ("atomicAdd(&bins[data[i]], 1);", "if (data[i] == 7) break;\n        atomicAdd(&bins[data[i]], 1);"),
        ("atomicAdd(&bins[data[i]], 1);", "bins[data[i]] = atomicAdd(&bins[data[i]], 1);"),
        ("        i += stride;\n    }", "        i += stride;\n    }\n    bins[i % 256] = 0;"),
        ("= blockDim.x * gridDim.x;", "= blockDim.x * gridDim.x - 1;"),
    ],
)
def test_a_while_that_is_no_such_for_is_left_alone(written: str, otherwise: str) -> None:
    assert built("wide_access", changed(COUNTED, (written, otherwise)), task_of("private_copy")) == []


@pytest.mark.parametrize(("element", "is_alone"), [("i", True), ("blockIdx.x", False)])
def test_an_index_stays_where_its_block_is_looked_at_too(element: str, is_alone: bool) -> None:
    text = (
        "// evo: launch k grid (ceil_div(N, 128)) block (128) shared 0\n"
        'extern "C" __global__ void k(float* out, const float* sums, int n) {\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n) return;\n"
        f"    out[i] = out[i] + sums[{element}];\n}}\n"
    )
    assert bool(BY_NAME["coarsen"].applications(parse_variant(text), axes=("N",))) == is_alone


WINDOW = example("tile_halo")
FLAT = example("unflatten")


@pytest.mark.parametrize(
    ("factor", "is_gone"), [("0.5f", True), ("logf(dx + 9.0f)", False), ("1.0f / (dx + R)", False)]
)
def test_a_test_for_the_edge_stays_where_zero_times_a_factor_may_be_no_zero(factor: str, is_gone: bool) -> None:
    """An infinite weight times the zeros around an image is NaN."""
    text = WINDOW.replace("acc += img[yy * W + xx]", f"acc += img[yy * W + xx] * ({factor})")
    (child, *_) = built("tile_halo", text)
    assert ("if (yy >= 0" not in child.text) == is_gone


@pytest.mark.parametrize(
    "spelling", ["index / (W * H)", "index / (H * W) % C", "(index / W) / H"], ids=["product", "modulo", "brackets"]
)
def test_an_index_is_taken_apart_however_its_places_are_spelled(spelling: str) -> None:
    (child, *_) = built("unflatten", FLAT.replace("index / W / H", spelling))
    assert [part.text for part in child.launches[0].grid] == ["ceil_div(W, 32)", "ceil_div(H, 8)", "C"]
    assert "%" not in child.text


def test_the_outer_size_of_an_index_may_be_any_product() -> None:
    """Of a number with a name, which the launch line says as a number; in another order than the places'."""
    text = FLAT.replace("index < C * H * W", "index < W * R * C * H").replace('extern "C"', '#define R 2\nextern "C"')
    text = text.replace("(C * H * W, 256)", "(2 * C * H * W, 256)").replace("= index / W / H", "= index / (H * W) / R")
    text = text.replace("        float value", "        const int plane = index / (H * W);\n        float value")
    (child, *_) = built("unflatten", text)
    assert [part.text for part in child.launches[0].grid][2] in ("2 * C", "C * 2")
    assert "const int plane = blockIdx.z;" in child.text


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("index % W", "index % H"),
        ("index < C * H * W", "index < C * H * W - 1"),
        ("index < C * H * W", "index < C * H * H"),
    ],
)
def test_an_index_over_something_else_is_left_whole(written: str, otherwise: str) -> None:
    assert built("unflatten", changed(FLAT, (written, otherwise))) == []


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("    if (index >= C * H * W) return;\n", ""),
        ("    const int total = C * H * W;\n    if (index < total) {\n", "    }\n"),
        ("    if (c >= C) return;\n", ""),
    ],
    ids=["return", "total", "outer place"],
)
def test_an_index_is_taken_apart_behind_any_test_of_its_whole(head: str, tail: str) -> None:
    places = "    const int j = index % W, i = index / W % H;\n    const int c = index / (W * H);\n"
    start, body = FLAT.split("    if (index < C * H * W) {\n")
    body = body[body.index("        float value") :].removesuffix("    }\n}\n")
    first, second = (places, head) if "c >=" in head else (head, places)
    text = f"{start}{first}{second}{body}{tail}}}\n"
    (child, *_) = built("unflatten", text)
    assert [part.text for part in child.launches[0].block] == ["32", "8"]
    assert "if (j >= W || i >= H) return;" in child.text
    assert "total" not in child.text
    assert "c >= C" not in child.text


@pytest.mark.parametrize("stored", ["m", "m * 2.0f", "x[i] - m"])
def test_a_sum_that_each_turn_stores_is_not_shared_out(stored: str) -> None:
    text = example("row_lanes").replace("m += x[i];", f"{{ m += x[i]; out[idx * C + i] = {stored}; }}")
    text = text.replace(
        "out[idx * C + i] = x[i] - m;\n        }\n        mean", "mean[idx] = 0.0f;\n        }\n        mean"
    )
    assert text.count("out[idx") == 1
    assert built("row_lanes", text) == []


def test_sizes_that_a_kernel_works_out_are_axes_of_its_grid() -> None:
    """Every other place of an image: its sizes are halves, which the launch line says in its own words."""
    sizes = "const int OH = (H + 1) / 2, OW = (W + 1) / 2;\n    int index ="
    text = FLAT.replace("int index =", sizes).replace("C * H * W, 256", "C * ((H + 1) // 2) * ((W + 1) // 2), 256")
    text = text.replace("C * H * W)", "C * OH * OW)").replace("index % W", "index % OW")
    text = text.replace("(index / W) % H", "(index / OW) % OH").replace("index / W / H", "index / (OH * OW)")
    (child, *_) = built("unflatten", text)
    grid = [part.text for part in child.launches[0].grid]
    assert grid == ["ceil_div((W + 1) // 2, 32)", "ceil_div((H + 1) // 2, 8)", "C"]
    behind = text.replace(sizes, "int index =").replace("if (index <", f"{sizes.splitlines()[0]}\n    if (index <")
    assert built("unflatten", behind) == []
