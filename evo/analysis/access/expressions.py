"""Expressions of device code: what each is, and the loads and stores that evaluating it carries out."""

from __future__ import annotations

from collections.abc import Callable

from evo.analysis.access.c_types import (
    FLOAT,
    OTHER,
    UINT,
    CType,
    literal,
    named_type,
    promoted,
)
from evo.analysis.access.comparisons import ALWAYS, NEVER, Condition, all_of, any_of
from evo.analysis.access.declarators import is_type_node
from evo.analysis.access.form import BLOCK, THREAD, Data
from evo.analysis.access.lvalues import Lvalues
from evo.analysis.access.terms import ZERO, Term
from evo.analysis.access.values import (
    ArrayPlace,
    Builtin,
    Cell,
    Chosen,
    Closure,
    Number,
    Part,
    Pointer,
    Real,
    StructValue,
    Value,
    number,
    truth,
)
from evo.cuda.source.parser import Node

_WORDS = {"&&": "and", "||": "or"}
_CONSTANTS = {
    "INFINITY": float("inf"), "NAN": float("nan"), "FLT_MAX": 3.4028234663852886e38, "HUGE_VALF": float("inf"),
    "FLT_MIN": 1.1754943508222875e-38, "M_PI": 3.141592653589793, "FLT_EPSILON": 1.1920928955078125e-07,
    "CUDART_INF_F": float("inf"), "DBL_MAX": 1.7976931348623157e308, "M_SQRT1_2": 0.7071067811865476,
}  # fmt: skip
_INTEGERS = {
    "warpSize": 32, "INT_MAX": 2**31 - 1, "INT_MIN": -(2**31), "UINT_MAX": 2**32 - 1, "nullptr": 0, "NULL": 0,
    "true": 1, "false": 0, "CHAR_BIT": 8,
}  # fmt: skip


