"""Coverage of a kernel's conditions in a launch, read from the counts and logs that its code kept."""

from __future__ import annotations

import functools
import operator

import numpy as np
from numpy.typing import NDArray

from evo.results.coverage import ConditionSource, Coverage, CoveragePoint, Operand, PointKind
from evo.sim.launch_context import LaunchContext
from evo.sim.lower.kernel import Kernel
from evo.sim.lower.probes import LOG_LEFT, LOG_RIGHT, Count, Leaf, Log, Probe, ProbeSide
from evo.sim.ptx.ast import WIDTH

_OUTCOMES = {
    PointKind.BRANCH: ("taken", "not_taken"),
    PointKind.LOOP: ("taken", "not_taken"),
    PointKind.PREDICATED: ("executed", "skipped"),
    PointKind.SELECT: ("first", "second"),
    PointKind.MINIMUM: ("first", "second"),
    PointKind.MAXIMUM: ("first", "second"),
    PointKind.COMPARISON: ("true", "false"),
}


def coverage_of(kernel: Kernel, context: LaunchContext) -> Coverage:
    """Before the context's memory is given back."""
    return Coverage(points=tuple(_point(kernel, probe, context) for probe in kernel.probes))


def _point(kernel: Kernel, probe: Probe, context: LaunchContext) -> CoveragePoint:
    counts, lanes = context.probe_counts, int(context.block_counts[probe.block, 1])

    def threads(count: Count) -> int:
        met = int(counts[count.index])
        return lanes - met if count.negated else met

    if probe.kind is PointKind.SWITCH:
        outcomes = {str(number): int(counts[index]) for number, index in enumerate(probe.cases)}
    else:
        total = threads(probe.total) if probe.total else lanes
        yes = threads(probe.count)
        # A launch that a fault ended may have counted a block whose condition it never met.
        outcomes = dict(zip(_OUTCOMES[probe.kind], (yes, max(0, total - yes)), strict=True))
    left = right = None
    if probe.log:
        left, right = _operands(probe.log, context.comparisons[probe.log.index])
    return CoveragePoint(
        kernel=kernel.name,
        kind=probe.kind,
        instruction=" ".join(probe.ins.text.split()),
        ptx_line=probe.ins.line,
        source_line=probe.ins.loc or None,
        outcomes=outcomes,
        left=left,
        right=right,
        origins=probe.origins,
        leaves=_leaves(probe.leaves, context.comparisons) if any(outcomes.values()) else (),
        implied=probe.ins.implied,
    )


def _leaves(leaves: tuple[Leaf, ...], logs: NDArray[np.uint8]) -> tuple[ConditionSource, ...]:
    """The registers and their bits in the first lane that set all of them; nothing if there is none."""
    together = functools.reduce(operator.and_, (int(logs[leaf.index, :4].view(np.uint32)[0]) for leaf in leaves), ~0)
    lane = (together & -together).bit_length() - 1
    found = []
    for leaf in leaves if together else ():
        size = WIDTH[leaf.type] // 8
        at = LOG_LEFT + (lane * size if leaf.by_lane else 0)
        bits = int.from_bytes(logs[leaf.index, at : at + size].tobytes(), "little")
        found.append(ConditionSource(leaf.register, bits, leaf.is_data))
    return tuple(found)


def _operands(log: Log, row: NDArray[np.uint8]) -> tuple[Operand, Operand]:
    lanes = int(row[:4].view(np.uint32)[0])
    lane = (lanes & -lanes).bit_length() - 1

    def operand(side: ProbeSide, start: int) -> Operand:
        if side.constant is not None:
            return Operand(value=_number(side.constant, log.type), constant=True)
        if not lanes:
            return Operand(origins=side.origins)
        size = WIDTH[log.type] // 8
        at = start + (lane * size if side.by_lane else 0)
        bits = int.from_bytes(row[at : at + size].tobytes(), "little")
        return Operand(value=_number(bits, log.type), origins=side.origins)

    return operand(log.left, LOG_LEFT), operand(log.right, LOG_RIGHT)


def _number(bits: int, kind: str) -> int | float:
    """The value of a PTX type from its bits."""
    raw = np.array([bits], np.uint64)
    if kind == "bf16":
        return float((raw.astype(np.uint32) << 16).view(np.float32)[0])
    if kind[0] == "f":
        return float(raw.astype(f"u{WIDTH[kind] // 8}").view(f"f{WIDTH[kind] // 8}")[0])
    if kind[0] == "s":
        return int(raw.astype(f"u{WIDTH[kind] // 8}").view(f"i{WIDTH[kind] // 8}")[0])
    return bits
