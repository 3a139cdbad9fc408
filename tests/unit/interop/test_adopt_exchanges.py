"""`evo adopt`: variables that calls exchange or set, programs without options, branches of Python, warnings."""

from __future__ import annotations

import pytest
from adopted_files import FILES, adopted_text, drafted, drafted_text

from evo.errors import SyntaxInvalid, TaskInvalid
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.oracle import widened


@pytest.mark.parametrize(
    ("name", "axes", "tensors"),
    [
        ("csr_struct_spmv.cu", "m nnz", "row_ptr:in col_idx:in values:in dx:in dy:out"),
        ("fft_stages_complex.cu", "BATCH N", "a:inout"),
        ("heat2d_memcpy2d.cu", "nx ny", "d0:in d1:out"),
        ("ising_curand.cu", "nx ny", "randvals:in lattice_b:out"),
        ("levenshtein_wavefront.cu", "pairs MAXLEN", "da:in db:in dla:in dlb:in dres:out"),
        ("particles_managed.cu", "N", "wells:in particles:inout"),
        ("pycuda_bilateral.py", "size_0 size_1", "img:in out:out"),
        ("softmax_inline_dispatch.py", "B H T", "scores:in probs:out"),
        ("thomas_batched.cu", "n nsys", "solver_a_:in solver_b_:in solver_c_:in solver_d_:in solver_x_:out"),
    ],
)
def test_fresh_files_are_read_as_they_are_meant(name, axes, tensors):
    draft = drafted(FILES / "sixteenth" / name)
    assert set(draft.axes) == set(axes.split())
    assert {f"{tensor.name}:{tensor.role}" for tensor in draft.given} == set(tensors.split())


@pytest.mark.parametrize(
    ("name", "axes", "tensors", "kernel"),
    [
        ("alibi_attn_ext", "B H S D", "q:in k:in slopes:in out:out", "scores_kernel"),  # a switch macro around a lambda
        ("bench_fnptr", "rows cols", "x:in y:out", "l2norm_block"),  # `kernel<<<grid, block>>>(args...)`
        ("bilateral_make", "w h", "src:in c_gauss:in dst:out", "bilateral"),  # a struct from malloc, read by fscanf
        ("cg_dot_occupancy", "batch len", "da:in db:in dout:out", "batched_dot"),  # cudaLaunchKernel
        ("crossentropy_dev", "B T V", "logits:in targets:in out:out", "crossentropy_forward_kernel1"),  # cudaCheck(...)
        ("gpu_matrix_class", "rows cols", "a:in result:out", "logsumexp_rows"),  # a constructor that delegates
        ("gtest_scan", "rows len", "d_in:in out:out", "RowScan"),  # TEST_F
        ("kernel_table", "size_x size_y", "idata:in odata:out", "transposeNaive"),  # `kernel = &transposeNaive`
        ("lambda_parallel_for", "nx ny", "dh:in du:inout", "for_each_2d"),  # views with `operator()`
        ("mapped_zero_copy", "n", "hx:in hy:out", "window_sum"),  # memory of the host that is mapped
        ("nbody_cpp", "n", "bodies:in ax:out", "accelerate"),  # `auto const& [n, ...]`, `buffer = vector`, std::array
        ("omp_multi", "N", "c_d_data:in c_d_bins:out", "hist_atomics"),  # structs by pointer, from calloc
        ("warp_softmax_policy", "rows cols", "x:in y:out", "SoftmaxWarpImpl"),  # loaders by value, macros of `else if`
        ("std_array_gray", "WIDTH HEIGHT", "rgb:in weights:in gray:out", "to_gray"),  # `if (auto e = ...; e != ...)`
        ("swiglu_ext", "num_tokens input_1", "input:in out:out", "act_and_mul_kernel"),  # a macro that launches
    ],
)
def test_launches_behind_macros_pointers_and_tests_are_read(name, axes, tensors, kernel):
    draft = drafted(FILES / "twentyfirst" / f"{name}.cu")
    assert set(draft.axes) == set(axes.split())
    assert {f"{tensor.name}:{tensor.role}" for tensor in draft.given} == set(tensors.split())
    assert draft.program.launches[-1].kernel == kernel


