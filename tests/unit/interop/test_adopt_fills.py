"""`evo adopt`: what host code puts into arrays, launchers that nobody calls, counters, tables."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adopted_files import FILES, adopted_text, drafted, drafted_text
from long_cases import long

from evo.errors import SyntaxInvalid
from evo.evaluate.prepare import PrepareFailure, prepare
from evo.interop.adopt import Options, adopt
from evo.interop.adopt.draft import Draft
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.fills import UNTOLD, numpy_text
from evo.interop.adopt.integer_ranges import settle_integers
from evo.interop.adopt.oracle import Runner
from evo.interop.adopt.own_reference import own_reference
from evo.interop.adopt.task_texts import variant_text
from evo.spec.chips import chip
from evo.spec.reference import load_reference
from evo.spec.task import Task, read_task

SEGMENTS = """
__global__ void segment(const float* x, const int* off, float* y, int n) {
    int i = blockIdx.x;
    float s = 0;
    for (int j = off[i]; j < off[i + 1]; ++j) s += x[j];
    y[i] = s;
}
"""
MAIN = """
%s
int main() {
    int n = 100, len = 8;
    float *x, *y; int* off;
    cudaMalloc(&x, n * len * sizeof(float)); cudaMalloc(&y, n * sizeof(float));
    cudaMalloc(&off, (n + 1) * sizeof(int));
    %s
    cudaMemcpy(off, &h[0], (n + 1) * sizeof(int), cudaMemcpyHostToDevice);
    segment<<<n, 1>>>(x, off, y, n);
}
"""
ROW_SUM = """
__global__ void row_sum(const float* x, const float* scale, float* y, int rows, int cols, int step) {
    int r = blockIdx.x;
    float s = 0;
    for (int c = 0; c < cols; ++c) s += x[r * cols + c];
    y[r] = s * scale[r] / (1 + step);
}
"""


def tensor(draft: Draft, name: str) -> TensorDraft:
    return next(each for each in draft.tensors if each.name == name)


def values(draft: Draft, name: str, count: int) -> Any:
    text = numpy_text(tensor(draft, name).fill, str(count))
    scope = {"np": np, "rng": np.random.default_rng(3), **draft.axes}
    return np.broadcast_to(eval(text, scope), count)


BORDERED = """
__global__ void smooth(const float* x, const int* kind, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = kind[i] == 1 ? x[i] : x[i - 1] + x[i + 1];
}
int main() {
    int n = 1 << 20;
    int* h = new int[n];
    for (int i = 0; i < n; i++) {
        if (i == 0 || i == n - 1) h[i] = 1;
        else h[i] = i % 3;
    }
    float *x, *y; int* kind;
    cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4); cudaMalloc(&kind, n * sizeof(int));
    cudaMemcpy(kind, h, n * 4, cudaMemcpyHostToDevice);
    smooth<<<(n + 255) / 256, 256>>>(x, kind, y, n);
}"""

V, AT = "std::vector<int> h(n + 1); ", np.arange(101)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("int* h = new int[n + 1]; h[0] = 0; for (int i = 0; i < n; i++) h[i + 1] = h[i] + len;", 8 * AT),
        (V + "int at = 0; for (int i = 0; i <= n; ++i) { h[i] = at; at += len; }", 8 * AT),
        (
            V + "int at = 0; for (int i = 0; i < n; ++i) { at += i % 3; h[i + 1] = at; }",
            np.r_[0, (AT % 3).cumsum()[:-1]],
        ),
        (V + "std::iota(h.begin(), h.end(), 3);", AT + 3),
        ("int* h = (int*)malloc(4 * (n + 1)); init(h, n + 1);", 2 * AT % 7),
        (
            V + "for (int b = 0; b < n; b++) for (int j = 0; j < len; j++) h[b * len + j] = j * n + b;",
            AT % 8 * 100 + AT // 8,
        ),
        (V + "for (int b = 0; b <= n; b++) h[b] = b < 3 ? 0 : b;", np.where(AT < 3, 0, AT)),
        ("std::vector<int> h(n + 1, 4);", np.full(101, 4)),
        (V + "std::vector<int> c(n, 3); std::partial_sum(c.begin(), c.end(), h.begin() + 1);", 3 * AT),
        ("int h[] = {0, 3, 7, 9};", np.resize([0, 3, 7, 9], 101)),
        (V + "for (int i = 0; i <= n; i++) { if (i % 2) h[i] = 0; else h[i] = 5; }", np.where(AT % 2, 0, 5)),
        (
            V + "for (int i = 0; i <= n; i++) { h[i] = i; if (i < 9) h[i] = 1; else if (i > 50) { h[i] = 2; } }",
            np.where(AT < 9, 1, np.where(AT > 50, 2, AT)),
        ),
        ("std::vector<int> h; h.push_back(0); for (int i = 0; i < n; i++) h.push_back(h.size() * 8);", 8 * AT),
        ("std::vector<int> h; for (int i = 0; i <= n; i++) h.push_back(3 * i);", 3 * AT),
        (
            "std::vector<int> h; for (int b = 0; b < n; b++) for (int j = 0; j < len; j++) h.push_back(j + b);",
            AT % 8 + AT // 8,
        ),
        (
            "std::vector<int> h{0}, c; "
            "for (int i = 0; i < n; i++) { c.push_back(i); c.push_back(i); h.push_back(c.size()); }",
            2 * AT,
        ),
    ],
)
def test_arithmetic_over_indices_is_worked_out_for_any_size(tmp_path: Path, code: str, wanted: Any) -> None:
    init = "void init(int* p, int m) { for (int i = 0; i < m; i++) { int k = i * 2; p[i] = k % 7; } }"
    draft = drafted_text(tmp_path, SEGMENTS + MAIN % (init, code))
    assert values(draft, "off_", 101).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("code", "most"),
    [
        (V + "for (int i = 0; i <= n; i++) h[i] = rand() % len;", 8),
        (V + "std::mt19937 g(1); std::uniform_int_distribution<int> d(0, n - 1); for (auto& v : h) v = d(g);", 100),
        (V + "unsigned s = 1; for (int b = 0; b <= n; b++) { s = s * 1664525u + 1013904223u; h[b] = s % n; }", 100),
        (V + "std::generate(h.begin(), h.end(), [&] { return rand() % len; });", 8),
        (V + "std::mt19937 g(1); for (int& v : h) v = g() % (n * len); std::sort(h.begin(), h.end());", 800),
        (V + "for (int i = 1; i <= n; i++) h[i] = h[i - 1] + rand() % 5;", 401),
    ],
)
def test_random_numbers_are_told_by_their_range_and_order(tmp_path: Path, code: str, most: int) -> None:
    found = values(drafted_text(tmp_path, SEGMENTS + MAIN % ("", code)), "off_", 101)
    assert found.min() >= 0
    assert most // 2 < found.max() < most
    assert (np.diff(found) >= 0).all() == ("sort" in code or "i - 1" in code)


@pytest.mark.parametrize(
    "code",
    [
        "for (int i = 0; i < n; i++) if (i % 2) h[i] = 0;",
        "std::vector<int> k; for (int i = 0; i < n; i++) if (h[i]) k.push_back(i); h = k;",
        "for (int i = 0; i < n; i++) h[perm(i)] = i;",
        "for (int i = 0; i < n; i += 2) h[i] = i;",
        "for (int i = n / 2; i < n; i++) h[i] = i;",
    ],
)
def test_what_cannot_be_told_is_not_made_up(tmp_path: Path, code: str) -> None:
    draft = drafted_text(tmp_path, SEGMENTS + MAIN % ("int perm(int i);", V + code))
    assert tensor(draft, "off_").fill == UNTOLD
    assert set(draft.axes) == {"n"}  # no size comes from a loop that was read


def inputs(task: Task) -> Any:
    with closing(load_reference(task)) as reference:
        return reference.expectation(task.check[0], 3).inputs


def test_numbers_that_lead_to_addresses_are_drawn_as_they_are_filled(tmp_path: Path) -> None:
    task = read_task(
        adopted_text(tmp_path, SEGMENTS + MAIN % ("", V + "for (int i = 0; i < n; i++) h[i + 1] = h[i] + len;")).folder
    )
    found = inputs(task)["off_"].astype(int)
    assert (found[0], found[-1]) == (0, 8 * (len(found) - 1))
    assert np.abs(found - 8 * np.arange(len(found))).max() <= 4
    assert (np.diff(found) >= 0).all()
    assert len(set(np.diff(found).tolist())) > 2  # alike, they would be no input: a kernel could leave out odd ends


PYTHON = """
import torch
from torch.utils.cpp_extension import load
ext = load(name="s", sources=["given.cu"])
rows, length, dim = 512, 40, 256
x = torch.randn(rows * length, dim, device="cuda")
off = %s
y = ext.segment(x, off)
"""
EXTENSION = """
__global__ void seg(const float* x, const int64_t* off, float* y, int n, int d) {
    int i = blockIdx.x, c = threadIdx.x;
    float s = 0;
    for (int64_t j = off[i]; j < off[i + 1]; ++j) s += x[j * d + c];
    y[i * d + c] = s;
}
torch::Tensor run_segment(torch::Tensor x, torch::Tensor off) {
    const int n = off.size(0) - 1, d = x.size(1);
    auto y = torch::empty({n, d}, x.options());
    seg<<<n, d>>>(x.data_ptr<float>(), off.data_ptr<int64_t>(), y.data_ptr<float>(), n, d);
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("segment", &run_segment, "sums"); }
"""


@pytest.mark.parametrize(
    ("off", "wanted"),
    [
        ('torch.arange(0, rows * length + 1, length, dtype=torch.int64, device="cuda")', 40 * np.arange(9)),
        ("torch.nn.functional.pad(torch.full((rows,), length).cumsum(0), (1, 0)).cuda()", 40 * np.arange(9)),
        ("torch.cat([torch.zeros(1), torch.ones(rows).long().cumsum(0)]).to('cuda')", np.arange(9)),
    ],
)
def test_a_harness_in_python_beside_the_file_is_read(tmp_path: Path, off: str, wanted: Any) -> None:
    (tmp_path / "harness.py").write_text(PYTHON % off)
    draft = drafted_text(tmp_path, EXTENSION)
    assert draft.axes == {"rows": 512, "dim": 256}
    assert tensor(draft, "x").shape == ["40 * rows", "dim"]
    assert tensor(draft, "off_").shape == ["rows + 1"]
    assert values(draft, "off_", 9).tolist() == wanted.tolist()


# Where the host code is started.

CLASS = """
class RowSums {
    int rows_, cols_, step_ = 0;
    float* scale_;
public:
    RowSums(int rows, int cols, const float* scale) : rows_(rows), cols_(cols) {
        cudaMalloc(&scale_, rows * sizeof(float));
        cudaMemcpy(scale_, scale, rows * sizeof(float), cudaMemcpyHostToDevice);
    }
    void forward(const float* x, float* y)%s
};
%s
"""
LAUNCH = "{ row_sum<<<rows_, 1>>>(x, scale_, y, rows_, cols_, step_); step_++; }"


@pytest.mark.parametrize(
    "code", [CLASS % (" " + LAUNCH, ""), CLASS % (";", "void RowSums::forward(const float* x, float* y) " + LAUNCH)]
)
def test_a_method_that_nobody_calls_is_run_on_an_object_of_its_class(tmp_path: Path, code: str) -> None:
    draft = drafted_text(tmp_path, ROW_SUM + code)
    assert set(draft.axes) == {"rows", "cols"}
    assert {f"{t.name}:{t.role}" for t in draft.tensors} == {"x:in", "scale_:in", "y:out"}
    (launch,) = draft.launches
    assert launch.args == ("x", "scale_", "y", "rows", "cols", "0")


@pytest.mark.parametrize("step", ["step_++", "step_ += 1", "++this->step_"])
def test_a_counter_of_turns_is_no_size_and_makes_no_launch_another_one(tmp_path: Path, step: str) -> None:
    main = """int main() {
        int rows = 1000, cols = 64;
        float *x, *y, *s = new float[rows];
        cudaMalloc(&x, rows * cols * 4); cudaMalloc(&y, rows * 4);
        RowSums sums(rows, cols, s);
        for (int epoch = 0; epoch < 10; ++epoch) sums.forward(x, y);
    }"""
    draft = drafted_text(tmp_path, ROW_SUM + CLASS % (" " + LAUNCH.replace("step_++", step), main))
    assert set(draft.axes) == {"rows", "cols"}
    (launch,) = draft.launches
    assert launch.args[-1] == "0"


def test_a_kernel_that_main_does_not_reach_is_adopted_by_its_name(tmp_path: Path) -> None:
    other = (
        ROW_SUM.replace("row_sum", "plain") + "void launch(const float* x, const float* s, float* y, int r, int c) {"
    )
    other += " plain<<<r, 1>>>(x, s, y, r, c, 2); }"
    text = ROW_SUM + other + CLASS % (" " + LAUNCH, "int main() { return 0; }")
    assert [each.instance.name for each in drafted_text(tmp_path, text, "plain").launches] == ["plain"]
    assert [each.instance.name for each in drafted_text(tmp_path, text, "row_sum").launches] == ["row_sum"]
    with pytest.raises(SyntaxInvalid):
        drafted_text(tmp_path, text, "neither")


# Tensors that numbers lead into.

SPMV = """
__global__ void spmv(const float* values, const int* cols, const int* rows, const float* x, float* y, int M, int N) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= M) return;
    float s = 0;
    for (int j = rows[r]; j < rows[r + 1]; ++j) s += values[j] * x[cols[j]];
    y[r] = s;
}
void solve(const float* values, const int* cols, const int* rows, const float* x, float* y, int M, int N, int nnz) {
    spmv<<<(M + 127) / 128, 128>>>(values, cols, rows, x, y, M, N);
}
"""
LOOKUP = """
__global__ void lookup(float* q, const int* position, const float* table, int tokens, int heads, int dim) {
    const float* row = table + position[blockIdx.x] * dim;
    for (int i = threadIdx.x; i < heads * dim; i += blockDim.x) q[blockIdx.x * heads * dim + i] *= row[i % dim];
}
void launch(float* q, const int* position, const float* table, int tokens, int heads, int dim) {
    lookup<<<tokens, 128>>>(q, position, table, tokens, heads, dim);
}
"""


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (SPMV, {"values": ["nnz"], "cols": ["nnz"], "rows": ["M + 1"], "x": ["N"], "y": ["M"]}),
        long(LOOKUP, {"position": ["tokens"], "table": ["table_rows", "dim"]}),
    ],
)
def test_what_numbers_lead_into_has_its_own_length(tmp_path: Path, text: str, shapes: dict[str, list[str]]) -> None:
    task = read_task(adopted_text(tmp_path, text).folder)
    found = {t.name: [part.text for part in t.shape] for t in task.tensors}
    assert {name: found[name] for name in shapes} == shapes


def test_angles_are_drawn_in_the_range_that_the_host_code_has(tmp_path: Path) -> None:
    """Of the number 30,000 the sine is known to fewer digits, and a tolerance for that would allow anything of 50."""
    text = """
    __global__ void wave(const float* x, const int* at, float* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i] * sinf(at[i] * 0.1f);
    }
    int main() {
        int n = 1 << 20;
        std::vector<int> h(n);
        for (int i = 0; i < n; ++i) h[i] = i % 50;
        float *x, *y; int* at;
        cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4); cudaMalloc(&at, n * sizeof(int));
        cudaMemcpy(at, h.data(), n * 4, cudaMemcpyHostToDevice);
        wave<<<(n + 255) / 256, 256>>>(x, at, y, n);
    }"""
    found = inputs(read_task(adopted_text(tmp_path, text).folder))
    assert 0 <= found["at"].min() < found["at"].max() < 50


def test_weights_whose_products_are_exact_are_any_of_their_type(tmp_path: Path) -> None:
    """Small ones err by fewer roundings of a few: no reason to leave out what the host code's own do not reach."""
    text = Path(__file__).parents[2] / "data" / "adopt" / "fourth" / "int8_matvec.cu"
    found = inputs(read_task(adopt(tmp_path, text, Options(name="given")).folder))
    assert found["x"].min() < 0
    assert found["x"].max() > 17


