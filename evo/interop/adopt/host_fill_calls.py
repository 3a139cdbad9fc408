"""Calls that fill arrays of host code, `std::iota`, scans, distributions, and what the GPU's memory is laid out as."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evo.cuda.source.parser import Node
from evo.interop.adopt.constant_parts import FILLED
from evo.interop.adopt.fills import PLACE, UNTOLD, LoopCounter, filled
from evo.interop.adopt.host_fills import HostFills, array_of
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied
from evo.interop.adopt.host_values import (
    Address,
    Allocation,
    DevicePointer,
    HostArray,
    HostEvent,
    HostLambda,
    HostRandom,
    HostRecord,
    HostVariable,
    copied,
    problem,
)

_SCANS = ("partial_sum", "inclusive_scan", "exclusive_scan")
FILLING = ("iota", "sequence", "fill", "fill_n", "generate", "sort", "shuffle", "memset", *_SCANS)


class HostFillCalls(HostFills):
    """What such a call leaves in an array."""

    path: Path
    tight_rows: bool  # cudaMallocPitch leaves no gap between rows

    def fills(self, name: str, given: Sequence[Node]) -> bool:
        """Whether a call of the library fills an array: `std::iota(h.begin(), h.end(), 0)`."""
        if name not in FILLING or not given:
            return False
        values = [self.value(node) for node in given]
        held, last = array_of(values[0]), values[-1] if isinstance(values[-1], HostNumber) else UNKNOWN
        if held is None:
            return False
        number = last.how if last.how is not None else UNTOLD
        match name:
            case "iota":
                held.fill = ("+", PLACE, number)
            case "sequence":
                third = values[2] if len(values) > 2 and isinstance(values[2], HostNumber) else HostNumber.number(0)
                step = number if len(values) > 3 else 1
                held.fill = ("+", third.how, ("*", PLACE, step))
            case "fill" | "fill_n":
                held.fill = number
            case "memset":
                byte = values[1] if len(values) > 1 else UNKNOWN
                held.fill = 0 if isinstance(byte, HostNumber) and byte.value == 0 else UNTOLD
            case "generate":
                self._counters.append(LoopCounter(("counter", len(self._counters)), 0, None))
                made = self.run_lambda(values[-1], []) if isinstance(values[-1], HostLambda) else UNKNOWN
                counter = self._counters.pop()
                held.fill = filled(counter.leaf, made.how if isinstance(made, HostNumber) else None, [counter])
            case "sort" | "shuffle":
                known = held.fill is not None and held.fill != UNTOLD
                held.fill = ("sorted" if name == "sort" else "shuffled", held.fill) if known else UNTOLD
            case _:
                self._scanned(name, given, values)
        return True

    def _scanned(self, name: str, given: Sequence[Node], values: Sequence[object]) -> None:
        """`std::partial_sum(a.begin(), a.end(), offsets.begin() + 1)`."""
        source, target = array_of(values[0]), array_of(values[2]) if len(values) > 2 else None
        if source is None or target is None:
            return
        more = int(name != "exclusive_scan") - int(given[2].type == "binary_expression")
        first = values[3].how if len(values) > 3 and isinstance(values[3], HostNumber) else target.first or 0
        known = source.fill is not None and source.fill != UNTOLD
        where = PLACE if more == 0 else ("+", PLACE, more)
        target.fill = ("sum", source.fill, first, where) if known and more >= 0 else UNTOLD

    def random_of(self, kind: str, given: Sequence[Node]) -> HostRandom | None:
        """`std::uniform_int_distribution<int> d(0, n - 1)`."""
        if "uniform_int_distribution" not in kind or len(given) != 2:
            return None
        low, high = (self.size(node) for node in given)
        end = applied("+", high, HostNumber.number(1))
        return HostRandom(low.how, end.how) if low.how is not None and end.how is not None else None

    # Memory.

    def pitched(self, cell: HostVariable, given: list[Node], line: int) -> Allocation:
        """Rows that begin at multiples of 512 bytes, as the runtime lays them out."""
        width, rows = self.size(given[2]), self.size(given[3])
        unit = HostNumber.number(512)
        pitch = width if self.tight_rows else applied("*", unit, applied("ceil_div", width, unit))
        place = self.value(given[1])
        if isinstance(place, Address):
            place.cell.value = pitch
        return Allocation(cell.name, applied("*", rows, pitch), line, rows=(rows, pitch))

    def fill_symbol(self, given: list[Node], line: int) -> None:
        name = given[0].text.strip('"&')
        source = self.value(given[1]) if len(given) > 1 else None
        if (filled := self.scopes[0].get(f"{FILLED}{name}")) is not None:
            filled.value = copied(source.cell.value) if isinstance(source, Address) else UNKNOWN
            if isinstance(filled.value, HostRecord):
                self._fill_arrays(name, filled.value, line)
            return
        cell = self.scopes[0].get(name)
        if cell is None or not isinstance(cell.value, DevicePointer):
            raise problem(self.path, line, f"{name} is not __constant__ memory of this file", "declare it in the file")
        self._fill_memory(cell.value.memory, source, line)

    def _fill_arrays(self, name: str, record: HostRecord, line: int) -> None:
        """Arrays of a struct in constant memory, which are symbols of their own."""
        for each in record.fields.values():
            flat = f"{name}_{each.name}"
            if isinstance(each.value, HostRecord):
                self._fill_arrays(flat, each.value, line)
            elif (cell := self.scopes[0].get(flat)) is not None and isinstance(cell.value, DevicePointer):
                self._fill_memory(cell.value.memory, each.value, line)

    def _fill_memory(self, memory: Allocation, source: object, line: int) -> None:
        memory.fill = source.filled if isinstance(source, HostArray) else None
        self.events.append(HostEvent("in", line, memory))
