"""The texts of an exported package, filled in by `evo.interop.export`."""

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
description = "The operator {task} with evolved CUDA kernels."
requires-python = ">=3.11"
dependencies = ["torch>=2.6", "numpy"]

[project.optional-dependencies]
cuda = ["cupy-cuda13x>=14"]

[tool.setuptools]
packages = ["{name}"]

[tool.setuptools.package-data]
"{name}" = ["*.cu", "*.ptx", "*.cubin"]
"""

README = """\
# {name}

    pip install .[cuda]

    import {name}
    y = {call}

The same operator is `torch.ops.evo.{task}`. It runs on torch's current stream, works under `torch.compile`, and has no
derivative. It changes none of its inputs: of a tensor that the kernels change in place it returns a changed copy. On a
GPU that the kernels were not made for, at sizes that they refuse, and on a CPU it calls the library, if the task names
one: `{name}.chosen(...)` says which it would be.
"""

MODEL_NEW = """\
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import {name}  # noqa: E402
from {name}.problem import Model, get_init_inputs, get_inputs  # noqa: E402, F401


class ModelNew(Model):
    \"\"\"The problem's module with its forward as one operator, at the problem's own sizes.\"\"\"

    def forward(self, *given):
        state = {{**dict(self.named_parameters()), **dict(self.named_buffers())}}  # noqa: F841
        return {name}.{task}({arguments})
"""

MODULE = '''\
"""The operator {task}: evolved CUDA kernels, with the library where they do not apply."""

from __future__ import annotations

import functools
import importlib.util
import math  # noqa: F401 - for the formulas of scalars
from math import log2, sqrt  # noqa: F401
from pathlib import Path

import numpy as np
import torch

_HERE = Path(__file__).parent
_AXES = {axes}
_ORDER = {order}  # of the kernels' tensors
_INPUTS = [
{inputs}]
_MOST = ((2**31 - 1, 65535, 65535), (1024, 1024, 64))
_DEFAULT_SHARED = 48 * 1024


def ceil_div(a, b):
    return -(-a // b)


def _outputs(axes):
{unpack}    return [
{outputs}    ]


def _scalars(axes):
{unpack}    return {{
{scalars}    }}


{plans}

_CHAMPIONS = [
{champions}]


def _axes_of(tensors, given):
    """All axes, from the inputs' shapes. Raises ValueError if a shape does not fit."""
    axes = dict(given)
    for name, dtype, shape in _INPUTS:
        tensor = tensors[name]
        if tensor.dtype != dtype:
            raise TypeError(f"{task}: {{name}} is {{tensor.dtype}}, expected {{dtype}}")
        if tensor.dim() != len(shape):
            raise ValueError(f"{task}: {{name}} has {{tensor.dim()}} dimensions, expected {{len(shape)}}: {{shape}}")
        for length, dim in zip(tensor.shape, shape):
            if dim in _AXES:
                axes.setdefault(dim, length)
    for name, _, shape in _INPUTS:
        for position, dim in enumerate(shape):
            wanted = eval(dim, {{"ceil_div": ceil_div, "min": min, "max": max}}, axes)
            if tensors[name].shape[position] != wanted:
                length = tensors[name].shape[position]
                raise ValueError(f"{task}: {{name}} has length {{length}} where {{dim}} is {{wanted}}")
    return {{axis: axes[axis] for axis in _AXES}}


def _fits(launches, device):
    most_shared = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", None)
    if most_shared is not None and any(shared > most_shared for _, _, _, shared, _ in launches):
        return False
    for _, grid, block, _, _ in launches:
        for sizes, most in zip((grid, block), _MOST):
            if any(not 1 <= size <= limit for size, limit in zip(sizes, most)):
                return False
    return True


def _choose(tensors, axes):
    """The first champion that can run: (stem, arch, plan); None for the library."""
    first = next(iter(tensors.values()))
    if first.device.type != "cuda" or any(t.device != first.device for t in tensors.values()):
        return None
    if not all(t.is_contiguous() and t.data_ptr() % 16 == 0 for t in tensors.values()):
        return None
    major, minor = torch.cuda.get_device_capability(first.device)
    here = 10 * major + minor
    for stem, _, arch, make in sorted(_CHAMPIONS, key=lambda row: -row[1]):
        number = int("".join(c for c in arch if c.isdigit()))
        if number > here or (arch.endswith("a") and number != here):
            continue
        plan = make(axes)
        if plan is not None and _fits(plan[2], first.device):
            return stem, arch, plan
    return None


