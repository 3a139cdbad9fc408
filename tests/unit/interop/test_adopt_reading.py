"""`evo adopt`: extents from the steps of indices, roles through pointers that move, constants that stay or change."""

from __future__ import annotations

from pathlib import Path

import pytest
from adopted_files import drafted_text

from evo.errors import SyntaxInvalid
from evo.interop.adopt.draft import Draft, draft_of
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.extents import order_extents
from evo.interop.adopt.fixed_constants import settle_knobs
from evo.interop.adopt.pointer_accesses import accesses_of
from evo.interop.adopt.program import read_program
from evo.interop.adopt.task_texts import variant_text

FILES = Path(__file__).parents[2] / "data" / "adopt" / "eighth"


def shapes(draft: Draft) -> dict[str, list[str]]:
    order_extents(DraftTrial(draft, "given"))
    return {tensor.name: tensor.shape for tensor in draft.tensors}


def program(kernel: str, sizes: str, count: str, launch: str) -> str:
    """A kernel from x to y, both of so many floats."""
    one, two = count.split(";")
    return f"""{kernel}
int main() {{ {sizes} float *x, *y;
    cudaMalloc(&x, {one} * sizeof(float)); cudaMalloc(&y, {two} * sizeof(float));
    {launch}; float* h = new float[10]; cudaMemcpy(h, y, 8, cudaMemcpyDeviceToHost); }}"""


SHUFFLE = program(
    """__global__ void shuffle(const float* x, float* y, int C, int H, int W, int r) {
    int ow = blockIdx.x * blockDim.x + threadIdx.x, oh = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.z;
    if (ow >= W * r || oh >= H * r) return;
    int part = (oh % r) * r + ow % r;
    y[(c * H * r + oh) * W * r + ow] = x[((c * r * r + part) * H + oh / r) * W + ow / r];
}""",
    "int C = 3, H = 90, W = 160, r = 2;",
    "C * r * r * H * W; C * r * r * H * W",
    "shuffle<<<dim3((W * r + 15) / 16, (H * r + 15) / 16, C), dim3(16, 16)>>>(x, y, C, H, W, r)",
)
TWICE = program(
    """__global__ void twice(const float* x, float* y, int rows, int cols) {
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
    if (i < 2 * cols && j < 2 * rows) y[j * (2 * cols) + i] = x[(j / 2) * cols + i / 2];
}""",
    "const int rows = 480, cols = 640; const size_t n = rows * cols;",
    "n;4 * n",
    "twice<<<dim3((2 * cols + 31) / 32, (2 * rows + 7) / 8), dim3(32, 8)>>>(x, y, rows, cols)",
)
# One length divides the other, so that a number in an index could be a multiple of both.
COMPILED = program(
    """#define NX 1024
#define NY 512
__device__ int at(int i, int j) { return j * NX + i; }
__global__ void step(const float* x, float* y) {
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 4 + threadIdx.y;
    if (i > 0 && i < NX && j < NY) y[at(i, j)] = x[at(i - 1, j)];
}""",
    "",
    "NX * NY;NX * NY",
    "step<<<dim3((NX + 31) / 32, (NY + 3) / 4), dim3(32, 4)>>>(x, y)",
)
TAPS = program(
    """#define TAPS 3
__global__ void taps(const float* x, float* y, int planes, int C, int H, int W) {
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y, p = blockIdx.z;
    if (i >= W) return;
    float sum = 0;
    for (int k = 0; k < TAPS; ++k) for (int l = 0; l < TAPS; ++l) sum += x[((p % C) * TAPS + k) * TAPS + l];
    y[(p * H + j) * W + i] = sum;
}""",
    "int N = 2, C = 64, H = 56, W = 40;",
    "C * TAPS * TAPS;N * C * H * W",
    "taps<<<dim3((W + 31) / 32, H, N * C), 32>>>(x, y, N * C, C, H, W)",
)

