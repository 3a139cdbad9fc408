"""What a few statements make of an array, carried out on numbers."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from evo.analysis.access.folding import quotient
from evo.cuda.source import Source
from evo.cuda.source.parser import Node

Value: TypeAlias = "int | float | Storage"
Names = dict[str, "Storage"]

_MOST = 40_000  # steps
_NUMBER = re.compile(r"(\d+)[uUlL]*|(\d+\.\d*|\.\d+)[fF]?")
_BINARY: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_OF_INTEGERS: Mapping[str, Callable[[int, int], int]] = {
    "/": quotient,
    "%": lambda a, b: a - b * quotient(a, b),
    "<<": lambda a, b: a << min(b, 64),
    ">>": lambda a, b: a >> b,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_CALLS: Mapping[str, Callable[[float, float], float]] = {
    name: min if "min" in name else max for name in ("min", "max", "fminf", "fmaxf", "fmin", "fmax")
}


def constants_of(source: Source) -> Names:
    """The macros and constants of a text that are numbers."""
    names = (*source.constants, *(define.name for define in source.defines))
    known = {name: source.integer(name) for name in names}
    return {name: Storage([value]) for name, value in known.items() if value is not None}


class Unfollowed(Exception):
    """Something that this does not carry out, or too much of it."""


class _Left(Exception):
    """A loop's turn, a loop or a function is left, this with a result."""

    def __init__(self, word: str, result: Value = 0) -> None:
        self.word, self.result = word, result


class Storage:
    """An element of an array, or a variable as an array of one, of none if it was not set; is_start: a pointer."""

    __slots__ = ("at", "is_start", "of")

    def __init__(self, of: list[Value], at: int = 0, *, is_start: bool = False) -> None:
        self.of, self.at, self.is_start = of, at, is_start

    def get(self) -> Value:
        if not 0 <= self.at < len(self.of):
            raise Unfollowed("outside of an array")
        return self.of[self.at]

    def moved(self, by: int) -> Storage:
        """The place of the element so many further on."""
        return Storage(self.of, self.at + by)

    def put(self, value: Value) -> None:
        if not self.of:
            self.of.append(value)
        self.get()
        self.of[self.at] = value