def test_an_original_that_faults_on_other_inputs_keeps_its_own(tmp_path: Path) -> None:
    """At the borders only this kind stays inside; the self-test turns the tensor round, and the original faults.

    Elsewhere a kernel cannot tell from a place what is there: half of it is this kind.
    """
    found = inputs(read_task(adopted_text(tmp_path, BORDERED).folder))
    assert found["kind"][[0, -1]].tolist() == [1, 1]
    assert set(found["kind"].tolist()) == {0, 1, 2}
    places = np.arange(found["kind"].size)
    changed = found["kind"] != np.where((places == 0) | (places == places[-1]), 1, places % 3)
    assert 0.2 < changed.mean() < 0.5


@pytest.mark.parametrize(
    ("name", "axes", "tensors", "filled"),
    [
        ("ninth/convolution_rows.cu", "imageW imageH", "Input:in Kernel:in Output:out", ""),
        ("ninth/gather_pool_ext.cu", "batch dim", "values:in offsets:in output:out", "offsets"),
        (
            "ninth/residual_rmsnorm.cu",
            "B T C",
            "inp1:in inp2:in weight:in out:out residual:scratch rstd:scratch",
            "",
        ),
        ("ninth/solve_spmv.cu", "M N", "values:in col_idx:in row_ptr:in x:in y:out", ""),
        (
            "ninth/standardize.cu",  # kRowsPerBlock is a tile, though `ceil_div(n, kRowsPerBlock)` is passed
            "n d",
            "dx:in drows:in dy:out st_psum_:scratch st_psq_:scratch st_mean_:scratch st_inv_:scratch",
            "drows",
        ),
        ("ninth/block_ops.cu", "kSegments kSegmentSize", "in_:in keys:out vals:scratch", ""),
        ("tenth/segment_policy.cu", "n", "d_in:in out:out", ""),
        ("tenth/heat_mask_course.cu", "NX NY", "a:in b:out kind:in", "kind"),
        ("tenth/cg_softmax_blog.cu", "rows cols", "x:in y:out", ""),  # owners by the name of an alias
        ("tenth/layernorm_backward_llmc.cu", "B T C", "dout:in inp:in weight:in mean:in rstd:in dinp:out", ""),
        ("tenth/lj_neighbours_thesis.cu", "side_ max_neigh", "dx:in dy:in dz:in dn:in dfx:out dfy:out dfz:out", "dn"),
        ("tenth/text_histogram.cu", "length", "text:in histo:out", ""),
        ("tenth/wmma_sample.cu", "M N K", "a:in b:in c:out", ""),
        ("tenth/so_graph_pull.cu", "nodes", "row:in col:in deg:in rank:in next:out", "row col"),
    ],
)
def test_files_of_strangers_are_read_as_they_are_meant(name: str, axes: str, tensors: str, filled: str) -> None:
    found = drafted(FILES / name)
    assert sorted(found.axes) == sorted(axes.split())
    assert {f"{t.name}:{t.role}" for t in found.tensors} == set(tensors.split())
    assert [t.name for t in found.tensors if t.is_told] == filled.split()
    # Indices one by one have no order, and places where parts begin have one.
    ordered = {"offsets", "row", "kind", "dn"}
    assert all(t.has_order == (t.name in ordered) for t in found.tensors if t.is_told and t.fill[0] != "random")


