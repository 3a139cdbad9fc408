"""One stencil as several hands write it: edges stored by themselves, loops over a grid of two axes, pointers."""

from __future__ import annotations

import pytest
from rule_children import DATA, built, changed, passes

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task, read_task

KERNEL = """\
// evo: task heat_stencil
// evo: launch step grid (ceil_div(W, 32), ceil_div(H, 8)) block (32, 8) shared 0
extern "C" __global__ void step(const float* u, float* v, float dt, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
        v[y * width + x] = u[y * width + x];
        return;
    }
    float c = u[y * width + x];
    float around = u[(y - 1) * width + x] + u[(y + 1) * width + x] + u[y * width + x - 1] + u[y * width + x + 1];
    v[y * width + x] = c + dt * (around - 4.0f * c);
}
"""
INDEX = """\
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
"""
LOOPS = """\
    for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < height; y += gridDim.y * blockDim.y)
    for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < width; x += blockDim.x * gridDim.x) {
"""
IDIOMS: dict[str, tuple[tuple[str, str], ...]] = {
    "an edge that returns": (),
    "an edge that returns, flat": (
        ("ceil_div(W, 32), ceil_div(H, 8)) block (32, 8)", "ceil_div(H * W, 256)) block (256)"),
        (INDEX, "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= height * width) return;\n"
                "    int y = i / width, x = i % width;\n"),
    ),
    "an edge that returns, by pointers": (
        (INDEX, f"{INDEX}    const float* p = u + y * width + x;\n    float* o = v + y * width + x;\n"),
        ("v[y * width + x]", "*o"), ("u[y * width + x]", "*p"), ("u[(y - 1) * width + x]", "p[-width]"),
        ("u[(y + 1) * width + x]", "p[width]"), ("u[y * width + x - 1]", "p[-1]"), ("u[y * width + x + 1]", "p[1]"),
    ),
    "a function that stays inside": (
        ("extern", "__device__ float at(const float* p, int y, int x, int h, int w) {\n"
         "    if (x < 0) x = 0;\n    if (y < 0) y = 0;\n    if (x >= w) x = w - 1;\n    if (y >= h) y = h - 1;\n"
         "    return p[(size_t)y * w + x];\n}\nextern"),
        ("u[(y - 1) * width + x] + u[(y + 1) * width + x]",
         "at(u, y - 1, x, height, width) + at(u, y + 1, x, height, width)"),
    ),
    "loops over the grid": (
        ("ceil_div(W, 32), ceil_div(H, 8)) block", "ceil_div(W, 64), ceil_div(H, 32)) block"),
        (INDEX, LOOPS), ("return;", "continue;"), ("4.0f * c);\n", "4.0f * c);\n    }\n"),
    ),
    "loops over the grid, in braces": (
        ("ceil_div(W, 32), ceil_div(H, 8)) block", "ceil_div(W, 64), ceil_div(H, 32)) block"),
        (INDEX, LOOPS.replace("blockDim.y)\n", "blockDim.y) {\n")), ("return;", "continue;"),
        ("4.0f * c);\n", "4.0f * c);\n    }\n    }\n"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def task() -> Task:
    return read_task(DATA / "foreign" / "kernels" / "heat_stencil")


@pytest.mark.parametrize("idiom", IDIOMS)
def test_threads_get_neighbours_however_it_is_written(bench: EvaluationSession, task: Task, idiom: str) -> None:
    child, *_ = built("neighbours", changed(KERNEL, *IDIOMS[idiom]), task)
    assert passes(bench, task, child)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v[y * width + x] = u[y * width + x];", "v[y * width + x + 1] = u[y * width + x];"),  # another element
        ("        return;\n", "        if (x > 0) return;\n"),  # both may be stored
        ("float c = u[y * width + x];", "float c = u[y * width + x]; if (c < 0.0f) return;"),
    ],
)
def test_two_stores_of_their_own_stay_two(task: Task, old: str, new: str) -> None:
    assert not any("stored" in child.text for child in built("neighbours", changed(KERNEL, (old, new)), task))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y += gridDim.y * blockDim.y", "y += gridDim.y"),  # turns that overlap
        ("x < width", "x < width - y"),
        ("y * blockDim.y + threadIdx.y", "x * blockDim.y + threadIdx.y"),
    ],
)
def test_other_loops_are_no_turn_of_a_grid(task: Task, old: str, new: str) -> None:
    text = changed(KERNEL, *IDIOMS["loops over the grid"])
    head, _, body = text.partition("{\n")
    assert built("neighbours", text, task)
    assert not built("neighbours", f"{head}{{\n{changed(body, (old, new))}", task)
