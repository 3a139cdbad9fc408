"""`evo adopt`: structs by value with arrays inside, arrays of pointers on the host, and launches that Python makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from adopted_files import FILES, drafted

from evo.interop.adopt.draft_trial import DraftTrial

MIX = """
#define TAPS 3
typedef struct {{ const float* plane[2]; float* out; int extent[2]; float taps[TAPS][2]; {more} }} Mix;
__device__ float gain(Mix m) {{ return m.taps[0][0] + m.extent[0]; }}
__global__ void mix(Mix m) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (i >= m.extent[0] || r >= m.extent[1]) return;
    float sum = 0;
    {use}
    m.out[r * m.extent[0] + i] = sum;
}}
int main() {{
    Mix m; m.extent[0] = 1000; m.extent[1] = 20;
    size_t bytes = m.extent[0] * m.extent[1] * sizeof(float);
    float* h = (float*)malloc(bytes);
    for (int p = 0; p < 2; ++p) {{
        cudaMalloc((void**)&m.plane[p], bytes);
        cudaMemcpy((void*)m.plane[p], h, bytes, cudaMemcpyHostToDevice);
    }}
    cudaMalloc(&m.out, bytes);
    for (int t = 0; t < TAPS; ++t) m.taps[t][0] = m.taps[t][1] = t * 0.5f;
    mix<<<dim3((m.extent[0] + 127) / 128, m.extent[1]), 128>>>(m);
    cudaMemcpy(h, m.out, bytes, cudaMemcpyDeviceToHost);
}}
"""
SUMS = "for (int p = 0; p < 2; ++p) sum += m.taps[1 + p][p] * m.plane[p][r * m.extent[0] + i];"
READ = "sum = m.taps[1][0] * m.plane[0][r * m.extent[0] + i] + m.taps[2][1] * m.plane[1][r * m.extent[0] + i];"


@pytest.mark.parametrize(
    ("use", "gain", "locals"),
    [(READ, 0, ()), (SUMS, 0, ("m_plane[2]",)), (f"{READ} sum += gain(m);", 1, ("m.plane[1] =", "m.taps["))],
)
def test_arrays_in_a_struct_become_parameters_and_tensors(
    tmp_path: Path, use: str, gain: int, locals: tuple[str, ...]
) -> None:
    """Pointers and extents one by one, numbers as a tensor; an array again where an index is no number of the text."""
    (tmp_path / "mix.cu").write_text(MIX.format(use=use, more=""))
    draft = drafted(tmp_path / "mix.cu")
    assert draft.axes == {"extent_0": 1000, "extent_1": 20}
    assert draft.launches[0].args == ("plane_0", "plane_1", "m_out", "extent_0", "extent_1", "m_taps")
    assert {t.name: t.role for t in draft.tensors} == {
        "plane_0": "in", "plane_1": "in", "m_taps": "in", "m_out": "out"
    }  # fmt: skip
    text = draft.launches[0].instance.text
    assert all(word in text for word in locals)
    assert ("m_plane[2]" in text) == ("m_plane[2]" in locals)
    trial = DraftTrial(draft, "mix")
    axes = {"extent_0": 37, "extent_1": 3}
    trial.changed()
    given, found = trial.inputs(axes), trial.run(axes)
    taps = given["m_taps"].reshape(3, 2)
    planes = (given[f"plane_{at}"].reshape(-1) for at in range(2))
    want = sum(tap * plane for tap, plane in zip((taps[1, 0], taps[2, 1]), planes, strict=True))
    want = want + gain * (taps[0, 0] + 37)
    assert np.allclose(found["m_out"].reshape(-1), want, rtol=1e-5, atol=1e-5)


def test_a_struct_is_filled_by_lists_and_goes_through_a_function(tmp_path: Path) -> None:
    draft = drafted(FILES / "thirteenth" / "planes_struct.cu")
    planes = [f"{image}_plane_{at}" for image in ("in", "out") for at in range(3)]
    assert [t.name for t in draft.tensors if "plane" in t.name] == planes
    assert [t.shape for t in draft.tensors if t.name in ("cm_m", "cm_offset")] == [["9"], ["3"]]
    assert draft.axes == {"width": 2048, "height": 1024}


def test_buffers_of_an_array_change_places(tmp_path: Path) -> None:
    """`buffer[now]` and `buffer[1 - now]`: one turn is adopted, and what it reads and writes is told apart."""
    (tmp_path / "turns.cu").write_text(
        "__global__ void step(const float* x, float* y, int n) { int i = blockIdx.x * 64 + threadIdx.x;\n"
        " if (i < n) y[i] = x[i] * 0.5f; }\n"
        "int main() { int n = 5000; float* buffer[2]; float* h = new float[n];\n"
        " for (int b = 0; b < 2; ++b) cudaMalloc(&buffer[b], n * sizeof(float));\n"
        " cudaMemcpy(buffer[0], h, n * sizeof(float), cudaMemcpyHostToDevice); int now = 0;\n"
        " for (int t = 0; t < 100; ++t) { step<<<(n + 63) / 64, 64>>>(buffer[now], buffer[1 - now], n);\n"
        " now = 1 - now; }\n"
        " cudaMemcpy(h, buffer[now], n * sizeof(float), cudaMemcpyDeviceToHost); }\n"
    )
    draft = drafted(tmp_path / "turns.cu")
    assert [(t.name, t.role, t.shape) for t in draft.tensors] == [
        ("buffer_0", "in", ["n"]), ("buffer_1", "out", ["n"])
    ]  # fmt: skip
    assert len(draft.launches) == 1


CUPY = FILES / "thirteenth" / "cupy_cosine.py"
PYCUDA = '''
import numpy as np
import pycuda.driver as drv
from pycuda.compiler import SourceModule
module = SourceModule("""
__global__ void blend(float *dest, const float *a, const float *b, float weight, int rows, int cols) {
    int c = threadIdx.x + blockIdx.x * blockDim.x, r = blockIdx.y;
    if (c < cols) dest[r * cols + c] = weight * a[r * cols + c] + b[r * cols + c];
}
""")
blend = module.get_function("blend")
def main():
    a = np.random.randn(400, 300).astype(np.float32)
    b = np.random.randn(400, 300).astype(np.float32)
    rows, cols = a.shape
    dest = np.zeros_like(a)
    blend(drv.Out(dest), drv.In(a), drv.In(b), np.float32(0.5), np.int32(rows), np.int32(cols),
          block=(128, 1, 1), grid=(-(-cols // 128), rows))
main()
'''


OBJECTS = """
from dataclasses import dataclass
import cupy as cp
import numpy as np
SOURCE = r'''
extern "C" __global__ void rolling(const float* x, float* out, const int n_series, const int n_time) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n_time) return;
    float sum = 0.0f;
    for (int k = 0; k < WINDOW && k <= t; k++) sum += x[blockIdx.y * n_time + t - k];
    out[blockIdx.y * n_time + t] = sum;
}
'''
@dataclass
class Config:
    threads: int = 128
