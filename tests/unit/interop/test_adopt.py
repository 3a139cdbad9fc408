"""`evo adopt`: what is read from files as strangers write them, what is refused, and what is written."""

from __future__ import annotations

import re
from contextlib import closing

import numpy as np
import pytest
from adopted_files import FILES, adopted_text, drafted

from evo.errors import SyntaxInvalid, UsageError
from evo.interop.adopt import Options, adopt
from evo.interop.adopt.draft import Draft, draft_of
from evo.interop.adopt.host_numbers import HostNumber, applied
from evo.interop.adopt.oracle import widened
from evo.interop.adopt.program import read_program
from evo.spec.reference import load_reference
from evo.spec.task import read_task


def named(name: str) -> Draft:
    return drafted(FILES / (name if name.endswith(".py") else f"{name}.cu"), "sobel" if "sobel" in name else None)


@pytest.mark.parametrize(
    ("name", "axes", "tensors", "launches"),
    [
        ("vector_add", "numElements", "A:in B:in C:out", "vectorAdd(A, B, C, numElements)"),
        ("matmul_tiled", "M N K", "A:in B:in C:out", "matmulTiled(A, B, C, M, N, K)"),
        (
            "reduce_template",
            "n blocks",
            "d_in:in out:out partial:scratch",
            "reduceSum(d_in, partial, n) reduceSum(partial, out, blocks)",
        ),
        ("histogram", "length", "deviceInput:in deviceBins:out", "histogram_kernel(deviceInput, deviceBins, length)"),
        ("softmax_launcher", "N C", "inp:in out:out", "softmax_kernel(out, inp, N, C)"),
        ("transpose", "nx ny", "idata:in tdata:out", "transposeNaive(tdata, idata)"),
        ("conv2d_constant", "width height", "d_in:in mask:in out:out", None),
        ("saxpy_managed", "N", "x:in y:inout", "saxpy(N, a, x, y)"),
        ("gelu_float4", "N", "x:in y:out", "gelu_f32x4(x, y, N)"),
        ("argmax", "rows cols", "logits:in index:out value:out", None),
        ("quantize_int8", "rows cols", "x:in q:out s:out", None),
        ("rgb_to_gray", "numRows numCols", "rgba:in grey:out", None),
        ("later/column_mean", "n_rows n_cols", "mat:in mean:out", "col_mean(mat, mean, n_rows, n_cols)"),
        ("later/leaky_relu_backward", "size", "input:in grad:inout", None),
        ("later/jacobi", "nx ny", "du:in df:in dnew:out", "jacobi(du, dnew, df, nx, ny, 1.0 / ((nx - 1) * (ny - 1)))"),
        ("later/embedding_gather", "vocab dim seq", "ids:in wte:in wpe:in out:out", None),
        (
            "scan_two_kernels",
            "n",
            "d_in:in out:out sums:scratch",
            "scanBlocks(d_in, out, sums, n) scanSums(sums, ceil_div(n, BLOCK_DIM)) addSums(out, sums, n)",
        ),
        ("third/dot_question", "N", "a:in b:in partial_c:out", "dot(a, b, partial_c)"),  # a block of imin(32, ...)
        (
            "third/kb_swish.py",  # a string in a Python file, which also tells the sizes and the scale
            "batch_size features",
            "x:in bias:in out:out",
            "swish_bias_kernel(x, bias, out, batch_size, features, scale)",
        ),
        (
            "third/lbm_thesis",  # a struct of numbers by value, used by a macro and a device function
            "nx ny",
            "f0:in f1:out rho:out",
            "step(f0, f1, rho, nx, ny, p_omega, p_ux, p_uy)",
        ),
        (
            "third/matrix_struct",  # a struct with a pointer by value, a dim3 from a function of the program
            "a1 a2 b2",
            "A_elements:in B_elements:in C_elements:out",
            "MatMulKernel(a2, a1, A_elements, b2, a2, B_elements, b2, a1, C_elements)",
        ),
        ("third/nbody_two", "nBodies", "p:inout", "bodyForce(p, dt, nBodies)"),  # an array of structs
        (
            "third/pt_ext",
            "batch_size state_size",
            "gate:in value:in out:out saved:out",
            "gated_forward_kernel(gate, value, out, saved, state_size)",
        ),
        ("third/raii_bench", "rows cols", "in_:in out:out", "l2_normalize(in_, out, rows, cols, eps)"),  # a lambda
        (
            "third/separable_sample",
            "imageW imageH",
            "Input:in c_Kernel:in Output:out Buffer:scratch",
            None,
        ),
        (
            "third/sobel_blog",  # rows with a pitch, `main` as a try block
            "width height",
            "d_in:in edges:out blurred:scratch mag:scratch",
            "blur(d_in, 512 * ceil_div(width, 512), blurred, 512 * ceil_div(4 * width, 512), width, height)"
            " sobel(blurred, 512 * ceil_div(4 * width, 512), mag, width, height)"
            " threshold(mag, edges, width * height, limit)",
        ),
        (
            "third/thrust_vec",  # d is changed in place and not copied back
            "sensors samples",
            "d:inout mean:out",
            "clampKernel(d, sensors * samples, lo, hi) sensorMean(d, mean, sensors, samples)",
        ),
        # `launchBatched<float, N>`: a function of a template that launches one, with a local constant
        ("fourth/batched_gemm", "batch", "A:in B:in C:out", "batchedMatMul(A, B, C, batch)"),
        ("fourth/black_scholes", "OPT_N", "Price:in Strike:in Years:in Result:out", None),
        # a launcher whose last argument has a default
        ("fourth/int8_matvec", "rows cols", "W:in scale:in x:in y:out", "qgemv(W, scale, x, xs, y, rows, cols)"),
        ("fourth/jacobi_blog", "NX NY", "u:in f:in u_new:out", "jacobi(u_new, u, f, h2)"),
        (
            "fourth/kmeans_assign",
            "n k",
            "km_d_points:in km_d_centroids:in km_d_labels:out km_d_sums:out km_d_counts:out",
            None,
        ),
        (
            "fourth/rms_ext",  # sizes from `size(-1)` and `numel() / hidden_size`
            "num_tokens hidden_size",
            "weight:in input:inout residual:inout",
            "fused_add_rms_norm_kernel(input, residual, weight, epsilon, num_tokens, hidden_size)",
        ),
        ("fourth/scan_managed", "n", "data:inout sums:out", None),
        (
            "fifth/lltm_accessors",  # extents that one variable indexes are one; indices 0, 1 and 2 are an extent of 3
            "batch_size gates_1 state_size",
            "gates:in old_cell:in new_h:out new_cell:out output_gate:out",
            None,
        ),
        ("fifth/qk_accessors", "q_0 q_1 q_2 k_1", "q:in k:in s:out", None),
        ("fifth/dot_chapter", "n", "da:in db:in dr:out", "dotKernel(da, db, dr, n)"),
        (
            "fourth/stretch_image",
            "width height",
            "d_in:in c_gain:in out:out",
            "stretch(d_in, out, width, height, 3 * width, c_gain)",
        ),
        ("sixth/avgpool_nchw", "n c h w", "d_in:in out:out", None),  # a method that calls another one of its own
        ("sixth/bitonic", "ONE", "values:inout", None),  # a launch for each step
        ("sixth/column_stats", "batch features", "in_:in mean:out inv_std:out", None),
        ("sixth/count_above", "N", "readings:in largest:inout above:out", None),
        (
            "sixth/cross_entropy",  # blocks from an array of sizes to try
            "B V",
            "logits:in targets:in losses:out hit:out",
            "crossentropy_forward_kernel1(losses, hit, logits, targets, B, V)",
        ),
        ("sixth/csr_spmv", "n", "row_ptr:in col_idx:in vals:in x:in y:out", None),
        (
            "sixth/ell_spmv",
            "numRows numCols maxNNZ",
            "colIdx:in value:in x:in y:out",
            "spmv_ell_kernel(numRows, numCols, maxNNZ, colIdx, value, x, y)",
        ),
        (
            "sixth/hamming_match",
            "nq nt",
            "matcher_query_:in matcher_train_:in matcher_idx_:out matcher_dist_:out",
            None,
        ),
        ("sixth/instance_norm_inplace", "N C H W", "gamma:in beta:in img:inout", None),
        ("sixth/masked_row_mean", "rows cols", "data:in mask:in mean:out count:out", None),
        ("sixth/matvec_by_example", "ROWS COLS", "a:in x:in y:out", None),
        ("sixth/pairwise_dist", "nq np dim", "q:in p:in d:out", None),
        (
            "sixth/relu_bias_backward",
            "batch features",
            "dy:in y:in dx:out db:out",
            None,
        ),  # what is returned is an output
        ("sixth/rotate_image", "w h", "dsrc:in ddst:out", None),
    ],
)
def test_the_host_code_tells_launches_tensors_and_sizes(name, axes, tensors, launches):
    found = named(name)
    assert sorted(found.axes) == sorted(axes.split())
    assert {f"{t.name}:{t.role}" for t in found.tensors} == set(tensors.split())
    if launches is not None:
        assert " ".join(f"{one.instance.name}({', '.join(one.args)})" for one in found.launches) == launches