@functools.cache
def _kernels(stem, arch, device):
    """The loaded binary: machine code if it is this chip's own, PTX for a later one."""
    import cupy

    with cupy.cuda.Device(device):
        major, minor = torch.cuda.get_device_capability(device)
        own = _HERE / f"{{stem}}.cubin"
        exact = int("".join(c for c in arch if c.isdigit())) == 10 * major + minor
        return cupy.RawModule(path=str(own if exact and own.exists() else _HERE / f"{{stem}}.ptx"))


def _made(tensors, axes):
    """The results as they are before the launch: empty, zero, or a copy of an input that is changed in place."""
    device = next(iter(tensors.values())).device
    made = []
    for name, dtype, shape, begins in _outputs(axes):
        if begins == "input":
            made.append(tensors[name].clone(memory_format=torch.contiguous_format))
        else:
            made.append((torch.zeros if begins == "zero" else torch.empty)(shape, dtype=dtype, device=device))
    return made


def _arguments(given, named, axes):
    """What a launch passes. given: names of tensors and typed numbers, or how many of the usual order."""
    if not isinstance(given, int):
        return [np.uint64(named[a].data_ptr()) if isinstance(a, str) else _number(*a) for a in given]
    spaces = [name for name in named if name not in _ORDER]
    found = [np.uint64(named[name].data_ptr()) for name in (*_ORDER, *spaces)]
    found += [kind(value) for kind, value in _scalars(axes).values()]
    found += [np.int32(axes[axis]) for axis in _AXES]
    return found[:given]


def _number(kind, value):
    """A number by value; a whole one by its bits, as C converts it."""
    if not issubclass(kind, np.integer):
        return kind(value)
    size = np.dtype(kind).itemsize
    return np.array(int(value) % 2 ** (8 * size), dtype=f"u{{size}}").view(kind)[()]


def _launch(chosen, tensors, axes):
    import cupy

    stem, arch, (suffix, scratch, launches) = chosen
    device = next(iter(tensors.values())).device
    made = _made(tensors, axes)
    spaces = {{}}
    for name, dtype, shape, zero in scratch:
        spaces[name] = (torch.zeros if zero else torch.empty)(shape, dtype=dtype, device=device)
    named = {{**tensors, **{{name: tensor for (name, _, _, _), tensor in zip(_outputs(axes), made)}}, **spaces}}
    module = _kernels(stem + suffix, arch, device.index)
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream(device).cuda_stream, device.index)
    with cupy.cuda.Device(device.index), stream:
        for name, grid, block, shared, given in launches:
            kernel = module.get_function(name)
            if shared + kernel.shared_size_bytes > _DEFAULT_SHARED:
                kernel.max_dynamic_shared_size_bytes = shared
            kernel(grid, block, tuple(_arguments(given, named, axes)), shared_mem=shared)
    return made


@functools.cache
def _library():
    path = _HERE / "reference.py"
    spec = importlib.util.spec_from_file_location(f"{{__name__}}.reference", path)
    module = importlib.util.module_from_spec(spec)
    if "def rivals" in path.read_text(encoding="utf-8"):
        spec.loader.exec_module(module)
    if not hasattr(module, "rivals") or not module.rivals():
        raise RuntimeError("{task}: no kernel for this device and these sizes, and reference.py names no library call")
    return next(iter(module.rivals().values()))


def _fallback(tensors, axes):
    found = _library()(tensors, axes)
    values = list(found.values()) if isinstance(found, dict) else found
    several = values if isinstance(values, (list, tuple)) else [values]
    device = next(iter(tensors.values())).device
    made = [torch.empty(shape, dtype=dtype, device=device) for _, dtype, shape, _ in _outputs(axes)]
    for target, value in zip(made, several, strict=True):
        target.copy_(value.reshape(target.shape))
    return made


def _tensors({names}):
    tensors = {{{tensors}}}
    return tensors, _axes_of(tensors, {{{values}}})


def chosen({names}):
    """What would run: the name of a champion, or `library`."""
    found = _choose(*_tensors({names}))
    return found[0] if found else "library"


@torch.library.custom_op("evo::{task}", mutates_args=())
def _operator({parameters}) -> {result}:
    tensors, axes = _tensors({names})
    found = _choose(tensors, axes)
    made = _launch(found, tensors, axes) if found else _fallback(tensors, axes)
    return tuple(made){take}


@_operator.register_fake
def _fake({names}):
    tensors, axes = _tensors({names})
    device = next(iter(tensors.values())).device
    return tuple(torch.empty(shape, dtype=dtype, device=device) for _, dtype, shape, _ in _outputs(axes)){take}


def _no_derivative(context, *gradients):
    raise RuntimeError("evo::{task} has no derivative: call it under torch.no_grad(), or on tensors that need none")


_operator.register_autograd(_no_derivative)


def {task}({parameters}) -> {result}:
    """The operator, also as torch.ops.evo.{task}."""
    return _operator({names})
'''