def test_a_macro_that_is_defined_anew_is_what_it_stands_for_there(tmp_path):
    text = """#define RUN(n) k<n><<<4, n>>>(d, 4 * n);
template <int N> __global__ void k(float* x, int n) { int i = blockIdx.x * N + threadIdx.x; if (i < n) x[i] *= 2; }
void first(float* d) { RUN(32) }
#undef RUN
#define RUN(n) k<n><<<8, n>>>(d, 8 * n);
int main() {
    float *d, h[512];
    cudaMalloc(&d, 2048); cudaMemcpy(d, h, 2048, cudaMemcpyHostToDevice);
    RUN(64)
    cudaMemcpy(h, d, 2048, cudaMemcpyDeviceToHost);
}
"""
    (launch,) = drafted_text(tmp_path, text).launches
    assert (launch.grid, launch.block, launch.instance.template) == (("8",), ("64",), {"N": "64"})


def test_an_object_whose_method_writes_is_an_output_and_keeps_no_constructor():
    """`store.store(buf + i, row, col)` writes; a constructor of the host would forbid to put `store` together."""
    draft = drafted(FILES / "twentyfirst" / "warp_softmax_policy.cu")
    text = draft.launches[0].instance.text
    assert "DirectStore<float, float> store; store.dst = store_dst;" in text
    assert "float buf[8];" in text  # the branch for 200 columns
    assert "DirectStore(DST* dst" not in draft.code
    assert "void store(const SRC* src" in draft.code


def test_methods_that_return_an_expression_are_it():
    """So that the rules see what is read: `H(i, j)` of a view is `H_p[j * H_nx + i]`, captured by a lambda or not."""
    text = drafted(FILES / "twentyfirst" / "lambda_parallel_for.cu").launches[0].instance.text
    assert "f_U_p[j * f_U_nx + i] += f_dt * f_g * lap;" in text
    assert "f_H_p[jp * f_H_nx + i]" in text


VIEW = """
template <class T> struct View {
    T* data; int pitch;
    __device__ T& at(int r, int c) { return data[r * pitch + c]; }
    __device__ T row_sum(int r, int n) const {
        T s = 0;
        for (int c = 0; c < n; ++c) s += data[r * pitch + c];
        return s;
    }
};
__global__ void means(View<float> in, View<float> out, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) out.at(r + 1 - 1, 0) = in.row_sum(r, cols) / cols;
}
#define DIE(x) { if ((x) != cudaSuccess) return 1; }
int main() {
    int rows = 300, cols = 200; float *a, *b, *h = new float[rows * cols];
    DIE(cudaMalloc(&a, rows * cols * sizeof(float)))
    DIE(cudaMalloc(&b, rows * sizeof(float)))
    DIE(cudaMemcpy(a, h, rows * cols * sizeof(float), cudaMemcpyHostToDevice))
    means<<<(rows + 127) / 128, 128>>>(View<float>{a, cols}, View<float>{b, 1}, rows, cols);
    DIE(cudaMemcpy(h, b, rows * sizeof(float), cudaMemcpyDeviceToHost))
}
"""


def test_a_struct_template_by_value_is_taken_apart_and_put_together(tmp_path):
    """A method of one expression becomes that; one with a loop needs the struct itself."""
    draft = drafted_text(tmp_path, VIEW)
    text = draft.launches[0].instance.text
    names = [param.name for param in draft.launches[0].instance.params]
    assert names == ["in_data", "in_pitch", "out_data", "out_pitch", "rows", "cols"]
    assert "View<float> in; in.data = in_data; in.pitch = in_pitch;" in text
    assert "out_data[(r + 1 - 1) * out_pitch + 0] = in.row_sum(r, cols)" in text
    assert [(t.name, t.role, t.shape) for t in draft.given] == [("a", "in", ["rows", "cols"]), ("b", "out", ["rows"])]


NPY = """
#include "cnpy.h"
__global__ void shifted(const float* x, const float* bias, float* y, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols) y[blockIdx.y * cols + c] = x[blockIdx.y * cols + c] + bias[c];
}
int main(int argc, char** argv) {
    cnpy::NpyArray a = cnpy::npy_load(argv[1]);
    if (a.shape.size() != 2) return 1;
    COUNTED
    float *x, *b, *y, *h = new float[ROWS * cols];
    cudaMalloc(&x, a.num_bytes()); cudaMalloc(&y, a.num_bytes()); cudaMalloc(&b, cols * sizeof(float));
    cudaMemcpy(x, a.data<float>(), a.num_bytes(), cudaMemcpyHostToDevice);
    const int threads = cols < 256 ? cols : 256;
    shifted<<<dim3((cols + threads - 1) / threads, ROWS), threads>>>(x, b, y, ROWS, cols);
    cudaMemcpy(h, y, a.num_bytes(), cudaMemcpyDeviceToHost);
}
"""


