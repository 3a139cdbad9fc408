"""The references themselves: literal cases, shapes, dtypes, and the trusted implementation against float64."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evo.spec.dtypes import NUMPY
from evo.spec.reference import Reference, load_module, load_reference
from evo.spec.task import Task, load_task, task_names

ROOT = Path(__file__).resolve().parents[2]
TASKS = [load_task(ROOT, name) for name in task_names(ROOT)]
CASES = [pytest.param(task, case, id=f"{task.name}-{case.name}") for task in TASKS for case in task.check]

every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


@pytest.fixture(scope="module")
def references() -> Iterator[dict[str, Reference]]:
    """One process for each task, which all its cases share."""
    found = {task.name: load_reference(task) for task in TASKS}
    yield found
    for reference in found.values():
        reference.close()


@every_task
def test_literal_case(references: dict[str, Reference], task: Task) -> None:
    reference = references[task.name]
    module = load_module(task.folder / "reference.py")
    case, inputs, outputs = reference.literal()
    assert set(case) == set(task.axes)
    assert set(inputs) == {tensor.name for tensor in task.inputs}
    for function in (module.expected, module.trusted):
        computed = function(inputs, case)
        for name, values in outputs.items():
            np.testing.assert_allclose(computed[name], values, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("task", "case"), CASES)
def test_shapes_dtypes_and_independence(references: dict[str, Reference], task: Task, case) -> None:
    inputs = references[task.name].inputs(case, seed=0)
    arrays = [inputs[tensor.name] for tensor in task.inputs]
    for tensor, array in zip(task.inputs, arrays, strict=True):
        assert array.shape == tensor.dims(case)
        assert array.dtype == NUMPY[tensor.dtype]
        assert np.isfinite(array.astype(np.float64)).all()
    for i, left in enumerate(arrays):
        for right in arrays[i + 1 :]:
            assert left.shape != right.shape or not np.array_equal(left, right)


@pytest.mark.parametrize(("task", "case"), CASES)
def test_trusted_is_within_tolerance_of_the_expectation(references: dict[str, Reference], task: Task, case) -> None:
    found = references[task.name].expectation(case, seed=0)
    for name, exact in found.expected.items():
        assert exact.dtype == np.float64
        assert np.isfinite(exact).all()
        tolerance = task.tolerance
        np.testing.assert_allclose(found.trusted[name], exact, rtol=tolerance.rtol, atol=tolerance.atol)


@every_task
def test_another_seed_gives_other_inputs_and_the_same_seed_the_same(
    references: dict[str, Reference], task: Task
) -> None:
    reference = references[task.name]
    case = task.check[0]
    for name, array in reference.inputs(case, seed=1).items():
        assert not np.array_equal(array, reference.inputs(case, seed=2)[name])
        assert np.array_equal(array, reference.inputs(case, seed=1)[name])


@every_task
def test_zeros_are_outside_the_tolerance(references: dict[str, Reference], task: Task) -> None:
    """A tolerance that accepts an all-zero output accepts anything."""
    tolerance = task.tolerance
    exact = next(iter(references[task.name].expectation(task.check[0], seed=0).expected.values()))
    assert (np.abs(exact) > tolerance.atol + tolerance.rtol * np.abs(exact)).mean() > 0.5


def test_attention_agrees_with_a_loop_over_scalars() -> None:
    """An independent oracle: plain Python sums over a small grouped-query causal case."""
    reference = load_module(load_task(ROOT, "attention").folder / "reference.py")
    case = {"B": 2, "HQ": 4, "HKV": 2, "SQ": 3, "SK": 5, "D": 8, "CAUSAL": 1}
    inputs = reference.inputs(case, np.random.default_rng(7))
    q, k, v = (inputs[name].astype(float) for name in "qkv")
    computed = reference.expected(inputs, case)["o"]
    for b, h, i in np.ndindex(2, 4, 3):
        keys = range(min(i + 1, 5))
        scores = [sum(q[b, h, i, d] * k[b, h // 2, j, d] for d in range(8)) / math.sqrt(8) for j in keys]
        weights = [math.exp(score - max(scores)) for score in scores]
        for d in range(8):
            value = sum(w * v[b, h // 2, j, d] for w, j in zip(weights, keys, strict=True)) / sum(weights)
            assert computed[b, h, i, d] == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_attention_has_logits_beyond_the_range_of_exp(references: dict[str, Reference]) -> None:
    task = load_task(ROOT, "attention")
    inputs = references[task.name].inputs(task.case("ragged_grouped"), seed=0)
    logits = inputs["q"][0, -1].astype(float) @ inputs["k"][0, -1].astype(float).T / 8
    assert logits.max() > 90


def test_importing_references_does_not_import_torch() -> None:
    folders = [str(task.folder / "reference.py") for task in TASKS]
    code = (
        "import sys; from pathlib import Path; from evo.spec.reference import load_module\n"
        f"for path in {folders!r}: load_module(Path(path))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


RIVALS = {"attention": 4, "softmax": 1, "rmsnorm": 1, "layernorm": 1, "add_layernorm": 1, "rope": 1, "matmul": 1}
RIVALS |= {"conv2d": 1, "moe_grouped_matmul": 2}


@pytest.mark.parametrize(("name", "rivals"), RIVALS.items())
def test_rivals_compute_the_same_on_a_cpu(references: dict[str, Reference], name: str, rivals: int) -> None:
    """Where torch can run the call without a GPU, its answer is the reference's."""
    torch = pytest.importorskip("torch")
    task = load_task(ROOT, name)
    reference = references[task.name]
    calls = load_module(task.folder / "reference.py").rivals()
    assert len(calls) == rivals
    call = calls.get("math") or next(iter(calls.values()))
    case = task.check[1]
    expectation = reference.expectation(case, seed=0)
    tensors = {tensor: torch.from_numpy(array) for tensor, array in expectation.inputs.items()}
    try:
        result = call(tensors, case.axes)
    except RuntimeError as error:
        pytest.skip(f"this torch has no CPU path for it: {error}")
    outputs = result if isinstance(result, tuple) else (result,)
    for output, exact in zip(outputs, expectation.expected.values(), strict=True):
        error = np.abs(output.numpy().astype(np.float64) - exact)
        assert (error / np.maximum(1, np.abs(exact))).max() < 5e-3
