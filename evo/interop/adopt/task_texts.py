"""The files of an adopted task: task.yaml, reference.py, and the variant with its launch lines."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evo.interop.adopt.draft import Draft
from evo.interop.adopt.draft_parts import TensorDraft
from evo.interop.adopt.fills import numpy_text
from evo.interop.adopt.host_numbers import names_of, written
from evo.interop.adopt.top_level_items import words_of
from evo.interop.task_folder import axes_text
from evo.spec.element_types import DTYPES, is_float
from evo.spec.expr import parse
from evo.spec.task import SIMULATED

_KNOB_SIDES = (8, 16, 32)
_KNOB_BLOCKS = (32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class ReferenceText:
    """Where the expected outputs come from. body: the functions `expected` and `trusted`, with what they import.

    said: in a few words, for the table.
    """

    body: str
    said: str


@dataclass
class Figures:
    """What the trial has shown. because: of the tolerance. integers: how far whole outputs may be off."""

    check: dict[str, dict[str, int]]
    bench: dict[str, dict[str, int]]
    rtol: float = 1e-5
    atol: float = 1e-6
    factor: float = 4
    because: str = "float32 outputs; four times the error of the original in its own precision."
    integers: int = 0
    requires: list[str] = field(default_factory=list)
    nondeterministic: bool = False
    few: bool = False  # outputs, fewer than tell an error from chance
    undefined: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by input: specials that mean nothing there
    sizes: dict[str, float] = field(default_factory=dict)  # of the elements of each float output
    as_is: tuple[str, ...] = ()  # whole outputs, which follow from how floats are rounded
    simulated: float = 0.0  # warp instructions of the original where it is timed; 0.0 where it is no reference
    growth: dict[str, int] = field(default_factory=dict)  # with which power of an axis they grow; 1 if it is not said


def variant_text(draft: Draft, name: str) -> str:
    """The adopted kernel: one sentence, `// evo:` lines, device code."""
    lines = [f"// As adopted from {draft.program.path.name}.", f"// evo: task {name}"]
    if draft.compiled:
        lines.append(f"// evo: macro {', '.join(draft.compiled)}")
    lines += [f"// evo: knob {knob} in {', '.join(map(str, _domain(draft, knob)))}" for knob in draft.knobs]
    for tensor in draft.tensors:
        if tensor.role == "scratch":
            shape = ", ".join(tensor.shape)
            lines.append(f"// evo: scratch {tensor.name} {tensor.dtype} [{shape}] init={tensor.init}")
    for launch in draft.launches:
        shape = f"grid ({', '.join(launch.grid)}) block ({', '.join(launch.block)})"
        args = ", ".join(launch.args)
        lines.append(f"// evo: launch {launch.instance.name} {shape} shared {launch.shared} args ({args})")
    return "\n".join(lines) + "\n" + draft.code


def _domain(draft: Draft, knob: str) -> Sequence[int]:
    """Values to try: of a block's side, of its threads, or near the present one, which is always among them."""
    value = draft.knobs[knob]
    blocks = [launch.block for launch in draft.launches if any(knob in words_of(part) for part in launch.block)]
    if not blocks:  # work of a thread, or a tile that the block walks over
        return sorted({n for n in (value // 4, value // 2, value, 2 * value, 4 * value) if n > 0})
    return sorted({*(_KNOB_SIDES if any(block != (knob,) for block in blocks) else _KNOB_BLOCKS), value})


def task_yaml(draft: Draft, name: str, figures: Figures) -> str:
    """The task's description; every assumption can be changed there."""
    lines = [f"name: {name}", f"description: {_described(draft)}"]
    lines.append(f"axes: {{{', '.join(f'{axis}: int' for axis in draft.axes)}}}")
    lines.append("tensors:")
    for tensor in draft.given:
        init = f", init: {tensor.init}" if tensor.init == "zero" and tensor.role == "out" else ""
        domain = ", domain: positive" if tensor.positive and tensor.role != "out" else ""
        domain += f", low: {tensor.ends[0]}, high: {tensor.ends[1]}" if tensor.ends is not None else ""
        domain += f", low: 0, high: {tensor.counts}" if tensor.counts else ""
        shape = ", ".join(f"'{part}'" if "," in part else part for part in tensor.shape)
        lines.append(
            f"  - {{name: {tensor.name}, role: {tensor.role}, dtype: {tensor.dtype}, shape: [{shape}]{domain}{init}}}"
        )
    if draft.scalars:
        lines.append("scalars:")
        lines += [f"  - {{name: {s.name}, dtype: {s.dtype}, value: {s.value!r}}}" for s in draft.scalars]
    if figures.undefined:
        lines.append("specials:")
        for input_name, kinds in figures.undefined.items():
            lines.append(f"  {input_name}: {{{', '.join(f'{kind}: undefined' for kind in kinds)}}}")
    lines += [
        "tolerance:",
        f"  rtol: {figures.rtol:.1e}",
        f"  atol: {figures.atol:.1e}",
        f"  rival_error_factor: {figures.factor:g}",
    ]
    if any(figures.sizes.values()):
        lines.append(f"  sizes: {{{', '.join(f'{name}: {size:g}' for name, size in figures.sizes.items() if size)}}}")
    if figures.integers:
        lines.append(f"  integers: {figures.integers}")
    lines.append(f"  because: {figures.because}")
    if figures.nondeterministic:
        lines.append("nondeterministic: atomics")
    lines.append("check:")
    lines += [f"  - {{name: {case}, {axes_text(axes)}}}" for case, axes in figures.check.items()]
    lines.append("bench:")
    lines += [f"  {case}: {{{axes_text(axes)}}}" for case, axes in figures.bench.items()]
    lines.append("work:")
    indices = [tensor.high for tensor in draft.given if isinstance(tensor.high, str)]
    # Of a table that indices lead into only some rows are read.
    moved = [t for t in draft.given if t.role != "in" or not any(t.shape[0] in re.findall(r"\w+", h) for h in indices)]
    lines.append(f"  bytes: {' + '.join(_bytes(tensor) for tensor in moved)}")
    if figures.simulated:
        factors = [axis for axis in draft.axes for _ in range(figures.growth.get(axis, 1))]
        each = figures.simulated / max(1, math.prod(figures.bench["main"][axis] for axis in factors))
        lines.append(f"  {SIMULATED}: {' * '.join([f'{each:.3g}', *factors])}")
    return "\n".join(lines) + "\n"


def _described(draft: Draft) -> str:
    kernels = ", ".join(dict.fromkeys(launch.instance.name for launch in draft.launches))
    return f"What {kernels} of {draft.program.path.name} compute{'s' if ',' not in kernels else ''}."


def _bytes(tensor: TensorDraft) -> str:
    factor = DTYPES[tensor.dtype] * (2 if tensor.role == "inout" else 1)
    parts = [part if re.fullmatch(r"\w+", part) else f"({part})" for part in tensor.shape]
    return " * ".join([str(factor), *parts])


def reference_py(draft: Draft, name: str, reference: ReferenceText) -> str:
    """inputs() of the task, and where the expected outputs come from."""
    lines = [f'"""{name}: inputs, and the expected outputs by {reference.said}."""', "", "import numpy as np", ""]
    lines += inputs_text(draft)
    return "\n".join(lines) + "\n" + reference.body


def inputs_text(draft: Draft) -> list[str]:
    lines = [
        "",
        "def inputs(case, rng):",
        '    """Normal values; whole numbers over a range that the kernel can take."""',
    ]
    inputs = [tensor for tensor in draft.given if tensor.role != "out"]
    used = {n for t in inputs for how in (*(t.dims or []), *([t.fill] if t.drawn else [])) for n in names_of(how)}
    lines += [f'    {axis} = case["{axis}"]' for axis in draft.axes if axis in used or _highs(draft, axis)]
    lines.append("    return {")
    lines += [f'        "{tensor.name}": {_drawn(tensor)},' for tensor in inputs]
    return [*lines, "    }", ""]


def _highs(draft: Draft, axis: str) -> bool:
    return any(isinstance(tensor.high, str) and axis in tensor.high for tensor in draft.given)


def _drawn(tensor: TensorDraft) -> str:
    parts = [re.sub(r"\bceil_div\(([^,()]+), ([^,()]+)\)", r"-(-(\1) // (\2))", part) for part in tensor.shape]
    size = f"({', '.join(parts)},)"
    if tensor.dtype == "bool":
        return f"rng.random({size}) < 0.5"
    if is_float(tensor.dtype):
        return f"rng.random({size}) + 0.01" if tensor.positive else f"rng.standard_normal({size})"
    if tensor.drawn:
        count = " * ".join(f"({part})" for part in parts)
        text = numpy_text(tensor.fill, count)
        if tensor.drawn == "range":
            text = f"rng.integers(np.min({text}), np.max({text}) + 1, {count})"
        if tensor.is_loose:  # by up to half a part, so that the ends and the mean length are those of the file
            half, inner = "(at[-1] - at[0]) // (2 * len(at) - 2)", "at[1:-1].shape, endpoint=True"
            moved = f"np.r_[0, rng.integers(-{half}, {half}, {inner}), 0]"
            text = f"(lambda at: np.sort(np.clip(at + {moved}, at[0], at[-1])))({text})"
        if tensor.anywhere:
            text = f"np.where(rng.random({count}) < 0.5, {text}, rng.choice({list(tensor.anywhere)}, {count}))"
        return f"np.broadcast_to({text}, {count}).reshape({size}).astype(np.{tensor.dtype})"
    low, high = _range(tensor)
    if tensor.is_ordered:
        inner = f"rng.integers(0, {high} + 1, {written(tensor.dims[0][1])} - 1)"  # type: ignore[index]
        return f"np.sort(np.r_[0, {high}, {inner}]).astype(np.{tensor.dtype})"
    if tensor.is_distinct:  # as far as there are so many
        count = " * ".join(f"({part})" for part in tensor.shape)
        places = f"rng.permutation(max({high}, {count}))[: {count}] % ({high})"
        return f"({places}).reshape({size}).astype(np.{tensor.dtype})"
    if tensor.counts:  # half of them all of it, as rows mostly are: else hardly one is, of a long size
        count = " * ".join(f"({part})" for part in parts)
        whole = f"(rng.permutation({count}) % 2 == 0).reshape({size})"
        return f"np.where({whole}, {tensor.counts}, rng.integers({low}, {high}, {size})).astype(np.{tensor.dtype})"
    return f"rng.integers({low}, {high}, {size}).astype(np.{tensor.dtype})"


def _range(tensor: TensorDraft) -> tuple[int | str, int | str]:
    if tensor.high is not None:
        most = 2 ** (8 * DTYPES[tensor.dtype] - (not tensor.dtype.startswith("u")))
        return 0, tensor.high if DTYPES[tensor.dtype] >= 4 else f"min({tensor.high}, {most})"
    bits = min(8 * DTYPES[tensor.dtype], 16)
    if tensor.dtype.startswith("u"):
        return 0, 2**bits
    return -(2 ** (bits - 1)), 2 ** (bits - 1)


_ORIGINAL = """
from evo.interop.adopt.oracle import Original  # noqa: E402

_original = Original(__file__, digest="{digest}")
"""
ORACLE = (
    _ORIGINAL
    + """

def expected(inputs, case):
    \"\"\"{said}\"\"\"
    return _original.{how}(inputs, case{as_is})
"""
)
TRUSTED = """

def trusted(inputs, case):
    \"\"\"The original as it is: its error is what a variant may have.\"\"\"
    return _original.plain(inputs, case)
"""


def oracle_reference(
    digest: str, *, wide: bool, whole: bool, few: bool = False, as_is: Sequence[str] = ()
) -> ReferenceText:
    """The kernel itself. wide: there is a text of it in float64. whole: its outputs are whole numbers.

    few: they are so few that the original's own error is chance, at some sizes 0, and no measure for another order.
    as_is: outputs that are not taken from the text in float64.
    """
    if wide and not whole:
        said = "The original kernel in float64, on the simulator."
        plainly = f", as_is={as_is!r}" if as_is else ""
        body = ORACLE.format(digest=digest, said=said, how="exact", as_is=plainly)
        return ReferenceText(body if few else body + TRUSTED, "the original kernel in float64")
    body = ORACLE.format(digest=digest, said="The original kernel as it is, on the simulator.", how="plain", as_is="")
    return ReferenceText(body, "the original kernel as it is")


def with_own_rounding(text: str, digest: str) -> str:
    """A reference.py whose trusted implementation is the original, and no more the reference in float32."""
    return text[: text.index("\n\ndef trusted(")] + "\n" + _ORIGINAL.format(digest=digest) + TRUSTED


def value_of(text: str, axes: Mapping[str, int]) -> int:
    return int(parse(text).value(axes))


def elements(tensor: TensorDraft, axes: Mapping[str, int]) -> int:
    return math.prod(value_of(dim, axes) for dim in tensor.shape)


def all_elements(draft: Draft, axes: Mapping[str, int]) -> int:
    """Of all tensors together."""
    return sum(elements(tensor, {**axes, **draft.knobs}) for tensor in draft.tensors)