@pytest.mark.parametrize(
    ("declared", "block", "wanted"),
    [
        ("struct P { static constexpr int A = 8, B = A * 4; };", "P::B", 32),
        ("struct P { enum { W = 4, T = 32 * W, NEXT }; };", "P::NEXT - 1", 128),
        ("namespace n { template <int T, int E> struct P { static const int N = T / E; }; }", "n::P<256, 2>::N", 128),
        ("template <int T> struct Q { enum { N = T }; }; struct P : Q<64> { enum { T = 2 * N }; };", "P::T", 128),
        ("template <class P> struct A { using Q = P; }; struct B { enum { T = 96 }; };", "A<B>::Q::T", 96),
        ("struct P { static constexpr int T = 128; }; using Small = P;", "Small::T", 128),
        ("enum { TEN = 10, THREADS = 12 * TEN };", "THREADS", 120),
    ],
)
def test_constants_of_classes_are_sizes(tmp_path: Path, declared: str, block: str, wanted: int) -> None:
    text = f"""
    {declared}
    __global__ void twice(float* x, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = 2 * x[i];
    }}
    int main() {{
        int n = 1 << 20;
        float* x;
        cudaMalloc(&x, n * sizeof(float));
        cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
        twice<<<n / 32, {block}>>>(x, n);
    }}"""
    assert drafted_text(tmp_path, text).launches[0].block == (str(wanted),)


