"""How often each straight run of machine code is executed, from what the simulator counted of the PTX.

Each machine instruction names the PTX line it comes from. Memory accesses, barriers, shuffles, matrix instructions and
branches tell, since ptxas moves none of them to where they are executed more or less often; of loops that ptxas
unrolled, the copies with the most turns take what they can. Copies with a way out of each share what was executed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.spec.machine_instruction import MachineInstruction

_ANCHORS = frozenset({
    "LD", "LDG", "LDS", "LDL", "LDSM", "LDGSTS", "ST", "STG", "STS", "STL", "ATOM", "ATOMG", "ATOMS", "RED", "REDG",
    "SHFL", "BAR", "HMMA", "IMMA", "DMMA",
})  # fmt: skip
_BRANCHES = ("BRA", "CALL", "EXIT", "RET", "BRX")
_LINES_OF_A_COPY = 3  # of PTX at least: a division is one line in several runs


@dataclass(slots=True)
class Run:
    """Machine code without a branch into it or out of it, but at its ends. times: executions by all warps."""

    code: list[MachineInstruction]
    times: float = 0.0
    before: int = -1  # number of the run that is mostly executed before it


@dataclass(frozen=True, slots=True)
class Executions:
    """What the simulator counted, by PTX line: executions by warps of all instructions, and of branches alone.

    warps: how many warps ran. wide: lines of 64-bit integers, each of which becomes two instructions or more.
    """

    all: Mapping[int, float]
    branches: Mapping[int, float]
    warps: float
    wide: frozenset[int] = frozenset()


def runs_of(code: Sequence[MachineInstruction], executed: Executions) -> list[Run]:
    """The runs of a kernel, in the order of the code, with how often each is executed by all warps."""
    runs = _split(code)
    _Counting(runs, executed).count()
    at = {run.code[0].address: number for number, run in enumerate(runs)}
    most = [-1.0] * len(runs)
    for number, run in enumerate(runs):
        end = run.code[-1]
        follow = [number + 1] if end.guarded or end.opcode not in _BRANCHES or end.opcode == "CALL" else []
        follow += [at[end.target]] if end.opcode == "BRA" and end.target in at else []
        for target in follow:
            if target < len(runs) and run.times > most[target]:
                most[target], runs[target].before = run.times, number
    return runs


def _split(code: Sequence[MachineInstruction]) -> list[Run]:
    starts = {ins.target for ins in code if ins.target is not None}
    runs: list[Run] = [Run([])]
    for ins in code:
        if runs[-1].code and ins.address in starts:
            runs.append(Run([]))
        runs[-1].code.append(ins)
        if ins.opcode in _BRANCHES:
            runs.append(Run([]))
    return [run for run in runs if run.code]


def _loops(run: Run) -> bool:
    """Whether the run branches to its own beginning."""
    end = run.code[-1]
    return end.opcode == "BRA" and end.target == run.code[0].address


def _skipping(runs: Sequence[Run]) -> list[list[int]]:
    """Of each run, those further up that call it, or branch to it over what stands between and out of no loop."""
    at = {run.code[0].address: number for number, run in enumerate(runs)}
    ends = [run.code[-1] for run in runs]
    targets = [at.get(end.target, -1) if end.target is not None else -1 for end in ends]
    loops = [(head, tail) for tail, head in enumerate(targets) if 0 <= head <= tail and ends[tail].opcode == "BRA"]
    found: list[list[int]] = [[] for _ in runs]
    for number, target in enumerate(targets):
        leaves = ends[number].opcode == "BRA" and any(head <= number <= tail < target for head, tail in loops)
        if target > number and not leaves:
            found[target].append(number)
    return found


class _Counting:
    """The executions of all runs, from first to last."""

    def __init__(self, runs: Sequence[Run], executed: Executions) -> None:
        self.runs, self.executed = runs, executed
        self.copies = [self._copies(number) for number in range(len(runs))]
        self.where: dict[int, list[int]] = {}  # by PTX line, the runs that have it
        for number, lines in enumerate(self.copies):
            for line in lines:
                self.where.setdefault(line, []).append(number)
        self.lines = [frozenset(ins.line for ins in run.code if ins.line in executed.all) for run in runs]
        self.sharing: set[int] = set()  # copies that a loop's executions were shared among
        self.skipping = _skipping(runs)
        self.having: dict[int, set[int]] = {}  # by PTX line, the runs with any of its instructions
        for number, having in enumerate(self.lines):
            for line in having:
                self.having.setdefault(line, set()).add(number)

    def _copies(self, number: int) -> dict[int, int]:
        """By PTX line that tells how often a run is executed: how many machine instructions of the run it became."""
        run = self.runs[number]
        found: dict[int, int] = {}
        for ins in () if run.code[0].helper or self._is_slow_path(number) else run.code:
            tells = ins.opcode in _ANCHORS or (ins.line in self.executed.branches and ins.opcode in ("BRA", "EXIT"))
            tells |= _loops(run) and not ins.guarded and ins.line not in self.executed.wide
            if tells and ins.line in self.executed.all:
                found[ins.line] = found.get(ins.line, 0) + 1
        return found

    def _is_slow_path(self, number: int) -> bool:
        """A run that a guarded branch of the same PTX line skips and that ends in a call is hardly ever executed."""
        if not number:
            return False
        before, end = self.runs[number - 1].code[-1], self.runs[number].code[-1]
        return end.opcode == "CALL" and before.opcode == "BRA" and before.guarded and before.line == end.line

    def count(self) -> None:
        """Set `times` of each run."""
        outside = self.executed.warps  # executions of the last run that is no loop by itself
        for number, run in enumerate(self.runs):
            if run.code[0].helper or self._is_slow_path(number):
                continue
            # What stands before it may be the other arm of a condition.
            outside = max([outside, *(self.runs[other].times for other in self.skipping[number])])
            if _loops(run):
                run.times = self._loop(number, outside)
            elif (told := self._told(number, outside)) is not None:
                run.times = outside = told
            elif (share := self._share_of_copies(number)) is not None:
                run.times = share if self._in_loop(number) else min(share, outside)
            else:
                run.times = outside = self._at_most(number, outside)

    def _loop(self, number: int, entries: float) -> float:
        # A branch has one copy in each unrolled loop, so it does not tell them apart.
        lines = [n for n in self.copies[number] if n not in self.executed.branches or len(self.where[n]) == 1]
        turns = sorted(self._turns(line, number, entries) for line in lines)
        return turns[len(turns) // 2] if turns else entries

    def _turns(self, line: int, number: int, entries: float) -> float:
        """Turns of a loop: if ptxas unrolled it, the loops with more copies of the line take what they can."""
        loops = sorted((n for n in self.where[line] if _loops(self.runs[n])), key=lambda n: -self.copies[n][line])
        entries = max(entries, 1.0)
        left = self.executed.all[line] / entries
        for other in loops:
            copies = self.copies[other][line]
            turns = left / copies if other == loops[-1] else math.floor(left / copies + 1e-6)
            if other == number:
                return turns * entries
            left -= turns * copies
        return 0.0

    def _back_edges(self, number: int) -> list[int]:
        """PTX lines of the branches that come back to a run from further down: they are executed as often as it is."""
        begin = self.runs[number].code[0].address
        ends = [run.code[-1] for run in self.runs[number:]]
        lines = [end.line for end in ends if end.opcode == "BRA" and end.target == begin]
        return [line for line in lines if line in self.executed.branches and len(self.where[line]) == 1]

    def _told(self, number: int, outside: float) -> float | None:
        """Executions of a run that is no loop by itself, if its accesses or branches tell."""
        found = []
        for line, copies in self.copies[number].items():
            executed, where = self.executed.all[line], self.where[line]
            if len(where) == 1:
                found.append(executed / copies)
            elif line not in self.executed.branches:
                own = [other for other in where if not _loops(self.runs[other])]
                share = executed / sum(self.copies[other][line] for other in own)
                found.append(share if len(own) == len(where) else min(share, outside))
        if found:
            return max(found)
        return max((self.executed.all[line] for line in self._back_edges(number)), default=None)

    def _share_of_copies(self, number: int) -> float | None:
        """Of a loop unrolled with a way out of each copy, a copy's even share; None if the run is no such copy."""
        lines = self.lines[number]
        if len(lines) < _LINES_OF_A_COPY or not self.runs[number].code[-1].guarded:
            return None
        copies = set.intersection(*(self.having[line] for line in lines))
        if len(copies) < 2 or any(_loops(self.runs[other]) for other in copies):
            return None
        # The first turn is often beside what comes before the loop, in a run that is no copy.
        others = [other for other in copies if other < number and other not in self.sharing]
        self.sharing.add(number)
        left = min(self.executed.all[line] for line in lines) - sum(self.runs[other].times for other in others)
        return max(0.0, left) / (len(copies) - len(others))

    def _in_loop(self, number: int) -> bool:
        begin = self.runs[number].code[0].address
        ends = (run.code[-1] for run in self.runs[number:])
        return any(end.opcode == "BRA" and end.target is not None and end.target <= begin for end in ends)

    def _at_most(self, number: int, outside: float) -> float:
        # What ptxas moved out of a loop is executed less often than its line says, never more often.
        unguarded = (ins.line for ins in self.runs[number].code if not ins.guarded)
        return min([outside, *(self.executed.all[line] for line in unguarded if line in self.executed.all)])
