"""What a task is: tensors, cases, tolerance, work formulas and the places of its files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from evo.errors import UsageError
from evo.expr import Expression, Number
from evo.tiling import Choices, Targets, Traffic
from evo.variant import DTYPES

DOMAINS = ("real", "positive", "unit", "fixed")
_HEADERS = (".h", ".cuh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One kernel argument. role: `in` or `out`; shape in axes.

    domain: which other values the gate may put in (one of DOMAINS; None: judged from what the reference draws).
    specials: the gate may put NaN and infinities in.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[Expression, ...]
    domain: str | None = None
    specials: bool = False

    def dims(self, case: Case) -> tuple[int, ...]:
        return tuple(int(dim.value(case.axes)) for dim in self.shape)

    def size_bytes(self, case: Case) -> int:
        total = DTYPES[self.dtype]
        for dim in self.dims(case):
            total *= dim
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    name: str
    dtype: str
    value: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """`allclose` bounds, and how many times the trusted implementation's own error a variant may have."""

    rtol: float
    atol: float
    rival_error_factor: float
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One concrete set of axis values; booleans are 0 or 1."""

    name: str
    axes: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is to be computed: tensors, cases, tolerance and work formulas of one folder."""

    name: str
    folder: Path
    axes: dict[str, str]
    tensors: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...]
    tolerance: Tolerance
    check: tuple[Case, ...]
    bench: tuple[Case, ...]
    headline: str
    score: dict[str, float]
    work: dict[str, Expression]
    gates: tuple[MetricGate, ...] = ()
    flags: tuple[str, ...] = ()
    targets: Targets = field(default_factory=Targets)
    traffic: Traffic = field(default_factory=Traffic)
    choices: Choices | None = None
    nondeterministic: str | None = None  # `atomics`: launches may differ within the error budget

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.role == "in")

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.role == "out")

    def case(self, name: str) -> Case:
        for case in (*self.bench, *self.check):
            if case.name == name:
                return case
        known = ", ".join(case.name for case in (*self.bench, *self.check))
        raise UsageError(f"task {self.name} has no case {name!r}", hint=f"known cases: {known}")

    def scalar_values(self, case: Case) -> dict[str, Number]:
        return {scalar.name: scalar.value.value(case.axes) for scalar in self.scalars}

    def work_of(self, case: Case) -> dict[str, float]:
        """The work formulas at one case, e.g. flop and bytes."""
        return {name: float(formula.value(case.axes)) for name, formula in self.work.items()}

    def ladder(self) -> tuple[Path, ...]:
        return tuple(sorted((self.folder / "ladder").glob("*.cu")))

    def wrong(self) -> tuple[Path, ...]:
        return tuple(sorted((self.folder / "wrong").glob("*.cu")))

    def champion_path(self, chip: str, arch: str) -> Path:
        return self.folder / "champions" / f"{chip}-{arch}.cu"

    @cached_property
    def headers(self) -> dict[str, str]:
        """The folder's own headers by name; frozen, and part of the task hash."""
        found = (path for path in sorted(self.folder.iterdir()) if path.suffix in _HEADERS)
        return {path.name: path.read_text(encoding="utf-8") for path in found}

    @cached_property
    def hash(self) -> str:
        """Twelve hex digits over what decides correctness and work: task.yaml, reference.py and headers."""
        digest = hashlib.sha256()
        for path in [self.folder / "task.yaml", self.folder / "reference.py"]:
            digest.update(path.read_bytes() + b"\0")
        for name, text in self.headers.items():
            digest.update(f"{name}\0{text}\0".encode())
        return digest.hexdigest()[:12]


def find_root(start: Path | None = None) -> Path:
    """The nearest parent with a `kernels/` folder. Raises UsageError where there is none."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "kernels").is_dir():
            return folder
    raise UsageError(
        f"no kernels/ folder in {here} or above it",
        hint="run `evo init` to lay down the shipped tasks here, or pass --root",
    )


def task_names(root: Path) -> tuple[str, ...]:
