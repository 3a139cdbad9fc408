"""A champion as a PyTorch operator: a package of its compiled kernels and their launch plan. It does not need evo.

The launch plan's expressions are written out as Python. Sizes that the kernels cannot run (a `require` that fails, an
axis value that was not compiled in, another chip, a CPU) go to the task's library rival.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evo.device import BoundLaunch, Program
from evo.errors import TaskInvalid, UsageError
from evo.evaluate.prepare import Prepared, PrepareFailure, prepare
from evo.interop.task_folder import template
from evo.spec.chips import Chip, chip
from evo.spec.expr import Expression
from evo.spec.reference import load_module, load_reference
from evo.spec.task import Task, Tensor
from evo.spec.variant import Variant, read_variant

FORMATS = ("torch", "kernelbench", "cu", "ptx", "cubin")
_CHAMPION = re.compile(r"(?:sim-)?(.+)-(sm_\d+a?)")


@dataclass(frozen=True)
class Champion:
    """A kernel to export: the variant, the chip of its launch plan, and its binaries."""

    path: Path
    chip: Chip
    arch: str
    variant: Variant
    prepared: Prepared

    @property
    def stem(self) -> str:
        return self.path.stem.replace("-", "_")


def champions_of(task: Task, given: Path | None, arch: str, chip_name: str) -> list[Champion]:
    """The task's champions, or one file, compiled. Raises UsageError if there is none, TaskInvalid for a bad one."""
    paths = [given] if given is not None else sorted((task.folder / "champions").glob("*.cu"))
    if not paths:
        hint = f"`evo iterate {task.name}` makes one, or pass --from FILE"
        raise UsageError(f"{task.name} has no champion", hint=hint)
    found = []
    for path in paths:
        match = _CHAMPION.fullmatch(path.stem) if given is None else None
        slug, its_arch = (match[1], match[2]) if match else (chip_name, arch)
        row = chip(slug)
        prepared = prepare(task, read_variant(path).text, chip=row, arch=its_arch, path=str(path))
        if isinstance(prepared, PrepareFailure):
            raise TaskInvalid(f"{path}: {prepared.status.value}: {prepared.reason}", hint="`evo check` shows more")
        found.append(Champion(path, row, its_arch, prepared.variant, prepared))
    return found


def export(task: Task, champions: Sequence[Champion], form: str, into: Path) -> list[Path]:
    """Write the champions in one format; return the files. Raises UsageError if `into` is not empty."""
    if form not in FORMATS:
        raise UsageError(f"unknown format {form!r}", problem="unknown-name", hint=f"one of {', '.join(FORMATS)}")
    if into.exists() and any(into.iterdir() if into.is_dir() else [into]):
        raise UsageError(f"{into} is not an empty folder", problem="exists", hint="pass --out with a new folder")
    model = _model_new(task) if form == "kernelbench" else ""  # refused before anything is written
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "give a folder that can be made"
        raise UsageError(f"--out {into}: {error.strerror or error}", hint=hint) from None
    if form == "torch":
        return _package(task, champions, into)
    if form == "kernelbench":
        return [*_package(task, champions, into), _write(into / "model_new.py", model.encode())]
    written = []
    for champion in champions:
        if form == "cu":
            written.append(_write(into / champion.path.name, champion.variant.text.encode()))
            continue
        for suffix, ptx, cubin in _binaries(champion):
            content = ptx.encode() if form == "ptx" else cubin
            written.append(_write(into / f"{champion.path.stem}{suffix}.{form}", content))
    return written


def _write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _binaries(champion: Champion) -> Iterator[tuple[str, str, bytes]]:
    """One for each set of compiled-in axes: a suffix such as `-D64`, PTX and cubin."""
    seen = set()
    for program in champion.prepared.programs.values():
        binary = program.binary
        suffix = "".join(f"-{name}{binary.macros[name]}" for name in champion.variant.macros)
        if suffix not in seen:
            seen.add(suffix)
            yield suffix, binary.ptx, binary.cubin


