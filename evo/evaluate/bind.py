"""From a variant, a case and a binary to a Program: arguments bound in the order that the task declares.

Parameters in order: the task's tensors, scratch, scalars, then all axes as int; a kernel may take a prefix of the axes.
A launch line with `args (...)` names its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from evo.cuda.compile import Binary
from evo.cuda.source import Param
from evo.device import Argument, BoundLaunch, Buffer, Program
from evo.errors import SyntaxInvalid
from evo.evaluate.tensor_parameters import missing_kernel, pointer_problem
from evo.spec.chips import Chip
from evo.spec.element_types import DTYPES, OF_C_TYPE, is_float, same_bits
from evo.spec.expr import Number
from evo.spec.launch import Plan, Refusal, over_resources
from evo.spec.task import Case, Task
from evo.spec.variant import LaunchLine, Variant


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
            return f"line {line.line}: {missing_kernel(line.kernel, variant.text, signatures)}"
        given = signatures[line.kernel]
        if line.args is not None:
            if problem := _named_problem(line, given, variant, task) or _pointer_problem(line, given, variant, task):
                return problem
            continue
        if not fixed <= len(given) <= len(wanted):
            return (
                f"{line.kernel} takes {len(given)} parameters, the task gives {fixed} to {len(wanted)}: "
                f"{', '.join(argument.name for argument in wanted)}"
            )
        for param, argument in zip(given, wanted, strict=False):
            if problem := _mismatch(param, argument) or _exchanged(param, argument, wanted):
                return f"{line.kernel}: parameter {param.name or argument.name}: {problem}"
        if problem := _pointer_problem(line, given, variant, task):
            return problem
    return None


def _pointer_problem(line: LaunchLine, given: Sequence[Param], variant: Variant, task: Task) -> str | None:
    """Which pointer does not suit its tensor."""
    of_name = {tensor.name: tensor for tensor in task.tensors}
    passed = list(of_name) if line.args is None else [arg.text for arg in line.args]
    tensors = [of_name.get(name) for name in passed]
    alone, named = len(variant.launches) == 1, line.args is not None
    return pointer_problem(line.kernel, given, tensors, task, alone=alone, named=named)


def _named_problem(line: LaunchLine, given: Sequence[Param], variant: Variant, task: Task) -> str | None:
    """Why a launch line's own arguments do not fit its kernel's parameters, in words."""
    assert line.args is not None
    where = f"line {line.line}: {line.kernel}"
    if len(line.args) != len(given):
        return f"{where} takes {len(given)} parameters, `args` names {len(line.args)}"
    buffers = {tensor.name for tensor in task.tensors} | {scratch.name for scratch in variant.scratch}
    values = {scalar.name for scalar in task.scalars} | set(task.axes) | set(variant.integer_knobs)
    for param, arg in zip(given, line.args, strict=True):
        name = param.name or arg.text
        if arg.text in buffers:
            if not _is_pointer(param):
                return f"{where}: parameter {name}: `{param.type}` where `args` passes the tensor {arg.text}"
            continue
        unknown = sorted(n for n in arg.names - values if not n.startswith("chip."))
        if unknown:
            known = ", ".join([*buffers, *sorted(values)])
            return f"{where}: `args` names {', '.join(unknown)}, which the task has not ({known})"
        if _is_pointer(param):
            return f"{where}: parameter {name}: `{param.type}` where `args` passes the value {arg.text}"
        if _dtype_of(param) is None:
            return f"{where}: parameter {name}: `{param.type}` is no number that a task can pass"
    return None


def _is_pointer(param: Param) -> bool:
    return "*" in param.type or "[" in param.type


def _bare(param: Param) -> str:
    return " ".join(word for word in param.type.replace("&", " ").split() if word not in ("const", "volatile"))


def _dtype_of(param: Param) -> str | None:
    """The task's type of a number that a kernel takes by value."""
    return OF_C_TYPE.get(_bare(param))


def _arguments(
    line: LaunchLine, given: Sequence[Param], wanted: Sequence[Argument], names: Mapping[str, Number]
) -> tuple[Argument, ...]:
    """What a launch passes, in the kernel's order. wanted: by place, where the line names none.

    names: the values at the case. Raises SyntaxInvalid for a value that cannot be worked out.
    """
    if line.args is None:
        return tuple(wanted[: len(given)])
    buffers = {argument.name: argument for argument in wanted if argument.is_buffer}
    found = []
    for param, arg in zip(given, line.args, strict=True):
        if arg.text in buffers:
            found.append(buffers[arg.text])
            continue
        dtype, value = _dtype_of(param) or "int32", arg.value(names)
        if not is_float(dtype):
            value, bits = int(value), 8 * DTYPES[dtype]
            if not -(2 ** (bits - 1)) <= value < 2**bits:
                raise arg.problem(f"{value} does not fit a {dtype}", names)
            value %= 2**bits  # by its bits, as C converts it
            value -= 2**bits if dtype.startswith("int") and value >= 2 ** (bits - 1) else 0
        found.append(Argument(name=arg.text, dtype=dtype, value=value))
    return tuple(found)


