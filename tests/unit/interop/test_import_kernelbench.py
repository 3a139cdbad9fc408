"""KernelBench problems as tasks: what the importer writes computes what the module computes, or it is refused."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from tiny import evo

from evo.analysis.roofline import limits
from evo.errors import SyntaxInvalid, UsageError
from evo.evaluate.gate.compare import compare
from evo.interop import import_process as child
from evo.interop.gpumode import problem_text as gpumode_text
from evo.interop.kernelbench import ImportAnswer, import_problems, requests_of, task_name
from evo.interop.problem_sizes import read_sizes
from evo.interop.torch_reference import ModuleReference, placed
from evo.results import Status
from evo.spec.chips import chip
from evo.spec.proc_files import memory_limit
from evo.spec.reference import load_module, load_reference
from evo.spec.task import Task, load_task, read_task

pytestmark = pytest.mark.long  # each problem is traced at several sizes by torch
PROBLEMS = Path(__file__).parents[2] / "data" / "exchange" / "kernelbench"
USUAL = ("03_diagonal_matmul", "08_group_norm", "11_max_pool3d", "13_argmax", "19_cross_entropy", "39_hinge_column")
FOOT = "\ndef get_inputs():\n    return [torch.rand({sizes})]\n\ndef get_init_inputs():\n    return []\n"
HEAD = "import torch\nfrom torch import nn\nn = 32\nclass Model(nn.Module):\n    def forward(self, x):\n        "
BAD = {
    "drops": (HEAD + "return nn.functional.dropout(x, 0.5)\n" + FOOT.format(sizes="n, n"), "differ from run to run"),
    "zero": (HEAD + "return x * 0\n" + FOOT.format(sizes="n, n"), "accept a kernel that writes zeros"),
    "complex": (HEAD + "return torch.fft.fft(x)\n" + FOOT.format(sizes="n, n"), "complex64"),
    "nothing": (HEAD + "return None\n" + FOOT.format(sizes="n, n"), "NoneType, not a tensor"),
    "picks": (HEAD + "return x[x > 0.5]\n" + FOOT.format(sizes="n, n"), "shapes of its outputs depend on the values"),
    "broken": (HEAD + "return x @ x\n" + FOOT.format(sizes="n, 2 * n"), "does not run at the file's own sizes"),
}

# Tensors in lists and dicts, a configuration class, arguments with their names, a seed of its own, a cast to float32.
UNUSUAL = """
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

torch.manual_seed(0)
ROWS, COLS = 256, 96


@dataclass
class Scale:
    factor: float


class Model(nn.Module):
    def __init__(self, width: int, scale: Scale) -> None:
        super().__init__()
        self.lines = nn.Linear(width, width)
        self.scale = scale

    def forward(self, parts, more):
        first, second = parts
        torch.manual_seed(0)
        wide = first.float() * self.scale.factor + second
        return {"sum": self.lines(wide), "large": wide.amax(1) - more["shift"]}


def get_inputs():
    torch.manual_seed(1234)
    shift = torch.normal(0.5, 0.1, size=(ROWS,))
    return [(torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)), {"shift": shift, "unused": None}]


def get_init_inputs():
    return [[COLS], {"scale": Scale(0.5)}]
"""


# Sizes in a class and unpacked from a tuple, labels below a literal, a condition on values, a factor, a drawn number.
SETTINGS = """
import random

import torch


class Settings:
    rows: int = 4096
    factor = 40


sizes = (1000, 64)
classes, depth = sizes


class Net(torch.nn.Module):
    def forward(self, x, labels, weight):
        return torch.nn.functional.cross_entropy(x.sum(1), labels, reduction="none") * weight


Model = Net


def get_inputs():
    x = torch.rand(Settings.rows, depth, classes) * Settings.factor
    assert (x >= 0).all(), "negative"
    return [x, torch.randint(0, 1000, (Settings.rows,)), random.uniform(1, 2)]


def get_init_inputs():
    return []