def _package(task: Task, champions: Sequence[Champion], into: Path) -> list[Path]:
    name = f"evo_{task.name}"
    inside = into / name
    written = [
        _write(into / "pyproject.toml", template("pyproject.toml").format(name=name, task=task.name).encode()),
        _write(into / "README.md", template("README.md").format(name=name, task=task.name, call=_call(task)).encode()),
        _write(inside / "__init__.py", _module(task, champions).encode()),
    ]
    for champion in champions:
        written.append(_write(inside / f"{champion.stem}.cu", champion.variant.text.encode()))
        for suffix, ptx, cubin in _binaries(champion):
            stem = f"{champion.stem}{suffix.replace('-', '_')}"
            written.append(_write(inside / f"{stem}.ptx", ptx.encode()))
            if cubin:
                written.append(_write(inside / f"{stem}.cubin", cubin))
    for extra in ("reference.py", "problem.py"):
        if (task.folder / extra).is_file():
            shutil.copyfile(task.folder / extra, inside / extra)
            written.append(inside / extra)
    return written


def _model_new(task: Task) -> str:
    """`class ModelNew` for a task that was a KernelBench problem: the same parameters, and forward as one operator."""
    load_reference(task).close()  # one that ends its process when it is imported is told here
    found = load_module(task.folder / "reference.py")
    source = getattr(found, "_module", None)
    if not (task.folder / "problem.py").is_file() or source is None:
        hint = "--format torch exports any task"
        raise UsageError(f"{task.name} was not imported from a KernelBench problem", problem="not-imported", hint=hint)
    own = next((case for case in task.bench if case.name == "original"), task.bench[-1])
    if source.takes_nested(own.axes):
        hint = "--format torch exports any task"
        raise UsageError(f"{task.name}: forward takes tensors in a list or dict; ModelNew cannot", hint=hint)
    given = [f"given[{index}]" for index in source.arguments.values()]
    given += [f'state["{key}"]' for key in source.state.values()]
    given += [str(own.axes[axis]) for axis in _free_axes(task)]
    return template("model_new.py").format(name=f"evo_{task.name}", task=task.name, arguments=", ".join(given))


def _free_axes(task: Task) -> list[str]:
    """Axes that no input's shape gives: they become arguments."""
    given = {dim.text for tensor in task.inputs for dim in tensor.shape}
    return [axis for axis in task.axes if axis not in given]


def _call(task: Task) -> str:
    arguments = [tensor.name for tensor in task.inputs] + [f"{axis}=..." for axis in _free_axes(task)]
    return f"evo_{task.name}.{task.name}({', '.join(arguments)})"


def _module(task: Task, champions: Sequence[Champion]) -> str:
    free = _free_axes(task)
    outputs = task.outputs
    several = len(outputs) > 1
    result = f"tuple[{', '.join(['torch.Tensor'] * len(outputs))}]" if several else "torch.Tensor"
    parameters = [f"{tensor.name}: torch.Tensor" for tensor in task.inputs]
    parameters += [f"{axis}: {'bool' if task.axes[axis] == 'bool' else 'int'}" for axis in free]
    tensors = ", ".join(f'"{tensor.name}": {tensor.name}' for tensor in task.inputs)
    values = ", ".join(f'"{axis}": int({axis})' for axis in free)
    return template("module.py").format(
        task=task.name,
        parameters=", ".join(parameters),
        names=", ".join([t.name for t in task.inputs] + free),
        tensors=tensors,
        values=values,
        result=result,
        take="" if several else "[0]",
        inputs=_rows((t.name, t.dtype, [d.text for d in t.shape]) for t in task.inputs),
        outputs="".join(
            f"        ({t.name!r}, torch.{_torch(t.dtype)}, ({_all(t.shape)},), {_begins(t)!r}),\n" for t in outputs
        ),
        axes=repr(list(task.axes)),
        order=repr([tensor.name for tensor in task.tensors]),
        unpack=_unpacked(task.axes),
        scalars="".join(f"        {s.name!r}: (np.{_numpy(s.dtype)}, {s.value.text}),\n" for s in task.scalars),
        plans="\n\n".join(_plan(task, champion) for champion in champions),
        champions="".join(f"    ({c.stem!r}, {c.chip.capability}, {c.arch!r}, _plan_{c.stem}),\n" for c in champions),
    )