def test_sizes_that_a_library_tells_are_guesses_and_the_hint_for_others_works(tmp_path):
    text = NPY.replace("COUNTED", "const int rows = a.shape[0], cols = a.shape[1];").replace("ROWS", "rows")
    draft = drafted_text(tmp_path, text)
    assert draft.axes == {"rows": 1024, "cols": 16384}  # cols as the length of an allocation
    assert sorted(draft.program.host.unknown_sizes) == ["cols", "rows"]
    assert draft.launches[0].grid == ("ceil_div(cols, min(cols, 256))", "rows")
    assert drafted_text(tmp_path, text, rows=77).axes["rows"] == 77
    text = NPY.replace("COUNTED", "const int cols = a.shape[1];").replace("ROWS", "a.shape[0]")
    with pytest.raises(SyntaxInvalid) as raised:
        drafted_text(tmp_path, text)
    assert raised.value.hint is not None
    assert "`int n = ...;`" in raised.value.hint  # which the first text does


@pytest.mark.parametrize(
    ("old", "new", "line", "to_do"),
    [
        ("&transposeNaive", "&transposeNaiv", 47, "copyKernel, transposeNaive"),
        ("<<<grid, threads>>>(d_odata", "<<<grid>>>(d_odata", 47, "<<<grid, block>>>"),
    ],
)
def test_a_launch_that_cannot_be_read_names_what_to_write(tmp_path, old, new, line, to_do):
    text = (FILES / "twentyfirst" / "kernel_table.cu").read_text()
    assert old in text
    with pytest.raises(SyntaxInvalid) as raised:
        drafted_text(tmp_path, text.replace(old, new))
    assert f"given.cu:{line}: " in str(raised.value)
    assert to_do in str(raised.value.hint)


COUNTED = """
struct View { float* p; __device__ float squared(int i) const { return p[i] * p[i]; } };
__device__ int next(int* c) { return atomicAdd(c, 1); }
__global__ void k(View v, int* c, float* y, int n) {
    if (blockIdx.x * 64 + threadIdx.x < n) y[blockIdx.x * 64 + threadIdx.x] = v.squared(next(c));
}
int main() {
    int n = 4096, *c; float *x, *y, *h = new float[n];
    cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4); cudaMalloc(&c, 4); cudaMemset(c, 0, 4);
    cudaMemcpy(x, h, n * 4, cudaMemcpyHostToDevice);
    k<<<(n + 63) / 64, 64>>>(View{x}, c, y, n);
    cudaMemcpy(h, y, n * 4, cudaMemcpyDeviceToHost);
}
"""


def test_what_has_an_effect_is_not_written_twice(tmp_path):
    """`p[next(c)] * p[next(c)]` would count twice."""
    text = drafted_text(tmp_path, COUNTED).launches[0].instance.text
    assert "v.squared(next(c))" in text
    assert "View v; v.p = v_p;" in text


def test_an_include_keeps_its_name_in_float64():
    """`float.h` has been asked for as `double.h`, so that a kernel with FLT_MAX was held to its last rounding."""
    wide = widened("#include <float.h>\n__global__ void f(float* x) { x[0] = -FLT_MAX; }\n")
    assert wide is not None
    assert "#include <float.h>\n__global__ void f(double* x)" in wide


@pytest.mark.parametrize(
    ("name", "axes", "tensors", "launches"),
    [
        ("floyd_warshall", {"n": 512, "k": 5}, "dist:inout next:inout", ["fw_step"]),
        ("gauss_jordan", {"ONE": 1}, "A:inout db:inout", ["normalize_row", "eliminate"] * 48),
    ],
)
def test_files_with_many_steps_are_read_as_they_are_meant(name, axes, tensors, launches):
    draft = drafted(FILES / "seventeenth" / f"{name}.cu")
    assert draft.axes == axes
    assert {f"{tensor.name}:{tensor.role}" for tensor in draft.given} == set(tensors.split())
    assert [launch.instance.name for launch in draft.launches] == launches