# `(i) + n * (...)` is what a macro makes of an index: no cast of `+n` to a type i.
CUBE = program(
    """#define AT(i, j, k) ((i) + n * ((j) + n * (k)))
typedef float real;
__global__ void cube(const real* x, real* y, int n) {
    int k = blockIdx.x * 8 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y, i = blockIdx.z;
    if (j >= n || k >= n) return;
    y[AT(i, j, k)] = i > 0 ? x[AT(i - 1, j, k)] : (real) - x[AT(i, j, k)];
}""",
    "int n = 96, all = n * n * n;",
    "all;all",
    "cube<<<dim3((n + 7) / 8, (n + 7) / 8, n), dim3(8, 8)>>>(x, y, n)",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CUBE, {"x": ["n", "n", "n"], "y": ["n", "n", "n"]}),
        (SHUFFLE, {"x": ["C", "r", "r", "H", "W"], "y": ["C", "H * r", "W * r"]}),
        (TWICE, {"x": ["rows", "cols"], "y": ["2 * rows", "2 * cols"]}),
        (COMPILED, {"x": ["NY", "NX"], "y": ["NY", "NX"]}),
        (TAPS, {"x": ["C", "3", "3"], "y": ["N", "C", "H", "W"]}),  # the outermost extent as the host has it
    ],
    ids=["cube", "shuffle", "twice", "compiled", "taps"],
)
def test_extents_are_the_steps_of_indices(tmp_path: Path, text: str, expected: dict[str, list[str]]) -> None:
    assert shapes(drafted_text(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("kernel", "read", "written"),
    [
        ("void k(float* a, float* b) { float* p; if (b) p = a; else p = b + 1; p[0] = p[1] * 2; }", "ab", "ab"),
        ("void k(float* a, float* b) { a += 3; *a = 1.f; float v; v = b[2]; }", "b", "a"),
        ("void k(float* a, float* b) { float4* q; q = reinterpret_cast<float4*>(b); q[0] = *(float4*)a; }", "a", "b"),
        ("void k(float* a, half* b) { put(b[1], a[0]); }", "a", "b"),  # the overload that stores is the first
        ("void k(float* a, float* b) { add(a[0]); b[0] = 1; }", "a", "ab"),
        (
            "void k(float* a, float* b) { load_matrix_sync(f, a + 8, 8); wmma::store_matrix_sync(b + 8, f, 8); }",
            "a",
            "b",
        ),
    ],
)
def test_what_a_kernel_does_through_other_names_is_seen(kernel: str, read: str, written: str) -> None:
    helpers = "__device__ void put(half& o, float v) { o = v; } __device__ void put(int n) { n = 1; }"
    helpers += "__device__ void add(float& o) { o += 1; }"
    found = accesses_of(f"{helpers} __global__ {kernel}", "k")
    assert "".join(name for name, touch in found.items() if touch.read) == read
    assert "".join(name for name, touch in found.items() if touch.written) == written


SCATTER = """
__global__ void scatter(const float* src, const int* index, float* out, int n, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * d) atomicAdd(&out[index[i / d] * d + i % d], src[i]);
}
"""


def test_a_tensor_that_is_given_and_added_to_is_an_input_too(tmp_path: Path) -> None:
    launcher = "void run(float* out, const int* index, const float* src, int n, int d) {"
    given = drafted_text(
        tmp_path, f"{SCATTER} {launcher} scatter<<<(n * d + 255) / 256, 256>>>(src, index, out, n, d); }}"
    )
    assert {tensor.name: tensor.role for tensor in given.tensors}["out"] == "inout"


def test_what_is_cleared_and_changed_in_place_is_tried_with_other_values(tmp_path: Path) -> None:
    text = """__global__ void decay(float* x, const float* y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x; if (i < n) x[i] = x[i] * 0.5f + y[i]; }
int main() { int n = 4096; float *x, *y; cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4); cudaMemset(x, 0, n * 4);
    decay<<<(n + 255) / 256, 256>>>(x, y, n); float h[9]; cudaMemcpy(h, x, 36, cudaMemcpyDeviceToHost); }"""
    draft = drafted_text(tmp_path, text)
    DraftTrial(draft, "given").settle()
    assert {tensor.name: tensor.role for tensor in draft.tensors} == {"x": "inout", "y": "in"}


def test_a_vector_that_reads_like_an_expression_and_a_specialised_struct_are_read(tmp_path: Path) -> None:
    text = """#include <vector>
template <typename T> struct Num;
template <> struct Num<float> { static __device__ float half_of(float x) { return x / 2; } };
template <typename T> __global__ void halve(const T* x, T* y, int n) {
    int i = blockIdx.x * 128 + threadIdx.x; if (i < n) y[i] = Num<T>::half_of(x[i]); }
int main() { int b = 4, n = 1000; std::vector<float> hx(b * n * 2), hy(b * n * 2); float *x, *y;
    cudaMalloc(&x, hx.size() * sizeof(float)); cudaMalloc(&y, hy.size() * sizeof(float));
    halve<float><<<(b * n * 2 + 127) / 128, 128>>>(x, y, b * n * 2);
    cudaMemcpy(hy.data(), y, hy.size() * sizeof(float), cudaMemcpyDeviceToHost); }"""
    draft = drafted_text(tmp_path, text)
    assert sorted(draft.axes) == ["b", "n"]
    assert {tensor.name: tensor.shape for tensor in draft.tensors} == {"x": ["b", "n", "2"], "y": ["b", "n", "2"]}
    assert "Num<float>" in draft.code


TILES = program(
    """#define TILE 16
constexpr int DEPTH = 8;
#define EACH 4
#define BINS 64
__global__ void tiles(const float* x, float* y, int n) {
    __shared__ float part[DEPTH][TILE + 1];
    __shared__ float halo[TILE + 2 * EACH];
    for (int e = 0; e < EACH; ++e) {
        int i = (blockIdx.x * EACH + e) * TILE + threadIdx.x;
        part[e % DEPTH][threadIdx.x] = halo[threadIdx.x] = i < n ? x[i] : 0;
        if (i < n) y[i % BINS] = part[e % DEPTH][threadIdx.x];
    }
}""",
    "int n = 1 << 20;",
    "n;BINS",
    "tiles<<<(n + TILE * EACH - 1) / (TILE * EACH), TILE>>>(x, y, n)",
)


def test_constants_of_the_launch_and_of_tiles_are_knobs(tmp_path: Path) -> None:
    draft = drafted_text(tmp_path, TILES)
    assert draft.knobs == {"TILE": 16, "DEPTH": 8, "EACH": 4}
    text = variant_text(draft, "given")
    for knob, value in draft.knobs.items():
        domain = next(line for line in text.split("\n") if f"knob {knob} in" in line).partition(" in ")[2]
        assert str(value) in domain.split(", ")


@pytest.mark.parametrize(
    ("name", "axes", "knobs", "block"),
    [
        ("eleventh/kogge_stone_pmpp.cu", {"N": 4099}, "", ("512",)),  # another section has other sums
        ("scan_two_kernels.cu", {"n": 4099}, "BLOCK_DIM", ("BLOCK_DIM",)),
    ],
)
def test_a_constant_that_decides_what_is_computed_is_no_knob(
    name: str, axes: dict[str, int], knobs: str, block: tuple[str, ...]
) -> None:
    draft = draft_of(read_program(FILES.parent / name, None, {}), {})
    trial = DraftTrial(draft, "given")
    trial.settle()
    settle_knobs(trial, {"long": axes})
    assert (set(draft.knobs), draft.launches[-1].block) == (set(knobs.split()), block)


def test_a_size_that_is_compiled_in_stays_if_it_is_short_or_given_as_it_is(tmp_path: Path) -> None:
    assert drafted_text(tmp_path, TAPS).constants == {"TAPS": 3}
    assert drafted_text(tmp_path, TAPS, TAPS=5).axes["TAPS"] == 5
    assert "BINS" in drafted_text(tmp_path, TILES).axes
    kept = drafted_text(tmp_path, TILES, BINS=64)
    assert (kept.constants, "BINS" in kept.axes) == ({"BINS": 64}, False)


def test_what_does_not_compile_is_told_by_the_line_of_the_given_file(tmp_path: Path) -> None:
    draft = drafted_text(tmp_path, TWICE.replace("int i = blockIdx", "int i == blockIdx"))
    with pytest.raises(SyntaxInvalid, match=r"given\.cu:2: "):
        DraftTrial(draft, "given").settle()


BROKEN = """\
__global__ void f(float* x, int n) { if (threadIdx.x < n x[threadIdx.x] = 0; }
int main() { float* x; cudaMalloc(&x, 4096); f<<<1, 32>>>(x, 32); }
"""


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        ("import numba\n@cuda.jit\ndef f(x): ...\n", 2, "Numba"),
        ("import triton\n\n@triton.jit\ndef f(x): ...\n", 3, "Triton"),
        ("#include <x.h>\n// evo: task mine\n__global__ void f(float* x) { x[0] = 1; }\n", 2, "evo check given.cu"),
        ("// __global__\n" + BROKEN, 2, "nvcc"),
    ],
)
def test_what_is_no_kernel_to_adopt_is_told_by_its_line(tmp_path: Path, text: str, line: int, named: str) -> None:
    with pytest.raises(SyntaxInvalid) as refused:
        drafted_text(tmp_path, text)
    assert f"given.cu:{line}: " in refused.value.message
    assert named in f"{refused.value.message} {refused.value.hint}"