class Rolling:
    def __init__(self, config, n_series, n_time, window=12):
        self.config, self.n_series, self.n_time, self.window = config, n_series, n_time, window
        self.kernel = cp.RawModule(code=SOURCE, options=("-std=c++14", f"-DWINDOW={window}")).get_function("rolling")
    def __call__(self, x):
        cfg = self.config
        out = cp.empty_like(x)
        grid = ((self.n_time + cfg.threads - 1) // cfg.threads, self.n_series)
        self.kernel(grid, (cfg.threads,), (x, out, np.int32(self.n_series), np.int32(self.n_time)))
        return out
"""


def test_fields_of_python_objects_and_macros_for_the_compiler_are_read(tmp_path: Path) -> None:
    (tmp_path / "rolling.py").write_text(OBJECTS)
    draft = drafted(tmp_path / "rolling.py")
    assert draft.axes == {"n_series": 1024, "n_time": 1024}
    assert (draft.launches[0].grid, draft.launches[0].block) == (("ceil_div(n_time, 128)", "n_series"), ("128",))
    assert "#define WINDOW 12" in draft.code
    assert "#define WINDOW 20" in drafted(tmp_path / "rolling.py", WINDOW=20).code


def test_a_launch_in_python_is_read_with_its_shapes(tmp_path: Path) -> None:
    draft = drafted(CUPY)
    assert draft.axes == {"n_queries": 16, "dim": 128, "n_items": 20000}
    assert {t.name: (t.role, t.shape) for t in draft.tensors} == {
        "queries": ("in", ["n_queries", "dim"]),
        "items": ("in", ["n_items", "dim"]),
        "scores": ("out", ["n_queries", "n_items"]),
    }
    assert (draft.launches[0].grid, draft.launches[0].block) == (("ceil_div(n_items, 256)", "n_queries"), ("256",))
    launch = next(at for at, line in enumerate(CUPY.read_text().splitlines(), 1) if "cosine_kernel(grid" in line)
    assert draft.program.launches[0].line == launch
    (tmp_path / "blend.py").write_text(PYCUDA)
    blend = drafted(tmp_path / "blend.py")
    assert [(t.name, t.role, t.shape) for t in blend.tensors] == [
        (name, role, ["size_0", "size_1"]) for name, role in (("a", "in"), ("b", "in"), ("dest", "out"))
    ]
    assert blend.launches[0].grid == ("ceil_div(size_1, 128)", "size_0")
    assert [(s.name, s.value) for s in blend.scalars] == [("weight", 0.5)]