@pytest.mark.parametrize(
    ("name", "axes", "tensors"),
    [
        # Pointers are allocated and filled in turn, `for (float** p : {&px_, &py_})`.
        (
            "nbody_pointers",
            {"n": 4096},
            "sys_mass_:in sys_px_:inout sys_py_:inout sys_vx_:inout sys_vy_:inout",
        ),
        ("nearest_file", {"nq": 8192, "nr": 2048}, "q:in r:in i:out d:out"),  # sizes where there is no such file
        ("rotate_notex", {"width": 1024, "height": 1024}, "img:in res:out"),  # `tex2D_ptr`, options in a loop
    ],
)
def test_files_that_begin_with_lists_and_options_are_read_as_they_are_meant(name, axes, tensors):
    draft = drafted(FILES / "nineteenth" / f"{name}.cu")
    assert draft.axes == axes
    assert {f"{tensor.name}:{tensor.role}" for tensor in draft.given} == set(tensors.split())


SCALE = """#include <utility>
__global__ void scale(const float* from, float* to, int n, float by) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) to[i] = by * from[i];
}
"""
OWN = "template <class T> void swap(T& a, T& b) { T t = a; a = b; b = t; }\n"
BY_PLACE = "void change(float** a, float** b) { float* t = *a; *a = *b; *b = t; }\n"
TWICE = """int main() {{ int n = 1 << 20; float *x, *y; cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4);
    float* h = new float[n]; cudaMemcpy(x, h, n * 4, cudaMemcpyHostToDevice);
    for (int i = 0; i < 2; ++i) {{ scale<<<(n + 255) / 256, 256>>>(x, y, n, i + 1.5f); {swap}; }}
    cudaMemcpy(h, x, n * 4, cudaMemcpyDeviceToHost); }}"""


@pytest.mark.parametrize(
    ("before", "swap"),
    [("", "std::swap(x, y)"), (OWN, "swap(x, y)"), (BY_PLACE, "change(&x, &y)")],
    ids=["std", "references", "places"],
)
def test_buffers_that_a_call_exchanges_change_places(tmp_path, before, swap):
    draft = drafted_text(tmp_path, SCALE + before + TWICE.format(swap=swap))
    assert [launch.args[:2] for launch in draft.launches] == [("x", "y"), ("y", "x")]


def test_vectors_that_exchange_what_they_hold_change_places(tmp_path):
    text = """int main() { int n = 4096; thrust::host_vector<float> h(n); thrust::device_vector<float> a = h, b(n);
    for (int i = 0; i < 2; ++i) {
        scale<<<(n + 255) / 256, 256>>>(thrust::raw_pointer_cast(a.data()), thrust::raw_pointer_cast(b.data()), n,
                                        i + 1.5f);
        a.swap(b);
    }
    h = a; }"""
    draft = drafted_text(tmp_path, SCALE + text)
    assert [launch.args[:2] for launch in draft.launches] == [("a", "b"), ("b", "a")]


def test_what_a_function_sets_by_reference_is_set_for_its_caller(tmp_path):
    text = """void sizes(int& count) { count = 5000; }
void made(float*& p, int n) { cudaMalloc(&p, n * sizeof(float)); }
int main() { int n; sizes(n); float *x, *y; made(x, n); made(y, n); float* h = new float[n];
    cudaMemcpy(x, h, n * 4, cudaMemcpyHostToDevice); scale<<<(n + 255) / 256, 256>>>(x, y, n, 2.f);
    cudaMemcpy(h, y, n * 4, cudaMemcpyDeviceToHost); }"""
    draft = drafted_text(tmp_path, SCALE + text)
    assert draft.axes == {"n": 5000}
    assert {f"{tensor.name}:{tensor.role}" for tensor in draft.tensors} == {"x:in", "y:out"}


def test_a_program_is_read_without_options():
    draft = drafted(FILES / "sixteenth" / "ising_curand.cu")
    assert draft.axes == {"nx": 2048, "ny": 2048}
    (inverse,) = draft.scalars
    assert inverse.value == pytest.approx(1 / (0.1 * 2.26918531421))


