"""The tolerance follows the conditioning of the inputs: sums that cancel may err more, wrong precision may not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from evo.evaluate.gate.compare import compare
from evo.results import Status
from evo.spec.reference import Reference, load_reference
from evo.spec.task import Case, Task, read_task

Reals = NDArray[np.float32]
Sum = Callable[[Reals], Reals]
TASK = Path(__file__).parents[3] / "data" / "rules" / "tile_product"
SEEDS = (91, 238, 249, 281)  # a product cancels to a ten-thousandth of its terms at an element whose spread is small


@pytest.fixture(scope="module")
def product() -> tuple[Task, Reference]:
    task = read_task(TASK)
    return task, load_reference(task)


def in_order(terms: Reals) -> Reals:
    return np.asarray(np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1])


def in_halves(terms: Reals) -> Reals:
    middle = terms.shape[-1] // 2
    return in_order(terms[..., middle:]) + in_order(terms[..., :middle])


def verdicts(product: tuple[Task, Reference], added: Sum, factors: type = np.float32) -> set[Status]:
    task, reference = product
    found = set()
    for seed in SEEDS:
        case = Case(name=f"odd{seed}", axes={"M": 32, "N": 96, "K": 127})
        expectation = reference.derived(case, seed, "large")
        assert expectation is not None
        a, b, bias = (expectation.inputs[name] for name in ("a", "b", "bias"))
        a = a.astype(factors).astype(np.float32)
        c = added(a[:, None, :] * b[None, :, :]) + bias
        found.add(compare(task, case.name, {"c": c}, expectation).status)
    return found


@pytest.mark.parametrize("added", [in_order, in_halves])
def test_single_precision_sums_in_any_order_pass(product: tuple[Task, Reference], added: Sum) -> None:
    assert verdicts(product, added) == {Status.CORRECT}


def test_factors_of_half_the_bits_do_not(product: tuple[Task, Reference]) -> None:
    assert verdicts(product, in_order, ml_dtypes.bfloat16) == {Status.WRONG}
