"""Types and shapes of a problem's tensors at given sizes, from torch's meta device, without computing values.

Problems that read values have no shapes there; small ones are run on values instead.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import torch

from evo.interop.count_flop import Products
from evo.interop.nested_tensors import flattened, named_leaves
from evo.interop.torch_reference import DTYPES, Axes, ResizableProblem, placed, seeded, state_of
from evo.spec.dtypes import NUMPY

_REAL_AT_MOST = 1 << 24  # elements: up to so many a problem is run on values if the meta device fails

# Exceptions of foreign code that cannot run at some sizes.
FOREIGN = (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, OSError)
FOREIGN += (RuntimeError, TypeError, ValueError)  # type: ignore[assignment]


class ProblemRefused(Exception):
    """Why a problem cannot become a task: one line, and what to do."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


@dataclass(frozen=True)
class MetaTensor:
    """One tensor: type by evo's name, and lengths."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def itemsize(self) -> int:
        return NUMPY[self.dtype].itemsize


@dataclass(frozen=True)
class Shapes:
    """All tensors at one set of sizes.

    flops: of matrix products, convolutions and attention, each call by its operation; empty if there are none.
    fewer: why a kernel may need fewer, or ''. longest: terms of the longest sum.
    """

    arguments: tuple[MetaTensor | None, ...]
    state: dict[str, MetaTensor]
    outputs: tuple[MetaTensor, ...]
    flops: tuple[tuple[str, int], ...]
    fewer: str = ""
    longest: int = 1

    @property
    def flop(self) -> int:
        return sum(count for _, count in self.flops)

    @property
    def arrays(self) -> list[MetaTensor]:
        return [*(array for array in self.arguments if array is not None), *self.state.values(), *self.outputs]

    @property
    def elements(self) -> int:
        return sum(array.elements for array in self.arrays)

    @property
    def bytes(self) -> int:
        return sum(array.elements * array.itemsize for array in self.arrays)


def shapes_of(problem: ResizableProblem, axes: Axes) -> Shapes:
    """Raises what the problem raises at these sizes, and Refused for tensors that no task can hold."""
    try:
        return _run(problem, axes, "meta")
    except (RuntimeError, NotImplementedError, ValueError) as error:
        if "meta" not in str(error).lower() and not isinstance(error, NotImplementedError):
            raise
        said = " ".join(str(error).split())[:200]
    try:
        drawn = _drawn(problem, axes)
    except (RuntimeError, NotImplementedError, ValueError):
        drawn = _REAL_AT_MOST + 1  # not known without values either
    if drawn > _REAL_AT_MOST:
        raise ProblemRefused(
            f"its shapes are not known without values, and its tensors are too large to run here: {said}",
            "lower the sizes in the file, or remove code that reads values (item(), data-dependent shapes)",
        )
    return _run(problem, axes, "cpu")


def runs(problem: ResizableProblem, axes: Axes) -> bool:
    """Whether it runs on values too; labels beyond the classes have valid shapes."""
    try:
        _run(problem, axes, "cpu")
    except (ProblemRefused, *FOREIGN):
        return False
    return True


def forward_names(problem: ResizableProblem, axes: Axes) -> list[str]:
    """The names of forward's arguments, with one for each tensor of a list."""
    names = list(inspect.signature(problem.space(axes)["Model"].forward).parameters)[1:]
    with seeded(0), placed("meta", drawing=True):
        return [name for name, _ in named_leaves(problem.arguments(axes), names)]


def _drawn(problem: ResizableProblem, axes: Axes) -> int:
    with seeded(0), placed("meta", drawing=True):
        return sum(value.numel() for value in flattened(problem.arguments(axes)))


def _run(problem: ResizableProblem, axes: Axes, device: str) -> Shapes:
    with seeded(0):
        given = problem.arguments_on(device, axes)
        with placed(device):
            module = problem.module(axes).to(device)
        with placed(device), Products() as counter:
            result = module(*given)
    outputs = flattened(result)
    if not outputs:
        raise ProblemRefused(f"forward returns {type(result).__name__}, not a tensor", "a task computes tensors")
    leaves = [value for _, value in named_leaves(given)]
    arguments = tuple(
        _array(value, f"input {number}") if isinstance(value, torch.Tensor) else None
        for number, value in enumerate(leaves)
    )
    state = {name: _array(value, name) for name, value in state_of(module).items()}
    found = tuple(_array(value, f"output {number}") for number, value in enumerate(outputs))
    return Shapes(arguments, state, found, tuple(counter.calls), counter.fewer, counter.longest)


def _array(tensor: Any, what: str) -> MetaTensor:
    if tensor.dtype not in DTYPES:
        raise ProblemRefused(
            f"{what} is of type {tensor.dtype}, which tasks do not support", f"one of {', '.join(DTYPES.values())}"
        )
    if tensor.layout is not torch.strided:
        raise ProblemRefused(f"{what} is {tensor.layout}, not a dense tensor", "pass its parts as dense tensors")
    if tensor.numel() == 0:
        raise ProblemRefused(f"{what} is empty ({tuple(tensor.shape)})", "raise the sizes in the file")
    return MetaTensor(DTYPES[tensor.dtype], tuple(tensor.shape) or (1,))
