"""`evo adopt`: lambdas that kernels are given, sizes that an `if` rounds up, and the files of the fifteenth folder."""

from __future__ import annotations

import pytest
from adopted_files import FILES, adopted_text, drafted, drafted_text

from evo.interop.adopt.oracle import widened
from evo.interop.adopt.task_texts import variant_text
from evo.spec.task import read_task

FRESH = FILES / "fifteenth"

APPLY = """
template <typename F> __global__ void each(int n, F f) {{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {call};
}}
int main() {{
    const int n = 4096; float *x, *y;
    cudaMalloc(&x, n * sizeof(float)); cudaMalloc(&y, n * sizeof(float));
    auto p = x; float scale = 0.25f;
    each<<<(n + 127) / 128, 128>>>(n, {function});
    float* h = new float[n]; cudaMemcpy(h, y, n * sizeof(float), cudaMemcpyDeviceToHost);
}}"""


@pytest.mark.parametrize(
    ("name", "axes", "tensors"),
    [
        ("debug_advect", "dims_x dims_y", "dye:in vel:in next:out"),
        ("fir_cucomplex", "n NTAPS", "d_in:in taps:in out:out"),
        ("foreach_lambda", "rows cols", "a:inout norm:scratch"),
        ("hotspot_style", "grid_rows grid_cols", "MatrixPower:in MatrixTemp_0:in MatrixTemp_1:out"),
        ("mriq_chunks", "numX numK K_ELEMS_PER_GRID", "x:in y:in z:in ck:in Qr:out Qi:out"),
        ("ns_versions", "rows cols", "m:in out:out"),
        ("raytrace_constant", "HEIGHT SPHERES WIDTH", "s:in bitmap:out"),
        ("rgb_hist_streams", "NBINS NSTREAMS width height", "rgb:in hist:out"),
    ],
)
def test_fresh_files_are_read_as_they_are_meant(name, axes, tensors):
    found = drafted(FRESH / f"{name}.cu")
    assert list(found.axes) == axes.split()
    assert [f"{t.name}:{t.role}" for t in found.tensors] == tensors.split()


@pytest.mark.parametrize(
    ("call", "function", "inside"),
    [
        ("f(i)", "[=] __device__(int j) { y[j] = scale * p[j]; }", "{ int j = i; f_y[j] = f_scale * f_p[j]; }"),
        ("f(i)", "[=] __host__ __device__ (int i) { y[i] = p[i]; }", "{ f_y[i] = f_p[i]; }"),
        ("f(i, i + 1)", "[=] __device__ (int j, int i) { y[j] = i; }", "lambda_9(f_y, i, i + 1)"),
        ("f(i)", "[=] __device__ (int i) { y[i] = p[i]; i++; }", "lambda_9(f_y, f_p, i)"),
        ("if (f(i) > 0) f(i)", "[y] __device__ (int j) -> float { return y[j] += 1; }", "lambda_9(f_y, i) > 0"),
    ],
)
def test_a_lambda_is_in_the_kernel_that_is_given_it(tmp_path, call, function, inside):
    """What it captures becomes parameters; where its body would meet other names, or has a result, it is called."""
    text = variant_text(drafted_text(tmp_path, APPLY.format(call=call, function=function)), "given")
    assert inside in text
    assert ("float lambda_9(" in text or "auto lambda_9(" in text) == ("lambda_9" in inside)


def test_two_lambdas_make_two_kernels():
    found = drafted(FRESH / "foreach_lambda.cu")
    assert [launch.instance.name for launch in found.launches] == ["for_each_kernel", "for_each_kernel_2"]
    assert found.launches[0].args == ("rows", "cols", "a", "norm", "f_eps")


@pytest.mark.parametrize(
    ("lines", "blocks"),
    [
        ("int b = n / 256; if (n % 256) b++;", "ceil_div(n, 256)"),
        ("int b = n / 256; if (n % 256 != 0) { b += 1; }", "ceil_div(n, 256)"),
        ("int b = (n + 255) / 256; if (b > 512) b = 512;", "min(512, ceil_div(n, 256))"),
        ("int b = n / 256; if (n % 128) b++;", "n // 256"),  # nothing that is known: as at this size
    ],
)
def test_an_if_that_rounds_up_holds_for_every_size(tmp_path, lines, blocks):
    draft = drafted_text(
        tmp_path,
        f"""__global__ void twice(float* x, int n) {{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) x[i] *= 2;
}}
int main() {{ int n = 65536; float* x; cudaMalloc(&x, n * 4); {lines}
    twice<<<b, 256>>>(x, n); float* h = new float[n]; cudaMemcpy(h, x, n * 4, cudaMemcpyDeviceToHost); }}""",
    )
    assert draft.launches[0].grid == (blocks,)


