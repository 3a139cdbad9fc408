"""`evo adopt`: functors, extents of library objects, shapes with quotients, labels that must match."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from adopted_files import drafted_text
from long_cases import long

from evo.errors import TaskInvalid
from evo.evaluate.gate.cut_reference import cut_axis
from evo.interop.adopt import Options, adopt
from evo.interop.adopt.draft import Draft, draft_of
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.extents import guess_extents
from evo.interop.adopt.far_cases import far_cases
from evo.interop.adopt.fills import numpy_text
from evo.interop.adopt.headline_sizes import growth_of_work
from evo.interop.adopt.program import read_program
from evo.spec.reference import load_reference
from evo.spec.task import read_task

FILES = Path(__file__).parents[2] / "data" / "adopt" / "seventh"
FRESH = FILES.parent / "fourteenth"


def drafted(name: str, files: Path = FILES) -> Draft:
    return draft_of(read_program(files / name, None, {}), {})


@pytest.mark.parametrize(
    ("name", "axes", "tensors"),
    [
        ("dequant4.cu", "rows cols", "packed:in scales:in zeros:in out:out"),
        ("equalize.cu", "rows cols", "img:in out:out bins:scratch lut:scratch"),
        ("focal_ext.cu", "num_samples num_classes", "logits:in targets:in weight:in losses:out"),
        ("functor_map.cu", "rows cols", "d_in:in out:out"),
        ("heat3d.cu", "nx ny nz", "u:in unew:out"),
        ("inline_geglu.py", "TOKENS HIDDEN", "x:in y:out m:out"),
        ("moving_average.cu", "n", "signal:in smooth:out"),
        ("relax_edges.cu", "m", "edges:in old:in dist:inout"),
        ("sepia_stb.cu", "width height channels", "pixels:inout"),
    ],
)
def test_the_host_code_tells_tensors_and_sizes(name, axes, tensors):
    found = drafted(name)
    assert sorted(found.axes) == sorted(axes.split())
    assert {f"{t.name}:{t.role}" for t in found.tensors} == set(tensors.split())


def test_a_functor_is_what_it_returns_over_its_fields():
    """`map_reduce_rows(..., Map map, Reduce reduce)`: one functor with two fields, one without any."""
    (launch,) = drafted("functor_map.cu").launches
    assert launch.instance.template == {"Map": "Affine", "Reduce": "Sum"}
    assert [param.name for param in launch.instance.params[-2:]] == ["map_scale", "map_shift"]
    assert "(scratch[threadIdx.x] + scratch[threadIdx.x + stride])" in launch.instance.text
    assert "reduce(" not in launch.instance.text
    assert "Sum reduce;" not in launch.instance.text
    assert "Sum::identity()" in launch.instance.text


def test_a_quotient_that_pytorch_rounds_up_is_a_ceil_div():
    (launch,) = drafted("focal_ext.cu").launches
    assert launch.grid == ("min(ceil_div(num_samples * num_classes, 256), 4096)",)


def test_extents_of_library_objects_are_guessed():
    """`image.rows`, and what `stbi_load` writes to."""
    assert drafted("equalize.cu").axes == {"rows": 1024, "cols": 1024}
    assert drafted("sepia_stb.cu").axes == {"width": 1024, "height": 1024, "channels": 3}


def test_sizes_that_python_sets_in_one_line_are_told():
    assert drafted("inline_geglu.py").axes == {"TOKENS": 1024, "HIDDEN": 1365}


@pytest.mark.long
def test_a_guessed_shape_is_divided_where_the_kernel_divides(tmp_path):
    """At 67 x 41 the 64 columns of a group are 0 groups, and a shape that is found there is too small."""
    task = read_task(adopt(tmp_path, FILES / "dequant4.cu", Options()).folder)
    shapes = {t.name: [part.text for part in t.shape] for t in task.tensors}
    assert shapes["packed"] == ["rows", "cols // 2"]
    assert shapes["scales"] == shapes["zeros"] == ["rows", "cols // 64"]
    assert shapes["out"] == ["rows", "cols"]
    assert all(case.axes["cols"] % 64 == 0 for case in task.check)


@pytest.mark.long
def test_labels_that_must_match_are_drawn_below_the_number_of_classes(tmp_path):
    """Of 16 bits hardly one equals a class, and the branch for it would never be taken."""
    task = read_task(adopt(tmp_path, FILES / "focal_ext.cu", Options()).folder)
    with closing(load_reference(task)) as reference:
        case = max(task.check, key=lambda one: one.axes["num_samples"])
        given = reference.expectation(case, 3).inputs
    assert given["targets"].max() < case.axes["num_classes"]
    targets = next(t for t in task.inputs if t.name == "targets")
    assert targets.range.at(case.axes).high > 2**31  # the gate draws others as well


@pytest.mark.parametrize("name", ["seventh/relax_edges.cu", long("eighth/sgemv_blas.cu")])
def test_an_output_without_the_axis_is_no_part_of_a_cut(tmp_path, name):
    """An inout of a fixed length, or of other rows, beside inputs that an axis counts."""
    task = read_task(adopt(tmp_path, FILES.parent / name, Options(name="given")).folder)
    with closing(load_reference(task)) as reference:
        assert cut_axis(task, reference) is None


class Taker:
    """A trial that takes what it is told to, and asks for work in proportion to the product of the lengths."""

    def __init__(self, axes: dict[str, int], most: int) -> None:
        self.draft = SimpleNamespace(axes=axes, knobs={}, tensors=())
        self.most = most

    def takes(self, axes: dict[str, int]) -> bool:
        return max(axes.values()) <= self.most

    def work(self, axes: dict[str, int]) -> float:
        return float(np.prod(list(axes.values())))


@pytest.mark.parametrize(("most", "length"), [(1 << 20, 33013), (20000, 16411), (9000, 8209), (8000, None)])
def test_each_axis_is_far_longer_once_than_elsewhere(most, length):
    cases = {"even": {"rows": 64, "cols": 128}, "short": {"rows": 3, "cols": 7}}
    timed = {"rows": 4096, "cols": 512}
    found = far_cases(Taker(timed, most), cases, timed)
    wanted = {"far_rows": {"rows": length, "cols": 7}, "far_cols": {"rows": 3, "cols": length}}
    assert found == (wanted if length else {})


def test_an_axis_of_multiples_is_far_in_multiples():
    tiles, timed = {"even": {"rows": 64, "cols": 128}, "twice": {"rows": 128, "cols": 29}}, {"rows": 4096, "cols": 512}
    found = far_cases(Taker(timed, 1 << 20), tiles, timed)
    assert found == {"far_rows": {"rows": 33024, "cols": 29}, "far_cols": {"rows": 64, "cols": 8209}}


def test_an_axis_alone_is_far_unless_it_is_timed_at_more():
    """A kernel that does nothing beyond 16,384 is right where it is timed at 2,048."""
    cases = {"even": {"n": 64}, "ragged": {"n": 37}}
    assert far_cases(Taker({"n": 4096}, 1 << 20), cases, {"n": 2048}) == {"far_n": {"n": 33013}}
    assert far_cases(Taker({"n": 4096}, 1 << 20), cases, {"n": 1 << 20}) == {}


def test_a_constant_of_a_class_that_is_an_argument_of_another_is_read():
    """`Policy<P<256>::N, 4>::kThreads`: no comparison of P with 256."""
    draft = draft_of(read_program(FILES.parent / "eleventh" / "policy_reduce.cu", None, {}), {})
    (launch,) = draft.launches
    assert (launch.block, draft.axes) == (("256",), {"rows": 1024, "cols": 3000})


def test_a_number_of_groups_is_what_the_binding_says_and_shapes_are_tried_where_it_divides():
    """`py::arg("groups") = 32`: with fewer channels a group has none, and no access tells how long gamma is."""
    draft = draft_of(read_program(FILES.parent / "eleventh" / "group_norm_silu_ext.cu", None, {}), {})
    assert draft.launches[0].grid == ("32 * N",)
    assert {scalar.name: (scalar.value, scalar.given) for scalar in draft.scalars} == {"eps": (1e-5, True)}
    DraftTrial(draft, "group_norm").settle()
    assert {tensor.name: tensor.shape for tensor in draft.tensors if len(tensor.shape) == 1} == {
        "gamma": ["C"],
        "beta": ["C"],
    }


def test_sizes_at_which_an_output_is_not_written_whole_are_not_taken():
    """Groups of channels: what is left over of 518 channels in 32 groups no thread writes."""
    draft = draft_of(read_program(FILES.parent / "eleventh" / "group_norm_silu_ext.cu", None, {}), {})
    trial = DraftTrial(draft, "group_norm")
    sizes = {"N": 2, "x_2": 5, "x_3": 3}
    trial.settle()
    assert [trial.takes({**sizes, "C": channels}) for channels in (64, 66)] == [True, False]


def test_lengths_of_rows_are_drawn_up_to_the_size_that_they_count_along():
    """Larger ones lead into the next row; the tensor whose size nothing tells is found with them."""
    draft = draft_of(read_program(FILES.parent / "twelfth" / "attn_pool_ext.cu", None, {}), {})
    trial = DraftTrial(draft, "attn_pool")
    trial.settle()
    assert {t.name: (t.shape, t.high) for t in draft.given} == {
        "scores": (["B", "T"], None),
        "values": (["B", "T", "D"], None),
        "lengths": (["B"], "T + 1"),
        "out": (["B", "D"], None),
    }
    assert trial.takes({"B": 5, "T": 33, "D": 7})
    (lengths,) = (t for t in trial.task().inputs if t.name == "lengths")
    assert lengths.range is not None
    assert (lengths.range.at({"T": 900}).low, lengths.range.at({"T": 900}).high) == (0, 900)
    assert np.count_nonzero(trial.inputs({"B": 3, "T": 900, "D": 2})["lengths"] == 900) >= 2  # a short row is no test


def test_a_program_that_asks_for_arguments_is_started_with_them():
    """`if (argc != 3) return 1`; its sizes are read from a file, which no kernel is told of otherwise."""
    draft = drafted("pgm_median.cu", FRESH)
    assert draft.axes == {"width": 1024, "height": 1024}
    assert draft.program.host.argc == 3


ARGUMENTS = """\
__global__ void scale(const float* x, size_t pitch, float* y, int w, int h) {
    int c = blockIdx.x * 32 + threadIdx.x;
    if (c < w && blockIdx.y < h) y[blockIdx.y * w + c] = 2.0f * x[blockIdx.y * (pitch / 4) + c];
}
int main(int argc, char** argv) {
    if (argc < 4) return 1;
    int w = atoi(argv[1]);
    int h = std::stoi(argv[2]);
    int iterations = atoi(argv[3]);
    size_t n = (size_t)w * h, pitch;
    float *x, *y;
    cudaMallocPitch((void**)&x, &pitch, w * sizeof(float), h);
    cudaMalloc(&y, n * sizeof(float));
    cudaMemcpy2D(x, pitch, hx, w * 4, w * 4, h, cudaMemcpyHostToDevice);
    for (int i = 0; i < iterations; i++) scale<<<dim3((w + 31) / 32, h), 32>>>(x, pitch, y, w, h);
    cudaMemcpy(hy, y, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""


ROWS = """\
__global__ void scale(const float* x, float* y, int hidden, float factor) {
    for (int i = threadIdx.x; i < hidden; i += 128)
        y[(size_t)blockIdx.x * hidden + i] = factor * x[(size_t)blockIdx.x * hidden + i];
}
void launch(const float* x, float* y, int tokens, int hidden, float factor, cudaStream_t stream) {
    scale<<<tokens, 128, 0, stream>>>(x, y, hidden, factor);
}
"""


def test_rows_that_only_the_grid_of_a_launcher_counts_are_a_size(tmp_path):
    (tmp_path / "rows.cu").write_text(ROWS)
    found = drafted("rows.cu", tmp_path)
    assert (set(found.axes), found.launches[0].grid) == ({"tokens", "hidden"}, ("tokens",))


FILLED = """\
import numpy as np
import pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule

BLOCK = 128
code = \'\'\'
__global__ void decay(const float *x, float *y, float factor, int n)
{
    int i = blockIdx.x * %(BLOCK)d + threadIdx.x;
    if (i < n) y[i] = x[i] * factor * (n %% 2 ? 1.0f : %(gain)s);
}
\'\'\'
decay = SourceModule(code % {"BLOCK": BLOCK, "gain": "2.0f"}).get_function("decay")


def run(rate, n):
    factor = 1 - 0.5 * rate
    x = gpuarray.to_gpu(np.random.rand(n).astype(np.float32))
    y = gpuarray.empty(n, dtype=np.float32)
    decay(x, y, np.float32(factor), np.int32(n), block=(BLOCK, 1, 1), grid=((n + BLOCK - 1) // BLOCK, 1))
    return y.get()


run(0.25, 4096)
"""


def test_a_text_with_numbers_put_in_is_read_with_them_and_a_factor_is_no_size(tmp_path):
    (tmp_path / "decay.py").write_text(FILLED)
    found = drafted("decay.py", tmp_path)
    assert found.axes == {"n": 4096}
    assert [scalar.value for scalar in found.scalars] == [0.875]
    assert "n % 2 ? 1.0f : 2.0f" in found.code


def test_numbers_of_the_command_line_are_sizes_unless_they_count_turns(tmp_path):
    (tmp_path / "started.cu").write_text(ARGUMENTS)
    assert set(drafted("started.cu", tmp_path).axes) == {"w", "h"}


def test_a_size_that_a_switch_asks_for_is_guessed_so_and_rows_that_nothing_tells_are_found_by_trial():
    """`case 4: kernel<4><<<...>>>`, and `weight[d * 4 + w]` of a tensor whose first extent no kernel is told of."""
    draft = drafted("causal_conv1d_ext.cu", FRESH)
    assert draft.axes["width"] == 4
    assert draft.launches[0].instance.template == {"kWidth": "4"}
    trial = DraftTrial(draft, "causal_conv1d")
    guess_extents(trial)
    trial.settle()
    assert {tensor.name: tensor.shape for tensor in draft.tensors}["weight"] == ["dim", "4"]


def test_names_defaults_and_quotients_of_a_launch_in_python_are_worked_out():
    """`get_function(f"qk_norm_rope<{HEAD_DIM}>")`, `eps=1e-6`, `-(-tokens * heads // warps)`; tables of 64 a row."""
    draft = drafted("rope_norm_cupy.py", FRESH)
    assert draft.launches[0].grid == ("ceil_div(tokens * heads, 4)",)
    assert [scalar.value for scalar in draft.scalars] == [1e-6]
    trial = DraftTrial(draft, "rope_norm")
    guess_extents(trial)
    trial.settle()
    shapes = {tensor.name: tensor.shape for tensor in draft.tensors}
    assert shapes == {
        "x": ["tokens", "heads", "128"], "weight": ["128"], "cos": ["tokens", "64"], "sin": ["tokens", "64"],
    }  # fmt: skip


def test_what_the_runtime_says_of_the_chip_is_known(tmp_path):
    """`cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0)`, and the block that the runtime advises."""
    assert drafted("option_greeks_managed.cu", FRESH).launches[0].grid == ("1856",)
    text = (FRESH / "option_greeks_managed.cu").read_text()
    asked = "int least, block; cudaOccupancyMaxPotentialBlockSize(&least, &block, price_grid, 0, 0); price_grid"
    path = tmp_path / "advised.cu"
    path.write_text(text.replace("    price_grid<<<32 * sms, 256>>>", f"{asked}<<<least, block>>>"))
    (launch,) = draft_of(read_program(path, None, {}), {}).launches
    assert launch.block == ("256",)


def test_places_that_a_loop_of_chance_length_leaves_keep_what_they_had():
    """`vector<int> cols(n, -1)`, of which each row fills some: a kernel that looks for -1 is given some."""
    (cols,) = [tensor for tensor in drafted("ell_spmv_thrust.cu", FRESH).tensors if tensor.name == "cols"]
    drawn = eval(numpy_text(cols.fill, "1000"), {"np": np, "rng": np.random.default_rng(1), "kRows": 64})
    assert (drawn.min(), drawn.max()) == (-1, 63)


@pytest.mark.parametrize(
    ("name", "axes", "tensors"),
    [
        ("ell_spmv_thrust.cu", "kRows kSlots", "cols:in vals:in x:in y:out"),
        ("graph_blur.cu", "width height", "frame:in c_taps:in blurred:out tmp:scratch"),
        ("groupnorm_llm.cu", "n c h w groups", "x:in gamma:in beta:in y:out mean:scratch rstd:scratch"),
        ("jacobi_pingpong.cu", "n", "u:in f:in new:out"),
        ("kmeans_points.cu", "k_ n_ dims_", "points_:in centroids_:in labels_:out best_:scratch"),
        ("matrix_pitched.cu", "k m n", "A_elements:in B_elements:in C_elements:out"),
        ("row_variance_cg.cu", "rows cols", "d_in:in out:out"),
        ("softmax_streams_bench.cu", "batch heads seq", "scores:in mask:in probs:out"),
    ],
)
def test_fresh_files_are_read_as_they_are_meant(name, axes, tensors):
    """Graphs, groups of threads, matrices by value that device functions write through, a class of vectors."""
    found = drafted(name, FRESH)
    assert list(found.axes) == axes.split()
    assert [f"{t.name}:{t.role}" for t in found.tensors] == tensors.split()
    assert all(found.axes.values())


@pytest.mark.parametrize(
    ("name", "launches", "axes", "tensors"),
    [
        ("bag_int64.cu", 1, "num_bags dim", "weight:? indices:? offsets:? per_sample:? out:?"),
        ("cdist_torchlib.cu", 1, "B P M R", "x1:B,P,M x2:? out:B,P,R"),
        ("class_column_norms.cu", 2, "rows cols", "normalizer_A_:rows,cols normalizer_norms_:cols"),
        ("dft_vectors.cu", 1, "modes points", "c:modes,2 plan:points f:points,2"),
        ("managed_smooth.cu", 1, "H W", "terrain:H,W weights:9 smooth:H,W"),
        ("syrk_makefile.cu", 1, "N M", "A:N,M C:N,N"),
    ],
)
def test_memory_is_found_where_styles_differ(name, launches, axes, tensors):
    """Addresses from Python, sums of torch's types, an owned class template, vectors as members, managed variables,
    types and sizes that a comment says the compiler is given."""
    found = drafted(name, FILES.parent / "twentieth")
    assert len(found.launches) == launches
    assert set(found.axes) == set(axes.split())
    shapes = {t.name: ",".join(t.shape) if t.dims is not None else "?" for t in found.tensors}
    assert shapes == dict(each.split(":") for each in tensors.split())


COUNTED = """__device__ int found;
__device__ bool matches(int v) { if (v % 3 == 0) atomicAdd(&found, 1); return v % 3 == 0; }
__global__ void mark(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = matches(x[i]);
}
int main() {
    int n = 5000, *x, *y; cudaMalloc(&x, n * sizeof(int)); cudaMalloc(&y, n * sizeof(int));
    mark<<<(n + 255) / 256, 256>>>(x, y, n); int h[5000]; cudaMemcpy(h, y, n * 4, cudaMemcpyDeviceToHost);
}"""


def test_a_variable_of_the_gpu_is_handed_to_the_functions_that_count_with_it(tmp_path):
    draft = drafted_text(tmp_path, COUNTED)
    assert {t.name: (t.role, t.shape) for t in draft.tensors}["found"] == ("scratch", ["1"])
    assert "matches(int v, int* __restrict__ found)" in draft.code
    assert "atomicAdd(&(*found), 1)" in draft.code
    assert "matches(x[i], found)" in draft.code
    taken = COUNTED.replace("int h[", "int c; cudaMemcpyFromSymbol(&c, found, 4); int h[")
    assert {t.name: t.role for t in drafted_text(tmp_path, taken).tensors}["found"] == "out"


@pytest.mark.long
def test_quotients_that_are_chance_on_numbers_of_any_sign_are_drawn_positive(tmp_path):
    """A weighted mean whose weights have any sign divides by next to nothing here and there."""
    adopt(tmp_path, FILES.parent / "twentieth" / "managed_smooth.cu", Options(name="given"))
    assert "rng.random" in (tmp_path / "kernels" / "given" / "reference.py").read_text()


def test_what_a_reference_costs_grows_as_the_original_does():
    """All pairs of n by n squared; an axis that is short, or cannot be halved, as if by itself."""

    def work(axes):
        if axes["k"] % 128:
            raise TaskInvalid("no such length", hint="another")
        return float(axes["n"] ** 2 * axes["m"])

    axes = {"n": 2048, "m": 512, "few": 8, "k": 128, "strided": 4096}
    assert growth_of_work(SimpleNamespace(work=work), axes, work(axes)) == {"n": 2, "m": 1, "strided": 0}


def test_a_tensor_that_is_indexed_as_another_one_has_its_shape(tmp_path):
    """At a size that the kernel does not take, no shape is large enough, which says nothing of the shape."""
    text = """#include <torch/extension.h>
__global__ void scores(const float* q, const float* k, float* out, int s, int d) {
    int at = (blockIdx.y * gridDim.x + blockIdx.x) * s * d, row = blockIdx.z * 32 + threadIdx.x;
    for (int c = 0; c < d; c++) out[at + row * d + c] = q[at + row * d + c] - k[at + row * d + c];
}
torch::Tensor run(torch::Tensor q, torch::Tensor k) {
    int b = q.size(0), h = q.size(1), s = q.size(2), d = q.size(3);
    auto out = torch::empty_like(q);
    scores<<<dim3(h, b, (s + 31) / 32), 32>>>(q.data_ptr<float>(), k.data_ptr<float>(), out.data_ptr<float>(), s, d);
    return out;
}
"""
    draft = drafted_text(tmp_path, text)
    trial = DraftTrial(draft, "scores")
    guess_extents(trial)
    trial.settle()
    shapes = {tensor.name: tensor.dims for tensor in draft.tensors}
    assert shapes["k"] == shapes["q"] == shapes["out"] == ["b", "h", "s", "d"]


def test_tensors_that_hide_one_another_get_their_shapes_one_by_one():
    """Queries, keys and values whose sizes nothing tells: of 15 products each, a few are run."""
    draft = drafted("cross_attention.cu", FILES.parent / "eighteenth")
    trial = DraftTrial(draft, "cross_attention")
    trial.guess_shapes()
    assert trial.repaired_at({"heads": 3, "sq": 5, "skv": 7, "hd": 4})
    shapes = {tensor.name: tensor.dims for tensor in draft.tensors}
    assert shapes["q"] == shapes["o"] == ["heads", "sq", "hd"]
    assert shapes["k"] == shapes["v"] == ["heads", "skv", "hd"]


@pytest.mark.parametrize(
    "host",
    [
        "int main() { int in = 784; float *x; cudaMalloc(&x, in * 4); twice<<<in / 16, 16>>>(x, in); }",
        "void launch(float* x, int in) { twice<<<in / 16, 16>>>(x, in); }",
    ],
)
def test_a_size_has_no_name_that_a_formula_could_not_use(tmp_path, host):
    draft = drafted_text(tmp_path, "__global__ void twice(float* x, int n) { x[threadIdx.x] *= n; }\n" + host)
    assert list(draft.axes) == ["in_"]
    assert draft.launches[0].grid == ("in_ // 16",)


@pytest.mark.parametrize(("header", "number"), [("<limits.h>", "INT_MAX"), ("<float.h>", "DBL_MAX")])
def test_limits_of_types_are_those_of_their_header(tmp_path, header, number):
    text = f"""#include {header}
    __global__ void most(double* x, int n) {{ if (threadIdx.x < n) x[threadIdx.x] = {number}; }}
    int main() {{ int n = 64; double *x; cudaMalloc(&x, n * 8); most<<<n / 32, 32>>>(x, n); }}"""
    draft = drafted_text(tmp_path, text)
    (out,) = DraftTrial(draft, "most").run({"n": 32}).values()
    assert out.max() == {"INT_MAX": 2.0**31 - 1, "DBL_MAX": np.finfo(float).max}[number]