SLOTS = program(
    """__global__ void put(const float* x, float* y, const int* slot, int n) {
    int i = blockIdx.x; y[slot[i] * 32 + threadIdx.x] = x[i * 32 + threadIdx.x]; }""",
    "int n = 64, m = 512; int* slot; cudaMalloc(&slot, n * sizeof(int));",
    "n * 32;m * 32",
    "put<<<n, 32>>>(x, y, slot, n)",
)


def test_numbers_that_lead_writes_are_each_drawn_once(tmp_path: Path) -> None:
    draft = drafted_text(tmp_path, SLOTS)
    trial = DraftTrial(draft, "given")
    base = trial.settle()
    drawn = trial.inputs(base)["slot"]
    assert len(set(drawn.tolist())) == drawn.size


def test_the_default_of_a_launcher_s_parameter_is_its_size(tmp_path: Path) -> None:
    text = """__global__ void skip(const float* x, float* y, int n, int step) {
    int i = blockIdx.x * 64 + threadIdx.x; if (i < n / step) y[i] = x[i * step]; }
torch::Tensor run(torch::Tensor x, int step = 2) { int n = x.size(0); auto y = torch::empty({n / step}, x.options());
    skip<<<(n / step + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, step); return y; }"""
    assert drafted_text(tmp_path, text).axes["step"] == 2


