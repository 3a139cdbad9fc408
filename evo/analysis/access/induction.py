"""How the integers of a loop change from turn to turn: by a constant step, by halves, round a ring, or as data says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from evo.analysis.access.comparisons import Compare, Condition, conjuncts
from evo.analysis.access.simplify import split
from evo.analysis.access.terms import Op, Symbol, Term
from evo.analysis.access.values import Cell, Closure, Number, Pointer, StructValue, Value
from evo.cuda.source.parser import Node

_LONGEST = 64  # values of a loop that is no arithmetic row


@dataclass(frozen=True, slots=True)
class TurnEffect:
    """What one turn does to a number. kind: `step` (by a term), `scale` (times or over a number), `ring` (a step
    modulo a number), `flip` (a number minus it, or exclusive or), `kept`, `other`."""

    kind: str
    by: Term | None = None
    modulus: Term | None = None
    operation: str = ""


def change(before: Term, after: Term, phi: Symbol, newest: int) -> TurnEffect:
    """before: the symbol that stood for the value; after: what the turn made of it. Symbols numbered above `newest`
    arose inside the turn."""
    if after == before:
        return TurnEffect("kept")
    step = after - before
    if _is_older(step, newest):
        return TurnEffect("step", step)
    atom = after.atom
    if isinstance(atom, Op) and len(atom.terms) == 2:
        left, right = atom.terms
        if atom.name in ("div", "shr") and left == before and right.value is not None:
            return TurnEffect("scale", right, operation=atom.name)
        if atom.name == "mod" and _is_older(left - before, newest) and _is_older(right, newest):
            return TurnEffect("ring", left - before, right)
        if atom.name == "xor" and before in (left, right):
            other = right if left == before else left
            if other.value is not None:
                return TurnEffect("flip", other, operation="xor")
    flipped = after + before
    if _is_older(flipped, newest):
        return TurnEffect("flip", flipped, operation="minus")
    factor = after.coefficient(phi)
    if factor is not None and factor.value is not None and after == before * factor:
        return TurnEffect("scale", factor, operation="mul")
    return TurnEffect("other")


def _is_older(term: Term, newest: int) -> bool:
    return all(symbol.number <= newest for symbol in term.symbols())


def bounding(condition: Condition, phi: Symbol) -> Compare | None:
    """The part of a loop's condition that bounds a symbol."""
    for part in conjuncts(condition):
        if isinstance(part, Compare) and phi in part.symbols() and part.relation in (">=", "!="):
            weight = part.term.coefficient(phi)
            if weight is not None and weight.value is not None and weight.value:
                return part
    return None


def scaled_values(start: int, how: TurnEffect, condition: Condition, phi: Symbol) -> tuple[int, ...] | None:
    """The values of a loop variable that is halved or doubled, if its condition is about it alone."""
    values: list[int] = []
    value = start
    by = how.by.value if how.by is not None else None
    while by is not None and len(values) < _LONGEST:
        held = condition.substitute({phi: Term.number(value)})
        if held.symbols():
            return None
        if held.key != "and()":
            return tuple(values)
        values.append(value)
        last = value
        value = value * by if how.operation == "mul" else value >> by if how.operation == "shr" else value // by
        if value == last:
            return None
    return None


def ratio(step: Term, by: Term) -> Term | None:
    """step / by where it divides."""
    whole, rest = split(step, by)
    return whole if not rest.parts else None


def assigned_names(node: Node, hands_over: Callable[[str, int], bool]) -> Iterator[str]:
    """Names that a stretch of text may write: targets, what is counted up, what is addressed or passed on.

    hands_over: whether a function, by name, may change its argument of a number.
    """
    for inner in node.walk():
        if inner.type in ("assignment_expression", "update_expression"):
            target = inner.child("left") or inner.child("argument")
            if target is not None:
                yield from _bases(target)
        elif inner.type == "pointer_expression" and inner.children[0].text == "&":
            yield from (n.text for n in inner.walk() if n.type == "identifier")
        elif inner.type == "call_expression":
            yield from _passed(inner, hands_over)
        elif inner.type == "gnu_asm_output_operand":
            value = inner.child("value")
            if value is not None:
                yield from _bases(value)


def _passed(node: Node, hands_over: Callable[[str, int], bool]) -> Iterator[str]:
    function, arguments = node.child("function"), node.child("arguments")
    if function is None or arguments is None:
        return
    if function.type == "field_expression":
        yield from (n.text for n in function.walk() if n.type == "identifier")
    while function.type in ("qualified_identifier", "template_function"):
        function = function.child("name") or function.children[0]
    for at, argument in enumerate(arguments.inside):
        if argument.type in ("identifier", "subscript_expression", "field_expression") and hands_over(
            function.text, at
        ):
            yield from _bases(argument)


def _bases(target: Node) -> Iterator[str]:
    """The variables at the bottom of a place: `x` of x[i].y; both of (c ? a : b)."""
    node: Node | None = target
    while node is not None and node.type in ("subscript_expression", "field_expression", "parenthesized_expression"):
        node = node.child("argument") or next(iter(node.named_children), None)
    if node is not None and node.type == "identifier":
        yield node.text
    elif node is not None:
        yield from (n.text for n in node.walk() if n.type == "identifier")


def numbers_in(bindings: Iterable[object]) -> Iterator[Cell]:
    """The variables that hold integers or pointers, fields of records too."""
    for binding in bindings:
        if not isinstance(binding, Cell):
            continue
        value: Value | None = binding.value
        if isinstance(value, Number | Pointer):
            yield binding
        elif isinstance(value, StructValue):
            yield from numbers_in(value.fields.values())


def closures_in(bindings: Iterable[object]) -> Iterator[Closure]:
    for binding in bindings:
        if isinstance(binding, Cell) and isinstance(binding.value, Closure):
            yield binding.value
