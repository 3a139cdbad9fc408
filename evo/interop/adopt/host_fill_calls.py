"""Calls of the library that fill arrays of host code: `std::iota`, `std::fill`, scans, distributions."""

from __future__ import annotations

from collections.abc import Sequence

from evo.cuda.source.parser import Node
from evo.interop.adopt.fills import PLACE, UNTOLD, LoopCounter, filled
from evo.interop.adopt.host_fills import HostFills, array_of
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied
from evo.interop.adopt.host_values import HostLambda, HostRandom

_SCANS = ("partial_sum", "inclusive_scan", "exclusive_scan")
FILLING = ("iota", "sequence", "fill", "fill_n", "generate", "sort", "shuffle", "memset", *_SCANS)


class HostFillCalls(HostFills):
    """What such a call leaves in an array."""

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