def test_a_template_is_instantiated_as_it_is_launched():
    found = named("reduce_template")
    assert [launch.instance.template for launch in found.launches] == [{"T": "float", "blockSize": "256"}] * 2
    assert "template" not in found.launches[0].instance.text
    assert found.launches[0].shared == "1024"


def test_a_launcher_of_a_template_compiles_its_numbers_and_types_in():
    found = named("fourth/batched_gemm").launches[0]
    assert found.instance.template == {"T": "float", "N": "16"}
    assert found.block == ("16", "16")


def test_an_argument_that_a_call_leaves_out_has_its_default():
    found = named("fourth/int8_matvec").launches[0]
    assert (found.block, found.shared) == (("128",), "512")


def test_sizes_are_printed_as_launch_lines_have_them():
    n, one = HostNumber.named("n", 1000), HostNumber.number(1)
    up = applied("/", applied("-", applied("+", n, HostNumber.number(256)), one), HostNumber.number(256))
    assert (up.text, up.value) == ("ceil_div(n, 256)", 4)
    real = applied("int", applied("ceil", applied("/", applied("real", n), HostNumber.number(256.0))))
    assert (real.text, real.value) == ("ceil_div(n, 256)", 4)
    assert applied(">>", applied("*", n, HostNumber.number(4)), HostNumber.number(2)).text == "n"


