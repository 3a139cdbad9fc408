"""`evo export`: the package's operator has a fake, refuses derivatives and falls back to the library."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
from refusals import refused

from evo.errors import UsageError
from evo.interop.export import champions_of, export
from evo.spec.task import load_task

ROOT = Path(__file__).parents[3]


def written(into: Path, task_name: str, rung: str, form: str = "torch") -> list[Path]:
    task = load_task(ROOT, task_name)
    champions = champions_of(task, task.folder / "ladder" / rung, "sm_89", "l4")
    return export(task, champions, form, into)


def imported(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop(name, None)
    return importlib.import_module(name)


@pytest.mark.long
def test_the_operator_falls_back_traces_and_refuses_derivatives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    files = written(tmp_path / "out", "softmax", "20_vector.cu")
    assert {path.suffix for path in files} == {".toml", ".md", ".py", ".cu", ".ptx", ".cubin"}
    package = imported(tmp_path / "out", "evo_softmax", monkeypatch)
    x = torch.randn(7, 33).to(torch.float16)
    torch.testing.assert_close(package.softmax(x), torch.softmax(x, 1))
    assert package.chosen(x) == "library"
    operator = torch.ops.evo.softmax.default
    fake = operator(torch.empty(5, 9, dtype=torch.float16, device="meta"))
    assert fake.shape == (5, 9)
    assert fake.device.type == "meta"
    with pytest.raises(RuntimeError, match="no derivative"):
        package.softmax(x.clone().requires_grad_()).sum().backward()
    with pytest.raises(TypeError, match="float32, expected"):
        package.softmax(x.float())
    with pytest.raises(ValueError, match="dimensions"):
        package.softmax(x[0])


@pytest.mark.long  # it loads the compiler of torch
def test_the_operator_passes_torchs_own_examination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    written(tmp_path / "out", "softmax", "20_vector.cu")
    package = imported(tmp_path / "out", "evo_softmax", monkeypatch)
    x = torch.randn(7, 33).to(torch.float16)
    torch.library.opcheck(torch.ops.evo.softmax.default, (x,))
    traced = torch.compile(package.softmax, backend="eager", fullgraph=True)
    torch.testing.assert_close(traced(x), torch.softmax(x, 1))


def test_the_written_plan_is_the_variants_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evo.spec.chips import chip
    from evo.spec.launch import Plan, plan
    from evo.spec.variant import read_variant

    files = written(tmp_path / "out", "attention", "00_scalar.cu")
    package = imported(tmp_path / "out", "evo_attention", monkeypatch)
    task = load_task(ROOT, "attention")
    variant = read_variant(task.folder / "ladder" / "00_scalar.cu")
    make = package._CHAMPIONS[0][3]
    for case in task.bench:
        wanted = plan(variant, task, case, chip("l4"))
        assert isinstance(wanted, Plan)
        suffix, _, launches = make(case.axes)
        assert any(path.name.endswith(f"{suffix}.ptx") for path in files)
        for (name, grid, block, shared, _), launch in zip(launches, wanted.launches, strict=True):
            full = tuple((*part, 1, 1)[:3] for part in (grid, block))
            assert (name, *full, shared) == (launch.kernel, launch.grid, launch.block, launch.shared_bytes)
        assert package._outputs(case.axes)[0][2] == task.outputs[0].dims(case)
    if variant.macros:
        assert make({**task.bench[0].axes, variant.macros[0]: 7}) is None


@pytest.mark.parametrize("form", ["cu", "ptx", "cubin"])
def test_plain_formats_are_the_files_themselves(tmp_path: Path, form: str) -> None:
    (file,) = written(tmp_path / "out", "softmax", "00_scalar.cu", form)
    start = {"cu": b"// One thread", "ptx": b"//", "cubin": b"\x7fELF"}[form]
    assert file.read_bytes().startswith(start)


def test_bad_requests_are_named(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with refused(UsageError, "exists"):
        written(tmp_path / "full", "softmax", "00_scalar.cu", "cu")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError):
        written(tmp_path / "file" / "out", "softmax", "00_scalar.cu", "cu")
    with refused(UsageError, "unknown-name"):
        written(tmp_path / "new", "softmax", "00_scalar.cu", "onnx")
    with refused(UsageError, "not-imported"):
        written(tmp_path / "kb", "softmax", "00_scalar.cu", "kernelbench")
    assert not (tmp_path / "kb").exists()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("task", "rung", "shape"), [("softmax", "20_vector.cu", (512, 1024)), ("softmax", "30_registers.cu", (64, 4096))]
)
def test_the_kernel_runs_on_torchs_stream_in_graphs_and_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, rung: str, shape: tuple[int, int]
) -> None:
    import torch

    written(tmp_path / "out", task, rung)
    package = imported(tmp_path / "out", f"evo_{task}", monkeypatch)
    x = torch.randn(*shape, device="cuda").to(torch.float16)
    want = torch.softmax(x.double(), 1)
    assert package.chosen(x) != "library"
    torch.testing.assert_close(package.softmax(x).double(), want, rtol=1e-2, atol=1e-6)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        late = package.softmax(x * 1.0)
    side.synchronize()
    torch.testing.assert_close(late.double(), want, rtol=1e-2, atol=1e-6)
    compiled = torch.compile(lambda t: package.softmax(t) + 1, fullgraph=True)
    torch.testing.assert_close((compiled(x) - 1).double(), want, rtol=1e-1, atol=2e-3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = package.softmax(x)
    kept.zero_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(kept.double(), want, rtol=1e-2, atol=1e-6)
    assert package.chosen(x.t()) == "library"


@pytest.mark.gpu
def test_sizes_that_the_champion_has_go_to_it_and_others_to_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    written(tmp_path / "out", "attention", "40_mma.cu")
    package = imported(tmp_path / "out", "evo_attention", monkeypatch)
    attention = torch.nn.functional.scaled_dot_product_attention
    chosen = {}
    for length, keys, dim, causal in (
        (512, 512, 64, False),
        (512, 512, 64, True),
        (200, 77, 128, False),
        (64, 64, 80, False),
    ):
        q = torch.randn(2, 8, length, dim, device="cuda").half()
        k, v = (torch.randn(2, 4, keys, dim, device="cuda").half() for _ in range(2))
        want = attention(q.double(), k.double(), v.double(), is_causal=causal, enable_gqa=True)
        found = package.attention(q, k, v, CAUSAL=causal)
        torch.testing.assert_close(found.double(), want, rtol=1e-2, atol=2e-3)
        chosen[dim, causal] = package.chosen(q, k, v, CAUSAL=causal)
    assert chosen[64, False] == chosen[64, True] != "library"
    assert chosen[80, False] == "library"


IN_PLACE = """\
name: blend
axes: {N: int}
tensors:
  - {name: x, role: in, dtype: float32, shape: [N]}
  - {name: y, role: inout, dtype: float32, shape: [N]}
  - {name: seen, role: out, dtype: int32, shape: [1], init: zero}
