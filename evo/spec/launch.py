"""From a variant's launch plan and a case to concrete launches, and whether the chip can run them.

A plan that the chip refuses is the variant's failure (`Refusal`), not the harness's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from evo.errors import SyntaxInvalid
from evo.spec.chips import Chip
from evo.spec.element_types import DTYPES
from evo.spec.expr import Expression, Number, ceil_div
from evo.spec.task import Case, Task
from evo.spec.variant import Variant

_GRID_LIMIT = (2**31 - 1, 65_535, 65_535)
_BLOCK_LIMIT = (1024, 1024, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel launch. grid in blocks, block in threads, shared_bytes is the dynamic part."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A scratch buffer at one case. init: `poison` or `zero`."""

    name: str
    size_bytes: int
    init: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All launches of a variant at one case: one timed sequence, with its workspaces."""

    launches: tuple[Launch, ...]
    scratch: tuple[Workspace, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a plan cannot run: the variant's failure, one line."""

    reason: str
    of_launch: bool = False  # a grid, a block or shared memory is beyond the chip's limits


def macros_of(variant: Variant, case: Case) -> dict[str, int]:
    """The case axes that are compiled in, e.g. {"D": 64}."""
    return {name: case.axes[name] for name in variant.macros if name in case.axes}


def plan(variant: Variant, task: Task, case: Case, chip: Chip) -> Plan | Refusal:
    """Evaluate the launch plan at one case and hold it to the chip's limits."""
    for macro in variant.macros:
        if macro not in task.axes:
            return Refusal(f"`// evo: macro {macro}` is not an axis of {task.name} ({', '.join(task.axes)})")
    for flag in variant.flags:
        if flag not in task.flags:
            return Refusal(f"flag {flag} is not in the task's allowed set ({', '.join(task.flags) or 'none'})")
    names: dict[str, Number] = {
        **case.axes,
        **variant.integer_knobs,
        **{f"chip.{name}": value for name, value in chip.names().items()},
    }
    try:
        launches = tuple(
            Launch(
                kernel=line.kernel,
                grid=_triple(line.grid, names),
                block=_triple(line.block, names),
                shared_bytes=int(line.shared.value(names)),
            )
            for line in variant.launches
        )
        scratch = tuple(
            Workspace(name=s.name, size_bytes=_product(s.shape, names) * DTYPES[s.dtype], init=s.init)
            for s in variant.scratch
        )
        names["shared"] = max(launch.shared_bytes for launch in launches)
        for require in variant.requires:
            if not require.value(names):
                return Refusal(f"line {require.line}: `require {require.text}` does not hold")
    except SyntaxInvalid as error:
        return Refusal(f"{error.message}{_missing_names(variant, names)}")
    for launch in launches:
        if reason := over_limit(launch, chip):
            return Refusal(reason, of_launch=True)
    for space in scratch:
        if not 0 < space.size_bytes <= 2**34:
            return Refusal(f"scratch {space.name} of {space.size_bytes} bytes")
    return Plan(launches=launches, scratch=scratch)


def _missing_names(variant: Variant, known: Mapping[str, Number]) -> str:
    """What to do about names in the launch lines that have no value; empty if all have one."""
    used = {name for line in variant.launches for one in (*line.grid, *line.block, line.shared) for name in one.names}
    missing = sorted(name for name in used if name not in known)
    if not missing:
        return ""
    own = [name for name in missing if re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", variant.text, re.MULTILINE)]
    if own:
        return f"; a launch line knows a `#define` that is a knob: add `// evo: knob {own[0]} in VALUE`"
    names = ", ".join(name for name in known if not name.startswith("chip."))
    return f"; known are {names}, and what `// evo: knob {missing[0]} in VALUE` with a `#define` adds"


def over_limit(launch: Launch, chip: Chip) -> str | None:
    """The first limit of the chip that a launch exceeds, in words; None if it fits."""
    for axis, count, limit in zip("xyz", launch.grid, _GRID_LIMIT, strict=True):
        if not 1 <= count <= limit:
            return f"{launch.kernel}: grid.{axis} = {count}, allowed 1 to {limit}"
    for axis, count, limit in zip("xyz", launch.block, _BLOCK_LIMIT, strict=True):
        if not 1 <= count <= limit:
            return f"{launch.kernel}: block.{axis} = {count}, allowed 1 to {limit}"
    if launch.threads > chip.threads_per_block:
        return f"{launch.kernel}: {launch.threads} threads per block, {chip.slug} allows {chip.threads_per_block}"
    if not 0 <= launch.shared_bytes <= chip.shared_per_block_optin:
        return (
            f"{launch.kernel}: {launch.shared_bytes} bytes of dynamic shared memory, "
            f"{chip.slug} allows {chip.shared_per_block_optin}"
        )
    return None


def over_resources(launch: Launch, chip: Chip, *, registers: int, static_shared: int) -> str | None:
    """The limit exceeded once the compiler has said what a kernel needs; None if it can launch."""
    total = launch.shared_bytes + static_shared
    if total > chip.shared_per_block_optin:
        return f"{launch.kernel}: {total} bytes of shared memory, {chip.slug} allows {chip.shared_per_block_optin}"
    needed = chip.registers_of_warp(registers) * ceil_div(launch.threads, 32)
    if needed > chip.registers_per_sm:
        return (
            f"{launch.kernel}: {registers} registers x {launch.threads} threads exceed the register file "
            f"({needed} of {chip.registers_per_sm} allocated)"
        )
    return None


def _triple(expressions: tuple[Expression, ...], names: Mapping[str, Number]) -> tuple[int, int, int]:
    values = [int(e.value(names)) for e in expressions] + [1, 1]
    return values[0], values[1], values[2]


def _product(shape: tuple[Expression, ...], names: Mapping[str, Number]) -> int:
    return math.prod(int(dim.value(names)) for dim in shape)
