"""A task folder: `task.yaml`, `reference.py`, `ladder/`, `champions/`, `wrong/`.

Reads one `kernels/<task>/` and nothing else. A malformed file is a SyntaxInvalid with file, line and field.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import cast

from evo.errors import SyntaxInvalid, TaskInvalid, UsageError, known_words
from evo.spec import declared_values as declared
from evo.spec.element_types import DTYPES
from evo.spec.expr import Expression, Number, parse
from evo.spec.laws import Law, read_laws
from evo.spec.metric_bounds import MetricGate, read_gates
from evo.spec.source_text import read_source
from evo.spec.tile_model import Choices, Targets, TileTraffic, read_choices, read_targets, read_traffic
from evo.spec.tolerance import Tolerance, read_tolerance
from evo.spec.yaml_fields import YamlFields, is_number

_NAME = re.compile(r"^[A-Za-z_]\w*$")
TASK_NAME = re.compile(r"^[a-z][a-z0-9_]*$")
_LARGEST_TENSOR = 2**38  # bytes
_HEADERS = (".h", ".cuh")
_TOP = {"name", "axes", "tensors", "scalars", "tolerance", "check", "bench", "headline", "score", "work"}
SIMULATED = "simulated"  # of `work`: warp instructions of the adopted kernel that is the reference
_OPTIONAL = {"scalars", "headline", "score", "work", "flags", "targets", "description", "nondeterministic"}
_OPTIONAL |= {"traffic", "derive", "gates", "laws", "specials"}
_TENSOR = ("name", "role", "dtype", "shape", "domain", "specials", "init", *declared.RANGE_FIELDS)
ROLES = ("in", "out", "inout")
_UNHASHED = re.compile(rb"^(?:laws|specials):.*\n(?:[ -].*\n)*", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One kernel argument. role: `in`, `out`, or `inout` for one that is read and changed in place; shape in axes.

    domain: which other values the gate may put in (evo/spec/declared_values.py; None: judged from what is drawn).
    range: which values an integer input may hold; None: what the reference draws.
    specials: what zeros, infinities, NaN and denormals mean in a float input; None: not stated.
    init: what an output holds before the first launch: `poison`, or `zero` for one that kernels add to.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[Expression, ...]
    domain: str | None = None
    range: declared.DeclaredRange | None = None
    specials: declared.Specials | None = None
    init: str = "poison"

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
    traffic: TileTraffic = field(default_factory=TileTraffic)
    choices: Choices | None = None
    laws: tuple[Law, ...] | None = None  # None: not stated, so the gate looks for some
    nondeterministic: str | None = None  # `atomics`: launches may differ within the error budget

    def __repr__(self) -> str:
        return f"<Task {self.name}: {len(self.check)} check cases, {len(self.bench)} bench cases>"

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.role != "out")

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.role != "in")

    def case(self, name: str) -> Case:
        for case in (*self.bench, *self.check):
            if case.name == name:
                return case
        known = ", ".join(case.name for case in (*self.bench, *self.check))
        raise UsageError(f"task {self.name} has no case {name!r}", problem="unknown-name", hint=f"known cases: {known}")

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
        """Twelve hex digits over what decides correctness and work: task.yaml, reference.py and headers.

        Laws and specials are left out: they ask for nothing that the reference does not decide.
        """
        digest = hashlib.sha256(_UNHASHED.sub(b"", (self.folder / "task.yaml").read_bytes()) + b"\0")
        digest.update((self.folder / "reference.py").read_bytes() + b"\0")
        for name, text in self.headers.items():
            digest.update(f"{name}\0{text}\0".encode())
        return digest.hexdigest()[:12]


def find_root(start: Path | None = None) -> Path:
    """The nearest parent with a `kernels/` folder. Raises UsageError if there is none."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "kernels").is_dir():
            return folder
    raise UsageError(
        f"no kernels/ folder in {here} or above it",
        hint="run `evo init` to lay down the shipped tasks here, or pass --root",
    )


