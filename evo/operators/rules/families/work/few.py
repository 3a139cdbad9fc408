"""How lanes combine the few largest or smallest elements that each of them has kept, in order."""

from __future__ import annotations

from collections.abc import Callable

from evo.analysis.access import Reduction
from evo.operators.rules.rewriting import fresh
from evo.operators.rules.rule_context import RuleContext

SUFFIX = "_few"  # of the kinds of such reductions


def kept_of_both(ctx: RuleContext, found: Reduction, head: str, other: Callable[[str], str]) -> list[str]:
    """Lines that put another lane's elements in among a thread's own; of equal ones the first place counts."""
    is_placed = found.kind.startswith("arg")
    sign = ">" if "largest" in found.kind else "<"
    count = len(found.names) // (1 + is_placed)
    values, places = found.names[:count], found.names[count:]
    theirs = [fresh(ctx, f"their_{at}") for at in range(len(found.names))]
    lines = [f"{head} {{"]
    lines += [f"    auto {their} = {other(name)};" for their, name in zip(theirs, found.names, strict=True)]
    was, at = fresh(ctx, "was"), fresh(ctx, "was_at")
    for turn in range(count):
        their, place = theirs[turn], theirs[count + turn] if is_placed else ""
        for own in range(turn, count):  # their elements are in order too
            value = values[own]
            test = f"{their} {sign} {value}"
            moves = f"const auto {was} = {value}; {value} = {their}; {their} = {was};"
            if is_placed:
                test += f" || ({their} == {value} && {place} < {places[own]})"
                moves += f" const auto {at} = {places[own]}; {places[own]} = {place}; {place} = {at};"
            lines.append(f"    if ({test}) {{ {moves} }}")
    return [*lines, "}"]