def test_memory_of_a_struct_that_was_copied_from_the_hosts_is_its_own():
    """Its pointers are the host's arrays at first; how many elements that are not zero nothing tells."""
    draft = drafted(FILES / "sixteenth" / "csr_struct_spmv.cu")
    assert draft.axes["nnz"] == 1 << 18  # about as many as the rows that the launch has, not as their root
    assert draft.launches[0].args[2] == "nnz"


def test_a_field_that_nothing_tells_and_the_kernel_leaves_alone_is_none_of_its_sizes(tmp_path):
    text = """struct Rows { int count; int capacity; float* x; };
__global__ void twice(Rows rows, float* y) {
    int i = blockIdx.x * 256 + threadIdx.x; if (i < rows.count) y[i] = 2 * rows.x[i]; }
int main() { Rows d; d.count = 3000; for (d.capacity = 1; d.capacity < d.count; d.capacity *= 2); float* y;
    cudaMalloc(&d.x, d.count * 4); cudaMalloc(&y, d.count * 4); float* h = new float[d.count];
    cudaMemcpy(d.x, h, d.count * 4, cudaMemcpyHostToDevice); twice<<<(d.count + 255) / 256, 256>>>(d, y);
    cudaMemcpy(h, y, d.count * 4, cudaMemcpyDeviceToHost); }"""
    draft = drafted_text(tmp_path, text)
    assert draft.launches[0].args == ("count", "0", "x", "y")


@pytest.mark.parametrize(
    "size",
    ["n = int(sys.argv[1]) if len(sys.argv) > 1 else 3000", "if files:\n    n = read()\nelse:\n    n = 3000"],
    ids=["expression", "statement"],
)
def test_what_python_does_without_arguments_is_read(tmp_path, size):
    path = tmp_path / "given.py"
    path.write_text(f"""import sys
import cupy as cp
scale = cp.RawKernel(r'''extern "C" {SCALE.partition("utility>")[2].lstrip()}''', "scale")
{size}
x = cp.random.rand(n, dtype=cp.float32)
y = cp.empty_like(x)
scale(((n + 255) // 256,), (256,), (x, y, n, 2.0))
""")
    assert drafted(path).axes == {"n": 3000}


@pytest.mark.parametrize(
    ("helper", "statement", "told"),
    [
        ("__device__ float sign(float a) { if (a > 0) return 1.f; else if (a <= 0) return -1.f; }", "", "return {};"),
        ("", "y[i] == 0;", "(void)(y[i] == 0);"),
        ("", "if (i >= 0 && 0 > i) y[i] = 1.f;", "if (true && false)"),
        ("", "int unused, other;", "[[maybe_unused]] int unused, other;"),
    ],
    ids=["no return", "no effect", "beside 0", "unused"],
)
def test_what_a_compiler_warns_of_is_mended(tmp_path, helper, statement, told):
    """No warning of a variant passes."""
    text = f"""{helper}
__global__ void scale(const float* x, float* y, unsigned n) {{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {{ y[i] = {"sign(x[i])" if helper else "x[i]"}; {statement} }}
}}
int main() {{ unsigned n = 4096; float *x, *y; cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4);
    float* h = new float[n]; cudaMemcpy(x, h, n * 4, cudaMemcpyHostToDevice);
    scale<<<(n + 255) / 256, 256>>>(x, y, n); cudaMemcpy(h, y, n * 4, cudaMemcpyDeviceToHost); }}"""
    draft = drafted_text(tmp_path, text)
    assert told not in draft.code
    DraftTrial(draft, "given").settle()
    assert told in draft.code


def test_a_number_that_python_works_out_is_the_calls():
    (scale,) = drafted(FILES / "sixteenth" / "softmax_inline_dispatch.py").scalars
    assert scale.given
    assert scale.value == pytest.approx(1 / 80**0.5)