def task_names(root: Path) -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in (root / "kernels").glob("*/task.yaml")))


def load_task(root: Path, name: str) -> Task:
    """Read `kernels/<name>/`. Raises UsageError for an unknown task, SyntaxInvalid for a bad file."""
    folder = root / "kernels" / name
    path = folder / "task.yaml"
    if os.path.lexists(path) and not path.is_file():
        hint = "put the task's own file there; `evo new` writes one"
        what = "a folder, a pipe, a device, or a link that leads nowhere: not a file"
        raise SyntaxInvalid(path, None, what, hint=hint, problem="no-file")
    if not path.is_file():
        hint = known_words("tasks", name, task_names(root) or ("none",))
        hint += "; a task is named here, and a file by --from" if name.endswith(".cu") else ""
        raise UsageError(f"no task {name!r} in {root / 'kernels'}", problem="unknown-name", hint=hint)
    return read_task(folder)


def read_task(folder: Path) -> Task:
    """Read one task folder. Raises SyntaxInvalid naming file, line and field, TaskInvalid for a missing file."""
    path = folder / "task.yaml"
    text = read_source(path, wanted="a task folder, which holds task.yaml")
    for needed, is_there in (("reference.py", Path.is_file), ("ladder", Path.is_dir)):
        if not is_there(folder / needed):
            raise TaskInvalid(f"{folder}: no {needed}", hint="see `evo new` for what a task folder holds")
    return _Yaml(path, text).task(folder)