def _mismatch(param: Param, argument: Argument) -> str | None:
    is_pointer = _is_pointer(param)
    if argument.is_buffer:
        return None if is_pointer else f"`{param.type}` where the task passes the tensor {argument.name}"
    if is_pointer:
        return f"`{param.type}` where the task passes the scalar {argument.name}"
    dtype = _dtype_of(param)
    if dtype is None or not same_bits(dtype, argument.dtype):
        return f"`{param.type}` where the task passes {argument.name} as {argument.dtype}"
    return None


def _exchanged(param: Param, argument: Argument, wanted: Sequence[Argument]) -> str | None:
    """A number whose parameter has the name of another number of the task, which comes at another place."""
    values = [one.name for one in wanted if not one.is_buffer]
    if argument.is_buffer or param.name == argument.name or param.name not in values:
        return None
    order = ", ".join(one.name for one in wanted)
    return (
        f"the task passes {argument.name} here; the order is {order}, or as `args (...)` of the launch line names them"
    )


def build(
    variant: Variant,
    task: Task,
    case: Case,
    plan: Plan,
    binary: Binary,
    signatures: Mapping[str, Sequence[Param]],
    chip: Chip,
) -> Program | Refusal:
    """Bind one variant at one case; `signatures` are the parameters of each kernel."""
    values = {**task.scalar_values(case), **case.axes}
    wanted = [
        argument
        if argument.is_buffer
        else Argument(name=argument.name, dtype=argument.dtype, value=values[argument.name])
        for argument in parameters(variant, task)
    ]
    reports = {report.name: report for report in binary.kernels}
    names = {**values, **variant.integer_knobs, **{f"chip.{name}": value for name, value in chip.names().items()}}
    bound = []
    for launch, line in zip(plan.launches, variant.launches, strict=True):
        report = reports.get(launch.kernel)
        if report is None:
            return Refusal(f"the compiler produced no kernel {launch.kernel}")
        try:
            arguments = _arguments(line, signatures[launch.kernel], wanted, names)
        except SyntaxInvalid as error:
            return Refusal(error.message)
        if reason := parameter_problem(binary.ptx, launch.kernel, arguments):
            return Refusal(reason)
        bound.append(BoundLaunch(launch=launch, arguments=arguments))
        reason = over_resources(launch, chip, registers=report.registers, static_shared=report.shared_bytes)
        if reason:
            return Refusal(reason)
    work = task.work_of(case)
    return Program(
        variant=variant.id,
        case=case.name,
        binary=binary,
        launches=tuple(bound),
        outputs=tuple(
            Buffer(name=t.name, dtype=t.dtype, dims=t.dims(case), init="input" if t.role == "inout" else t.init)
            for t in task.outputs
        ),
        scratch=plan.scratch,
        flop=work.get("flop"),
        bytes=work.get("bytes"),
    )


_ENTRY = re.compile(r"\.entry\s++([\w$]++)\s*+(?:\(([^)]*+)\))?")
_TYPE = re.compile(r"\.param\b[^,]*?\.(?P<kind>[busf])(?P<bits>8|16|32|64)\b[^,\[]*+(?:\[(?P<count>\d{1,9}+)\])?")
_POINTER = 8  # bytes
_REAL = {"float32", "float64"}  # what PTX declares `.f32` and `.f64`; narrower ones are bits to it

Parameter = tuple[int, bool]  # bytes, and whether it is a float


def parameter_problem(ptx: str, kernel: str, arguments: Sequence[Argument]) -> str | None:
    """How a kernel's parameters differ from what its launch passes, in words; None if they agree."""
    taken = _entries(ptx).get(kernel)
    if taken is None:
        return f"the compiler produced no kernel {kernel}"
    if len(taken) != len(arguments):
        return f"{kernel} takes {len(taken)} parameters as compiled, its text shows {len(arguments)}"
    for number, ((size, is_real), argument) in enumerate(zip(taken, arguments, strict=True), start=1):
        wanted = _POINTER if argument.is_buffer else DTYPES[argument.dtype]
        if size != wanted or (is_real and (argument.is_buffer or argument.dtype not in _REAL)):
            kind = f"{'a float' if is_real else 'a value'} of {size} bytes"
            return f"{kernel}: parameter {number} is {kind} as compiled, the task passes {argument.name} ({wanted})"
    return None


@lru_cache(maxsize=32)  # a variant has a few binaries, and each is bound to many cases
def _entries(ptx: str) -> dict[str, tuple[Parameter, ...]]:
    found = {}
    for match in _ENTRY.finditer(ptx):
        parts = [part for part in (match[2] or "").split(",") if part.strip()]
        found[match[1]] = tuple(_parameter(part) for part in parts)
    return found


def _parameter(text: str) -> Parameter:
    match = _TYPE.search(text)
    if match is None:
        return 0, False
    return int(match["bits"]) // 8 * int(match["count"] or 1), match["kind"] == "f"
