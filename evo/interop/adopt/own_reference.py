"""The reference.py of an adopted task in this process, where its kernels are compiled: for the task's self-test."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from evo.interop.adopt.oracle import Failing, Original, Runner
from evo.spec.reference import Reference, load_module
from evo.spec.reference_child import FUNCTIONS
from evo.spec.reference_process import ReferenceProcess, ReferenceValue
from evo.spec.task import Task


class OwnReference(ReferenceProcess):
    """A module that evo has written itself, and that needs no process of its own to be held to its limits."""

    def __init__(self, module: ModuleType, task: Task) -> None:
        self.path = task.folder / "reference.py"
        self.module = module
        named = {name: getattr(module, name) for name in FUNCTIONS if hasattr(module, name)}
        self.functions = {name: len(inspect.signature(function).parameters) for name, function in named.items()}

    def call(
        self,
        function: str,
        args: Sequence[object],
        *,
        limit_s: float,  # noqa: ARG002 - as of a process
        seed: Sequence[int] | None = None,
    ) -> ReferenceValue:
        """What a function returns; no limit of time is kept. Raises TaskInvalid for what goes wrong, as a process."""
        generator = [np.random.default_rng(list(seed))] if seed is not None else []
        try:
            found = getattr(self.module, function)(*args, *generator)
        except (Failing, ValueError) as error:  # the original, or the drawing of inputs at a size that it does not take
            raise self.broken(f"{function}() raised {type(error).__name__}: {error}") from None
        return ReferenceValue(type(found).__name__, found)

    def close(self) -> None:
        """Nothing was started."""


def own_reference(task: Task, plain: Runner, wide: Runner | None) -> Reference:
    """The task's reference with the runners of a trial. Raises TaskInvalid if it cannot be imported."""
    module = load_module(task.folder / "reference.py")
    original = module._original
    assert isinstance(original, Original)
    original.lend(plain, wide)
    return Reference(task, OwnReference(module, task))
