"""A PyTorch module as a task's reference; the reference.py of an imported task calls it.

The module of problem.py is built at a case's sizes and given its parameters as tensors. `expected` runs it in float64,
`trusted` in its own types, both on the CPU; `rivals` runs it on the GPU as it is. It stays in training mode, as built.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from unittest.mock import patch

import ml_dtypes
import numpy as np
import torch
import torch.fx.experimental.symbolic_shapes  # the first draw on the meta device imports it; forks of this have it
from numpy.typing import NDArray
from torch.distributions import Distribution
from torch.overrides import TorchFunctionMode

from evo.interop.nested_tensors import flattened, holds_tensors, named_leaves, refilled
from evo.interop.problem_sizes import ProblemSizes, read_sizes

Arrays = dict[str, NDArray[np.generic]]
Axes = Mapping[str, int]

DTYPES = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float8_e4m3fn: "float8_e4m3",
    torch.float8_e5m2: "float8_e5m2",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.bool: "bool",
}
_RAW = {
    "bfloat16": (torch.int16, np.int16, ml_dtypes.bfloat16),
    "float8_e4m3": (torch.uint8, np.uint8, ml_dtypes.float8_e4m3fn),
    "float8_e5m2": (torch.uint8, np.uint8, ml_dtypes.float8_e5m2),
}
_KEPT = 8
_number = itertools.count()


def to_numpy(tensor: Any) -> NDArray[np.generic]:
    tensor = tensor.detach().cpu().contiguous()
    name = DTYPES[tensor.dtype]
    if name in _RAW:
        raw, _, kind = _RAW[name]
        return cast("NDArray[np.generic]", tensor.view(raw).numpy().view(kind))
    return cast("NDArray[np.generic]", tensor.numpy())


def to_torch(array: NDArray[np.generic], dtype: str) -> Any:
    """A tensor on the CPU of the type named, with its own memory."""
    if dtype in _RAW and array.dtype == _RAW[dtype][2]:
        _, raw, _ = _RAW[dtype]
        kind = next(kind for kind, name in DTYPES.items() if name == dtype)
        return torch.from_numpy(np.array(array.view(raw))).view(kind)
    kind = next(kind for kind, name in DTYPES.items() if name == dtype)
    plain = np.array(array)
    return (
        torch.from_numpy(plain).to(kind) if plain.dtype.isbuiltin == 1 else torch.tensor(plain.astype(float)).to(kind)
    )


_READING = (torch.Tensor.item, torch.Tensor.__float__, torch.Tensor.__int__, torch.Tensor.__bool__)


class _Placed(TorchFunctionMode):  # type: ignore[misc]
    """Replace every device that the problem names by the given one: files with device="cuda" run anywhere.

    wide: so is its float32, which is then float64: x.float() is meant to add precision, not to take it away.
    drawing: a number that is read from a tensor without values is one, so that inputs scaled by it have shapes, and a
    condition on it holds.
    """

    def __init__(self, device: str, *, wide: bool, drawing: bool) -> None:
        super().__init__()
        self.device, self.wide, self.drawing = device, wide, drawing

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if self.drawing and func in _READING and args[0].is_meta and args[0].numel() == 1:
            return True if func is torch.Tensor.__bool__ else 1.0 if args[0].is_floating_point() else 1
        if self.wide:
            if func is torch.Tensor.float:
                func = torch.Tensor.double
            if func in (torch.Tensor.to, torch.Tensor.type):
                args = tuple(torch.float64 if value is torch.float32 else value for value in args)
            if kwargs.get("dtype") is torch.float32:
                kwargs["dtype"] = torch.float64
        sized = func is torch.normal and ("size" in kwargs or len(args) > 2)  # torch.device() does not affect these
        if kwargs.get("device") is not None or sized:
            kwargs["device"] = self.device
        if self.device == "meta":
            kwargs.pop("generator", None)  # the meta device has no values to draw
        if func in (torch.Tensor.cuda, torch.Tensor.cpu):
            return args[0].to(self.device)
        if func is torch.Tensor.to:
            args = tuple(self.device if _names_device(value) else value for value in args)
        return func(*args, **kwargs)


_SCANS = {
    torch.cumsum: np.add,
    torch.Tensor.cumsum: np.add,
    torch.cumprod: np.multiply,
    torch.Tensor.cumprod: np.multiply,
}


class _PlainScans(TorchFunctionMode):  # type: ignore[misc]
    """Running sums and products of float32 in float32, one step after the other, as a plain kernel has them.

    torch's on the CPU accumulate in float64, so their error is one that no kernel in float32 can keep to.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        step, dim = _SCANS.get(func), kwargs.get("dim", args[1] if len(args) > 1 else None)
        plain = step is not None and args and isinstance(dim, int) and set(kwargs) <= {"dim"}
        if step is None or not plain or args[0].dtype is not torch.float32 or not args[0].dim():
            return func(*args, **kwargs)
        return torch.from_numpy(step.accumulate(args[0].detach().numpy(), axis=dim))


