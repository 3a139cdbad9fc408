"""The pointers of a kernel, held against the tensors that they get: element types and names.

A kernel that takes `float*` for a tensor of halves, or two tensors in the other order, compiles and reads nonsense.
Here it is refused by name and type. A pointer that may read several elements at once, or their bits, is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evo.cuda.source import Param, parse
from evo.spec.element_types import DTYPES, ELEMENT_TYPES, OF_C_TYPE, is_float
from evo.spec.task import Task, Tensor

_TEMPLATE = re.compile(r"\btemplate\s*+<")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def pointer_problem(
    kernel: str, given: Sequence[Param], tensors: Sequence[Tensor | None], task: Task, *, alone: bool, named: bool
) -> str | None:
    """The first parameter that does not suit its tensor, in words; None if all do.

    tensors: what each parameter gets, None for anything else. alone: no other launch. named: by `args`, not by place.
    """
    names = {tensor.name for tensor in task.tensors}
    for number, (param, tensor) in enumerate(zip(given, tensors, strict=False), start=1):
        if tensor is None:
            continue
        exchanged = None if named else _name_problem(param, tensor, given, names)
        problem = _type_problem(param, tensor) or exchanged
        if problem is None and alone and tensor.role == "out" and _is_read_only(param):
            problem = "which the kernel has to write"
        if problem is None:
            continue
        whose = (
            f"`args` passes {tensor.name}" if named else f"the task's {_ordinal(task, tensor)} tensor is {tensor.name}"
        )
        words = (
            f"{kernel}: parameter {number} is `{_shown(param)}` named `{param.name}`, {whose} {tensor.dtype} "
            f"(`{ELEMENT_TYPES[tensor.dtype].c_types[0]}*`)"
        )
        order = ", ".join(one.name for one in task.tensors)
        to_do = f"; tensors come in the order {order}, or as `args (...)` of the launch line names them"
        return f"{words}, {problem}{to_do if exchanged else ''}"
    return None


def missing_kernel(kernel: str, text: str, signatures: Mapping[str, Sequence[Param]]) -> str:
    """Why the file has no such kernel: what it has instead, and what to do."""
    known = ", ".join(sorted(signatures)) or "none"
    words = f'no `extern "C" __global__` kernel {kernel} in the file (found: {known})'
    function = next((one for one in parse(text).functions if one.name == kernel), None)
    if function is None:
        return f"{words}; the launch line has to name one"
    head = text[text.rfind("}", 0, function.name_span.start) + 1 : function.name_span.start]
    if _TEMPLATE.search(head):
        return (
            f'{words}; {kernel} is a template: write `#define` constants for its parameters and `extern "C"` in place '
            "of `template <...>`, or let `evo adopt FILE.cu` do it"
        )
    if "__global__" in head:
        return f'{words}; {kernel} lacks `extern "C"`: write `extern "C" __global__ void {kernel}(...)`'
    return f'{words}; {kernel} is no kernel: write `extern "C" __global__ void {kernel}(...)`'


def _type_problem(param: Param, tensor: Tensor) -> str | None:
    pointee = OF_C_TYPE.get(_pointee(param))
    if pointee is None or pointee == tensor.dtype:
        return None  # a vector, a struct, a typedef, bytes without a type
    if is_float(pointee) != is_float(tensor.dtype):
        # Bits of floats as integers are a custom; integers as floats are a mistake.
        return "a type of other values" if is_float(pointee) else None
    if is_float(pointee):
        return "a float of another width" if DTYPES[pointee] != DTYPES[tensor.dtype] else "another kind of float"
    narrower = 1 < DTYPES[pointee] < DTYPES[tensor.dtype]
    return "whose elements are wider" if narrower else None


def _name_problem(param: Param, tensor: Tensor, given: Sequence[Param], names: set[str]) -> str | None:
    """A parameter with another tensor's name, where that tensor goes to a parameter with a third one's."""
    if param.name == tensor.name or param.name not in names:
        return None
    taken = [other.name for other in given]
    return "which is another tensor" if tensor.name in taken and param.name in taken else None


def _pointee(param: Param) -> str:
    bare = param.type.partition("[")[0].replace("*", " ").replace("&", " ")
    if param.type.count("*") != 1:
        return ""
    return " ".join(word for word in bare.split() if word not in ("const", "volatile", "__restrict__", "restrict"))


def _is_read_only(param: Param) -> bool:
    """Whether what it points to is const, and of the tensor's own type."""
    return _pointee(param) in OF_C_TYPE and "const" in param.type.partition("*")[0].split()


def _shown(param: Param) -> str:
    return param.type.replace(" *", "*")


def _ordinal(task: Task, tensor: Tensor) -> str:
    at = task.tensors.index(tensor)
    return _ORDINALS[at] if at < len(_ORDINALS) else f"{at + 1}th"