"""


# What a kernel can do without: rows that no index names, a product's masked half, products that are summed up.
LOOK_UP = """
import torch
ROWS, WIDTH, IDS = 5000, 64, 300
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(ROWS, WIDTH)
    def forward(self, ids):
        return self.table(ids)
def get_inputs(): return [torch.randint(0, ROWS, (IDS,))]
def get_init_inputs(): return
"""
MASKED = HEAD.replace("n = 32", "n = 40\nb = 12\nd = 24") + (
    "return nn.functional.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True)\n"
    + FOOT.format(sizes="b, n, d")
)
SUMMED = HEAD + "return (x @ (x * 2)).sum(1)\n" + FOOT.format(sizes="n, n")
GATED = """
import torch
from torch import nn
rows, wide, deep = 128, 48, 80
class Model(nn.Module):
    def __init__(self, wide, deep):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(wide, deep), nn.Linear(wide, deep), nn.Linear(deep, 2 * wide)
    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))
def get_inputs(): return [torch.randn(rows, wide)]
def get_init_inputs(): return [wide, deep]
"""
LONG = HEAD.replace("n = 32", "n, k = 24, 3000") + (
    "return x @ x.T, x.pow(2).sum(1).sqrt(), torch.relu(x)\n" + FOOT.format(sizes="n, k")
)
# A mask of its own, of which forward takes a part: of length 1 it would fit every length, and mask nothing.
FUTURE = """
import torch
from torch import nn
batch, longest, length, heads, width = 16, 1024, 512, 8, 256
class Model(nn.Module):
    def __init__(self, width, heads, longest):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width)
        self.register_buffer("seen", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in self.qkv(x).split(c, dim=2))
        scores = (q @ k.transpose(-2, -1)).masked_fill(self.seen[:, :, :t, :t] == 0, float("-inf"))
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)
def get_inputs(): return [torch.rand(batch, length, width)]
def get_init_inputs(): return [width, heads, longest]
"""
WORKING = {"look_up": LOOK_UP, "masked": MASKED, "summed": SUMMED, "gated": GATED, "long": LONG, "future": FUTURE}

FAR = HEAD + "return x.sort(-1).values\n" + FOOT.format(sizes="n, n").replace("]", " + 5e4]", 1)


def imported(root: Path, files: list[Path], **options: Any) -> dict[str, ImportAnswer]:
    return {a.file.stem: a for a in import_problems(root, requests_of(root, files, None), **options)}


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, ImportAnswer]]:
    """Good and bad files in one import: torch is loaded once."""
    root = tmp_path_factory.mktemp("imported")
    for name, (text, _) in BAD.items():
        (root / f"{name}.py").write_text(text)
    (root / "unusual.py").write_text(UNUSUAL)
    (root / "settings.py").write_text(SETTINGS)
    (root / "far.py").write_text(FAR)
    (root / "add_halves.py").write_text(gpumode_text(PROBLEMS.parent / "gpumode" / "add_halves")[0])
    for name, text in WORKING.items():
        (root / f"{name}.py").write_text(text)
    own = ("unusual", "settings", "far", "add_halves", *WORKING)
    files = [*(PROBLEMS / f"{stem}.py" for stem in USUAL), *(root / f"{name}.py" for name in own)]
    return root, imported(root, [*files, *(root / f"{name}.py" for name in BAD)])


def original_at(task: Task, case: str) -> dict[str, Any]:
    """The names of problem.py, loaded as any Python file, with the case's sizes written over its own."""
    spec = importlib.util.spec_from_file_location("original", task.folder / "problem.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    axes = task.case(case).axes
    for axis, value in axes.items():
        for name in (axis, axis.lower()):
            if isinstance(getattr(module, name, None), int):
                setattr(module, name, value)
    return vars(module)


def agrees(task: Task, case_name: str) -> None:
    """expected() is what the original module gives in float64 with the same parameters and inputs."""
    import torch

    reference = load_reference(task)
    case = task.case(case_name)
    found = reference.expectation(case, 5)
    names = original_at(task, case_name)
    model = names["Model"](*names["get_init_inputs"]()).double()
    own = load_module(task.folder / "reference.py")._module
    state = model.state_dict()
    for name, key in own.state.items():
        state[key] = torch.tensor(found.inputs[name]).reshape(state[key].shape)
    model.load_state_dict(state)
    with placed("meta"):
        given: list[Any] = list(names["get_inputs"]())  # a number among them stays what it is
    for name, index in own.arguments.items():
        tensor = torch.tensor(found.inputs[name])
        given[index] = tensor.double() if tensor.is_floating_point() else tensor
    with torch.no_grad():
        result = model(*given).numpy()
    want = found.expected[task.outputs[0].name]
    assert want.shape == (result.shape or (1,))
    np.testing.assert_allclose(want, result.reshape(want.shape), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("stem", USUAL)
def test_an_imported_problem_is_a_task_that_computes_what_the_module_does(
    usual: tuple[Path, dict[str, ImportAnswer]], stem: str
) -> None:
    root, answers = usual
    assert answers[stem].refused is None
    task = load_task(root, answers[stem].name)
    assert task.bench[-1].name == "original"
    sizes = read_sizes(PROBLEMS / f"{stem}.py")
    assert {axis: task.bench[-1].axes[axis] for axis in sizes.axes} == sizes.axes
    assert len(task.check) >= 3
    assert all(tensor.size_bytes(case) < 200_000 for case in task.check for tensor in task.tensors)
    if not any(axis[-1].isdigit() and axis not in ("DIM1", "DIM2", "DIM3") for axis in sizes.axes):
        agrees(task, task.check[1].name)


def test_shapes_work_and_domains_are_what_a_reader_expects(usual: tuple[Path, dict[str, ImportAnswer]]) -> None:
    root, _ = usual
    norm, loss, argmax = (load_task(root, name) for name in ("group_norm", "cross_entropy", "argmax"))
    assert [dim.text for dim in norm.inputs[1].shape] == ["FEATURES"]
    assert loss.outputs[0].dims(loss.check[0]) == (1,)
    assert loss.inputs[1].dtype == "int64"
    assert [dim.text for dim in argmax.outputs[0].shape] == ["BATCH_SIZE", "DIM2"]
    assert argmax.outputs[0].dtype == "int64"


def test_work_is_what_no_kernel_can_do_without(usual: tuple[Path, dict[str, ImportAnswer]]) -> None:
    root, answers = usual
    said = {name: " ".join(answers[name].notes) for name in (*WORKING, *USUAL)}
    tasks = {name: load_task(root, answers[name].name) for name in said}
    work = {name: task.work_of(task.bench[-1]) for name, task in tasks.items()}
    own = {name: task.bench[-1].axes for name, task in tasks.items()}
    gated = own["gated"]
    assert work["gated"]["flop"] == 8 * gated["ROWS"] * gated["WIDE"] * gated["DEEP"]  # products of unlike shapes
    assert "table_weight" in said["look_up"]
    assert work["look_up"]["bytes"] == (8 + 4 * 64) * 300
    for name, why in (
        ("masked", "0 at fixed places"),
        ("summed", "sum reads the result of a product directly"),
        ("03_diagonal_matmul", "0 at fixed places"),
        ("13_argmax", "no product or convolution"),
    ):
        assert "flop" not in work[name]
        assert why in said[name]
    diagonal = limits(tasks["03_diagonal_matmul"], tasks["03_diagonal_matmul"].bench[-1], chip("l4"))
    assert (diagonal.flop, diagonal.limiter_cold) == (None, "dram_cold")
    assert {"fp32", "tensor"}.isdisjoint(diagonal.floors_us)
    rows = limits(tasks["look_up"], tasks["look_up"].bench[-1], chip("l4"))
    assert rows.bytes_compulsory == work["look_up"]["bytes"]


def test_nested_arguments_and_seeds_of_its_own_make_a_task_too(usual: tuple[Path, dict[str, ImportAnswer]]) -> None:
    root, answers = usual
    assert answers["unusual"].refused is None
    task = load_task(root, "unusual")
    assert [tensor.name for tensor in task.inputs][:3] == ["parts_0", "parts_1", "more_shift"]
    assert task.work_of(task.check[0])["flop"] == 2 * task.check[0].axes["ROWS"] * task.check[0].axes["COLS"] ** 2
    found, other = (load_reference(task).expectation(task.check[0], seed) for seed in (1, 2))
    given = found.inputs
    wide = given["parts_0"].astype(np.float64) * 0.5 + given["parts_1"]
    weight, bias = (given[f"lines_{name}"].astype(np.float64) for name in ("weight", "bias"))
    np.testing.assert_allclose(found.expected["y0"], wide @ weight.T + bias, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(found.expected["y1"], wide.max(1) - given["more_shift"], rtol=1e-13, atol=1e-14)
    assert not np.array_equal(given["parts_0"], other.inputs["parts_0"])


def test_sizes_in_a_class_and_limits_of_labels_are_seen(usual: tuple[Path, dict[str, ImportAnswer]]) -> None:
    root, answers = usual
    assert answers["settings"].refused is None
    task = load_task(root, "settings")
    assert set(task.axes) == {"SETTINGS_ROWS", "SIZES_0", "SIZES_1"}  # the factor and the labels' limit are no sizes
    assert len(task.check) >= 2
    for case in (*task.check, task.bench[0]):
        assert load_reference(task).expectation(case, 3).inputs["labels"].max() < case.axes["SIZES_0"]
    assert any("weight is" in note and "drawn" in note for note in answers["settings"].notes)


def test_no_smaller_case_makes_a_mask_fit_everything(usual: tuple[Path, dict[str, ImportAnswer]]) -> None:
    root, answers = usual
    assert answers["future"].refused is None
    task = load_task(root, answers["future"].name)
    assert "seen" in [tensor.name for tensor in task.inputs]
    assert len(task.check) >= 3
    for case in task.check:
        assert case.axes["LENGTH"] <= case.axes["LONGEST"]
        assert min(case.axes.values()) > 1
        reference, found = load_reference(task), load_reference(task).expectation(case, 2)
        later = {**found.inputs, "x": found.inputs["x"].copy()}
        later["x"][:, -1] += 1
        moved = reference.expected(later, case)["y"] != found.expected["y"]
        assert (moved[:, :-1].any(), moved[:, -1].any()) == (False, True)  # only the last row sees the last


def test_a_plain_sum_in_float32_is_right_and_one_of_halves_is_wrong(
    usual: tuple[Path, dict[str, ImportAnswer]],
) -> None:
    root, answers = usual
    assert answers["long"].refused is None
    task = load_task(root, answers["long"].name)

    def plain(x: np.ndarray[Any, np.dtype[np.float32]]) -> dict[str, np.ndarray[Any, Any]]:
        """One term after the other, as a kernel with one accumulator has them."""
        product, norm = np.zeros((len(x), len(x)), np.float32), np.zeros(len(x), np.float32)
        for column in x.T:
            product += np.outer(column, column)
            norm += column * column
        return {"y0": product, "y1": np.sqrt(norm), "y2": np.maximum(x, 0)}

    for case in (*task.check, task.bench[-1]):
        expectation = load_reference(task).expectation(case, 4)
        x = expectation.inputs["x"].astype(np.float32)
        assert compare(task, case.name, plain(x), expectation).status is Status.CORRECT
        halves = {**plain(x.astype(np.float16).astype(np.float32)), "y2": np.maximum(x, 0)}
        assert compare(task, case.name, halves, expectation).status is Status.WRONG


def test_long_sums_of_many_outputs_are_within_the_tolerance_in_a_plain_order(tmp_path: Path) -> None:
    file = tmp_path / "product.py"
    body = "def forward(self, x, w):\n        return x @ w\n"
    file.write_text(
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    "
        + body
        + "\nm, k, n = 512, 1024, 512\ndef get_inputs():\n    return [torch.randn(m, k), torch.randn(k, n)]\n"
        + "def get_init_inputs():\n    return []\n"
    )
    assert imported(tmp_path, [file])["product"].refused is None
    task = load_task(tmp_path, "product")
    for seed in range(3):  # in some draws a sum that nearly cancels errs by more than those of a few terms ever do
        found = load_reference(task).expectation(task.case("original"), seed)
        x, w = (found.inputs[name] for name in ("x", "w"))
        plain = np.zeros((512, 512), np.float32)
        for column, row in zip(x.T, w, strict=True):
            plain += np.outer(column, row)
        assert compare(task, "original", {"y": plain}, found).status is Status.CORRECT
    halves = x.astype(np.float16).astype(np.float32) @ w
    assert compare(task, "original", {"y": halves}, found).status is Status.WRONG


@pytest.mark.parametrize("name", ["hinge_column", "cross_entropy", "unusual"])
def test_the_trusted_run_is_in_the_problems_own_types(usual: tuple[Path, dict[str, ImportAnswer]], name: str) -> None:
    root, _ = usual
    task = load_task(root, name)
    module, case = load_module(task.folder / "reference.py"), task.check[0]
    inputs = module.inputs(case.axes, np.random.default_rng(5))
    exact, own = module.expected(inputs, case.axes), module.trusted(inputs, case.axes)  # in the order of evo itself
    for tensor in task.outputs:
        assert (exact[tensor.name].dtype, own[tensor.name].dtype) == (np.float64, np.float32)
    assert any((own[tensor.name] != exact[tensor.name]).any() for tensor in task.outputs)


def test_trusted_running_sums_have_the_error_of_a_plain_kernel(tmp_path: Path) -> None:
    file = tmp_path / "scan.py"
    file.write_text(HEAD + "return x.cumsum(1), torch.cumprod(x, dim=1)\n" + FOOT.format(sizes="4, 999"))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    module = ModuleReference(path=file, sha256=digest, arguments={"x": 0}, state={}, outputs=["s", "p"])
    case = dict(module.problem.sizes.axes)
    inputs = module.inputs(case, np.random.default_rng(3))
    plain = np.zeros(4, np.float32)
    for column in inputs["x"].T:
        plain = plain + column
    np.testing.assert_array_equal(module.trusted(inputs, case)["s"][:, -1], plain)
    exact = np.cumsum(inputs["x"].astype(np.float64), axis=1)
    np.testing.assert_allclose(module.expected(inputs, case)["s"], exact, rtol=1e-13)


def test_values_far_from_zero_get_a_tolerance_that_sees_their_order(
    usual: tuple[Path, dict[str, ImportAnswer]],
) -> None:
    root, answers = usual
    assert answers["far"].refused is None
    assert load_task(root, "far").tolerance.rtol == 1e-6
    assert len(set(answers["far"].notes)) == len(answers["far"].notes)


def test_memory_that_a_gpu_mode_problem_is_given_to_write_is_no_input(
    usual: tuple[Path, dict[str, ImportAnswer]],
) -> None:
    root, answers = usual
    assert answers["add_halves"].notes[0].startswith("out is left out")
    task = load_task(root, "add_halves")
    assert [tensor.name for tensor in task.tensors] == ["left", "right", "y"]
    found = load_reference(task).expectation(task.check[0], 3)
    wide = {name: values.astype(np.float64) for name, values in found.inputs.items()}
    np.testing.assert_array_equal(found.expected["y"], wide["left"] + wide["right"])
    assert np.abs(wide["left"]).max() > 0


def test_parameters_vary_with_the_seed_and_come_back_with_it(usual: tuple[Path, dict[str, ImportAnswer]]) -> None:
    task = load_task(usual[0], "group_norm")
    first, again, other = (load_reference(task).inputs(task.check[0], seed)["gn_weight"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_problem_that_was_edited_after_its_import_is_refused(usual: tuple[Path, dict[str, ImportAnswer]]) -> None:
    from evo.errors import TaskInvalid

    folder = usual[0] / "kernels" / "max_pool3d"
    text = (folder / "problem.py").read_text()
    (folder / "problem.py").write_text(text + "\n# edited\n")
    with pytest.raises(TaskInvalid, match="changed since it was imported"):
        load_reference(read_task(folder))
    (folder / "problem.py").write_text(text)


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_task_is_refused_with_its_reason_and_leaves_nothing(
    usual: tuple[Path, dict[str, ImportAnswer]], name: str
) -> None:
    answer = usual[1][name]
    assert answer.folder is None
    assert BAD[name][1] in str(answer.refused)
    assert answer.hint
    assert not (answer.file.parent / "kernels" / name).exists()


@pytest.mark.long
def test_sizes_that_no_simulator_holds_are_left_out_or_refused_in_time(tmp_path: Path) -> None:
    file = tmp_path / "huge.py"
    wide = max(393216, memory_limit() // (3 * 2 * 4 * 4096) + 1)  # three times two tensors are needed
    said = f"{2 * 4 * 4096 * wide / 1e9:.1f} GB"
    huge = HEAD.replace("n = 32", f"n, k = 4096, {wide}") + "return torch.relu(x)\n" + FOOT.format(sizes="n, k")
    file.write_text(huge)
    usual = imported(tmp_path, [file], most_bytes=2**30)["huge"]
    assert [case.name for case in load_task(tmp_path, "huge").bench] == ["reduced"]
    assert any(said in note and "--whole" in note for note in usual.notes)
    (tmp_path / "kernels" / "huge").rename(tmp_path / "small")
    imported(tmp_path, [file])
    task = load_task(tmp_path, "huge")
    assert task.bench[-1].axes == {"N": 4096, "K": wide}
    text = (task.folder / "skeleton.cu").read_text().replace("// y[i] = ...", "y[i] = x[i] < 0.0f ? 0.0f : x[i];")
    (tmp_path / "huge.cu").write_text(text)
    ran = evo("bench", "huge.cu", "--device", "sim:l4", cwd=tmp_path)
    assert ran.code == 5
    assert said in ran.err


def test_a_file_that_hangs_or_exits_takes_only_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_done", lambda job: time.sleep(60))
    assert child.answer({"limit_s": 0.3})["refused"] == "not done within 0.3 s"
    monkeypatch.setattr(child, "_done", lambda job: os._exit(3))
    assert child.answer({"limit_s": 30})["refused"].endswith("code 3")
    monkeypatch.setattr(child, "_done", lambda job: {"wrote": "x"})
    assert child.answer({"limit_s": 30}) == {"wrote": "x"}


def test_sizes_are_found_where_they_stand_and_replaced_there(tmp_path: Path) -> None:
    file = tmp_path / "problem.py"
    file.write_text(
        "import torch\nn, m = 2 ** 4, 3\nshape = (n, 7)\nunused = 9\ndim = 1\neps = 1e-5\n"
        "more = {'a': 40, 'b': (50, 2)}\n"
        "class Model(torch.nn.Module):\n    def __init__(self, width, dim): pass\n"
        "def get_inputs():\n    return [torch.rand(*shape, m, 128), torch.rand(more['a'], *more['b'])]\n"
        "def get_init_inputs():\n    return [64, dim]\n"
    )
    sizes = read_sizes(file)
    more = {"MORE_A": 40, "MORE_B_0": 50, "MORE_B_1": 2}
    assert sizes.axes == {"N": 16, "M": 3, "SHAPE": 7, **more, "SIZE_0": 128, "WIDTH": 64}
    space: dict[str, Any] = {}
    exec(sizes.code({**sizes.axes, "N": 5, "WIDTH": 6, "SIZE_0": 2}), space)
    assert space["get_inputs"]()[0].shape == (5, 7, 3, 2)
    assert space["get_init_inputs"]() == [6, 1]


def test_sizes_are_found_in_settings_defaults_and_calls(tmp_path: Path) -> None:
    file = tmp_path / "problem.py"
    file.write_text(
        "import torch\nclass C:\n    batch: int = 16\nc = C()\nm, k = pair = (24, 8)\nh = w = 48\n"
        "d = dict(n=40, other=C)\n"
        "def shape(rows=20, *, cols: int = 30):\n    return rows, cols, 12\n"
        "class Model(torch.nn.Module):\n    def __init__(self, width, stride=1, **more): pass\n"
        "def get_inputs(last=7):\n    return [torch.rand(c.batch, m, h, w, d['n'], *shape(), last) * 99]\n"
        "def get_init_inputs():\n    return [[(3, 5)], {'stride': 2, 'units': m}]\n"
    )
    sizes = read_sizes(file)
    top = {"M": 24, "K": 8, "H": 48, "D_N": 40, "C_BATCH": 16}
    rest = {"ROWS": 20, "COLS": 30, "LAST": 7, "SIZE_0": 12, "SIZE_1": 99, "WIDTH_0": 3, "WIDTH_1": 5, "STRIDE": 2}
    assert sizes.axes == {axis: value for axis, value in {**top, **rest}.items() if axis != "K"}
    assert set(sizes.axes) - sizes.drawn == {"M", "WIDTH_0", "WIDTH_1", "STRIDE"}
    space: dict[str, Any] = {}
    exec(sizes.without(["SIZE_1"]).code({"H": 3, "C_BATCH": 2, "M": 1, "D_N": 1, "ROWS": 1, "COLS": 1}), space)
    assert space["get_inputs"]()[0].shape == (2, 1, 3, 3, 1, 1, 1, 12, 7)
    assert space["get_init_inputs"]()[1] == {"stride": 2, "units": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [("x = (", "not Python"), ("class Model: pass", "get_inputs"), ("def get_inputs(): pass", "class Model")],
)
def test_a_file_in_another_format_is_an_error_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "x.py"
    file.write_text(text)
    with pytest.raises(SyntaxInvalid, match=words):
        read_sizes(file)


def test_names_come_from_files_and_overwrite_nothing(tmp_path: Path) -> None:
    assert task_name("23_Softmax") == "softmax"
    assert task_name("1_Square_matrix_multiplication_") == "square_matrix_multiplication"
    assert (
        task_name("62_conv_standard_2D__square_LeakyReLU_KLDivLoss") == "conv_standard_2d_square_leaky_relu_kl_div_loss"
    )
    assert task_name("47_Sum_reduction_over_a_dimension") == "sum_reduction_over_a_dimension"
    (tmp_path / "kernels" / "softmax").mkdir(parents=True)
    file = tmp_path / "23_Softmax.py"
    file.write_text("# a problem\n")
    (request,) = requests_of(tmp_path, [file], None)
    assert request.name == "p23_softmax"  # a task of one's own, or a shipped one, stays what it is
    with refused(UsageError, "exists"):
        requests_of(tmp_path, [file], "softmax")
    (tmp_path / "kernels" / "softmax" / "problem.py").write_text("# a problem\n")
    with refused(UsageError, "exists"):
        requests_of(tmp_path, [file], None)
    with refused(UsageError, "task-name"):
        requests_of(tmp_path, [Path("23_Softmax.py")], "Soft max")


@pytest.mark.long
def test_every_problem_at_hand_becomes_a_task_that_agrees(tmp_path: Path) -> None:
    answers = imported(tmp_path, sorted(PROBLEMS.glob("*.py")))
    assert not [f"{name}: {answer.refused}" for name, answer in answers.items() if answer.refused]
    for answer in answers.values():
        task = load_task(tmp_path, answer.name)
        for case in task.check[:2]:
            agrees(task, case.name)
