"""Functions of a file that combine a value with an element by atomics: loops of compare-and-swap, or bits as integers.

What such a function leaves in the element is carried out on numbers; how it gets there does not matter.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping

from evo.analysis.access.carried_out import CarriedOut, Storage, Unfollowed, Value
from evo.analysis.access.declarators import function_params
from evo.cuda.source.parser import Node

_OPERATIONS: Mapping[str, Callable[[float, float], float]] = {"add": lambda a, b: a + b, "max": max, "min": min}
_SAMPLES = (-1048576.0, -3.5, -1.0, -0.25, 0.0, 0.5, 1.0, 7.25, 65536.0)  # sums of two are exact
_WORDS = {"float": "f", "int": "i", "unsigned": "I", "double": "d", "long long": "q", "unsigned long long": "Q"}
_CONVERTED = re.compile(r"__(float|u?int|double|longlong|ull)_as_(float|u?int|double|longlong|ull)")
_NAMES = {"uint": "unsigned", "longlong": "long long", "ull": "unsigned long long"}
_CAST = re.compile(r"(?:reinterpret|static)_cast\s*<([^<>]*)>")
_IGNORED = re.compile(r"\b(?:const|volatile)\b|(?<=unsigned) int\b|(?<=long long) int\b|\*")


def atomic_operation(definition: Node, functions: Mapping[str, list[Node]]) -> str | None:
    """`add`, `max` or `min` if that is what a function `(T* address, T value)` does to `*address` by atomics."""
    params = function_params(definition)
    kinds = [_kind(param) for param in params]
    if len(params) != 2 or kinds[0] != kinds[1] or "*" not in params[0].text or "*" in params[1].text:
        return None
    if kinds[0] not in ("float", "double") or "atomic" not in definition.text:
        return None
    single = {name: found[0] for name, found in functions.items() if len(found) == 1}
    left = set(_OPERATIONS)
    for old in _SAMPLES:
        for new in _SAMPLES:
            try:
                found = _left_behind(definition, single, kinds[0], old, new)
            except (Unfollowed, struct.error, ValueError, TypeError, AttributeError):
                return None
            left = {name for name in left if _OPERATIONS[name](old, new) == found}
    return next(iter(left), None)


def _kind(param: Node) -> str:
    """The type of a parameter, or of what it points to."""
    said = param.child("type")
    return _plain(said.text) if said is not None else ""


def _plain(text: str) -> str:
    return " ".join(_IGNORED.sub(" ", text).split())


def _left_behind(definition: Node, functions: Mapping[str, Node], kind: str, old: float, new: float) -> float:
    element = _Shared([old], kind, kind)
    first, second = (param.child("declarator") for param in function_params(definition))
    assert first is not None
    assert second is not None
    name = next(each.text for each in first.walk() if each.type == "identifier")
    run = _OfAtomics({}, functions)
    run.finished(definition, {name: element, second.text: Storage([new])})
    found = element.of[0]
    assert isinstance(found, float)
    return found


def _bits(value: Value, kind: str, to: str) -> int | float:
    """A number's bits as one of another type of the same size."""
    if isinstance(value, Storage):
        raise Unfollowed("a pointer as a number")
    given: int | float = value
    if _WORDS[kind] not in "fd":
        size = 64 if "long" in kind else 32
        given = int(given) % (1 << size)
        given -= (1 << size) if "unsigned" not in kind and given >> (size - 1) else 0
    found: int | float = struct.unpack(_WORDS[to], struct.pack(_WORDS[kind], given))[0]
    return found


class _Shared(Storage):
    """The element, of a type, as a pointer of maybe another type sees it. Only atomics change it."""

    __slots__ = ("element", "seen")

    def __init__(self, of: list[Value], element: str, seen: str, *, is_start: bool = True) -> None:
        super().__init__(of, is_start=is_start)
        self.element, self.seen = element, seen

    def get(self) -> Value:
        return _bits(super().get(), self.element, self.seen)

    def put(self, value: Value) -> None:
        raise Unfollowed(f"a store of {value}")

    def moved(self, by: int) -> Storage:
        if by:
            raise Unfollowed("another element")
        return _Shared(self.of, self.element, self.seen, is_start=False)

    def swap(self, value: Value) -> Value:
        old = self.get()
        self.of[0] = _bits(value, self.seen, self.element)
        return old


class _OfAtomics(CarriedOut):
    """With atomics on the element, and bits taken for numbers of another type."""

    def finished(self, definition: Node, names: dict[str, Storage]) -> None:
        """A function's body with its parameters bound."""
        self.scopes = [{}, names]
        self.run_body(definition.parts("body")[0])

    def value(self, node: Node) -> Value:
        if node.type == "cast_expression" and "*" in node.parts("type")[0].text:
            return self._seen(node.parts("value")[0], node.parts("type")[0].text)
        return super().value(node)

    def _seen(self, node: Node, kind: str) -> Value:
        found, seen = self.value(node), _plain(kind)
        if not isinstance(found, _Shared) or seen not in _WORDS:
            raise Unfollowed(kind)
        return _Shared(found.of, found.element, seen)

    def call(self, node: Node) -> Value:
        function, arguments = node.parts("function", "arguments")
        given, name = arguments.inside, function.text
        if (cast := _CAST.fullmatch(name)) and len(given) == 1:
            return self._seen(given[0], cast[1]) if "*" in cast[1] else self.value(given[0])
        if (match := _CONVERTED.fullmatch(name)) and len(given) == 1:
            return _bits(self.value(given[0]), *(_NAMES.get(word, word) for word in match.groups()))
        if name in ("signbit", "std::signbit"):
            return int(self.number(given[0]) < 0)
        if name.startswith("atomic") and name not in self.functions:
            return self._atomic(name.removeprefix("atomic").lower(), given)
        return super().call(node)

    def _atomic(self, operation: str, given: list[Node]) -> Value:
        place = self.value(given[0])
        if not isinstance(place, _Shared):
            raise Unfollowed("an atomic on something else")
        old, values = place.get(), [self.number(each) for each in given[1:]]
        if operation == "cas" and len(values) == 2:
            return place.swap(values[1]) if old == _bits(values[0], place.seen, place.seen) else old
        if operation not in _OPERATIONS or len(values) != 1 or isinstance(old, Storage):
            raise Unfollowed(operation)
        return place.swap(_OPERATIONS[operation](old, _bits(values[0], place.seen, place.seen)))
