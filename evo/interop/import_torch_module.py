"""From a problem file to a task folder: runs in a child process, since it executes the file.

Decides the tensors, the cases, what values inputs may take, the tolerance and the work; then the task's own self-test
judges the folder. Raises Refused with a reason and a next step.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from evo.errors import TaskInvalid
from evo.evaluate.gate import check_task
from evo.interop import task_folder
from evo.interop.import_ranges import Ends, imported_ranges
from evo.interop.infer_axes import InferredAxes, label
from evo.interop.infer_work import work_of
from evo.interop.meta_shapes import FOREIGN, ProblemRefused, forward_names, shapes_of
from evo.interop.nested_tensors import named_leaves
from evo.interop.problem_sizes import ProblemSizes, read_sizes
from evo.interop.reduce_sizes import BENCH_ELEMENTS, BENCH_FLOP, ReducedSizes, Sizes, check_sizes, even
from evo.interop.torch_reference import Arrays, ModuleReference, ResizableProblem, placed, seeded
from evo.spec.element_types import is_float
from evo.spec.input_distributions import derive, domain_of
from evo.spec.reference import load_reference
from evo.spec.task import read_task
from evo.spec.tensor_arrays import typical_size
from evo.spec.tolerance import COARSEST_TOLERANCE, DEFAULT_TOLERANCES

_TOLERANCES = DEFAULT_TOLERANCES | {"float32": (1e-4, 1e-5)}  # sums of a module, in whatever order torch takes
# Tighter tolerances, for outputs far from 0 and close together: the usual one would accept wrong kernels.
_TIGHTER = 0.01
_SEEDS = (11, 12)
_MANY_ZEROS = 0.05


@dataclass(frozen=True)
class Imported:
    """The importer's summary of a task."""

    name: str
    cases: dict[str, Sizes]
    notes: list[str]


def write_task(
    file: Path, name: str, into: Path, *, description: str = "", compiled: bool = False, most_bytes: int | None = None
) -> Imported:
    """Write `into/name` from a problem file. Raises Refused, SyntaxInvalid."""
    sizes = read_sizes(file)
    problem = ResizableProblem(sizes)
    try:
        own = shapes_of(problem, sizes.axes)
    except FOREIGN as error:
        said = " ".join(str(error).split())[:300]
        reason = f"the module does not run at the file's own sizes: {type(error).__name__}: {said}"
        raise ProblemRefused(
            reason, "run the file by itself first; it must not need packages or devices of its own"
        ) from error
    return _Draft(file, name, into, ReducedSizes(problem, own), description, compiled, most_bytes).write()


class _Draft:
    def __init__(
        self,
        file: Path,
        name: str,
        into: Path,
        reduction: ReducedSizes,
        description: str,
        compiled: bool,
        most_bytes: int | None,
    ) -> None:
        self.file, self.name, self.into = file, name, into / name
        found = check_sizes(reduction)
        self.reduction = reduction.without_values(list(found.values())[-1])
        self.problem, self.own = self.reduction.problem, reduction.own
        self.sizes: ProblemSizes = self.problem.sizes
        self.description = description or f"{file.stem}, a PyTorch module: see problem.py."
        self.compiled = compiled
        self.notes: list[str] = []
        self.check = found if self.reduction is reduction else check_sizes(self.reduction)
        self.bench = self._bench(most_bytes)
        self.arguments, self.state, self.outputs = self._named()

    def write(self) -> Imported:
        self._say_drawn_numbers()
        reference = self._without_idle(self._reference())
        self._is_a_function(reference)
        names: dict[str, str | int] = {**self.arguments, **self.state}
        names |= {name: f"out {number}" for number, name in enumerate(self.outputs)}
        labelled = label(self.reduction, {**self.check, **self.bench}, names)
        domains = self._domains(reference)
        scale = self._scale(reference)
        # A domain wider than the drawn values is a guess; if the task fails its self-test with it, it is dropped.
        drawn_only = {name: "fixed" if word == "fixed" else None for name, word in domains.items()}
        attempts: list[dict[str, str | None]] = [domains, drawn_only, dict.fromkeys(domains, "fixed")]
        ranges = self._ranges(labelled, reference)
        failed: TaskInvalid | None = None
        work = self._work(labelled, reference, domains)
        different = [a for i, a in enumerate(attempts) if a not in attempts[:i]]
        for share, ends, attempt in itertools.product((1.0, _TIGHTER), [ranges, {}] if ranges else [{}], different):
            self._write_folder(labelled, attempt, ends, self._tolerance(scale, share), work)
            try:
                task = read_task(self.into)
                check_task(task, load_reference(task))
                return Imported(self.name, {name: labelled.cases[name] for name in labelled.cases}, self.notes)
            except TaskInvalid as error:
                failed = failed or error
        assert failed is not None
        shutil.rmtree(self.into)
        words = failed.message.replace(str(self.into), self.name)
        raise ProblemRefused(f"the task would not pass its own self-test: {words}", failed.hint)

    def _bench(self, most_bytes: int | None) -> dict[str, Sizes]:
        """The file's own sizes, and smaller ones in front if a simulator cannot run the former whole."""
        original = {"original": self.sizes.axes}
        if self.own.elements <= 2 * BENCH_ELEMENTS and self.own.flop <= 2 * BENCH_FLOP:
            return original
        smaller = self.reduction.below(BENCH_ELEMENTS, BENCH_FLOP, even)
        if smaller is None or smaller in self.check.values():
            self.notes.append("no smaller bench case: the simulator may not be able to run `original`")
            return original
        if most_bytes is not None and self.own.bytes > most_bytes:
            if most_bytes:  # else it was requested
                self.notes.append(
                    f"`original` is left out: {self.own.bytes / 1e9:.1f} GB of tensors, more than the simulator should "
                    "hold, and no GPU is here; --whole keeps it"
                )
            return {"reduced": smaller}
        return {"reduced": smaller, **original}

    def _named(self) -> tuple[dict[str, int], dict[str, str], list[str]]:
        taken: set[str] = set()

        def free(wish: str) -> str:
            name = "".join(c if c.isalnum() else "_" for c in wish).strip("_") or "x"
            name = f"t_{name}" if name[0].isdigit() else name
            while name in taken:
                name += "_"
            taken.add(name)
            return name

        words = forward_names(self.problem, self.sizes.axes)
        arguments = {free(words[i]): i for i, array in enumerate(self.own.arguments) if array is not None}
        state = {free(key.replace(".", "_")): key for key in self.own.state}
        count = len(self.own.outputs)
        outputs = [free("y" if count == 1 else f"y{i}") for i in range(count)]
        return arguments, state, outputs

    def _reference(self) -> ModuleReference:
        digest = hashlib.sha256(self.file.read_bytes()).hexdigest()
        return ModuleReference(
            path=self.file,
            sha256=digest,
            arguments=self.arguments,
            state=self.state,
            outputs=self.outputs,
            compiled=self.compiled,
        )

    def _say_drawn_numbers(self) -> None:
        """Arguments that are not tensors are constants of the task, also if get_inputs() draws them."""
        words = forward_names(self.problem, self.sizes.axes)
        case = self._cases()[-1]
        held = self._reference().fixed(case)
        with seeded(_SEEDS[0]), placed("cpu"):
            drawn = self.problem.arguments(case)
        leaves = zip(words, named_leaves(held), named_leaves(drawn), strict=True)
        for word, (_, value), (_, other) in leaves:
            if isinstance(value, int | float) and value != other:
                self.notes.append(f"{word} is {value!r} in every case: it is drawn, but is not a tensor argument")

    def _cases(self) -> list[Sizes]:
        return list(self.check.values())

    def _inputs(self, reference: ModuleReference, sizes: Sizes, seed: int) -> Arrays:
        return reference.inputs(sizes, np.random.default_rng(seed))

    def _without_idle(self, reference: ModuleReference) -> ModuleReference:
        """Drop tensors that no output depends on: running statistics, memory that is only written."""
        sizes = self._cases()[-1]
        first, other = (self._inputs(reference, sizes, seed) for seed in _SEEDS)
        before = reference.expected(first, sizes)

        def moves(name: str, values: NDArray[np.generic]) -> bool:
            try:
                after = reference.expected({**first, name: values}, sizes)
            except (RuntimeError, ValueError, IndexError):
                return True
            return not all(np.array_equal(before[out], after[out], equal_nan=True) for out in before)

        for name in list(self.state):
            if not moves(name, (first[name].astype(np.float64) * 0.75 + 0.125).astype(first[name].dtype)):
                self.notes.append(f"{self.state.pop(name)} is left out: no output depends on it")
        for name in list(self.arguments):
            nothing = np.full_like(first[name], np.nan) if is_float(self._array(name)) else np.zeros_like(first[name])
            if not moves(name, other[name]) and not moves(name, nothing):
                del self.arguments[name]
                self.notes.append(f"{name} is left out: no output depends on it")
        return self._reference()

    def _is_a_function(self, reference: ModuleReference) -> None:
        sizes = self._cases()[-1]
        inputs = self._inputs(reference, sizes, _SEEDS[0])
        others = reference.run(self._inputs(reference, sizes, _SEEDS[1]), sizes, torch.float64)
        first, again = (reference.run(inputs, sizes, torch.float64, seed=seed) for seed in _SEEDS)
        if any(a.shape != b.shape for a, b in zip(first, others, strict=True)):
            raise ProblemRefused(
                "the shapes of its outputs depend on the values of its inputs (masks as indices, nonzero, unique)",
                "return a tensor of a fixed shape, such as zeros where nothing was selected",
            )
        if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, again, strict=True)):
            raise ProblemRefused(
                "its results differ from run to run on the same inputs (dropout, or values drawn inside forward)",
                "call .eval() in Model.__init__, or pass the random values as an input",
            )
        wanted = [array.dtype for array in self.own.outputs]
        if any(is_float(w) and a.dtype != torch.float64 for w, a in zip(wanted, first, strict=True)):
            self.notes.append("forward converts to a type of its own, so expected() is not float64 throughout")

    def _domains(self, reference: ModuleReference) -> dict[str, str | None]:
        """The domain of each floating input; None: evo derives it from the drawn values."""
        sizes = self._cases()[-1]
        first, other = (self._inputs(reference, sizes, seed) for seed in _SEEDS)
        found: dict[str, str | None] = {}
        for name, values in first.items():
            array = self._array(name)
            if not is_float(array):
                continue
            found[name] = None
            if _is_patterned(values.astype(np.float64), other[name].astype(np.float64)):
                found[name] = "fixed"
            elif domain_of(array, values) in ("unit", "positive"):
                found[name] = self._widest(reference, sizes, first, name, array)
        return found

    def _ranges(self, labelled: InferredAxes, reference: ModuleReference) -> dict[str, Ends]:
        """Ranges of integer inputs that the module takes beyond the drawn values."""
        whole = [name for name in self.arguments if not is_float(self._array(name)) and self._array(name) != "bool"]
        cases = [(sizes, self._inputs(reference, sizes, _SEEDS[0])) for sizes in self._cases()]
        axes = [labelled.cases[name] for name in self.check]
        outputs = {name: array.dtype for name, array in zip(self.outputs, self.own.outputs, strict=True)}
        return imported_ranges(whole, cases, axes, outputs, reference.expected) if whole else {}

    def _widest(self, reference: ModuleReference, sizes: Sizes, inputs: Arrays, name: str, dtype: str) -> str | None:
        for word in ("real", "positive"):
            changed = derive("normal", dtype, inputs[name], word, np.random.default_rng(0))
            outputs = reference.expected({**inputs, name: changed}, sizes)
            if all(np.isfinite(values.astype(np.float64)).all() for values in outputs.values()):
                return word
        return None

    def _array(self, name: str) -> str:
        if name in self.arguments:
            array = self.own.arguments[self.arguments[name]]
            assert array is not None
            return array.dtype
        return self.own.state[self.state[name]].dtype

    def _scale(self, reference: ModuleReference) -> float:
        """The size of typical outputs, at the case with the smallest."""
        sizes = []
        for case in self._cases():
            outputs = reference.expected(self._inputs(reference, case, _SEEDS[0]), case)
            for array, values in zip(self.own.outputs, outputs.values(), strict=True):
                if is_float(array.dtype) and (size := typical_size(values)):
                    sizes.append(size)
        return min(sizes, default=1.0)

    def _write_folder(
        self,
        labelled: InferredAxes,
        domains: dict[str, str | None],
        ranges: dict[str, Ends],
        tolerance: task_folder.ToleranceLine,
        work: dict[str, str],
    ) -> None:
        text = task_folder.TaskText(
            name=self.name,
            description=self.description,
            axes=labelled.axes,
            tensors=list(self._tensors(labelled, domains, ranges)),
            tolerance=tolerance,
            check={name: labelled.cases[name] for name in self.check},
            bench={name: labelled.cases[name] for name in self.bench},
            work=work,
        )
        text.write(self.into, _reference_text(self), {"problem.py": self.file.read_bytes()})

    def _tensors(
        self, labelled: InferredAxes, domains: dict[str, str | None], ranges: dict[str, Ends]
    ) -> Iterator[task_folder.TensorLine]:
        for name in (*self.arguments, *self.state):
            shape, ends = labelled.shapes[name], ranges.get(name, (None, None))
            yield task_folder.TensorLine(name, "in", self._array(name), shape, domains.get(name), *ends)
        for name, array in zip(self.outputs, self.own.outputs, strict=True):
            yield task_folder.TensorLine(name, "out", array.dtype, labelled.shapes[name])

    def _tolerance(self, scale: float, tighter: float) -> task_folder.ToleranceLine:
        types = [array.dtype for array in self.own.outputs if is_float(array.dtype)]
        if not types:
            return task_folder.ToleranceLine(0.0, 0.0, "The outputs are integers, which are compared exactly.")
        coarse = min(types, key=lambda name: -_TOLERANCES.get(name, COARSEST_TOLERANCE)[0])
        rtol, share = (float(f"{tighter * part:.3g}") for part in _TOLERANCES.get(coarse, COARSEST_TOLERANCE))
        terms = self.own.longest if coarse in ("float32", "float64") else 1  # otherwise rounding the result dominates
        factor = task_folder.order_factor(terms)
        share = float(f"{share * factor / 2:.3g}")  # as much further as a kernel's order of a long sum may err
        because = (
            f"{coarse} outputs of size {scale:.2g} at the smallest: atol is {share:g} of that. The error budget is "
            f"{'twice' if factor == 2 else f'{factor} times'} the error that the module itself makes in its own types"
        )
        because += f": it adds {terms} numbers in blocks, a kernel one after the other." if factor > 2 else "."
        return task_folder.ToleranceLine(rtol, float(f"{share * scale:.1e}"), because, factor)

    def _work(
        self, labelled: InferredAxes, reference: ModuleReference, domains: dict[str, str | None]
    ) -> dict[str, str]:
        patterned = {name for name, word in domains.items() if word == "fixed"}
        small, usual = self._cases()[-1], next(iter(self.bench.values()))
        shapes = self.reduction.shapes(usual)
        if shapes is None or shapes.elements > 2 * BENCH_ELEMENTS or shapes.flop > 2 * BENCH_FLOP:
            usual = small  # the bench case cannot be run here
        work, notes = work_of(reference, labelled, self.own, (small, usual), patterned)
        self.notes += notes
        return work


def _is_patterned(values: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Zeros at the same places in two draws, or symmetric in both: a triangle, a diagonal, a symmetric matrix."""
    zeros = values == 0
    if zeros.mean() > _MANY_ZEROS and np.array_equal(zeros, other == 0) and not zeros.all():
        return True
    square = values.ndim >= 2 and values.shape[-1] == values.shape[-2] > 1
    return square and all(np.array_equal(v, np.swapaxes(v, -1, -2)) for v in (values, other))


def _reference_text(draft: _Draft) -> str:
    fields = {
        "sha256": hashlib.sha256(draft.file.read_bytes()).hexdigest(),
        "arguments": draft.arguments,
        "state": draft.state,
        "outputs": draft.outputs,
    }
    lines = "".join(f"    {name}={value!r},\n" for name, value in fields.items())
    lines += "    compiled=True,\n" if draft.compiled else ""
    return task_folder.template("module_reference.py").format(name=draft.name, fields=lines)