def test_methods_of_a_class_know_what_its_template_stands_for(tmp_path: Path) -> None:
    text = """
    template <int T> __global__ void twice(float* x, int n) {
        int i = blockIdx.x * T + threadIdx.x;
        if (i < n) x[i] = 2 * x[i];
    }
    template <class V, int T> struct Runner {
        using Value = V;
        int n;
        Runner(int count) : n(count) {}
        static V* make(int count) { V* p; cudaMalloc(&p, count * sizeof(Value)); return p; }
        void run(V* x) { twice<T><<<(n + T - 1) / T, T>>>(x, n); }
    };
    int main() {
        int n = 1 << 20;
        float* x = Runner<float, 64>::make(n);
        cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
        Runner<float, 64> runner(n);
        runner.run(x);
    }"""
    found = drafted_text(tmp_path, text)
    assert (found.launches[0].grid, found.launches[0].block) == (("ceil_div(n, 64)",), ("64",))
    assert tensor(found, "x").dims == ["n"]  # by the name of who takes it


@pytest.mark.parametrize("name", [long("tenth/cg_softmax_blog.cu"), "tenth/wmma_sample.cu"])
def test_names_of_the_namespaces_of_cuda_headers_are_lifted(name: str) -> None:
    found = drafted(FILES / name)
    task = DraftTrial(found, "given").task()
    assert not isinstance(prepare(task, variant_text(found, "given"), chip=chip("l4"), arch="sm_89"), PrepareFailure)