def _names_device(value: object) -> bool:
    return isinstance(value, torch.device) or (isinstance(value, str) and value.split(":")[0] in ("cuda", "cpu"))


@contextmanager
def placed(device: str, dtype: Any = None, *, drawing: bool = False) -> Iterator[None]:
    """New tensors on this device, and of this floating type if none is named. drawing: get_inputs() is running."""
    before, checked = torch.get_default_dtype(), Distribution._validate_args
    torch.set_default_dtype(dtype or before)
    if device == "meta":
        Distribution.set_default_validate_args(False)  # argument checks read values
    try:
        mode = _Placed(device, wide=dtype is torch.float64, drawing=drawing)
        with torch.no_grad(), torch.device(device), mode:
            yield
    finally:
        torch.set_default_dtype(before)
        Distribution.set_default_validate_args(checked)


_SEEDING: tuple[tuple[Any, str], ...] = (
    (torch, "manual_seed"),
    (torch, "seed"),
    (torch.random, "manual_seed"),
    (torch.cuda, "manual_seed"),
    (torch.cuda, "manual_seed_all"),
    (np.random, "seed"),
    (random, "seed"),
)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed all generators that a problem may use, and restore them afterwards.

    Its own seeding has no effect; otherwise its inputs would be the same for every seed of evo.
    """
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]), ExitStack() as stack:
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        for module, name in _SEEDING:
            stack.enter_context(patch.object(module, name, _not_seeded))
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


def _not_seeded(*given: object, **named: object) -> Any:  # noqa: ARG001 - the common signature of them all
    return torch.default_generator


class ResizableProblem:
    """The problem file at any sizes."""

    def __init__(self, sizes: ProblemSizes) -> None:
        self.sizes = sizes
        self._spaces: dict[tuple[tuple[str, int], ...], dict[str, Any]] = {}

    def space(self, axes: Axes) -> dict[str, Any]:
        """The names of the file, executed at these sizes; tensors among them are drawn anew each time."""
        own = {name: axes.get(name, value) for name, value in self.sizes.axes.items()}
        key = tuple(own.items())
        if key in self._spaces and not holds_tensors(list(self._spaces[key].values())):
            return self._spaces[key]
        if len(self._spaces) >= _KEPT or key in self._spaces:
            gone = self._spaces.pop(key if key in self._spaces else next(iter(self._spaces)))
            sys.modules.pop(gone["__name__"], None)
        module = ModuleType(f"evo_problem_{next(_number)}")
        module.__file__ = str(self.sizes.path)
        sys.modules[module.__name__] = module  # dataclasses and torch look up a class's module there
        exec(self.sizes.code(own), module.__dict__)
        self._spaces[key] = module.__dict__
        return self._spaces[key]

    def module(self, axes: Axes) -> Any:
        """A new module; tensors in plain attributes become buffers."""
        space = self.space(axes)
        given = space["get_init_inputs"]() or []
        if isinstance(given, dict):
            model = space["Model"](**given)
        elif len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict):
            model = space["Model"](*given[0], **given[1])
        else:
            model = space["Model"](*given)
        for part in model.modules():
            for name, value in list(vars(part).items()):
                if isinstance(value, torch.Tensor):
                    delattr(part, name)
                    part.register_buffer(name, value)
        return model

    def arguments(self, axes: Axes) -> list[Any]:
        """forward's arguments; a list or dict among them may hold tensors."""
        given = self.space(axes)["get_inputs"]()
        return list(given) if isinstance(given, list | tuple) else [given]

    def arguments_on(self, device: str, axes: Axes) -> list[Any]:
        """The same, drawn on a device; a few of torch's functions always draw on the CPU."""
        with placed(device, drawing=True):
            given = self.arguments(axes)
            leaves = [v.to(device) if isinstance(v, torch.Tensor) else v for _, v in named_leaves(given)]
        rest = iter(leaves)
        return [refilled(value, rest) for value in given]


