"""`evo new`, and the other importers: what they write loads, passes its self-test and says what comes next."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from tiny import evo, evo_here, fails

from evo.errors import SyntaxInvalid, TaskInvalid, UsageError
from evo.evaluate.gate.compare import compare
from evo.interop.count_formula import Uncounted, work_of
from evo.interop.gpumode import problem_text as gpumode_text
from evo.interop.kernel_tuner import variants_of
from evo.interop.new_reference import NewTaskAnswers
from evo.interop.new_task import problem_text, read_axes, read_formulas, read_scalar, read_tensor, write_new
from evo.interop.problem_sizes import read_sizes
from evo.interop.task_folder import TensorLine
from evo.results import Status
from evo.spec.reference import load_reference
from evo.spec.task import load_task
from evo.spec.variant import parse_variant, read_variant

DATA = Path(__file__).parents[2] / "data" / "exchange"


def form(
    name: str, axes: str, inputs: list[str], outputs: list[str], formulas: list[str], scalars: Sequence[str] = ()
) -> NewTaskAnswers:
    sizes = read_axes([axes])
    out = tuple(read_tensor(text, "out", sizes) for text in outputs)
    given = tuple(read_tensor(text, "in", sizes) for text in inputs)
    numbers = tuple(read_scalar(text, sizes) for text in scalars)
    return NewTaskAnswers(name, sizes, given, out, read_formulas(formulas, out), numbers)


@pytest.mark.parametrize(
    ("axes", "inputs", "outputs", "formulas"),
    [
        ("R=4096,C=512", ["x:float16[R,C]", "s:float32[R]"], ["y:float16[R,C]"], ["y = x * s[:, None]"]),
        ("N=1000", ["x:float32[N]"], ["y:float32[1]"], ["x.sum()"]),
        ("N=999,M=77", ["x:float32[N,M]"], ["i:int32[N]"], ["np.argmax(x, axis=1)"]),
        ("B=3,M=64,N=96,K=80", ["a:float32[B,M,K]", "b:float32[B,K,N]"], ["c:float32[B,M,N]"], ["a @ b"]),
        (
            "N=512",
            ["x:bfloat16[N]", "m:bool[N]"],
            ["y:float32[N]", "z:float32[N]"],
            ["y = np.where(m, x, -x)", "z = x + 1"],
        ),
    ],
)
def test_a_formula_becomes_a_task(
    tmp_path: Path, axes: str, inputs: list[str], outputs: list[str], formulas: list[str]
) -> None:
    write_new(tmp_path, form("mine", axes, inputs, outputs, formulas))
    task = load_task(tmp_path, "mine")
    case = task.check[1]
    assert len(set(case.axes.values())) == len(case.axes)  # no axis can be taken for another
    found = load_reference(task).expectation(case, 3)
    assert all(np.isfinite(found.expected[tensor.name]).all() for tensor in task.outputs)
    assert read_variant(tmp_path / "kernels" / "mine" / "skeleton.cu").task == "mine"


def test_a_task_without_a_gate_is_refused_and_not_written(tmp_path: Path) -> None:
    with refused(TaskInvalid, "accepts-too-much"):
        write_new(tmp_path, form("nil", "N=64", ["x:float32[N]"], ["y:float32[N]"], ["x * 0"]))
    assert not (tmp_path / "kernels" / "nil").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("N", ["x:float32[N]"], ["y:float32[N]"], ["x"]), "axis 'N'"),
        (("N=4", ["x:float32"], ["y:float32[N]"], ["x"]), "tensor 'x:float32'"),
        (("N=4", ["x:half[N]"], ["y:float32[N]"], ["x"]), "unknown type 'half'"),
        (("N=4", ["x:float32[M]"], ["y:float32[N]"], ["x"]), "unknown axis M"),
        (("N=4", ["x:float32[N]"], ["y:float32[N]"], ["y = x +"]), "not Python"),
        (("N=4", ["x:float32[N]"], ["y:float32[N]"], ["z = x"]), "no formula for y"),
        (("N=4,N=5", ["x:float32[N]"], ["y:float32[N]"], ["x"]), "N=4 and N=5"),
    ],
)
def test_answers_that_do_not_fit_are_named(given: tuple[str, list[str], list[str], list[str]], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        form("mine", *given)


def test_a_name_that_nothing_has_is_refused_with_those_that_there_are() -> None:
    formulas = ["relu(x) + sum(x[i] for i in range(N)) + xs"]
    with refused(UsageError, "unknown-name") as caught:
        form("mine", "N=4", ["x:float32[N]"], ["y:float32[N]"], formulas)
    assert "'xs'" in caught.value.message
    assert "x?" in caught.value.hint


def test_a_module_with_example_inputs_is_a_problem_file(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("import torch\nclass Gated(torch.nn.Module):\n    def forward(self, x): return x\n")
    tensor = read_tensor("x:float16[B,D]", "in", {"B": 4, "D": 8})
    text = problem_text(tmp_path / "m.py", "Gated", {"B": 4, "D": 8}, [tensor], "D")
    (tmp_path / "p.py").write_text(text)
    assert read_sizes(tmp_path / "p.py").axes == {"B": 4, "D": 8}
    with refused(UsageError, "unknown-name"):
        problem_text(tmp_path / "m.py", "Other", {}, [], "")


def test_kernel_tuner_parameters_become_knobs() -> None:
    (tuned,) = variants_of(DATA / "kernel_tuner" / "add.json", None, "add")
    variant = parse_variant(tuned.text)
    assert variant.integer_knobs == {"block_size_x": 128, "per_thread": 1}
    assert [require.text for require in variant.requires] == ["block_size_x * per_thread <= 1024 and per_thread != 3"]
    assert variant.launches[0].grid[0].value({"N": 1000, **variant.integer_knobs}) == 8
    with refused(SyntaxInvalid, "unreadable"):
        variants_of(DATA / "kernel_tuner" / "add.json", Path("elsewhere.cu"), None)


def test_kernel_tuner_conditions_as_c_has_them(tmp_path: Path) -> None:
    (tmp_path / "add.cu").write_bytes((DATA / "kernel_tuner" / "add.cu").read_bytes())
    text = (DATA / "kernel_tuner" / "add.json").read_text()
    spec = tmp_path / "add.json"
    written = "block_size_x * per_thread <= 1024 and per_thread != 3"
    spec.write_text(text.replace(written, "!per_thread == 1 && block_size_x != 3"))
    (tuned,) = variants_of(spec, None, "add")
    (condition,) = parse_variant(tuned.text).requires
    assert condition.value({"per_thread": 0, "block_size_x": 32})
    assert not condition.value({"per_thread": 2, "block_size_x": 32})  # (!2) == 1, and not !(2 == 1)
    assert not condition.value({"per_thread": 0, "block_size_x": 3})


def test_a_kernel_tuner_script_is_run_for_what_it_would_tune(tmp_path: Path) -> None:
    script = tmp_path / "tune_both.py"
    script.write_bytes((DATA / "kernel_tuner" / "tune_both.py").read_bytes())
    first, second = variants_of(script, None, "scale")
    assert list(tmp_path.iterdir()) == [script]  # what the script would write is written nowhere
    variant = parse_variant(first.text)
    assert variant.integer_knobs == {"bx": 4, "by": 16, "rows": 1, "fast": 1}  # the first that the conditions allow
    legal = [{**variant.integer_knobs, "bx": x, "rows": rows} for x in (4, 64) for rows in (1, 2, 4)]
    holds = [all(require.value(values) for require in variant.requires) for values in legal]
    assert holds == [True, False, False, False, False, False]  # 64 * 16 threads are too many; rows 4 must not be fast
    launch = variant.launches[0]
    sizes = {"width": 1000, "height": 500, **variant.integer_knobs}
    assert [part.value(sizes) for part in (*launch.grid, *launch.block)] == [250, 32, 4, 16]
    assert 'extern "C" __global__ void\n__launch_bounds__' in first.text
    assert 'extern "C" __global__ void clear' not in first.text
    assert [e.text for e in parse_variant(second.text).launches[0].grid] == ["4096 // step"]
    assert any("not translated" in note and "p.values()" in note for note in second.notes)


def test_settings_of_the_gpu_are_no_knobs(tmp_path: Path) -> None:
    script = tmp_path / "clocks.py"
    code = "__global__ void k(float* y) { y[blockIdx.x * block_size_x + threadIdx.x] = 1; }"
    tuned = {"block_size_x": [64, 128], "nvml_gr_clock": [900, 1200], "nvml_pwr_limit": [72]}
    script.write_text(f"import kernel_tuner as kt\nkt.tune_kernel('k', {code!r}, 1024, [None], {tuned!r})\n")
    (found,) = variants_of(script, None, None)
    assert [knob.name for knob in parse_variant(found.text).knobs] == ["block_size_x"]
    assert any("nvml_gr_clock, nvml_pwr_limit" in note for note in found.notes)
    ran = evo("import", "kernel-tuner", "clocks.py", "--name", "mine", cwd=tmp_path)
    assert "evo check mine.cu" in ran.out
    assert "`evo new mine`" in ran.out


TEMPLATED = """
import kernel_tuner as kt
code = '''
template <typename T> __device__ T twice(T a) { return a + a; }
template <typename T,
          int BLOCK = 128, bool FAST = true>
__global__ void __launch_bounds__(BLOCK)
k(T* y, const T* x, int n) { int i = blockIdx.x * BLOCK + threadIdx.x; if (i < n) y[i] = twice<T>(x[i]); }
'''
for name in ("k<float, block_size_x>", "k<double>"):
    tuned = {"block_size_x": [64, 128], "per": [1, 2]}
    kt.tune_kernel(name, code, lambda p: 5000 // p["per"], [None, None, 5000], tuned)
"""


def test_a_templates_parameters_stand_in_front_of_the_plain_kernel(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TEMPLATED)
    first, second = variants_of(tmp_path / "script.py", None, "scale")
    assert (
        'using T = float;\nconstexpr int BLOCK = block_size_x;\nconstexpr bool FAST = true;\nextern "C"' in first.text
    )
    assert "using T = double;\nconstexpr int BLOCK = 128;" in second.text
    assert "template <typename T> __device__ T twice" in first.text
    assert first.text.count("template") == 1
    launch = parse_variant(first.text).launches[0]
    assert launch.kernel == "k"
    assert launch.grid[0].value({"n": 5000, "per": 2, "block_size_x": 64}) == 40
    (tmp_path / "script.py").write_text(TEMPLATED.replace("k<double>", "k<>"))
    with refused(SyntaxInvalid, "no-value"):
        variants_of(tmp_path / "script.py", None, "scale")


@pytest.mark.parametrize(
    ("formula", "work"),
    [
        ("x * s[:, None] + 1", {"flop": "2 * C * R"}),
        ("np.maximum(x @ x.T, 0)", {"flop": "2 * C * R * R + R * R"}),
        ("np.einsum('rc,r->c', x, s)", {"flop": "2 * C * R"}),
        ("np.exp(x - x.max(1, keepdims=True))", {"flop": "2 * C * R", "exp": "C * R"}),
        ("x.T", {"flop": "0"}),
    ],
)
def test_the_arithmetic_of_a_formula_is_counted(formula: str, work: dict[str, str]) -> None:
    inputs = [TensorLine("x", "in", "float32", ["R", "C"]), TensorLine("s", "in", "float32", ["R"])]
    assert work_of([formula], inputs, ["R", "C"]) == work


@pytest.mark.parametrize("formula", ["np.sort(x)", "np.fft.fft(x).real", "x.reshape(-1, 4).sum(1)"])
def test_what_cannot_be_counted_is_said_and_left_out(formula: str) -> None:
    with pytest.raises(Uncounted):
        work_of([formula], [TensorLine("x", "in", "float32", ["N"])], ["N"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("print('nothing to tune')", "never called"),
        ("import kernel_tuner as kt\nkt.tune_kernel('k', 'gone.cu', 8, [], {'block_size_x': [32]})", "gone.cu"),
        (
            "import kernel_tuner as kt\nkt.tune_kernel('k', '__global__ void j() {\\n}', 8, [], {'x': [1]})",
            "no kernel 'k'",
        ),
    ],
)
def test_a_script_that_tunes_nothing_is_refused_with_the_reason(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "script.py").write_text(text)
    with pytest.raises(SyntaxInvalid, match=words):
        variants_of(tmp_path / "script.py", None, None)


def test_a_gpu_mode_problem_is_a_problem_file(tmp_path: Path) -> None:
    text, description = gpumode_text(DATA / "gpumode" / "grayscale")
    assert description.startswith("Weighted sum")
    (tmp_path / "p.py").write_text(text)
    assert read_sizes(tmp_path / "p.py").axes == {"SIZE": 2048}
    with refused(SyntaxInvalid, "another-format"):
        gpumode_text(tmp_path)


@pytest.mark.long  # two problems are imported by the command
def test_gpu_mode_folders_of_one_name_are_two_tasks_with_their_descriptions(tmp_path: Path) -> None:
    for parent in ("one", "two"):
        shutil.copytree(DATA / "gpumode" / "grayscale", tmp_path / parent / "grayscale")
    (tmp_path / "two" / "grayscale" / "task.yml").write_text("description: Other.\ntests:\n  - {size: 64, seed: 1}\n")
    ran = evo("import", "gpumode", "one/grayscale", "two/grayscale", cwd=tmp_path)
    assert ran.code == 0, ran.err
    first, second = (load_task(tmp_path, name) for name in ("grayscale", "pgrayscale"))
    assert "description: Weighted sum" in (first.folder / "task.yaml").read_text()
    assert "description: Other." in (second.folder / "task.yaml").read_text()
    assert second.bench[-1].axes == {"SIZE": 64}


@pytest.mark.long
def test_a_formula_with_a_long_sum_lets_a_kernel_add_one_after_the_other(tmp_path: Path) -> None:
    form = NewTaskAnswers(
        "row_sum",
        {"R": 40, "C": 3000},
        (TensorLine("x", "in", "float32", ["R", "C"]),),
        (TensorLine("y", "out", "float32", ["R"]),),
        {"y": "x.sum(1)"},
    )
    write_new(tmp_path, form)
    task = load_task(tmp_path, "row_sum")
    for case in (*task.check, *task.bench):
        expectation = load_reference(task).expectation(case, 6)
        x = expectation.inputs["x"].astype(np.float32)
        plain = np.add.accumulate(x, axis=1, dtype=np.float32)[:, -1]
        assert compare(task, case.name, {"y": plain}, expectation).status is Status.CORRECT
        halves = np.add.accumulate(x.astype(np.float16).astype(np.float32), axis=1, dtype=np.float32)[:, -1]
        assert compare(task, case.name, {"y": halves}, expectation).status is Status.WRONG


def test_a_formula_with_running_sums_lets_a_kernel_add_in_another_order(tmp_path: Path) -> None:
    formula = ["x.cumsum(axis=1).cumsum(axis=0)"]
    write_new(tmp_path, form("mine", "H=512,W=512", ["x:float32[H,W]"], ["y:float32[H,W]"], formula))
    tolerance = load_task(tmp_path, "mine").tolerance
    x = np.random.default_rng(1).standard_normal((512, 512)).astype(np.float32)
    true = x.astype(np.float64).cumsum(axis=1).cumsum(axis=0)
    for step in (1 << place for place in range(9)):  # as lanes and blocks add
        x[:, step:] = x[:, step:] + x[:, :-step].copy()
    for step in (1 << place for place in range(9)):
        x[step:] = x[step:] + x[:-step].copy()
    assert (np.abs(x - true) <= tolerance.atol + tolerance.rtol * np.abs(true)).all()
    assert not (np.abs(x * np.float32(1.0001) - true) <= tolerance.atol + tolerance.rtol * np.abs(true)).all()


def test_the_commands_answer_without_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    ran = evo_here("new", "mine", cwd=tmp_path)
    assert (ran.code, "--axis is missing" in ran.err) == (2, True)
    (tmp_path / "level").mkdir()
    ran = evo_here("import", "kernelbench", "level", cwd=tmp_path)
    assert (ran.code, "no Python file" in ran.err) == (2, True)
    for name in ("10_b.py", "9_a.py", "__init__.py"):
        (tmp_path / "level" / name).write_text("")
    ran = evo_here("import", "kernelbench", "level", cwd=tmp_path)
    assert [line.split()[1] for line in ran.out.splitlines() if "refused" in line] == ["9_a.py:", "10_b.py:"]
    ran = evo_here("import", "tarball", "x.py", cwd=tmp_path)
    assert (ran.code, "kernelbench" in ran.err) == (2, True)
    words = ["--axis", "N=4096", "--in", "x:float32[N]", "--out", "y:float32[N]", "--compute", "2 * x"]
    ran = evo_here("new", "twice", *words, cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert "evo iterate twice --from twice.cu" in ran.out
    ran = evo_here("export", "twice", "--out", "o", cwd=tmp_path)
    assert (ran.code, "has no champion" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("inputs", "output", "formula", "ranges"),
    [
        (["v:uint8[N]"], "c:int32[256]", "bincount(v, 256)", [(0, 255)]),
        (["v:int32[N]"], "c:int32[M]", "np.bincount(v, minlength=M)", [(0, 45)]),
        (["w:int8[N,M]", "x:int8[M]"], "y:int32[N]", "w @ x", [(-128, 127), (-128, 127)]),
        (["t:float32[M,N]", "i:int32[N]"], "y:float32[N,N]", "gather(t, i)", [(0, 45)]),
        (["t:float32[M,N]", "i:int32[N] in 2..5"], "y:float32[N,N]", "t[i]", [(2, 5)]),
        (["x:int32[N]"], "y:int32[N]", "x // 2", [(-(2**31), 2**31 - 1)]),
        (["x:uint32[N]"], "y:uint32[N]", "x * 7", [(0, 2**32 - 1)]),
    ],
)
def test_integers_get_the_range_that_the_formula_can_take(tmp_path, inputs, output, formula, ranges):
    write_new(tmp_path, form("ints", "N=500,M=46", inputs, [output], [formula]))
    task = load_task(tmp_path, "ints")
    case = task.bench[0]
    found = [tensor.range.at(case.axes) for tensor in task.inputs if tensor.range is not None]
    assert [(one.low, one.high) for one in found] == ranges
    drawn = load_reference(task).inputs(case, 3)
    (low, high), name = ranges[-1], task.inputs[-1].name
    assert drawn[name].min() < low + (high - low) // 4 + 1
    assert drawn[name].max() > high - (high - low) // 4 - 1


def test_sums_that_would_not_fit_narrow_the_range(tmp_path):
    write_new(tmp_path, form("sums", "N=64,M=200", ["x:int32[N,M]"], ["y:int32[N]"], ["x.sum(axis=1)"]))
    task = load_task(tmp_path, "sums")
    within = task.inputs[0].range.at({})
    assert 200 * within.high < 2**31 <= 200 * 4 * within.high
    assert load_reference(task).derived(task.bench[0], 1, "extreme") is not None


@pytest.mark.parametrize(
    "formula",
    ["0.5 * x * (1 + erf(x / sqrt(2)))", "cumsum(x, axis=1)", "softmax(x) + sigmoid(x)", "maximum(x, 0) * eps"],
)
def test_functions_go_by_their_bare_names_and_scalars_reach_the_kernel(tmp_path, formula):
    given = form("mine", "N=64,M=200", ["x:float32[N,M]"], ["y:float32[N,M]"], [formula], ["eps=1e-5"])
    write_new(tmp_path, given)
    task = load_task(tmp_path, "mine")
    assert [(one.name, one.dtype) for one in task.scalars] == [("eps", "float32")]
    assert "float eps," in (tmp_path / "kernels" / "mine" / "skeleton.cu").read_text()
    assert np.isfinite(load_reference(task).expectation(task.check[0], 1).expected["y"]).all()


def test_a_python_function_is_a_reference(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n\n\ndef norm(x, eps=1e-3):\n    r = 1 / np.sqrt((x * x).mean(1) + eps)\n"
        "    return x * r[:, None], r\n"
    )
    ran = evo(
        "new", "norm", "--axis", "R=64,C=128", "--in", "x:float32[R,C]", "--out", "y:float32[R,C]",
        "--out", "r:float32[R]", "--function", "mine.py:norm", "--root", ".", cwd=tmp_path,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    task = load_task(tmp_path, "norm")
    found = load_reference(task).expectation(task.check[0], 1)
    x = found.inputs["x"].astype(np.float64)
    np.testing.assert_allclose(found.expected["r"], 1 / np.sqrt((x * x).mean(1) + 1e-3))


def test_a_torch_function_becomes_a_problem_file(tmp_path):
    (tmp_path / "f.py").write_text("import torch\n\n\ndef gate(a, b):\n    return torch.sigmoid(a) * b\n")
    sizes = {"B": 4, "D": 8}
    tensors = [read_tensor(f"{name}:float32[B,D]", "in", sizes) for name in "ab"]
    text = problem_text(tmp_path / "f.py", "gate", sizes, tensors, "")
    (tmp_path / "p.py").write_text(text)
    assert read_sizes(tmp_path / "p.py").axes == sizes


def test_large_sizes_get_a_small_headline_of_the_same_kind(tmp_path):
    write_new(
        tmp_path,
        form("gemm", "M=4096,N=2048,K=4096", ["a:float16[M,K]", "b:float16[K,N]"], ["c:float16[M,N]"], ["a @ b"]),
    )
    task = load_task(tmp_path, "gemm")
    small = task.case(task.headline).axes
    assert task.case("main").axes == {"M": 4096, "N": 2048, "K": 4096}
    assert all(size % 32 == 0 for size in small.values())
    assert 2**20 < task.work_of(task.case(task.headline))["flop"] < 1e8
    assert task.score["main"] > task.score["small"]


def test_a_wizard_asks_again_after_a_typo(tmp_path, monkeypatch):
    from evo.cli import new as wizard
    from evo.cli.app import run

    answers = ["Bad Name", "twice", "N", "N=300", "x:half[N]", "x:float32[N]", "", "nofile.py:f", "", "y:float32[M]"]
    answers += ["y:float32[N]", "", "2 * z", "2 * x[:3]", "2 * x"]
    given = iter(answers)
    monkeypatch.setattr(wizard.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(wizard.typer, "prompt", lambda *_, **__: next(given))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels").mkdir()
    assert run(["new"]) == 0
    assert next(given, None) is None
    assert load_task(tmp_path, "twice").axes == {"N": "int"}


def test_next_steps_write_over_no_kernel_that_is_there(tmp_path: Path) -> None:
    words = ("--axis", "N=64", "--in", "x:float32[N]", "--out", "y:float32[N]", "--compute", "x + 1")
    for name in ("fresh", "mine"):
        (tmp_path / "mine.cu").write_text("// a kernel of one's own\n")
        ran = evo_here("new", name, *words, cwd=tmp_path)
        assert ran.code == 0, ran.err
        assert (f"skeleton.cu {name}.cu" in ran.out) == (name == "fresh")
        assert f"evo iterate {name} --from {name}.cu" in ran.out


def test_what_a_function_of_a_file_raises_is_told_with_its_line(tmp_path):
    (tmp_path / "mine.py").write_text("import numpy as np\n\n\ndef twice(x):\n    y = 2 * x\n    return y.twice()\n")
    ran = evo(
        "new", "twice", "--axis", "N=64", "--in", "x:float32[N]", "--out", "y:float32[N]",
        "--function", "mine.py:twice", "--root", ".", cwd=tmp_path,
    )  # fmt: skip
    fails(ran, 2, "line 6", "AttributeError")