def test_a_quotient_that_is_rounded_up_by_hand_is_a_ceil_div():
    n, b, one, zero = (
        HostNumber.named(w, v) if isinstance(w, str) else HostNumber.number(w)
        for w, v in (("n", 1000), ("b", 256), (1, 0), (0, 0))
    )
    rest, whole = applied("%", n, b), applied("/", n, b)
    ways = [
        applied("if", applied("!=", rest, zero), applied("+", whole, one), whole),
        applied("if", applied("==", rest, zero), whole, applied("+", whole, one)),
        applied("+", whole, applied("!=", rest, zero)),
        applied("+", whole, applied("if", applied(">", rest, zero), one, zero)),
    ]
    assert [(way.text, way.value) for way in ways] == [("ceil_div(n, b)", 4)] * 4
    aligned = applied("if", applied("!=", rest, zero), applied("+", applied("-", n, rest), b), n)
    assert (aligned.text, aligned.value) == ("b * ceil_div(n, b)", 1024)
    assert applied("if", applied("!=", rest, zero), whole, applied("+", whole, one)).text != "ceil_div(n, b)"


def test_what_is_rounded_up_may_itself_be_a_length_and_one_more():
    """Outputs of a window, (n - k) / s + 1 of them, in blocks."""
    n, k, block = (HostNumber.named(word, value) for word, value in (("n", 115), ("k", 3), ("block", 8)))
    one, two, eight = (HostNumber.number(value) for value in (1, 2, 8))
    strided = applied("+", applied("/", applied("-", n, k), two), one)
    close = applied("+", applied("-", n, k), one)
    for outputs, by, said, value in (
        (strided, eight, "ceil_div((n - k) // 2 + 1, 8)", 8),
        (strided, block, "ceil_div((n - k) // 2 + 1, block)", 8),
        (close, eight, "ceil_div(n - k + 1, 8)", 15),
    ):
        up = applied("/", applied("-", applied("+", outputs, by), one), by)
        assert (up.text, up.value) == (said, value)
    assert "ceil_div" not in applied("/", applied("+", n, HostNumber.number(9)), eight).text


def test_a_struct_by_value_becomes_its_fields():
    """Put together again only if a macro or a function uses it whole."""
    matrix, step = (named(f"third/{name}").launches[0].instance for name in ("matrix_struct", "lbm_thesis"))
    assert [param.type for param in matrix.params[:3]] == ["int", "int", "float*"]
    assert "Matrix A" not in matrix.text
    assert "row * A_width + e" in matrix.text
    assert "Params p; p.nx = p_nx;" in step.text
    assert "equilibrium(q, rho, p)" in step.text