@pytest.mark.parametrize(
    ("name", "tensors"),
    [
        ("adam_step", "grads:in params:inout m:out v:out"),  # the simulator sees that m and v are read first
        ("causal_conv1d", "x:in w:in b:in out:out"),
        ("gemv_acc", "da:in dx:in dy:inout"),
        ("kv_write", "k:in v:in slots:in kc:out vc:out"),
        ("maxpool_indices", "input:in output:out indices:out"),
        ("median_course", "in_:in out:out"),
        ("pixel_shuffle", "d_in:in out:out"),
        ("resize2x", "src:in dst:out"),
        ("rope_inplace", "q:out k:out pos:in"),
        ("scatter_add_ext", "src:in index:in w:in out:inout"),
        ("sgemv_blas", "A:in dx:in dy:inout"),
        ("wave2d_thesis", "u:in u_old:in c2:in u_new:out"),
    ],
)
def test_files_as_they_are_found_are_read(name: str, tensors: str) -> None:
    draft = draft_of(read_program(FILES / f"{name}.cu", None, {}), {})
    assert {f"{tensor.name}:{tensor.role}" for tensor in draft.tensors} == set(tensors.split())


SUM = """__global__ void vadd(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
MAIN = """int main() {
    const int n = 1 << 20; float *a, *b, *c;
    cudaMalloc(&a, n * sizeof(float)); cudaMalloc(&b, n * sizeof(float)); cudaMalloc(&c, n * sizeof(float));
    vadd<<<(n + 255) / 256, 256>>>(a, b, c, n);
    float* h = new float[n]; cudaMemcpy(h, c, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""


@pytest.mark.parametrize(
    ("text", "line", "what", "hint"),
    [
        (SUM + SUM + MAIN, 5, "there are two kernels vadd, in line 1 and here", "give one of them another name"),
        (
            SUM + MAIN.replace("255) / 256, 256", "TPB - 1) / TPB, TPB"),
            8,
            "nothing in the file defines TPB",
            "--axis TPB=",
        ),
    ],
    ids=["a kernel twice", "a macro of the command line"],
)
def test_a_mistake_is_told_at_its_line(tmp_path, text, line, what, hint):
    with pytest.raises(SyntaxInvalid) as told:
        drafted_text(tmp_path, text)
    assert f"given.cu:{line}: " in str(told.value)
    assert what in str(told.value)
    assert hint in str(told.value.hint)


@pytest.mark.parametrize(
    ("text", "line", "what", "hint"),
    [
        (SUM.replace("float* b", "double* b") + MAIN, 1, "`const double*` named `b`", "--tensor b:TYPE"),
        (SUM.replace("= a", "= SCALE * a") + MAIN, 3, '"SCALE" is undefined', "--axis SCALE="),
    ],
    ids=["another type than is allocated", "a macro of the command line"],
)
def test_what_does_not_compile_is_told_at_its_line(tmp_path, text, line, what, hint):
    with pytest.raises(SyntaxInvalid) as told:
        DraftTrial(drafted_text(tmp_path, text), "given").settle()
    assert f"given.cu:{line}: " in str(told.value)
    assert what in str(told.value)
    assert hint in str(told.value.hint)


def test_of_overloads_the_one_that_is_passed_as_much_is_launched(tmp_path):
    other = SUM.replace(", int n) {", ", int n, float by) {").replace("+ b[i]", "+ by * b[i]")
    assert "by * b" not in drafted_text(tmp_path, SUM + other + MAIN).code


def test_a_macro_of_the_command_line_is_given_as_a_size(tmp_path):
    """Of the launch alone, it is a number there; of the kernel, a macro."""
    text = SUM.replace("= a", "= SCALE * a") + MAIN.replace("255) / 256, 256", "TPB - 1) / TPB, TPB")
    draft = drafted_text(tmp_path, text, TPB=128, SCALE=3)
    assert draft.launches[0].block == ("128",)
    assert list(draft.axes) == ["n"]
    assert "#define SCALE 3" in draft.code


def test_variables_that_a_kernel_does_not_use_are_marked(tmp_path):
    """The compiler warns of them, and no warning of a variant passes."""
    lines = "    int lane = threadIdx.x % 32;\n    float was = 0.f; was = a[0];\n    if (i"
    draft = drafted_text(tmp_path, SUM.replace("    if (i", lines) + MAIN)
    DraftTrial(draft, "given").settle()
    assert "    [[maybe_unused]] int lane = " in draft.code
    assert "    [[maybe_unused]] float was = 0.f; was = a[0];" in draft.code