def state_of(model: Any) -> dict[str, Any]:
    """Parameters and buffers by their dotted names."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def at_least_1d(tensor: Any) -> Any:
    """A single number as a tensor of one element: a task's tensors have at least one dimension."""
    return tensor.reshape(1) if tensor.dim() == 0 else tensor


@dataclass
class ModuleReference:
    """inputs, expected, trusted and rivals of an imported task.

    arguments: input tensors by their position among forward's arguments, where each tensor of a list counts. state:
    input tensors by the dotted name of the parameter or buffer. outputs: names in the order in which forward returns
    them. Raises ValueError if problem.py has changed since its import.
    """

    path: Path
    sha256: str
    arguments: dict[str, int]
    state: dict[str, str]
    outputs: Sequence[str]
    compiled: bool = False
    problem: ResizableProblem = field(init=False)
    _fixed: dict[tuple[tuple[str, int], ...], list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = hashlib.sha256(self.path.read_bytes()).hexdigest()
        if found != self.sha256:
            raise ValueError(f"{self.path.name} has changed since it was imported; import it again")
        self.problem = ResizableProblem(read_sizes(self.path))

    def inputs(self, case: Axes, rng: np.random.Generator) -> Arrays:
        """What get_inputs() draws and the module's initial parameters, from this rng.

        At other than the file's own sizes, parameters that start as one constant (ones and zeros of a norm) are spread
        around it; otherwise a kernel could ignore them.
        """
        with seeded(int(rng.integers(2**63))), placed("cpu"):
            state = state_of(self.problem.module(case))
            given = [leaf for _, leaf in named_leaves(self.problem.arguments(case))]
        own = all(case.get(axis, value) == value for axis, value in self.problem.sizes.axes.items())
        arrays = {name: to_numpy(at_least_1d(given[index])) for name, index in self.arguments.items()}
        for name, key in self.state.items():
            value = to_numpy(at_least_1d(state[key]))
            arrays[name] = value if own else _spread(value, rng)
        return arrays

    def expected(self, inputs: Arrays, case: Axes) -> Arrays:
        return self._numbers(self.run(inputs, case, torch.float64))

    def trusted(self, inputs: Arrays, case: Axes) -> Arrays:
        """In the problem's own types; in float32, rounded once, where the CPU has no such operation."""
        with _PlainScans():
            try:
                found = self.run(inputs, case, None)
            except (RuntimeError, NotImplementedError):
                found = self.run(inputs, case, torch.float32)
        return self._numbers(found)

    def rivals(self) -> dict[str, Callable[..., Any]]:
        """The module on the GPU as it is, and compiled where the import asked for it."""
        names = {"eager": False, **({"compiled": True} if self.compiled else {})}
        return {name: _Rival(self, compiled) for name, compiled in names.items()}

    def run(self, inputs: Arrays, case: Axes, dtype: Any, *, seed: int = 0) -> list[Any]:
        """forward on the CPU with all floating tensors in `dtype` (None: as they are). seed: of what it draws."""
        self.fixed(case)  # only here, with the problem's own types; the result is cached
        with seeded(seed), placed("cpu", dtype):
            module = self.problem.module(case)
            if dtype is not None:
                module = module.to(dtype)
            state = state_of(module)
            named = {key: _like(inputs[name], state[key], dtype) for name, key in self.state.items()}
            given = self.filled(case, lambda name, shape: _like(inputs[name], shape, dtype), "cpu", dtype)
            return flattened(torch.func.functional_call(module, named, tuple(given)))

    def filled(self, case: Axes, tensor: Callable[[str, Any], Any], device: str, dtype: Any = None) -> Any:
        """forward's arguments: tensor(name, shape) for each input; tensors that are no input are zeros."""

        def other(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            return torch.zeros(value.shape, dtype=(value.is_floating_point() and dtype) or value.dtype, device=device)

        shapes = self.fixed(case)
        names = {index: name for name, index in self.arguments.items()}
        leaves = (
            tensor(names[index], value) if index in names else other(value)
            for index, (_, value) in enumerate(named_leaves(shapes))
        )
        return [refilled(value, leaves) for value in shapes]

    def fixed(self, case: Axes) -> list[Any]:
        """forward's arguments as shapes without values; other arguments are unchanged."""
        key = tuple((axis, case.get(axis, value)) for axis, value in self.problem.sizes.axes.items())
        if key not in self._fixed:
            with seeded(0):
                try:
                    self._fixed[key] = self.problem.arguments_on("meta", case)
                except (RuntimeError, NotImplementedError):  # it reads values, so it needs some
                    with placed("cpu"):
                        self._fixed[key] = self.problem.arguments(case)
        return self._fixed[key]

    def takes_nested(self, case: Axes) -> bool:
        """Whether one of forward's arguments is a list or dict of tensors."""
        return any(map(holds_tensors, self.fixed(case)))

    def _numbers(self, found: Sequence[Any]) -> Arrays:
        return {name: to_numpy(at_least_1d(value)) for name, value in zip(self.outputs, found, strict=True)}


def _like(array: NDArray[np.generic], shape: Any, dtype: Any) -> Any:
    """The array as a tensor of that shape and type, or of `dtype` if it is a floating one."""
    tensor = to_torch(array, DTYPES[shape.dtype]) if array.dtype.kind != "f" or dtype is None else torch.tensor(array)
    if dtype is not None and shape.is_floating_point():
        tensor = tensor.to(dtype)
    return tensor.reshape(shape.shape)


def _spread(value: NDArray[np.generic], rng: np.random.Generator) -> NDArray[np.generic]:
    reals = value.astype(np.float64)
    if value.dtype.kind in "iub" or reals.min() != reals.max():
        return value
    return np.asarray((reals + 0.25 * rng.uniform(-1, 1, reals.shape)).astype(value.dtype))


class _Rival:
    """One call of the module on the tensors' own device; the module is built once for each set of tensors."""

    def __init__(self, reference: ModuleReference, compiled: bool) -> None:
        self.reference, self.compiled = reference, compiled
        self._built: dict[tuple[int, ...], tuple[Any, list[Any]]] = {}

    def __call__(self, tensors: Mapping[str, Any], case: Axes) -> Any:
        key = tuple(tensor.data_ptr() for tensor in tensors.values())
        if key not in self._built:
            if len(self._built) >= _KEPT:
                self._built.clear()
            self._built[key] = self._build(tensors, case)
        module, given = self._built[key]
        found = [at_least_1d(tensor) for tensor in flattened(module(*given))]
        return found[0] if len(found) == 1 else found

    def _build(self, tensors: Mapping[str, Any], case: Axes) -> tuple[Any, list[Any]]:
        reference = self.reference
        device = str(next(iter(tensors.values())).device)
        with seeded(0), placed(device):
            module = reference.problem.module(case).to(device)
            state = state_of(module)
            for name, key in reference.state.items():
                state[key].data = tensors[name].reshape(state[key].shape)  # the same memory: the later values are used

        def same_memory(name: str, shape: Any) -> Any:
            return (
                tensors[name]
                .view(shape.dtype if shape.dtype.itemsize == 1 else tensors[name].dtype)
                .reshape(shape.shape)
            )

        given = reference.filled(case, same_memory, device)
        return (torch.compile(module) if self.compiled else module), given