def test_no_check_case_takes_longer_than_the_others_by_an_order(tmp_path: Path) -> None:
    """A short axis counts three times here: twice as long, it is eight times the work."""
    text = """
    __global__ void near(const float* x, float* y, int m, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        float s = 0;
        for (int k = 0; k < m && i < n; ++k) s += x[i * m + k];
        if (i < n) y[i] = s;
    }
    int main() {
        int side = 16, m = 32;
        float *x, *y;
        cudaMalloc(&x, side * side * side * m * 4); cudaMalloc(&y, side * side * side * 4);
        cudaMemcpy(x, h, side * side * side * m * 4, cudaMemcpyHostToDevice);
        near<<<(side * side * side + 127) / 128, 128>>>(x, y, m, side * side * side);
    }"""
    trial = DraftTrial(drafted_text(tmp_path, text), "given")
    found, _ = trial.cases(trial.settle())
    assert len(found) > 2
    assert max(axes["side"] ** 3 * axes["m"] for axes in found.values()) < 1 << 23


def test_what_is_compiled_for_the_trial_serves_the_self_test(tmp_path: Path) -> None:
    """The reference in this process says what it says in a process of its own."""
    found = adopted_text(tmp_path, SPMV)
    task = read_task(found.folder)
    runner = Runner(task, (found.folder / "original.cu").read_text())
    wide = Runner(task, (found.folder / "original_float64.cu").read_text(), wide=True)
    apart, own = load_reference(task), own_reference(task, runner, wide)
    try:
        for case in task.check[:2]:
            one, other = (each.expectation(case, 5) for each in (apart, own))
            assert one.expected["y"].tobytes() == other.expected["y"].tobytes()
            assert one.trusted is not None
            assert other.trusted is not None
            assert one.trusted["y"].tobytes() == other.trusted["y"].tobytes()
            assert all(one.inputs[name].tobytes() == other.inputs[name].tobytes() for name in one.inputs)
    finally:
        apart.close()