class Expressions(Lvalues):
    """Evaluates expressions. extents: gridDim and blockDim as terms."""

    extents: dict[str, tuple[Term, Term, Term]]

    def call(self, node: Node) -> Value:
        """The value of a call; given by the classes above."""
        raise AssertionError(node.type)

    def listed(self, node: Node) -> StructValue:
        """A list in braces; given by the classes above."""
        raise AssertionError(node.type)

    def construct(self, kind: CType, nodes: list[Node], node: Node) -> Value:
        """`T{a, b}`; given by the classes above."""
        raise AssertionError(node.type, kind, nodes)

    def assembly(self, node: Node) -> None:
        """Inline assembly; given by the classes above."""
        raise AssertionError(node.type)

    def evaluate(self, node: Node) -> Value:
        """The value of an expression."""
        how = _KINDS.get(node.type)
        if how is not None:
            return how(self, node)
        inner = node.inside
        if len(inner) == 1:
            return self.evaluate(inner[0])
        return Real(Data("unknown"), OTHER)

    def term(self, node: Node) -> Term:
        """An expression as an integer."""
        value = self.evaluate(node)
        if isinstance(value, Number | Pointer):
            return value.term
        return self.unknown(node, "computed from data", self.data_of(value))

    def condition(self, node: Node) -> Condition:
        """An expression as a condition."""
        if node.type in ("condition_clause", "parenthesized_expression"):
            inner = node.inside
            for extra in inner[:-1]:
                self.evaluate(extra)
            return self.condition(inner[-1]) if inner else ALWAYS
        return self.as_condition(self.evaluate(node), node)

    # Names and literals.

    def _identifier(self, node: Node) -> Value:
        name = node.text
        bound = self.lookup(name)
        if isinstance(bound, Cell | ArrayPlace | Part | Chosen):
            return self.fetch(bound, node)
        if name in _INTEGERS:
            return number(_INTEGERS[name])
        if name in _CONSTANTS:
            return Real(Data("constant", detail=_CONSTANTS[name]), FLOAT)
        if name in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
            return self._builtin_record(name)
        if name in self.functions:
            return Closure(self.functions[name][-1], name=name)
        this = self.lookup("this")
        if isinstance(this, Cell) and isinstance(this.value, StructValue) and name in this.value.fields:
            return self.fetch(this.value.fields[name], node)
        return Builtin(name)

    def _builtin_record(self, name: str) -> StructValue:
        if name in self.extents:
            terms = self.extents[name]
        else:
            terms = tuple(Term.of(symbol) for symbol in (BLOCK if name == "blockIdx" else THREAD))  # type: ignore[assignment]
            counts = self.extents["gridDim" if name == "blockIdx" else "blockDim"]
            terms = tuple(ZERO if n.value == 1 else t for t, n in zip(terms, counts, strict=True))  # type: ignore[assignment]
        kind = named_type("uint3")
        fields: dict[str, Cell | ArrayPlace | Part] = {
            letter: Cell(letter, UINT, Number(term, UINT)) for letter, term in zip("xyz", terms, strict=True)
        }
        return StructValue(kind, fields)

    def _literal(self, node: Node) -> Value:
        term, kind = literal(node.text)
        if term is not None:
            return Number(term, kind)
        try:
            return Real(Data("constant", detail=float(node.text.rstrip("fFlL").replace("'", ""))), kind)
        except ValueError:
            return Real(Data("unknown"), kind)

    def _char(self, node: Node) -> Value:
        text = node.text.strip("'")
        return number(ord(text)) if len(text) == 1 else Real(Data("unknown"), OTHER)

    def _qualified(self, node: Node) -> Value:
        inner, scope = node.child("name"), node.child("scope")
        if inner is None:
            return Real(Data("unknown"), OTHER)
        kind = self.lookup(scope.text) if scope is not None else None
        if scope is not None and not isinstance(kind, CType) and scope.type == "template_type":
            kind = self.base_type(scope)
        found = self.static_member(kind, inner.text) if isinstance(kind, CType) else None
        return self.evaluate(found) if found is not None else self.evaluate(inner)

    def _lambda(self, node: Node) -> Value:
        return Closure(node, list(self.scopes), name="lambda")

    def _this(self, node: Node) -> Value:
        bound = self.lookup("this")
        return self.fetch(bound, node) if isinstance(bound, Cell) else Real(Data("unknown"), OTHER)

    # Operators.

    def _unary(self, node: Node) -> Value:
        operator = node.children[0].text
        (argument,) = node.parts("argument")
        if operator in ("!", "not"):
            return truth(self.condition(argument).negated())
        value = self.evaluate(argument)
        if isinstance(value, Number):
            kind = promoted(value.type)
            if operator == "~":
                if value.term.value is not None and not kind.is_signed:
                    return number(~value.term.value % (1 << 8 * kind.size), kind)
                return Number(-value.term - 1, kind)
            return Number(-value.term if operator == "-" else value.term, kind)
        if operator == "-" and isinstance(value, Real):
            return Real(Data("neg", (value.data,)), value.type)
        return value

    def _binary(self, node: Node) -> Value:
        operator = node.child("operator")
        left, right = node.child("left"), node.child("right")
        assert operator is not None
        assert left is not None
        assert right is not None
        word = {"and": "&&", "or": "||"}.get(operator.text, operator.text)
        if word in _WORDS:
            return self._logical(word, left, right)
        return self.operate(word, self.evaluate(left), self.evaluate(right), node)

    def _logical(self, word: str, left: Node, right: Node) -> Value:
        first = self.condition(left)
        reached = first if word == "&&" else first.negated()
        if self.bounds.decided(reached) == NEVER:
            return truth(first)
        with self.collecting() as nodes, self.under(reached):
            second = self.condition(right)
        self.branch(reached, nodes, (), right)
        return truth(all_of((first, second)) if word == "&&" else any_of((first, second)))

    def _assignment(self, node: Node) -> Value:
        left, right, operator = node.parts("left", "right", "operator")
        word = operator.text
        if word == "=":
            value = self.evaluate(right)
            place = self.place(left)
        else:
            place = self.place(left)
            old = self.fetch(place, left)
            value = self.operate(word[:-1], old, self.evaluate(right), node)
        if (
            isinstance(value, StructValue)
            and value.type.kind in ("auto", "other")
            and isinstance(place, Cell | ArrayPlace)
        ):
            value = self.shaped(value, place.type, node)
        self.put(place, value, left)
        return value

    def shaped(self, value: StructValue, kind: CType, node: Node) -> Value:
        """A list in braces as a value of a type; given by the classes above."""
        raise AssertionError(node.type, value, kind)

    def _update(self, node: Node) -> Value:
        (argument,) = node.parts("argument")
        place = self.place(argument)
        old = self.fetch(place, argument)
        is_prefix = node.children[0] is not argument
        operator = next(child.text for child in node.children if child is not argument)
        new = self.operate(operator[0], old, number(1), node)
        self.put(place, new, argument)
        return new if is_prefix else old

    def _conditional(self, node: Node) -> Value:
        test, left, right = node.parts("condition", "consequence", "alternative")
        condition = self.bounds.decided(self.condition(test))
        if condition in (ALWAYS, NEVER):
            return self.evaluate(left if condition == ALWAYS else right)
        with self.collecting() as then, self.under(condition):
            first = self.evaluate(left)
        with self.collecting() as otherwise, self.under(condition.negated()):
            second = self.evaluate(right)
        self.branch(condition, then, otherwise, node)
        if isinstance(first, Number) and isinstance(second, Number) and first.condition and second.condition:
            either = (all_of((condition, first.condition)), all_of((condition.negated(), second.condition)))
            return truth(any_of(either))
        return self.merged(condition, first, second, node)

    def _cast(self, node: Node) -> Value:
        kind, value = node.parts("type", "value")
        return self.cast(self.descriptor(kind), self.evaluate(value), value)

    def _comma(self, node: Node) -> Value:
        left, right = node.parts("left", "right")
        self.evaluate(left)
        return self.evaluate(right)

    def _sizeof(self, node: Node) -> Value:
        inner = node.child("type") or node.child("value")
        kind = OTHER
        if inner is not None:
            while inner.type == "parenthesized_expression" and inner.named_children:
                inner = inner.named_children[0]
            if inner.type == "type_descriptor" or is_type_node(inner):
                kind = self.descriptor(inner) if inner.type == "type_descriptor" else self.base_type(inner)
            elif inner.type == "identifier" and not isinstance(self.lookup(inner.text), Cell | ArrayPlace):
                kind = self.base_type(inner)
            else:
                self.dry += 1
                place = self.place(inner)
                self.dry -= 1
                kind = place.type if isinstance(place, Cell | ArrayPlace | Part) else OTHER
        return number(kind.size, UINT) if kind.size else Number(self.unknown(node, "a size that is not known"), UINT)

    def _compound(self, node: Node) -> Value:
        kind, listed = node.parts("type", "value")
        named = self.descriptor(kind) if kind.type == "type_descriptor" else self.base_type(kind)
        return self.construct(named, listed.inside, node)

    def _assembly(self, node: Node) -> Value:
        self.assembly(node)
        return Real(Data("unknown"), OTHER)

    def _read_place(self, node: Node) -> Value:
        return self.fetch(self.place(node), node)

    # Places.


_KINDS: dict[str, Callable[[Expressions, Node], Value]] = {
    "identifier": Expressions._identifier,
    "number_literal": Expressions._literal,
    "char_literal": Expressions._char,
    "true": lambda _m, _node: truth(ALWAYS),
    "false": lambda _m, _node: truth(NEVER),
    "null": lambda _m, _node: number(0),
    "this": Expressions._this,
    "qualified_identifier": Expressions._qualified,
    "lambda_expression": Expressions._lambda,
    "unary_expression": Expressions._unary,
    "binary_expression": Expressions._binary,
    "assignment_expression": Expressions._assignment,
    "update_expression": Expressions._update,
    "conditional_expression": Expressions._conditional,
    "cast_expression": Expressions._cast,
    "comma_expression": Expressions._comma,
    "sizeof_expression": Expressions._sizeof,
    "subscript_expression": Expressions._read_place,
    "field_expression": Expressions._read_place,
    "pointer_expression": Expressions._pointer,
    "initializer_list": lambda m, node: m.listed(node),
    "compound_literal_expression": Expressions._compound,
    "gnu_asm_expression": Expressions._assembly,
    "call_expression": lambda m, node: m.call(node),
    "template_function": lambda m, node: m.call(node),
}