scalars:
  - {name: alpha, dtype: float32, value: 0.5}
tolerance: {rtol: 1e-5, atol: 1e-6, rival_error_factor: 2, because: one rounding}
check: [{N: 256}]
bench: {small: {N: 1024}}
"""
BLEND = """\
// evo: task blend
// evo: knob T in 128, 256
// evo: launch blend grid (ceil_div(N, T)) block (T) args (2 * N - 1, y, x, alpha, seen)
#define T 128
extern "C" __global__ void blend(unsigned int last, float* y, const float* x, float a, int* seen) {
    unsigned int i = blockIdx.x * T + threadIdx.x;
    if (2 * i < last) { y[i] += a * x[i]; atomicAdd(seen, 1); }
}
"""


def test_a_tensor_in_place_is_copied_and_named_arguments_are_passed_as_named(tmp_path, monkeypatch) -> None:
    import numpy as np
    import torch

    from evo.spec.task import read_task

    folder = tmp_path / "blend"
    (folder / "ladder").mkdir(parents=True)
    (folder / "task.yaml").write_text(IN_PLACE)
    (folder / "reference.py").write_text("")
    (tmp_path / "blend.cu").write_text(BLEND)
    task = read_task(folder)
    export(task, champions_of(task, tmp_path / "blend.cu", "sm_89", "l4"), "torch", tmp_path / "out")
    package = imported(tmp_path / "out", "evo_blend", monkeypatch)
    tensors = {"x": torch.randn(300), "y": torch.randn(300)}
    axes = {"N": 300}
    y, seen = package._made(tensors, axes)
    assert torch.equal(y, tensors["y"])
    assert y.data_ptr() != tensors["y"].data_ptr()
    assert (seen.dtype, seen.tolist()) == (torch.int32, [0])
    _, _, [(name, grid, block, _, given)] = package._plan_blend(axes)
    assert (name, grid, block) == ("blend", (3,), (128,))
    passed = package._arguments(given, {**tensors, "y": y, "seen": seen}, axes)
    assert [type(value) for value in passed] == [np.uint32, np.uint64, np.uint64, np.float32, np.uint64]
    assert passed == [599, y.data_ptr(), tensors["x"].data_ptr(), 0.5, seen.data_ptr()]
    fake = torch.ops.evo.blend.default(*(torch.empty(7, device="meta") for _ in "xy"))
    assert [tuple(one.shape) for one in fake] == [(7,), (1,)]
    with pytest.raises(RuntimeError, match="library"):
        package.blend(*tensors.values())