PATHS = """#define FAR 1000000000
__global__ void nearer(int* dist, int n, int k) {
    int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    if (i < n && j < n && dist[i * n + k] + dist[k * n + j] < dist[i * n + j])
        dist[i * n + j] = dist[i * n + k] + dist[k * n + j];
}
int main() { int n = 512, *h = new int[n * n], *d; cudaMalloc(&d, n * n * 4);
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {
        if (i == j) h[i * n + j] = 0;
        else if (rand() % 100 < 25) h[i * n + j] = 1 + rand() % 100;
        else h[i * n + j] = FAR;
    }
    cudaMemcpy(d, h, n * n * 4, cudaMemcpyHostToDevice);
    dim3 block(16, 16), grid((n + 15) / 16, (n + 15) / 16);
    for (int k = 0; k < n; k++) nearer<<<grid, block>>>(d, n, k);
    cudaMemcpy(h, d, n * n * 4, cudaMemcpyDeviceToHost); }
"""


def test_of_a_loop_with_a_launch_for_each_row_one_turn_is_adopted_with_values_as_the_file_has_them(tmp_path):
    """Numbers of all of their type would make a negative distance, and elements that are written where others read."""
    draft = drafted_text(tmp_path, PATHS)
    assert list(draft.axes) == ["n", "k"]
    assert [launch.args for launch in draft.launches] == [("d", "n", "k")]
    trial = DraftTrial(draft, "paths")
    draft.tensors[0].ends = (-1000, 1000)
    assert all(trial.takes({"n": n, "k": k}) for n, k in ((64, 5), (37, 6), (7, 1)))
    drawn = trial.inputs({"n": 64, "k": 5})["d"]
    assert drawn.min() >= 0
    assert drawn.max() > 100