class _Yaml(YamlFields):
    """task.yaml, read field by field."""

    lengths: set[str]  # the axes that are a tensor's length by themselves

    def task(self, folder: Path) -> Task:
        self.only(self.data, sorted(_TOP | _OPTIONAL))
        for key in sorted(_TOP - _OPTIONAL):
            if key not in self.data:
                raise SyntaxInvalid(self.path, 1, f"field `{key}`: missing", hint=f"add `{key}:`")
        name = self.data["name"]
        if not isinstance(name, str) or not TASK_NAME.match(name):
            raise self.invalid(("name",), f"{name!r} is not a task name", "lower case letters, digits and _")
        if name != folder.name:
            raise self.invalid(("name",), f"{name!r} differs from the folder {folder.name!r}", "make them equal")
        axes = self._axes()
        tensors = tuple(self._tensors(axes))
        self.lengths = {dim.text for tensor in tensors for dim in tensor.shape}
        scalars = tuple(self._scalars(axes, {tensor.name for tensor in tensors}))
        bench, check = self._cases("bench", axes), self._cases("check", axes)
        self._distinct(bench, check, tensors)
        work = self._work(axes)
        names = [case.name for case in bench]
        headline = self.data.get("headline", names[0])
        if headline not in names:
            raise self.invalid(("headline",), f"no bench case {headline!r}", f"one of {', '.join(names)}")
        return Task(
            name=name,
            folder=folder,
            axes=axes,
            tensors=tensors,
            scalars=scalars,
            tolerance=read_tolerance(self),
            check=check,
            bench=bench,
            headline=str(headline),
            score=self._score(names),
            work=work,
            gates=read_gates(self, {*axes, *work}, [case.name for case in (*check, *bench)]),
            flags=self._flags(),
            targets=read_targets(self, names),
            traffic=read_traffic(self, axes),
            choices=read_choices(self, axes),
            laws=read_laws(self, tuple(axes), tensors),
            nondeterministic=self._nondeterministic(),
        )

    def _axes(self) -> dict[str, str]:
        axes = self.mapping("axes")
        for name, kind in axes.items():
            if kind not in ("int", "bool") or not _NAME.match(str(name)):
                raise self.invalid(
                    ("axes", name), f"an axis is `NAME: int` or `NAME: bool`, not {kind!r}", "int or bool"
                )
        return cast(dict[str, str], axes)

    def _expression(self, text: object, at: tuple[str | int, ...], names: Mapping[str, str], real: bool) -> Expression:
        if text is None:
            raise self.invalid(at, "missing", "write a formula over the axes")
        expression = parse(str(text), path=self.path, line=self.line(*at), real=real)
        for name in sorted(expression.names - set(names)):
            raise self.invalid(at, f"unknown axis {name!r}", f"axes: {', '.join(names)}")
        return expression

    def _dtype(self, entry: Mapping[str, object], at: tuple[str | int, ...]) -> str:
        dtype = entry.get("dtype")
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise self.invalid((*at, "dtype"), f"unknown dtype {dtype!r}", f"one of {', '.join(DTYPES)}")
        return dtype

    def _tensors(self, axes: dict[str, str]) -> Iterator[Tensor]:
        seen: set[str] = set()
        roles = []
        stated = declared.read_specials(self)
        for number, entry in self.entries("tensors"):
            at = ("tensors", number)
            self.only(entry, _TENSOR, at)
            name, role, shape = (
                self._new_name(entry.get("name"), at, "tensor", seen),
                entry.get("role"),
                entry.get("shape"),
            )
            if role not in ROLES:
                raise self.invalid((*at, "role"), f"unknown role {role!r}", "in, out or inout")
            if not isinstance(shape, list) or not shape:
                raise self.invalid((*at, "shape"), "expected a list of axes", "e.g. [B, S, D]")
            seen.add(name)
            roles.append(role)
            dims = tuple(self._expression(dim, (*at, "shape", i), axes, False) for i, dim in enumerate(shape))
            init = entry.get("init", "poison")
            if init not in ("poison", "zero") or (init == "zero" and role != "out"):
                raise self.invalid((*at, "init"), f"{init!r} is not a choice", "poison or zero, for role out")
            yield Tensor(
                name=name,
                role=str(role),
                dtype=self._dtype(entry, at),
                shape=dims,
                domain=declared.read_domain(self, entry, at),
                range=declared.read_range(self, entry, at, lambda text, to: self._expression(text, to, axes, False)),
                specials=stated.get(name),
                init=str(init),
            )
        if set(roles) <= {"in"}:
            raise self.invalid(("tensors",), "no tensor with role out", "mark what the kernel writes `role: out`")

    def _new_name(self, name: object, at: tuple[str | int, ...], what: str, taken: Collection[str]) -> str:
        """The name of a tensor or scalar, which nothing before it has."""
        if not isinstance(name, str) or not _NAME.match(name):
            hint = f"give each {what} a name: letters, digits and _, with a letter first"
            raise self.invalid((*at, "name"), f"{name!r} is not a name", hint)
        if name in taken:
            raise self.invalid((*at, "name"), f"a second {name!r}", f"give each {what} a name of its own")
        return name

    def _scalars(self, axes: dict[str, str], taken: set[str]) -> Iterator[Scalar]:
        if not self.data.get("scalars"):
            return
        for number, entry in self.entries("scalars"):
            at = ("scalars", number)
            self.only(entry, ("name", "dtype", "value"), at)
            name = self._new_name(entry.get("name"), at, "scalar", {*taken, *axes})
            taken = {*taken, name}
            value = self._expression(entry.get("value"), (*at, "value"), axes, True)
            yield Scalar(name=name, dtype=self._dtype(entry, at), value=value)

    def _cases(self, key: str, axes: dict[str, str]) -> tuple[Case, ...]:
        value = self.data.get(key)
        cases: list[Case] = []
        if isinstance(value, dict):
            for label, given in self.mapping(key).items():
                cases.append(self._case((key, label), str(label), given, axes))
        else:
            for number, entry in self.entries(key):
                name = entry.get("name") or _case_name(entry, axes)
                if not isinstance(name, str):
                    raise self.invalid(
                        (key, number, "name"), f"{name!r} is not a name", "quote what YAML reads as more"
                    )
                cases.append(self._case((key, number), str(name), entry, axes))
        names = [case.name for case in cases]
        for case in cases:
            if names.count(case.name) > 1:
                raise self.invalid((key,), f"two cases are called {case.name!r}", "give them names of their own")
        return tuple(cases)

    def _case(self, at: tuple[str | int, ...], name: str, entry: object, axes: dict[str, str]) -> Case:
        if not isinstance(entry, dict):
            raise self.invalid(at, "expected a mapping of axes", "e.g. {B: 1, S: 17}")
        values: dict[str, int] = {}
        for axis, given in entry.items():
            if axis == "name":
                continue
            if axis not in axes:
                raise self.invalid((*at, axis), "unknown axis", f"axes: {', '.join(axes)}")
            # What is no tensor's length may be zero, as a padding may.
            if not isinstance(given, int) or int(given) < (1 if axis in self.lengths else 0):
                raise self.invalid(
                    (*at, axis), f"{given!r} is not a legal {axes[axis]}", "a positive integer, or a bool"
                )
            values[axis] = int(given)
        for axis, kind in axes.items():
            if axis not in values:
                if kind == "bool":
                    values[axis] = 0
                else:
                    raise self.invalid(at, f"axis {axis} is missing", f"add `{axis}: ...`")
        return Case(name=name, axes={axis: values[axis] for axis in axes})

    def _distinct(self, bench: tuple[Case, ...], check: tuple[Case, ...], tensors: tuple[Tensor, ...]) -> None:
        """One name, one case: results are kept by name. And every tensor of every case has a size."""
        timed = {case.name: case for case in bench}
        for case in check:
            if timed.get(case.name, case) != case:
                hint = "give one of them another name"
                raise self.invalid(("check",), f"{case.name!r} is another case in `bench`", hint)
        for case in (*check, *bench):
            for number, tensor in enumerate(tensors):
                at = ("tensors", number, "shape")
                if min(tensor.dims(case)) < 1 or tensor.size_bytes(case) > _LARGEST_TENSOR:
                    dims = " x ".join(map(str, tensor.dims(case)))
                    raise self.invalid(
                        at, f"{dims} at case {case.name}", "1 or more each, and 256 GiB at most together"
                    )
                if tensor.range is not None and (problem := declared.range_problem(tensor.range, case.axes)):
                    raise self.invalid(at[:2], f"{problem} at case {case.name}", "low and high are both allowed values")

    def _flags(self) -> tuple[str, ...]:
        given = self.data.get("flags") or []
        if not isinstance(given, list) or not all(isinstance(flag, str) for flag in given):
            raise self.invalid(("flags",), "expected a list of compiler flags", "e.g. flags: [--use_fast_math]")
        return tuple(given)

    def _nondeterministic(self) -> str | None:
        given = self.data.get("nondeterministic")
        if given not in (None, "atomics"):
            raise self.invalid(("nondeterministic",), f"unknown reason {given!r}", "atomics, or leave it out")
        return given

    def _score(self, names: list[str]) -> dict[str, float]:
        given = self.mapping("score") if self.data.get("score") else dict[str, object].fromkeys(names, 1)
        for name, weight in given.items():
            if name not in names:
                raise self.invalid(("score", name), "no such bench case", f"one of {', '.join(names)}")
            if not is_number(weight) or cast(float, weight) < 0:
                raise self.invalid(("score", name), f"{weight!r} is not a weight", "a number, 0 or more")
        if not sum(cast(float, weight) for weight in given.values()):
            raise self.invalid(("score",), "all weights are zero", "give at least one case a weight")
        return {name: float(cast(float, weight)) for name, weight in given.items()}

    def _work(self, axes: dict[str, str]) -> dict[str, Expression]:
        given = self.mapping("work") if self.data.get("work") else {}
        return {name: self._expression(text, ("work", name), axes, True) for name, text in given.items()}


def _case_name(entry: Mapping[str, object], axes: Mapping[str, str]) -> str:
    parts = [f"{axis.lower()}{int(cast(int, entry[axis]))}" for axis in axes if isinstance(entry.get(axis), int)]
    return "_".join(parts) or "case"
