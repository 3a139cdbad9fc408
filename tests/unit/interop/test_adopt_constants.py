"""`evo adopt`: structs and numbers in constant memory, which kernels read without being passed them."""

from __future__ import annotations

from pathlib import Path

import pytest
from adopted_files import FILES, drafted, drafted_text

from evo.errors import SyntaxInvalid
from evo.interop.adopt.draft import Draft
from evo.interop.adopt.draft_trial import DraftTrial
from evo.interop.adopt.task_texts import variant_text

MODEL = """
typedef double real;
struct Grid {{ int n; float3 h; }};
struct Model {{ Grid grid; real taps[2][2]; {more} float decay, unused; }};
__constant__ Model model;
__constant__ int {count};
#define AT(i, j) ((j) * model.grid.n + (i))
#define LAST ({count} - 1)
{device}
__global__ void step(const real* u, real* v) {{
    int i = blockIdx.x * 16 + threadIdx.x, j = blockIdx.y * 16 + threadIdx.y;
    if (i >= model.grid.n || j > LAST) return;
    v[AT(i, j)] = weighted(u, i, j) * model.taps[1][0] + model . decay * model.grid.h.y;
}}
int main() {{
    Model m; m.grid.n = 300; m.decay = 0.5f; m.unused = 2.0f; int rows = 200;
    m.grid.h = make_float3(1.0f, 0.25f, 2.0f);
    m.taps[0][0] = 1.0;
    cudaMemcpyToSymbol(model, &m, sizeof(m)); cudaMemcpyToSymbol({count}, &rows, sizeof(int));
    real *u, *v; cudaMalloc(&u, m.grid.n * rows * sizeof(real)); cudaMalloc(&v, m.grid.n * rows * sizeof(real));
    step<<<dim3((m.grid.n + 15) / 16, (rows + 15) / 16), dim3(16, 16)>>>(u, v);
    real* h = new real[10]; cudaMemcpy(h, v, 8, cudaMemcpyDeviceToHost); }}
"""
WEIGHTED = "__device__ real weighted(const real* u, int i, int j) { return model.taps[0][1] * u[AT(i, j)]; }"


def adopted(tmp_path: Path, device: str = WEIGHTED, more: str = "", count: str = "rows_of_grid") -> Draft:
    return drafted_text(tmp_path, MODEL.format(device=device, more=more, count=count))


def test_parts_that_kernels_read_become_parameters_and_arrays_tensors(tmp_path: Path) -> None:
    draft = adopted(tmp_path)
    assert draft.axes == {"n": 300, "rows": 200}
    assert {t.name: (t.role, t.shape) for t in draft.tensors} == {
        "u": ("in", ["n", "rows"]),
        "model_taps": ("in", ["4"]),
        "v": ("out", ["n", "rows"]),
    }
    assert {(s.name, s.value) for s in draft.scalars if s.given} >= {("model_decay", 0.5)}
    assert "unused" not in variant_text(draft, "given")
    outputs = DraftTrial(draft, "given").run({"n": 24, "rows": 17})
    assert outputs["v"].size == 24 * 17


def test_a_struct_that_is_handed_on_whole_is_put_together_again(tmp_path: Path) -> None:
    text = (
        MODEL.replace("real taps[2][2]; ", "").replace("    m.taps[0][0] = 1.0;\n", "").replace("model.taps[1][0]", "1")
    )
    device = "__device__ float by(const Model& m) { return m.decay; }\n"
    device += "__device__ real weighted(const real* u, int i, int j) { return by(model) * u[AT(i, j)]; }"
    draft = drafted_text(tmp_path, text.format(device=device, more="", count="rows_of_grid"))
    assert {scalar.name for scalar in draft.scalars} >= {"model_decay", "model_unused"}
    DraftTrial(draft, "given").run({"n": 24, "rows": 17})


def test_arrays_that_are_handed_on_within_their_struct_are_refused_with_the_line(tmp_path: Path) -> None:
    device = "__device__ real by(const Model& m) { return m.taps[0][1]; }\n"
    device += "__device__ real weighted(const real* u, int i, int j) { return by(model) * u[AT(i, j)]; }"
    with pytest.raises(SyntaxInvalid, match=r"given\.cu:10: model\b"):
        adopted(tmp_path, device)


def test_a_field_that_no_task_can_hold_leaves_the_struct_refused(tmp_path: Path) -> None:
    with pytest.raises(SyntaxInvalid):
        adopted(tmp_path, more="float* table;")


@pytest.mark.parametrize(
    ("name", "axes", "tensors", "scalars"),
    [
        ("heat3d_params", "nx ny nz", "d_in:in out:out", "centre side"),
        ("color_blog", "width height", "src:in dst:out c_grade_lift:in c_grade_matrix:in", "gamma"),
        ("blur_hw", "rows cols", "d_in:in out:out settings_weights:in", "norm"),
        ("gray_scott_thesis", "n", "sim_u_:in sim_v_:in sim_un_:out sim_vn_:out", "Du Dv dt feed kill"),
    ],
)
def test_files_as_strangers_write_them(name: str, axes: str, tensors: str, scalars: str) -> None:
    draft = drafted(FILES / "twelfth" / f"{name}.cu")
    assert sorted(draft.axes) == sorted(axes.split())
    assert {f"{tensor.name}:{tensor.role}" for tensor in draft.tensors} == set(tensors.split())
    assert {scalar.name.rpartition("_")[2] for scalar in draft.scalars} == set(scalars.split())
