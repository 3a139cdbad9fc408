"""The axis of each length of a tensor, found by comparing shapes at several sizes, never by equal numbers alone.

A length that no short formula over the sizes gives becomes an axis of its own, named after its tensor: `Y_2`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evo.interop.meta_shapes import MetaTensor, Shapes
from evo.interop.problem_sizes import axis_name
from evo.interop.reduce_sizes import ReducedSizes, Sizes

_FURTHEST = 64  # a constant that is added to a size
_MOST_FACTORS = 5
_MOST_CALLS = 8  # most products of a module that get a formula each
_LONGEST = 480  # characters of a formula

Column = tuple[int, ...]


@dataclass(frozen=True)
class InferredAxes:
    """shapes, bytes: formulas by tensor. cases: all axes by case, in the order of `axes`. flop: a formula, or None."""

    axes: tuple[str, ...]
    shapes: dict[str, list[str]]
    cases: dict[str, Sizes]
    bytes: dict[str, str]
    flop: str | None


def label(reduction: ReducedSizes, cases: Mapping[str, Sizes], names: Mapping[str, str | int]) -> InferredAxes:
    """Name the lengths of all tensors. names: tensors by evo's name, as `in N`, `out N` or the key of a parameter."""
    points = [*cases.values(), *_neighbours(reduction, list(cases.values()))]
    seen = [shapes for shapes in map(reduction.shapes, points) if shapes is not None]
    points = [point for point in points if reduction.shapes(point) is not None]
    columns: dict[str, Column] = {axis: tuple(point[axis] for point in points) for axis in reduction.axes}
    formulas: dict[str, list[str]] = {}
    for name, where in names.items():
        arrays = [_array(shapes, where) for shapes in seen]
        formulas[name] = []
        for position in range(len(arrays[0].dims)):
            column = tuple(array.dims[position] for array in arrays)
            formula = _formula(column, columns)
            if formula is None:
                formula = axis_name(f"{name}_{position}")
                while formula in columns:
                    formula += "_"
                columns[formula] = column
            formulas[name].append(formula)
    full = {case: {axis: columns[axis][points.index(sizes)] for axis in columns} for case, sizes in cases.items()}
    first = reduction.own
    sizes = {name: _array(first, where).itemsize for name, where in names.items()}
    return InferredAxes(
        axes=tuple(columns),
        shapes=formulas,
        cases=full,
        bytes={name: _product(dims, sizes[name]) for name, dims in formulas.items()},
        flop=_flop(seen, columns, formulas),
    )


def _array(shapes: Shapes, where: str | int) -> MetaTensor:
    if isinstance(where, int):
        found = shapes.arguments[where]
        assert found is not None
        return found
    return shapes.outputs[int(where[4:])] if where.startswith("out ") else shapes.state[where]


def _neighbours(reduction: ReducedSizes, cases: Sequence[Sizes]) -> list[Sizes]:
    """Small sizes with one of them changed: lengths that change with it depend on it."""
    found: list[Sizes] = []
    base = cases[-1]
    for axis, value in base.items():
        for other in (value + 1, value * 2, value * 3, value - 1, value // 2):
            moved = {**base, axis: other}
            if other > 0 and other != value and reduction.shapes(moved) is not None:
                found.append(moved)
                break
    return found


def _formula(column: Column, columns: Mapping[str, Column]) -> str | None:
    for axis, values in columns.items():
        if values == column:
            return axis
    if len(set(column)) == 1:
        return str(column[0])
    for left, right in itertools.combinations(columns, 2):
        if all(a * b == c for a, b, c in zip(columns[left], columns[right], column, strict=True)):
            return f"{left} * {right}"
    for axis, values in columns.items():
        offset = column[0] - values[0]
        if abs(offset) <= _FURTHEST and all(c - v == offset for c, v in zip(column, values, strict=True)):
            return f"{axis} {'+' if offset > 0 else '-'} {abs(offset)}"
        factor = column[0] // max(values[0], 1)
        if factor > 1 and all(v * factor == c for c, v in zip(column, values, strict=True)):
            return f"{factor} * {axis}"
    for left, right in itertools.permutations(columns, 2):
        pairs = list(zip(columns[left], columns[right], column, strict=True))
        if all(b > 0 and a // b == c for a, b, c in pairs) and any(b > 1 for _, b, _ in pairs):
            return f"{left} // {right}"
        if all(a - b + 1 == c for a, b, c in pairs):
            return f"{left} - {right} + 1"
    return None


def _product(dims: Sequence[str], *first: int) -> str:
    parts = [str(factor) for factor in first if factor != 1]
    parts += [f"({dim})" if any(sign in dim for sign in "+-/") else dim for dim in dims if dim != "1"]
    return " * ".join(parts) or "1"


def sum_of(parts: Iterable[str]) -> str:
    """One formula, or '' if it would be too long to read."""
    text = " + ".join(parts)
    return text if len(text) <= _LONGEST else ""


def _flop(seen: Sequence[Shapes], columns: Mapping[str, Column], shapes: Mapping[str, Sequence[str]]) -> str | None:
    """The operations that were counted as a formula, a product for each call; None if one of them has none.

    If all calls of one kind fit one product, they are one; otherwise calls with equal counts are.
    """
    kinds = list(dict.fromkeys(kind for found in seen for kind, _ in found.flops))
    sums = [tuple(sum(n for kind, n in found.flops if kind == one) for found in seen) for one in kinds]
    parts = [_product_of(column, columns, shapes) for column in sums]
    if None in parts and len({tuple(kind for kind, _ in found.flops) for found in seen}) == 1:
        calls = Counter(zip(*([count for _, count in found.flops] for found in seen), strict=True))
        if len(calls) <= _MOST_CALLS:
            sums = [tuple(times * count for count in column) for column, times in calls.items()]
            parts = [_product_of(column, columns, shapes) for column in sums]
    known = [part for part in parts if part is not None]
    return (sum_of(known) or None) if len(known) == len(parts) else None


def _product_of(flops: Column, columns: Mapping[str, Column], shapes: Mapping[str, Sequence[str]]) -> str | None:
    """2 x elements of a tensor x some axes, if this is the count at all sizes; else None."""
    if not all(flops):
        return None
    for dims in list(shapes.values())[::-1]:
        elements = [math.prod(_values(dim, columns, i) for dim in dims) for i in range(len(flops))]
        if any(flop % count for flop, count in zip(flops, elements, strict=True)):
            continue
        ratios = tuple(flop // count for flop, count in zip(flops, elements, strict=True))
        if (factors := _factors(ratios, columns)) is not None:
            return _product([*factors[1], *dims], factors[0])
    return None


def _values(dim: str, columns: Mapping[str, Column], place: int) -> int:
    from evo.spec.expr import parse

    return int(parse(dim, path="<shape>", line=None).value({axis: column[place] for axis, column in columns.items()}))


def _factors(ratios: Column, columns: Mapping[str, Column]) -> tuple[int, tuple[str, ...]] | None:
    """A constant and axes whose product the ratios are."""
    for count in range(_MOST_FACTORS):
        for chosen in itertools.combinations_with_replacement(columns, count):
            products = [math.prod(columns[axis][i] for axis in chosen) for i in range(len(ratios))]
            factor, rest = divmod(ratios[0], products[0]) if products[0] else (0, 1)
            if not rest and all(product * factor == ratio for product, ratio in zip(products, ratios, strict=True)):
                return factor, chosen
    return None
