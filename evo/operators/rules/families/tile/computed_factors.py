"""Sums of what several elements give: `(x[m, k] - mean[k]) * w[n, k]`, or `a[m, k] * b[n, k] + b[m, k] * a[n, k]`.

What depends on the row alone, or on the column alone, is worked out once for each element of a tile. Such a value has a
tile of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce

from evo.analysis.access import Contraction, Data, LaunchAnalysis, Term, number_of
from evo.analysis.access.contraction_roles import element_names, told_by
from evo.analysis.access.data_values import parts_of, plain
from evo.operators.rules.families.tile.product_layout import ProductLayout, depth_of
from evo.operators.rules.families.tile.side_sums import at_zero
from evo.operators.rules.lifting import NotPrinted, Printer

_MOST = 3  # tiles of a side
_INNER = ("add", "sub", "mul", "div", "neg", "max", "min", "call")


@dataclass(slots=True)
class ComputedFactors:
    """What tiles hold of the rows and of the columns, and `term`, what is summed of an element of each."""

    analysis: LaunchAnalysis
    made: Contraction
    rows: list[Data] = field(default_factory=list)
    columns: list[Data] = field(default_factory=list)
    term: Data | None = None

    @classmethod
    def of(cls, analysis: LaunchAnalysis, made: Contraction) -> ComputedFactors:
        """Raises NotPrinted."""
        found = cls(analysis, made)
        assert made.operand is not None
        found.term = found._apart(made.operand)
        if not found.rows or not found.columns or max(len(found.rows), len(found.columns)) > _MOST:
            raise NotPrinted("more than a few factors")
        return found

    def summed(self, say: Printer) -> str:
        """What a turn of k adds to a result. Raises NotPrinted."""
        reads = {-at: f"{x}[$i]" for at, x in enumerate(numbered("$x", len(self.rows)), 1)}
        reads |= {-at - _MOST: f"{y}[$j]" for at, y in enumerate(numbered("$y", len(self.columns)), 1)}
        if at_zero(self.term) != 0:
            raise NotPrinted("padding with zeros would count")
        return replace(say, places={}, values={}, reads=reads).expression(self.term)

    def fills(self, layout: ProductLayout, say: Printer) -> str:
        """The loops that fill the tiles, lanes along each side's contiguous dimension. Raises NotPrinted."""
        if layout.turns:
            raise NotPrinted("several depths")
        at = self.made.store.subscripts
        places = {Term.of(name): layout.places[term] for name, term in zip(element_names(at), at, strict=True)}
        spelled = replace(say, places={**layout.places, **places, **self._turns(depth_of(self.made))}, at=at)
        text = ""
        for own, size, is_inner, test, values in (
            ("$m", "BM", layout.left.is_inner, f"$row < {layout.m}", self.rows),
            ("$n", "BN", layout.right.is_inner, f"$col < {layout.n}", self.columns),
        ):
            word, tile = ("$row", "$a_tile") if own == "$m" else ("$col", "$b_tile")
            inner, outer, split = ("$k", own, "BK") if is_inner else (own, "$k", size)
            text += f"""\
        for (int $e = threadIdx.x; $e < {size} * BK; $e += $threads) {{
            const int {inner} = $e % {split}, {outer} = $e / {split}, {word} = {word}0 + {own}, $kk = $k0 + $k;
"""
            for name, value in zip(numbered(tile, len(values)), values, strict=True):
                said = spelled.expression(value)
                text += f"            {name}[$k][{own}] = {test} && $kk < {layout.k} ? {said} : 0;\n"
            text += "        }\n"
        return text

    def _turns(self, depth: Term) -> dict[Term, str]:
        """The loops' variables as `$kk` tells them. Raises NotPrinted if a loop leaves gaps, or counts twice."""
        found, unit, loops = {depth: "$kk"}, 1, [self.analysis.form.loops[symbol] for symbol in self.made.summed]
        weights = {loop.symbol: number_of(depth.coefficient(loop.symbol) or Term({}), {}) or 0 for loop in loops}
        for place, loop in enumerate(sorted(loops, key=lambda each: weights[each.symbol]), 1):
            whole = f"($kk / {unit})" if unit > 1 else "$kk"
            is_last, trip = place == len(loops), number_of(loop.trip or depth, {})
            if weights[loop.symbol] != unit or loop.start.value != 0 or (trip is None and not is_last):
                raise NotPrinted("depths in another order")
            found[Term.of(loop.symbol)] = whole if is_last else f"({whole} % {trip})"
            unit *= trip or 1
        return found

    def _apart(self, data: Data) -> Data:
        """A value with one of a tile in place of each part that is of one side alone. Raises NotPrinted."""
        found, sides = plain(data), self._sides(data)
        if found is None or not sides:
            return data
        if sides < {"m", "n", "k"} and not {"m", "n"} <= sides:
            return self._kept(data, self.columns if "n" in sides else self.rows)
        if found.op not in _INNER:
            raise NotPrinted(found.op)
        if found.op != "mul":
            return replace(found, args=tuple(self._apart(arg) for arg in found.args))
        parts = list(_factors(found))
        columns = [part for part in parts if "n" in (own := self._sides(part)) and "m" not in own]
        mixed = [part for part in parts if {"m", "n"} <= self._sides(part)]
        rows = [part for part in parts if part not in columns and part not in mixed]
        made = [self._kept(_product(own), tiles) for own, tiles in ((rows, self.rows), (columns, self.columns)) if own]
        return _product([*made, *(self._apart(part) for part in mixed)])

    def _kept(self, data: Data, tiles: list[Data]) -> Data:
        """The value in a tile, which may be there already."""
        known = [self._key(each) for each in tiles]
        if self._key(data) not in known:
            known.append(self._key(data))
            tiles.append(data)
        return Data("read", (), -1 - known.index(self._key(data)) - (_MOST if tiles is self.columns else 0))

    def _key(self, data: Data) -> str:
        found = plain(data) or data
        if found.op == "read" and isinstance(found.detail, int):
            access = self.analysis.form.accesses[found.detail]
            return f"{access.memory.name}[{access.offset.key}]"
        return f"{found.op}({', '.join([str(found.detail), *(self._key(arg) for arg in found.args)])})"

    def _sides(self, data: Data) -> set[str]:
        """`m` and `n` for what differs from row to row and from column to column, `k` along both alone."""
        at = self.made.store.subscripts
        letters = dict(zip(element_names(at), self.made.roles["output"], strict=True))
        told = told_by(self.analysis.form, data, at)
        is_read = any(part.op == "read" for part in parts_of(data))
        return {letters[each] for each in told if each in letters} & {"m", "n"} or ({"k"} if told or is_read else set())


def numbered(name: str, count: int) -> list[str]:
    return [f"{name}{at if at > 1 else ''}" for at in range(1, count + 1)]


def _factors(data: Data) -> Iterator[Data]:
    found = plain(data)
    if found is not None and found.op == "mul":
        for arg in found.args:
            yield from _factors(arg)
    else:
        yield data


def _product(factors: list[Data]) -> Data:
    return reduce(lambda left, right: Data("mul", (left, right)), factors)
