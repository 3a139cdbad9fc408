"""Tensors that begin off the addresses that allocators give, as views do, for kernels that ask how they are aligned.

What is done otherwise there is never run with usual addresses. A kernel that does not ask may take them for granted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evo.device import Program
from evo.device.remote_device import RemoteDevice
from evo.evaluate.gate.run_cases import CHECK_BUDGET, Step
from evo.sim import PtxError
from evo.sim.address_flow import address_misuses
from evo.spec.element_types import DTYPES
from evo.spec.task import Task


def shifted_steps(task: Task, programs: Mapping[str, Program], device: RemoteDevice) -> Iterator[Step]:
    """Each check case with one tensor an element off, whose alignment its kernels ask for."""
    asked: dict[str, frozenset[str]] = {}
    for case in task.check:
        program = programs[case.name]
        if program.binary.key not in asked:
            asked[program.binary.key] = frozenset(_asked(task, program))
        for tensor in task.tensors:
            if tensor.name in asked[program.binary.key]:
                by = {tensor.name: DTYPES[tensor.dtype]}
                yield Step(case, device, budget=CHECK_BUDGET, shifted=by)


def _asked(task: Task, program: Program) -> Iterator[str]:
    sizes = {tensor.name: DTYPES[tensor.dtype] for tensor in task.tensors}
    for bound in program.launches:
        for at, argument in enumerate(bound.arguments):
            size = sizes.get(argument.name) if argument.is_buffer else None
            if size is not None and _asks(program, bound.launch.kernel, at, size):
                yield argument.name


def _asks(program: Program, kernel: str, pointer: int, aligned: int) -> bool:
    try:
        return next(address_misuses(program.binary.ptx, {kernel: frozenset((pointer,))}, aligned), None) is not None
    except PtxError:  # said elsewhere
        return False