def test_python_tells_sizes_and_numbers_of_a_launcher():
    found = named("third/kb_swish.py")
    assert found.axes == {"batch_size": 512, "features": 2048}
    assert [(scalar.name, scalar.value, scalar.given) for scalar in found.scalars] == [("scale", 1.7, True)]
    assert found.program.launches[0].line == 25  # of the Python file


def test_rows_with_a_pitch_have_no_float64_run():
    """A distance in bytes is another one if the elements are wider."""
    assert widened('extern "C" __global__ void k(float* y, int p) { *(float*)((char*)y + p) = 1.0f; }') is None


REFUSED = {
    "no kernel": ("int main() { return 0; }\n", 1),
    "a library": (
        "#include <cublas_v2.h>\nint main() {\n  cublasSgemm(h, 0, 0, 1, 1, 1, &a, A, 1, B, 1, &b, C, 1);\n}\n",
        3,
    ),
    "no launch": ("__global__ void k(float* x) { x[0] = 1; }\n", 1),
    "half a file": (
        "__global__ void k(float* x) {\n  x[0] = 1;\n}\n\nint main() {\n  float* x;\n  if (1) {\n    cudaMal\n",
        8,
    ),
    "a texture": (
        "__global__ void k(cudaTextureObject_t t, float* y) {\n  y[0] = tex1Dfetch<float>(t, 0);\n}\n"
        "void f(float* y, cudaTextureObject_t t) { k<<<1, 32>>>(t, y); }\n",
        1,
    ),
    "a grid barrier": (
        "__global__ void k(float* y) {\n  auto g = cooperative_groups::this_grid();\n  g.sync(); y[0] = 1;\n}\n"
        "void f(float* y) { k<<<1, 32>>>(y); }\n",
        2,
    ),
    "cub": (
        "__global__ void k(float* y) {\n  int a;\n  cub::BlockReduce<float, 32> r; y[0] = a;\n}\n"
        "void f(float* y) { k<<<1, 32>>>(y); }\n",
        3,
    ),
    "an accessor that is handed on": (
        "__device__ float f(torch::PackedTensorAccessor32<float, 2> x);\n"
        "__global__ void k(torch::PackedTensorAccessor32<float, 2> x) {\n  x[0][0] = f(x);\n}\n",
        3,
    ),
    "a launch on the device": (
        "__global__ void c(float* y) { y[0] = 1; }\n__global__ void k(float* y) {\n  c<<<1, 1>>>(y);\n}\n"
        "void f(float* y) { k<<<1, 32>>>(y); }\n",
        3,
    ),
    "a struct": (
        "struct P { float* y; int n; };\n__global__ void k(P p) { p.y[0] = 1; }\n"
        "void f(P p) {\n  k<<<1, 32>>>(p);\n}\n",
        4,
    ),
    "a launch for each element, of a kernel and another in turn": (
        "__global__ void k(float* y, int d) { y[d] = 1; }\nint main() {\n  int n = 1024; float* y;\n"
        "  cudaMalloc(&y, n * 4);\n  for (int d = 1; d < n; d++) if (d % 3) k<<<1, 32>>>(y, d);\n"
        "    else c<<<1, 32>>>(y, d);\n}\n"
        "__global__ void c(float* y, int d) { y[d] = 2; }\n",
        5,
    ),
    "a bracket that is missing": (
        "__global__ void k(float* y, int n) {\n  int i = threadIdx.x;\n  if (i < n) y[i = 2.0f;\n}\nint main() {\n"
        "  float* y; cudaMalloc(&y, 128); k<<<1, 32>>>(y, 32);\n}\n",
        3,
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_adopted_is_refused_with_its_line_and_a_next_step(tmp_path, kind):
    text, line = REFUSED[kind]
    path = tmp_path / "given.cu"
    path.write_text(text)
    with pytest.raises(SyntaxInvalid) as caught:
        draft_of(read_program(path, None, {}), {})
    assert re.search(rf"given\.cu:{line}\b", str(caught.value))
    assert caught.value.hint


def test_a_kernel_in_place_is_adopted_with_itself_as_the_reference(tmp_path):
    found = adopt(tmp_path, FILES / "saxpy_managed.cu", Options(name="saxpy", axes={"N": 70000}))
    task = read_task(found.folder)
    assert [(t.name, t.role, t.dtype) for t in task.tensors] == [("x", "in", "float32"), ("y", "inout", "float32")]
    assert {row.what for row in found.rows} >= {"launch", "axis", "tensor", "scalar", "reference"}
    with closing(load_reference(task)) as reference:
        case = task.check[0]
        given = reference.expectation(case, 3)
    wanted = 2.0 * given.inputs["x"].astype(np.float64) + given.inputs["y"]
    assert np.allclose(given.expected["y"], wanted, rtol=1e-12)
    assert given.trusted is not None
    with pytest.raises(UsageError):
        adopt(tmp_path, FILES / "saxpy_managed.cu", Options(name="saxpy"))


@pytest.mark.long
def test_integers_that_lead_nowhere_may_be_any_of_their_type(tmp_path):
    found = adopt(tmp_path, FILES / "fourth" / "scan_managed.cu", Options(name="scan"))
    task = read_task(found.folder)
    (data,) = task.inputs
    within = data.range.at(task.check[0].axes)
    assert (within.low, within.high) == (-(2**31), 2**31 - 1)
    table = adopt(tmp_path, FILES / "later" / "embedding_gather.cu", Options(name="embed"))
    assert next(t for t in read_task(table.folder).inputs if t.name == "ids").range is None


def test_cells_of_an_automaton_are_drawn_so_that_some_live_on(tmp_path):
    found = adopt(tmp_path, FILES / "fifth" / "life.cu", Options(name="life"))
    task = read_task(found.folder)
    within = task.inputs[0].range.at(task.check[0].axes)
    assert (within.low, within.high) == (0, 1)


def test_a_constant_that_only_a_template_argument_names_is_lifted():
    assert "constexpr int BLOCK = 256" in named("fifth/dot_chapter").code


@pytest.mark.long
def test_accessors_become_pointers_and_sizes(tmp_path):
    found = adopt(tmp_path, FILES / "fifth" / "lltm_accessors.cu", Options(name="lltm"))
    text = found.variant.read_text()
    assert "gates[(n * gates_size1 + 2) * gates_size2 + c]" in text
    assert "Accessor" not in text


@pytest.mark.long
def test_a_kernel_without_tensors_to_read_is_adopted(tmp_path):
    found = adopt(tmp_path, FILES / "fifth" / "mandelbrot.cu", Options(name="mandelbrot"))
    assert not read_task(found.folder).inputs


def test_the_original_in_doubles_keeps_what_has_no_float():
    head = "// evo: launch k grid (1) block (32) shared 4 * N args (x)\n"
    text = head + "__global__ void k(float* x) { x[0] = expf(1.5f); }\n"
    wide = widened(text)
    assert wide is not None
    assert "double* x" in wide
    assert "exp(1.5)" in wide
    assert "shared 2 * (4 * N) args (x)" in wide
    assert widened(text.replace("x", "gamma")) is not None  # no `mma`
    assert widened("__global__ void k(int* x) { x[0] = 1; }\n") is None
    assert widened("__global__ void k(float* x) { x[0] = __int_as_float(3); }\n") is None


def test_vectors_and_fast_quotients_run_in_doubles(tmp_path):
    """Of the helpers, the text has those that it calls: the compiler warns of others."""
    found = adopted_text(
        tmp_path,
        """\
__global__ void invert(const float4* x, float4* y, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n / 4) return;
    float4 v = x[i];
    y[i] = make_float4(__fdividef(1.0f, v.x), __saturatef(v.y), v.z, 0.5f * v.w);
}
int main() {
    int n = 4096;
    float *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMemcpy(x, hx, n * sizeof(float), cudaMemcpyHostToDevice);
    invert<<<(n / 4 + 127) / 128, 128>>>((float4*)x, (float4*)y, n);
    cudaMemcpy(hy, y, n * sizeof(float), cudaMemcpyDeviceToHost);
}
""",
    )
    assert (found.folder / "original_float64.cu").is_file()


@pytest.mark.long
def test_one_number_has_no_error_to_be_held_against(tmp_path):
    found = adopt(tmp_path, FILES / "reduce_template.cu", Options(name="reduce"))
    with closing(load_reference(read_task(found.folder))) as reference:
        given = reference.expectation(read_task(found.folder).check[0], 3)
    assert given.expected["out"].shape == (1,)
    assert given.trusted is None


@pytest.mark.long
def test_the_length_of_a_table_varies_with_the_numbers_that_lead_into_it(tmp_path):
    """No kernel is told how many rows a table has."""
    found = adopt(tmp_path, FILES / "later" / "embedding_gather.cu", Options(name="embed"))
    task = read_task(found.folder)
    assert len({case.axes["vocab"] for case in task.check} - {5000}) > 2
    case = task.check[1]
    with closing(load_reference(task)) as reference:
        drawn = reference.inputs(case, 3)
    assert drawn["wte"].shape == (case.axes["vocab"], case.axes["dim"])
    assert drawn["ids"].max() < case.axes["vocab"]


@pytest.mark.long
def test_short_axes_vary_in_check_cases(tmp_path):
    found = adopt(tmp_path, FILES / "layernorm.cu", Options(name="norm"))
    assert len({case.axes["B"] for case in read_task(found.folder).check}) > 2


BITONIC = """
#define NUM THREADS * BLOCKS
#define THREADS 64
#define BLOCKS 2
__global__ void step(float* values, int j, int k) {
    unsigned int i = threadIdx.x + blockDim.x * blockIdx.x, other = i ^ j;
    if (other > i && ((i & k) == 0) == (values[i] > values[other])) {
        float t = values[i]; values[i] = values[other]; values[other] = t;
    }
}
int main() {
    float* values;
    cudaMalloc(&values, NUM * sizeof(float));
    cudaMemcpy(values, 0, NUM * sizeof(float), cudaMemcpyHostToDevice);
    int j, k;
    for (k = 2; k <= NUM; k <<= 1)
        for (j = k >> 1; j > 0; j = j >> 1) step<<<BLOCKS, THREADS>>>(values, j, k);
    cudaMemcpy(0, values, NUM * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
CSR = """
__global__ void spmv(int n, const int* rowptr, const int* colidx, const float* val, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float t = 0.f;
    for (int k = rowptr[i]; k < rowptr[i + 1]; ++k) t += val[k] * x[colidx[k]];
    y[i] = t;
}
int main() {
    int n = 512;
    std::vector<float> read;
    int nnz = (int)read.size();
    int *rowptr, *colidx; float *val, *x, *y;
    cudaMalloc(&rowptr, (n + 1) * sizeof(int));
    cudaMalloc(&colidx, nnz * sizeof(int));
    cudaMalloc(&val, nnz * sizeof(float));
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    spmv<<<(n + 127) / 128, 128>>>(n, rowptr, colidx, val, x, y);
}
"""
POOL = """
struct Shape { int h, w; int out_h() const { return h / 2; } int size() const { return out_h() * (w / 2); } };
__global__ void pool(const float* in, float* out, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w / 2 && y < h / 2) out[y * (w / 2) + x] = in[2 * y * w + 2 * x];
}
int main() {
    Shape s{48, 64};
    float *in, *out;
    cudaMalloc(&in, s.w * s.h * sizeof(float));
    cudaMalloc(&out, s.size() * sizeof(float));
    pool<<<dim3(4, 4), dim3(16, 16)>>>(in, out, s.h, s.w);
}
"""


def test_a_loop_whose_launches_sizes_count_is_adopted_with_these_sizes(tmp_path):
    path = tmp_path / "given.cu"
    path.write_text(BITONIC)
    draft = draft_of(read_program(path, None, {}), {})
    assert [launch.args[1:] for launch in draft.launches[:3]] == [("1", "2"), ("2", "4"), ("1", "4")]
    assert len(draft.launches) == 7 * 8 / 2
    assert not set(draft.axes) & {"THREADS", "BLOCKS"}
    assert "depends on BLOCKS, THREADS" in " ".join(draft.notes)
    smaller = draft_of(read_program(path, None, {"BLOCKS": 1}), {})
    assert len(smaller.launches) == 6 * 7 / 2


def test_where_the_rows_of_a_sparse_matrix_begin_is_drawn_in_order(tmp_path):
    found = adopted_text(tmp_path, CSR)
    rows = {row.value.partition(":")[0]: row for row in found.rows if row.what == "tensor"}
    assert rows["rowptr"].value == "rowptr: in int32[n + 1]"
    assert "in order" in rows["rowptr"].why
    assert "below n as places in x" in rows["colidx"].why
    task = read_task(found.folder)
    with closing(load_reference(task)) as reference:
        given = reference.expectation(task.check[0], 3).inputs
    assert (np.diff(given["rowptr"].astype(int)) >= 0).all()
    assert (given["rowptr"][0], given["rowptr"][-1]) == (0, given["val"].size)


def test_extents_are_in_the_order_in_which_the_kernel_multiplies_by_them(tmp_path):
    found = adopted_text(tmp_path, POOL)
    shapes = {t.name: [part.text for part in t.shape] for t in read_task(found.folder).tensors}
    assert shapes["in_"] == ["h", "w"]
    assert shapes["out"] == ["h // 2", "w // 2"]  # a method that calls another one of its own