def test_two_kernels_that_take_turns_in_a_loop_are_steps_of_one_job(tmp_path):
    text = """__global__ void scale(float* a, float* b, int k) { a[threadIdx.x] = b[threadIdx.x] * k; }
__global__ void shift(float* a, float* b, int k) { b[threadIdx.x] = a[threadIdx.x] + k; }
int main() { float *a, *b, h[64]; cudaMalloc(&a, 256); cudaMalloc(&b, 256);
    cudaMemcpy(b, h, 256, cudaMemcpyHostToDevice);
    for (int k = 1; k < 4; k++) { scale<<<1, 64>>>(a, b, k); shift<<<1, 64>>>(a, b, k); }
    cudaMemcpy(h, b, 256, cudaMemcpyDeviceToHost); }
"""
    draft = drafted_text(tmp_path, text)
    assert [launch.instance.name for launch in draft.launches] == ["scale", "shift"] * 3


SEARCH = """__global__ void visit(const int* row, const int* col, int* level, int n, int now) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n || level[v] != now) return;
    for (int e = row[v]; e < row[v + 1]; e++)
        if (level[col[e]] == -1) MARK;
}
int main() { const int n = 1 << 16; std::vector<int> row(n + 1), col(n * 8), level(n, -1);
    for (int i = 0; i <= n; i++) row[i] = i * 8;
    for (auto& c : col) c = rand() % n;
    level[0] = 0; int *r, *c, *l;
    cudaMalloc(&r, (n + 1) * 4); cudaMalloc(&c, n * 32); cudaMalloc(&l, n * 4);
    cudaMemcpy(r, row.data(), (n + 1) * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(c, col.data(), n * 32, cudaMemcpyHostToDevice);
    cudaMemcpy(l, level.data(), n * 4, cudaMemcpyHostToDevice);
    for (int now = 0; now < 99; now++) visit<<<(n + 255) / 256, 256>>>(r, c, l, n, now);
    cudaMemcpy(level.data(), l, n * 4, cudaMemcpyDeviceToHost); }
"""


@pytest.mark.parametrize("mark", ["level[col[e]] = now + 1", "atomicExch(&level[col[e]], now + 1)"])
def test_a_search_that_does_nothing_with_most_numbers_runs_and_is_refused_for_its_race_alone(tmp_path, mark):
    """With numbers of all of 32 bits no place is the present one, and a kernel that does nothing would be right."""
    draft = drafted_text(tmp_path, SEARCH.replace("MARK", mark))
    trial = DraftTrial(draft, "search")
    base = trial.settle()
    settle_integers(trial, base)
    level = next(tensor for tensor in draft.tensors if tensor.name == "l")
    assert (trial.run(base, races=False)["l"] != trial.inputs(base)["l"]).any(), level.why
    if "atomic" in mark:
        assert len({axes["n"] for axes in trial.cases(base)[0].values()}) > 2
    else:
        with pytest.raises(SyntaxInvalid, match=r"given\.cu:5: .*not ordered") as caught:
            trial.cases(base)
        assert "atomicExch" in str(caught.value.hint)
