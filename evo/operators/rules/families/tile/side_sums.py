"""Sums beside a product: over the same index, of what one row of the left factor or one column of the right one holds.

The norms of a cosine, say: a thread that has several results of the product in registers needs them for each row and
each column, and computes them from the elements that it multiplies anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from evo.analysis.access import Contraction, Data, LaunchAnalysis, Symbol, Term, origin
from evo.analysis.access.data_values import number_in, parts_of, plain
from evo.operators.rules.lifting import NotPrinted, Printer

_SOME = 0.7310585  # a number that a scalar may have


@dataclass(frozen=True, slots=True)
class SideSum:
    """A sum over k of what is computed from one row of the left factor, or from one column of the right one, alone."""

    name: str
    is_left: bool
    operand: Data
    loop: Symbol

    def spelled(self, number: int) -> str:
        return f"$side{number}[{'$i' if self.is_left else '$j'}]"


def sides_of(analysis: LaunchAnalysis, made: Contraction) -> tuple[SideSum, ...] | None:
    """The sums beside a product; None if one is of another kind, so that there is more than the product to compute."""
    form, found = analysis.form, list[SideSum]()
    main = {r.names for r in analysis.reductions if r.operand is made.operand}
    for reduction in analysis.reductions:
        reads = [part for part in parts_of(reduction.operand) if part.op == "read"]
        if reduction.operand is made.operand or reduction.operand is None or not reads:
            continue
        if made.output is not None and made.output.number in reduction.accesses:
            continue  # the output itself, which blocks add to
        if reduction.kind != "sum" or reduction.place != "register" or len(reduction.loops) != 1:
            return None
        if len(made.summed) != 1 or reduction.names in main:
            return None
        own, loop = form.loops[reduction.loops[0]], form.loops[made.summed[0]]
        if (own.start, own.step, own.trip) != (loop.start, loop.step, loop.trip):
            return None
        turned = {own.symbol: Term.of(loop.symbol)}
        read = [origin(form, part) for part in reads]
        at = {(o.array, tuple(t.substitute(turned) for t in o.subscripts)) if o is not None else None for o in read}
        places = [(side.array, side.subscripts) if side is not None else None for side in (made.left, made.right)]
        if len(at) != 1 or not at <= set(places):
            return None
        main.add(reduction.names)
        is_left = places[0] in at
        found.append(SideSum(reduction.names[0], is_left, reduction.operand, own.symbol))
    return tuple(found)


def summed(
    analysis: LaunchAnalysis,
    product: Contraction,
    say: Printer,
    operand: Data | None,
    loop: Symbol | None = None,
    *,
    is_padded: bool = True,
) -> str:
    """A value of elements of both factors. loop: the one of its sum, if it has its own; is_padded: zeros stand for
    elements behind the last one, and have to add nothing. Raises NotPrinted.
    """
    form, here = analysis.form, product.summed[0]
    turned = {loop: Term.of(here)} if loop is not None else {}
    sides = ((product.left, "$x[$i]"), (product.right, "$y[$j]"))
    reads: dict[int, str] = {}
    for part in parts_of(operand):
        made = origin(form, part) if part.op == "read" else None
        for side, text in sides:
            if made is None or side is None or not isinstance(part.detail, int):
                continue
            if made.array == side.array and tuple(t.substitute(turned) for t in made.subscripts) == side.subscripts:
                reads[part.detail] = text
    spelled = replace(say, places={}, values={}, reads=reads)
    if is_padded and at_zero(operand) != 0:
        raise NotPrinted("padding with zeros would count")
    return spelled.expression(operand)


def at_zero(data: Data | None) -> float:
    """A value if all elements are 0; NaN if that is not known."""
    found = plain(data)
    if found is None or found.op in ("read", "scalar"):
        return math.nan if found is None else 0.0 if found.op == "read" else _SOME
    args = [at_zero(arg) for arg in found.args]
    match found.op, args:
        case "add", [left, right]:
            return left + right
        case "sub", [left, right]:
            return left - right
        case "mul", [left, right]:
            return left * right
        case "div", [left, right] if right:
            return left / right
        case ("neg", [only]):
            return -only
        case "call", [only] if str(found.detail) in ("fabsf", "fabs", "sqrtf", "sqrt") and only >= 0:
            return math.sqrt(only) if "sqrt" in str(found.detail) else only
    return number_in(found)


def declared_sides(sides: tuple[SideSum, ...], kind: str) -> str:
    """The declarations of a thread's sums beside the product."""
    return "".join(
        f"    {kind} $side{number}[{'TM' if side.is_left else 'TN'}] = {{}};\n" for number, side in enumerate(sides)
    )


def side_steps(analysis: LaunchAnalysis, product: Contraction, sides: tuple[SideSum, ...], say: Printer) -> str:
    """What a turn of k adds to them. Raises NotPrinted."""
    text = ""
    for number, side in enumerate(sides):
        word, most = ("$i", "TM") if side.is_left else ("$j", "TN")
        term = summed(analysis, product, say, side.operand, side.loop)
        text += "            #pragma unroll\n"
        text += f"            for (int {word} = 0; {word} < {most}; ++{word}) {side.spelled(number)} += {term};\n"
    return text