def test_kernels_of_one_name_in_two_namespaces_are_two():
    """`naive::run` and `shared_mem::run` launch each their own `rowsum`; the last is adopted, or the one asked for."""
    assert [x.instance.name for x in drafted(FRESH / "ns_versions.cu").launches] == ["shared_mem_rowsum"]
    (launch,) = drafted(FRESH / "ns_versions.cu", "naive_rowsum").launches
    assert launch.block == ("64",)
    assert "cols; ++c" in drafted(FRESH / "ns_versions.cu", "naive_rowsum").code


def test_memory_of_pycuda_is_what_is_copied_to_it():
    """`mem_alloc(img.nbytes)`, `memcpy_htod` and `memcpy_dtoh`, and constant memory by `get_global`."""
    draft = drafted(FRESH / "pycuda_gauss.py")
    assert [f"{t.name}:{t.role}:{t.dtype}" for t in draft.tensors] == [
        "img:in:uint8", "taps:in:float32", "dst:out:uint8", "tmp:scratch:float32",
    ]  # fmt: skip


def test_inputs_that_a_list_comprehension_makes_have_sizes(tmp_path):
    path = tmp_path / "given.py"
    text = (FILES / "third" / "kb_swish.py").read_text()
    once = "return [torch.rand(batch_size, features)]"
    assert once in text
    path.write_text(text.replace(once, "return [torch.rand(24, 40) for _ in range(1)]"))
    assert list(drafted(path).axes.values())[:2] == [24, 40]


def test_what_a_kernel_prints_and_asserts_is_left_out():
    """What is printed stays in use: the compiler warns of a variable that is not, and no warning passes."""
    code = drafted(FRESH / "debug_advect.cu").code
    assert "printf" not in code
    assert "assert" not in code
    assert "if (x == 0 && y == 0) (void)(v);" in code
    assert "(void)(i < dims_x * dims_y);" in code


def test_complex_numbers_are_pairs():
    draft = drafted(FRESH / "fir_cucomplex.cu")
    assert {t.name: (t.dtype, t.shape[-1]) for t in draft.tensors} == dict.fromkeys(
        ("d_in", "taps", "out"), ("float32", "2")
    )
    wide = widened(variant_text(draft, "given"))
    assert wide is not None
    assert "cuDoubleComplex acc = make_cuDoubleComplex(0., 0.);" in wide
    assert "cuCadd(acc, cuCmul(d_taps[k]" in wide


def test_sizes_of_a_launch_are_written_without_the_turn_of_a_loop():
    """`first = i * chunk` of the first chunk is 0, and no more in the launch line."""
    (launch,) = drafted(FRESH / "rgb_hist_streams.cu").launches
    assert launch.args == ("rgb", "hist", "min(width * height, ceil_div(width * height, NSTREAMS))")


def test_a_macro_in_a_float_argument_is_a_number_and_no_size():
    """`2.0 * K_SI * t_chip`: the conductivity of silicon; and the variable that a parameter hides is left out."""
    draft = drafted(FRESH / "hotspot_style.cu")
    assert draft.launches[0].args[6] == "0.016 / grid_cols / (0.1 * (0.016 / grid_rows))"
    assert "t_chip" not in draft.code
    assert "float amb_temp =" not in draft.code


@pytest.mark.parametrize(("mark", "kind"), [("", "Sphere* __restrict__ s"), (" const", "const Sphere* __restrict__ s")])
def test_constant_memory_is_not_constant_to_methods_that_are_not(tmp_path, mark, kind):
    text = (FRESH / "raytrace_constant.cu").read_text().replace("float *n ) {", f"float *n ){mark} {{")
    assert f", {kind})" in drafted_text(tmp_path, text).code


CELLS = """__global__ void count(const float* x, float* y, int* cells, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p = x[i] + OFFSET;
    y[i] = p * 0.5f;
    atomicAdd(&cells[(int)floorf(p * 37.7f) & BINS - 1], 1);
}
int main() { int n = 4096; float *x, *y; int* cells;
    cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4); cudaMalloc(&cells, BINS * 4); cudaMemset(cells, 0, BINS * 4);
    count<<<(n + 127) / 128, 128>>>(x, y, cells, n); float* h = new float[n]; int* c = new int[BINS];
    cudaMemcpy(h, y, n * 4, cudaMemcpyDeviceToHost); cudaMemcpy(c, cells, BINS * 4, cudaMemcpyDeviceToHost); }"""


def test_counts_that_follow_from_a_rounding_are_those_of_the_original(tmp_path):
    """Which cell a position falls into depends on it: its float64 run counts others, and no task with these loads."""
    found = adopted_text(tmp_path, CELLS.replace("OFFSET", "1000.f").replace("BINS", "64"))
    assert "as_is=('cells',)" in (found.folder / "reference.py").read_text()
    assert read_task(found.folder).tolerance.integers == 0
