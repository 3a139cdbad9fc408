"""What an expression denotes that can be written: variables, elements, fields, what a pointer points to."""

from __future__ import annotations

from evo.analysis.access.arithmetic import Arithmetic
from evo.analysis.access.c_types import (
    OTHER,
    pointer_to,
)
from evo.analysis.access.comparisons import Condition
from evo.analysis.access.form import Data
from evo.analysis.access.terms import Term
from evo.analysis.access.values import (
    ArrayPlace,
    Cell,
    Chosen,
    Closure,
    Number,
    Part,
    Place,
    Pointer,
    Real,
    StructValue,
    Value,
)
from evo.cuda.source.parser import Node


class Lvalues(Arithmetic):
    """Finds the places that expressions denote."""

    def evaluate(self, node: Node) -> Value:
        """The value of an expression; given by the classes above."""
        raise AssertionError(node.type)

    def term(self, node: Node) -> Term:
        """The value of an integer expression; given by the classes above."""
        raise AssertionError(node.type)

    def condition(self, node: Node) -> Condition:
        """Where an expression is true; given by the classes above."""
        raise AssertionError(node.type)

    def referred(self, node: Node) -> tuple[Value, Place | None]:
        """What a call gives, and where that stands if it is a reference to an element; given by the classes above."""
        raise AssertionError(node.type)

    def place(self, node: Node) -> Place:
        """Where an expression stands that can be assigned to."""
        match node.type:
            case "identifier":
                return self._named_place(node)
            case "parenthesized_expression":
                return self.place(node.inside[0])
            case "subscript_expression":
                return self._subscript(node)
            case "field_expression":
                return self._field(node)
            case "pointer_expression" if node.children[0].text == "*":
                (argument,) = node.parts("argument")
                return self.deref(self.evaluate(argument), node)
            case "conditional_expression":
                test, left, right = node.parts("condition", "consequence", "alternative")
                return Chosen(self.condition(test), self.place(left), self.place(right))
            case "assignment_expression" | "update_expression":
                self.evaluate(node)
                target = node.child("left") or node.child("argument")
                assert target is not None
                return self.place(target)
            case "comma_expression":
                left, right = node.parts("left", "right")
                self.evaluate(left)
                return self.place(right)
            case "call_expression":
                value, found = self.referred(node)
                if found is None and _is_target(node):
                    self.block(node, self.wording(node), "what a call returns is written to")
                return found if found is not None else self.held(value, node)
        return self.held(self.evaluate(node), node)

    def held(self, value: Value, node: Node) -> Cell:
        """A place for a value that has none."""
        kind = value.type if isinstance(value, Number | Real | StructValue) else OTHER
        if isinstance(value, Pointer):
            kind = pointer_to(value.of)
        return Cell(self.wording(node), kind, value, self.frame)

    def _named_place(self, node: Node) -> Place:
        bound = self.lookup(node.text)
        if isinstance(bound, Cell | ArrayPlace | Part | Chosen):
            return bound
        this = self.lookup("this")
        if isinstance(this, Cell):
            if isinstance(this.value, StructValue) and node.text in this.value.fields:
                return this.value.fields[node.text]
            if isinstance(this.value, Pointer):
                found = this.value.of.field(node.text)
                if found is not None:
                    return ArrayPlace(this.value.term + found[1], found[0])
        return self.held(self.evaluate(node), node)

    def _subscript(self, node: Node) -> Place:
        argument, listed = node.child("argument"), node.child("indices")
        indices = listed.inside if listed is not None else []
        assert argument is not None
        base = self.place(argument)
        if isinstance(base, Cell) and base.type.kind == "array" and isinstance(base.value, Real):
            index = self.term(indices[0])
            return Part(base, index, base.type.of or OTHER)
        if isinstance(base, Part) and base.type.kind == "array":
            return Part(base.cell, self.term(indices[0]), base.type.of or OTHER)
        if isinstance(base, Cell) and isinstance(base.value, StructValue) and indices:
            method = self.method(base.value.type, "operator[]")
            if method is not None:
                closure = Closure(method[0], this=base.value, name="operator[]", types=dict(method[1]))  # type: ignore[arg-type]
                return self.held(self.invoke(closure, [self.evaluate(indices[0])], node), node)
        if isinstance(base, ArrayPlace) and base.type.kind == "array":
            of = base.type.of or OTHER
            return ArrayPlace(base.term + self.term(indices[0]) * (of.size or 1), of)
        value = self.fetch(base, argument)
        if isinstance(value, Pointer) and indices:
            return ArrayPlace(value.term + self.term(indices[0]) * (value.of.size or 1), value.of)
        for index_node in indices:
            self.evaluate(index_node)
        return self.deref(value, node)

    def _field(self, node: Node) -> Place:
        argument, name = node.parts("argument", "field")
        is_arrow = any(child.text == "->" for child in node.children)
        if is_arrow:
            value = self.evaluate(argument)
            if isinstance(value, StructValue):
                return value.fields.get(name.text) or self.held(Real(Data("unknown"), OTHER), node)
            base: Place = self.deref(value, argument)
            if isinstance(base, ArrayPlace) and (cell := self.homes.get(next(iter(base.term.symbols()), None))):  # type: ignore[arg-type]
                base = cell
        else:
            base = self.place(argument)
        if isinstance(base, ArrayPlace):
            found = base.type.field(name.text)
            return ArrayPlace(base.term + found[1], found[0]) if found is not None else ArrayPlace(base.term, OTHER)
        if isinstance(base, Cell) and isinstance(base.value, StructValue):
            binding = base.value.fields.get(name.text)
            if binding is not None:
                return binding
        if isinstance(base, Cell) and base.value is None and base.type.fields:
            base.value = StructValue(
                base.type, {f: Cell(f"{base.name}.{f}", k, None, base.frame) for f, k, _ in base.type.fields}
            )
            return self._field(node)
        data = self.data_of(self.fetch(base, argument))
        return self.held(Real(Data("part", (data,), name.text), OTHER), node)

    def _pointer(self, node: Node) -> Value:
        (argument,) = node.parts("argument")
        if node.children[0].text == "&":
            return self.address_of(self.place(argument), node)
        return self.fetch(self.deref(self.evaluate(argument), node), node)


def _is_target(node: Node) -> bool:
    """Whether something is stored where an expression stands, or it gets another name."""
    above = node.parent
    if above is None:
        return False
    if above.type == "init_declarator":
        declarator = above.child("declarator")
        return declarator is not None and declarator.type == "reference_declarator"
    return above.type == "update_expression" or (
        above.type == "assignment_expression" and node.start_byte == above.start_byte
    )