def _rows(rows: Iterator[tuple[str, str, list[str]]]) -> str:
    return "".join(f"    ({name!r}, torch.{_torch(dtype)}, {shape!r}),\n" for name, dtype, shape in rows)


def _torch(dtype: str) -> str:
    return {"float8_e4m3": "float8_e4m3fn"}.get(dtype, dtype)


def _numpy(dtype: str) -> str:
    if dtype in ("bfloat16", "float8_e4m3", "float8_e5m2"):
        raise UsageError(f"a scalar of type {dtype} cannot be exported", hint="make it float32 in task.yaml")
    return "bool_" if dtype == "bool" else dtype


def _all(expressions: Sequence[Expression]) -> str:
    return ", ".join(expression.text for expression in expressions)


def _unpacked(axes: dict[str, str]) -> str:
    return "".join(f"    {axis} = axes[{axis!r}]\n" for axis in axes)


def _plan(task: Task, champion: Champion) -> str:
    """A function from axes to the binary's suffix, scratch and launches; None if the kernels do not apply."""
    variant = champion.variant
    limits = {f"chip.{name}": value for name, value in champion.chip.names().items()}

    def text(expression: Expression) -> str:
        return re.sub(r"chip\.\w+", lambda match: str(limits[match[0]]), expression.text)

    suffixes = sorted({suffix.replace("-", "_") for suffix, _, _ in _binaries(champion)})
    counts = {bound.launch.kernel: len(bound.arguments) for p in _programs(champion) for bound in p.launches}
    shared = ", ".join(text(line.shared) for line in variant.launches)
    lines = [f"def _plan_{champion.stem}(axes):", _unpacked(task.axes).rstrip("\n")]
    lines += [f"    {name} = {value}" for name, value in variant.integer_knobs.items()]
    if any(line.args is not None for line in variant.launches):  # they may pass scalars of the task
        lines += [f"    {scalar.name} = {scalar.value.text}" for scalar in task.scalars]
    lines.append(f"    shared = max([{shared}])")
    lines.append("    suffix = " + repr("") + "".join(f" + '_{name}' + str({name})" for name in variant.macros))
    lines.append(f"    if suffix not in {suffixes!r}:\n        return None")
    lines += [f"    if not ({text(require)}):\n        return None" for require in variant.requires]
    lines.append("    scratch = [")
    lines += [
        f"        ({s.name!r}, torch.{_torch(s.dtype)}, ({', '.join(text(d) for d in s.shape)},), {s.init == 'zero'}),"
        for s in variant.scratch
    ]
    lines.append("    ]\n    launches = [")
    bound = next(_programs(champion)).launches
    for place, line in enumerate(variant.launches):
        given = str(counts[line.kernel]) if line.args is None else _given(line.args, bound[place], text)
        grid, block = (", ".join(text(e) for e in part) for part in (line.grid, line.block))
        lines.append(f"        ({line.kernel!r}, ({grid},), ({block},), {text(line.shared)}, {given}),")
    lines.append("    ]\n    del shared\n    return suffix, scratch, launches\n")
    return "\n".join(lines)


def _given(args: Sequence[Expression], bound: BoundLaunch, text: Callable[[Expression], str]) -> str:
    """What a launch line passes: tensors by name, numbers with their types."""
    parts = [
        repr(arg.text) if found.is_buffer else f"(np.{_numpy(found.dtype)}, {text(arg)})"
        for arg, found in zip(args, bound.arguments, strict=True)
    ]
    return f"({', '.join(parts)},)"


def _begins(tensor: Tensor) -> str:
    """What an output holds before the launch."""
    return "input" if tensor.role == "inout" else "zero" if tensor.init == "zero" else "empty"


def _programs(champion: Champion) -> Iterator[Program]:
    yield from champion.prepared.programs.values()