class CarriedOut:
    """Statements over the names given; functions: of the file, by name. fields: what `threadIdx.x` and such are.

    calls: functions of two numbers.
    """

    def __init__(
        self, names: Names, functions: Mapping[str, Node], fields: Mapping[str, int] | None = None,
        calls: Mapping[str, Callable[[float, float], float]] = _CALLS,
    ) -> None:  # fmt: skip
        self.scopes: list[Names] = [names]
        self.functions = functions
        self._fields, self._calls = fields or {}, calls
        self._steps = 0

    def run(self, node: Node) -> None:
        """One statement."""
        self._steps += 1
        if self._steps > _MOST:
            raise Unfollowed("too long")
        if node.type in ("break_statement", "continue_statement"):
            raise _Left(node.type)
        made = getattr(self, f"_{node.type}", None)
        if node.type not in ("comment", ";") and made is None:
            raise Unfollowed(node.type)
        if made is not None:
            made(node)

    def _compound_statement(self, node: Node) -> None:
        self.scopes.append({})
        try:
            for inner in node.inside:
                self.run(inner)
        finally:
            self.scopes.pop()

    def _expression_statement(self, node: Node) -> None:
        for inner in node.inside:
            self.value(inner)

    def _declaration(self, node: Node) -> None:
        for declarator in node.children_of("declarator"):
            name, given = declarator, None
            if declarator.type == "init_declarator":
                name, given = declarator.parts("declarator", "value")
            start = self.value(given) if given is not None else None
            if name.type == "pointer_declarator" and isinstance(start, Storage):
                self.scopes[-1][name.parts("declarator")[0].text] = start
                continue
            if name.type != "identifier":
                raise Unfollowed(name.type)
            self.scopes[-1][name.text] = Storage([start] if start is not None else [])

    def _if_statement(self, node: Node) -> None:
        condition, then = node.parts("condition", "consequence")
        otherwise = node.child("alternative")
        if self.holds(condition):
            self.run(then)
        elif otherwise is not None:
            for inner in otherwise.inside if otherwise.type == "else_clause" else [otherwise]:
                self.run(inner)

    def _for_statement(self, node: Node) -> None:
        self.scopes.append({})
        start = node.child("initializer")
        if start is not None:
            (self.run if start.type == "declaration" else self.value)(start)
        self._repeat(node.child("condition"), node.parts("body")[0], node.child("update"))
        self.scopes.pop()

    def _while_statement(self, node: Node) -> None:
        condition, body = node.parts("condition", "body")
        self._repeat(condition, body, None)

    def _do_statement(self, node: Node) -> None:
        condition, body = node.parts("condition", "body")
        self._repeat(condition, body, None, is_late=True)

    def _repeat(self, condition: Node | None, body: Node, update: Node | None, *, is_late: bool = False) -> None:
        while is_late or condition is None or self.holds(condition):
            is_late = False
            try:
                self.run(body)
            except _Left as left:
                if left.word == "return":
                    raise
                if left.word == "break_statement":
                    return
            if update is not None:
                self.value(update)

    def _return_statement(self, node: Node) -> None:
        raise _Left("return", self.value(node.inside[0]) if node.inside else 0)

    # Expressions.

    def holds(self, node: Node) -> bool:
        """Whether a condition does."""
        return bool(self.number(node))

    def number(self, node: Node) -> int | float:
        value = self.value(node)
        if isinstance(value, Storage):
            raise Unfollowed("a pointer as a number")
        return value

    def whole(self, node: Node) -> int:
        value = self.number(node)
        if not isinstance(value, int):
            raise Unfollowed("a number that is not whole")
        return int(value)

    def value(self, node: Node) -> Value:
        self._steps += 1
        if self._steps > _MOST:
            raise Unfollowed("too long")
        match node.type:
            case "number_literal":
                said = _NUMBER.fullmatch(node.text)
                if said is None:
                    raise Unfollowed(node.text)
                return int(said[1]) if said[1] else float(said[2])
            case "true" | "false":
                return int(node.type == "true")
            case "field_expression" if node.text in self._fields:
                return self._fields[node.text]
            case "identifier" | "subscript_expression" | "pointer_expression":
                if node.type == "pointer_expression" and node.text.startswith("&"):
                    found = self.place(node.parts("argument")[0])
                    return Storage(found.of, found.at, is_start=True)
                found = self.place(node)
                return found if found.is_start else found.get()
            case "parenthesized_expression" | "condition_clause":
                return self.value(node.inside[0])
            case "cast_expression":
                return self.value(node.parts("value")[0])
            case "comma_expression":
                return [self.value(each) for each in node.inside][-1]
            case "conditional_expression":
                condition, then, otherwise = node.parts("condition", "consequence", "alternative")
                return self.value(then if self.holds(condition) else otherwise)
            case "assignment_expression" | "update_expression":
                return self._assigned(node)
            case "unary_expression":
                inner, sign = self.number(node.parts("argument")[0]), node.children[0].text
                if sign not in ("-", "+", "!"):
                    raise Unfollowed(sign)
                return int(not inner) if sign == "!" else -inner if sign == "-" else inner
            case "binary_expression":
                left, right = node.parts("left", "right")
                return self._of_two(node.parts("operator")[0].text, left, right)
            case "call_expression":
                return self.call(node)
        raise Unfollowed(node.type)

    def place(self, node: Node) -> Storage:
        """Where something is kept."""
        if node.type == "identifier":
            found = next((scope[node.text] for scope in reversed(self.scopes) if node.text in scope), None)
            if found is None:
                raise Unfollowed(f"{node.text} comes from outside")
            return found
        if node.type == "parenthesized_expression":
            return self.place(node.inside[0])
        base, by = node.child("argument"), 0
        if base is None or node.type not in ("subscript_expression", "pointer_expression"):
            raise Unfollowed(node.type)
        if node.type == "subscript_expression":
            (index,) = node.parts("indices")[0].inside
            by = self.whole(index)
        start = self.value(base)
        if not isinstance(start, Storage):
            raise Unfollowed("no array")
        return start.moved(by)

    def _changed(self, node: Node) -> Storage:
        found = self.place(node)
        if found.is_start:
            raise Unfollowed("a pointer that moves")
        return found

    def _assigned(self, node: Node) -> Value:
        if node.type == "update_expression":
            where, is_first = self._changed(node.parts("argument")[0]), node.children[0].field == "operator"
            before = where.get()
            after = self._joined(node.parts("operator")[0].text[0], before, 1)
            where.put(after)
            return after if is_first else before
        left, sign, right = node.parts("left", "operator", "right")
        value = self.value(right)
        if left.type == "identifier" and isinstance(value, Storage) and sign.text == "=":
            return self._pointed(left, value)
        where = self._changed(left)
        where.put(value if sign.text == "=" else self._joined(sign.text[:-1], where.get(), value))
        return where.get()

    def _pointed(self, name: Node, to: Storage) -> Storage:
        """A pointer that points elsewhere from here on."""
        if not self.place(name).is_start:
            raise Unfollowed("a pointer as a number")
        scope = next(scope for scope in reversed(self.scopes) if name.text in scope)
        scope[name.text] = Storage(to.of, to.at, is_start=True)
        return to

    def _of_two(self, sign: str, left: Node, right: Node) -> Value:
        if sign in ("&&", "||"):
            return int(self.holds(right) if self.holds(left) == (sign == "&&") else sign == "||")
        return self._joined(sign, self.value(left), self.value(right))

    def _joined(self, sign: str, left: Value, right: Value) -> Value:
        if isinstance(left, Storage) and isinstance(right, int) and sign in ("+", "-"):
            return Storage(left.of, left.at + (right if sign == "+" else -right), is_start=True)
        if isinstance(left, Storage) or isinstance(right, Storage):
            raise Unfollowed("arithmetic on pointers")
        if sign in _BINARY:
            found = _BINARY[sign](left, right)
            return int(found) if isinstance(found, bool) else found
        if sign in _OF_INTEGERS and isinstance(left, int) and isinstance(right, int) and (right or sign not in "/%"):
            return _OF_INTEGERS[sign](left, right)
        raise Unfollowed(sign)

    def call(self, node: Node) -> Value:
        function, arguments = node.parts("function", "arguments")
        given = arguments.inside
        if function.text in self._calls and len(given) == 2:
            return self._calls[function.text](self.number(given[0]), self.number(given[1]))
        if function.text in ("swap", "std::swap") and len(given) == 2:
            one, other = (self.place(each) for each in given)
            first, second = one.get(), other.get()
            one.put(second)
            other.put(first)
            return 0
        if function.text not in self.functions:
            raise Unfollowed(function.text)
        return self.of_file(self.functions[function.text], given)

    def of_file(self, definition: Node, given: list[Node]) -> Value:
        """A function of the file; references and pointers are places of the caller's."""
        head, body = definition.parts("declarator", "body")
        params = [each for each in head.walk() if each.type == "parameter_declaration"]
        inner: Names = {}
        for param, argument in zip(params, given, strict=True):
            said = param.child("declarator")
            name = next((each.text for each in said.walk() if each.type == "identifier"), "") if said else ""
            if said is not None and said.type == "reference_declarator":
                inner[name] = self.place(argument)
            else:
                value = self.value(argument)
                inner[name] = value if isinstance(value, Storage) and said is not None else Storage([value])
        outside, self.scopes = self.scopes, [self.scopes[0], inner]
        try:
            return self.run_body(body)
        finally:
            self.scopes = outside

    def run_body(self, body: Node) -> Value:
        """A function's body; what it returns, or 0."""
        try:
            self.run(body)
        except _Left as left:
            if left.word != "return":
                raise
            return left.result
        return 0