def test_a_length_that_one_size_asks_for_is_not_asked_of_the_others(tmp_path):
    text = """__global__ void halves(const float* x, float* y, int rows, int cols) {
    int i = blockIdx.x * 512 + threadIdx.x;
    y[blockIdx.y * cols + i] = x[blockIdx.y * cols + (i + 512) % 1024];
}
int main() { int rows = 300, cols = 1024; float *x, *y;
    cudaMalloc(&x, rows * cols * 4); cudaMalloc(&y, rows * cols * 4);
    float* h = new float[rows * cols]; cudaMemcpy(x, h, rows * cols * 4, cudaMemcpyHostToDevice);
    halves<<<dim3(cols / 512, rows), 512>>>(x, y, rows, cols);
    cudaMemcpy(h, y, rows * cols * 4, cudaMemcpyDeviceToHost); }"""
    draft = drafted_text(tmp_path, text)
    assert DraftTrial(draft, "given").settle() == {"rows": 16, "cols": 2048}


def test_a_task_whose_inputs_leave_the_kernel_nothing_to_do_is_refused(tmp_path):
    """One of four billion values is changed, so that a kernel which does nothing would be right."""
    text = """__global__ void visit(int* dist, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && dist[i] == 123456789) dist[i] = 7;
}
int main() { int n = 5000; int* d; cudaMalloc(&d, n * 4); int* h = new int[n];
    cudaMemcpy(d, h, n * 4, cudaMemcpyHostToDevice); visit<<<(n + 255) / 256, 256>>>(d, n);
    cudaMemcpy(h, d, n * 4, cudaMemcpyDeviceToHost); }"""
    with pytest.raises(TaskInvalid) as refused:
        adopted_text(tmp_path, text)
    assert refused.value.problem == "accepts-too-much"


STREAM = """#include <fstream>
int main(int argc, char** argv) { if (argc < 2) return 1; int width, height; std::string magic;
    std::ifstream file(argv[1]); file >> magic >> width >> height; int n = width * height; float *x, *y;
    cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4); scale<<<(n + 255) / 256, 256>>>(x, y, n, 2.f);
    float* h = new float[n]; cudaMemcpy(h, y, n * 4, cudaMemcpyDeviceToHost); }"""


def test_sizes_that_are_read_from_a_stream_are_guesses(tmp_path):
    draft = drafted_text(tmp_path, SCALE + STREAM)
    assert draft.axes == {"width": 1024, "height": 1024}
    assert set(draft.program.host.unknown_sizes) == {"width", "height"}


LADDER = """__global__ void same(const float* from, float* to, int n, float by) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) to[i] = from[i] * by;
}
void run(int kernel, int n, float* x, float* y) {
    switch (kernel) {
        case 0: scale<<<(n + 255) / 256, 256>>>(x, y, n, 2.f); break;
        case 1: same<<<(n + 127) / 128, 128>>>(x, y, n, 2.f); break;
        default: throw std::invalid_argument("unknown kernel");
    }
}
int main(int argc, char** argv) { int kernel = std::stoi(argv[1]); std::vector<int> sizes = {1000, 2000, 3000};
    float *x, *y; cudaMalloc(&x, 3000 * 4); cudaMalloc(&y, 3000 * 4); float* h = new float[3000];
    cudaMemcpy(x, h, 3000 * 4, cudaMemcpyHostToDevice);
    for (int n : sizes) { run(kernel, n, x, y); cudaMemcpy(h, y, n * 4, cudaMemcpyDeviceToHost); } }"""


@pytest.mark.parametrize(("asked", "launched"), [(None, "same"), ("scale", "scale")])
def test_of_cases_that_nothing_decides_the_last_is_taken_or_that_of_the_kernel(tmp_path, asked, launched):
    draft = drafted_text(tmp_path, SCALE + LADDER, asked)
    assert [launch.instance.name for launch in draft.launches] == [launched]
    assert draft.axes["n"] == 3000  # of a sweep the last turn


def test_channels_that_an_image_is_asked_for_are_three_under_any_name(tmp_path):
    text = """__global__ void invert(const unsigned char* in, unsigned char* out, int n, int c) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n * c) out[i] = 255 - in[i];
}
int main() { cv::Mat img = cv::imread("a.png"); int n = img.rows, ch = img.channels(); unsigned char *a, *b;
    cudaMalloc(&a, n * ch); cudaMalloc(&b, n * ch); cudaMemcpy(a, img.data, n * ch, cudaMemcpyHostToDevice);
    invert<<<(n * ch + 255) / 256, 256>>>(a, b, n, ch); cudaMemcpy(img.data, b, n * ch, cudaMemcpyDeviceToHost); }
"""
    assert drafted_text(tmp_path, text).axes == {"n": 1024, "ch": 3}
