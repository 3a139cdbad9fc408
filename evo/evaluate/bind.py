"""From a variant, a case and a binary to a Program: arguments bound in the order that the task declares.

Parameters in order: the task's tensors, scratch, scalars, then all axes as int; a kernel may take a prefix of the axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evo.cuda.compile import Binary
from evo.cuda.source import Param
from evo.device import Argument, BoundLaunch, Buffer, Program
from evo.evaluate.entry_parameters import parameter_problem
from evo.spec.chips import Chip
from evo.spec.element_types import ELEMENT_TYPES
from evo.spec.launch import Plan, Refusal, over_resources
from evo.spec.task import Case, Task
from evo.spec.variant import Variant


def parameters(variant: Variant, task: Task) -> tuple[Argument, ...]:
    """All arguments in order, scalars and axes with value 0 (their values depend on the case)."""
    buffers = [Argument(name=tensor.name, dtype=tensor.dtype) for tensor in task.tensors]
    buffers += [Argument(name=scratch.name, dtype=scratch.dtype) for scratch in variant.scratch]
    scalars = [Argument(name=scalar.name, dtype=scalar.dtype, value=0) for scalar in task.scalars]
    axes = [Argument(name=axis, dtype="int32", value=0) for axis in task.axes]
    return (*buffers, *scalars, *axes)


def signature_problem(variant: Variant, task: Task, signatures: Mapping[str, Sequence[Param]]) -> str | None:
    """Why a kernel's entry or parameters differ from the task, in words; None if they agree."""
    wanted = parameters(variant, task)
    fixed = len(wanted) - len(task.axes)
    for line in variant.launches:
        if line.kernel not in signatures:
            known = ", ".join(sorted(signatures)) or "none"
            return f'line {line.line}: no `extern "C" __global__` kernel {line.kernel} in the file (found: {known})'
        given = signatures[line.kernel]
        if not fixed <= len(given) <= len(wanted):
            return (
                f"{line.kernel} takes {len(given)} parameters, the task gives {fixed} to {len(wanted)}: "
                f"{', '.join(argument.name for argument in wanted)}"
            )
        for param, argument in zip(given, wanted, strict=False):
            if problem := _mismatch(param, argument):
                return f"{line.kernel}: parameter {param.name or argument.name}: {problem}"
    return None


def _mismatch(param: Param, argument: Argument) -> str | None:
    is_pointer = "*" in param.type or "[" in param.type
    if argument.is_buffer:
        return None if is_pointer else f"`{param.type}` where the task passes the tensor {argument.name}"
    if is_pointer:
        return f"`{param.type}` where the task passes the scalar {argument.name}"
    bare = " ".join(word for word in param.type.replace("&", " ").split() if word not in ("const", "volatile"))
    if bare not in ELEMENT_TYPES[argument.dtype].c_types:
        return f"`{param.type}` where the task passes {argument.name} as {argument.dtype}"
    return None


def build(
    variant: Variant, task: Task, case: Case, plan: Plan, binary: Binary, counts: Mapping[str, int], chip: Chip
) -> Program | Refusal:
    """Bind one variant at one case; `counts` is the number of parameters of each kernel."""
    values = {**task.scalar_values(case), **case.axes}
    wanted = [
        argument
        if argument.is_buffer
        else Argument(name=argument.name, dtype=argument.dtype, value=values[argument.name])
        for argument in parameters(variant, task)
    ]
    reports = {report.name: report for report in binary.kernels}
    for launch in plan.launches:
        report = reports.get(launch.kernel)
        if report is None:
            return Refusal(f"the compiler produced no kernel {launch.kernel}")
        if reason := parameter_problem(binary.ptx, launch.kernel, wanted[: counts[launch.kernel]]):
            return Refusal(reason)
        reason = over_resources(launch, chip, registers=report.registers, static_shared=report.shared_bytes)
        if reason:
            return Refusal(reason)
    work = task.work_of(case)
    return Program(
        variant=variant.id,
        case=case.name,
        binary=binary,
        launches=tuple(
            BoundLaunch(launch=launch, arguments=tuple(wanted[: counts[launch.kernel]])) for launch in plan.launches
        ),
        outputs=tuple(Buffer(name=t.name, dtype=t.dtype, dims=t.dims(case)) for t in task.outputs),
        scratch=plan.scratch,
        flop=work.get("flop"),
        bytes=work.get("bytes"),
    )
