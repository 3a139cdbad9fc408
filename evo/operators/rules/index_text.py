"""Indices of the access form as C++ in the author's words: `r * cols + c` for a place in a tensor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from evo.analysis.access import BLOCK, THREAD, Form, Op, Symbol, Term
from evo.analysis.access.simplify import divide, remainder, split
from evo.cuda.source import Function, Source, Span
from evo.cuda.source.types import type_aliases
from evo.operators.rules.lifting import NotPrinted

_INDICES = {symbol: f"{which}.{axis}" for which, symbols in (("blockIdx", BLOCK), ("threadIdx", THREAD))
            for symbol, axis in zip(symbols, "xyz", strict=True)}  # fmt: skip
_SIGNS = {"div": "/", "mod": "%"}
_WRITTEN = r"\b{0}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--|(?<!&)&)\s*{0}\b|\b{0}\s*(?:\+\+|--)"
_INTEGERS = re.compile(r"(?:const\s+)?(?:unsigned|int|unsigned int|size_t|long|long long|uint32_t|int64_t)\s*")


class IndexText:
    """Spells terms at a place of one kernel's body. given: parameters and macros by axis; loops: names of symbols."""

    def __init__(
        self, form: Form, source: Source, function: Function, given: Mapping[str, str], loops: Mapping[Symbol, str]
    ) -> None:
        self.form, self.source, self.given, self.loops = form, source, given, loops
        text = source.slice(function.body)
        # The author's `blockDim.x` is a number in the form; written as one it would not follow the launch line.
        self._extents = [
            (block, f"blockDim.{axis}", size.value)
            for block, axis, size in zip(BLOCK, "xyz", form.block, strict=True)
            if size.value is not None and size.value > 1 and f"blockDim.{axis}" in text
        ]
        self._aliases = type_aliases(source.text)
        self._seen: dict[str, list[tuple[int, Span]]] = {}
        self._declared(source.statements(function), function.body)
        self._names = sorted(
            (
                (name, term)
                for term, name in form.names.items()
                if len(self._seen.get(name, ())) == 1 and len(re.findall(_WRITTEN.format(name), text)) == 1
                if not isinstance(term.atom, Symbol) and term.value is None
                if all(symbol.kind in ("block", "thread", "axis") for symbol in term.symbols())
            ),
            key=lambda pair: -len(pair[1].key),
        )

    def _declared(self, statements: object, within: Span) -> None:
        for statement in statements:  # type: ignore[attr-defined]
            written = statement.type.strip() if statement.kind == "declare" else self.source.slice(statement.span)
            kind = re.sub(r"\w+", lambda word: self._aliases.get(word[0], word[0]), written)
            if statement.kind == "declare" and _INTEGERS.fullmatch(kind) and not statement.dims:
                self._seen.setdefault(statement.name, []).append((statement.span.end, within))
            if statement.kind == "other" and _INTEGERS.match(kind):
                for name in self.source.declared(statement.span):
                    self._seen.setdefault(name, []).append((statement.span.end, within))
            for part in (statement.body, statement.alternative):
                self._declared(part, statement.body_span or statement.span)

    def known_at(self, place: Span) -> Iterator[tuple[str, Term]]:
        """The integers that stand at a place, with what they hold; long sums first."""
        for name, meant in self._names:
            end, within = self._seen[name][0]
            if end <= place.start and within.holds(place):
                yield name, meant

    def at(self, term: Term, place: Span) -> str:
        """The term as it may be written at a place. Raises NotPrinted."""
        if any(symbol in self.form.derived for symbol in term.symbols()):
            term = with_turns(self.form, term, self.form.derived)
        for name, meant in self.known_at(place):
            whole, rest = split(term, meant)
            if whole.parts and not any(symbol in rest.symbols() for symbol in meant.symbols() if symbol.kind != "axis"):
                return self._joined([self._times(name, whole, place)], rest, place)
        return self._joined([], term, place)

    def _times(self, name: str, whole: Term, place: Span) -> str:
        if whole.value == 1:
            return name
        by = self.at(whole, place)
        return f"{name} * {by}" if re.fullmatch(r"[\w.]+", by) else f"{name} * ({by})"

    def _joined(self, said: list[str], rest: Term, place: Span) -> str:
        text = " + ".join(said)
        for mono, count in sorted(rest.parts.items(), key=lambda part: (not part[0], -len(part[0]))):
            factors, number = [self._atom(atom, place) for atom in mono], count
            for symbol, threads, size in self._extents:
                if symbol in mono and number % size == 0:
                    factors.append(threads)
                    number //= size
            if abs(number) != 1 or not factors:
                factors.append(str(abs(number)))
            product = " * ".join(factors)
            text = f"{text} {'-' if number < 0 else '+'} {product}" if text else f"{'-' * (number < 0)}{product}"
        return text or "0"

    def _atom(self, atom: Symbol | Op, place: Span) -> str:
        if isinstance(atom, Symbol):
            if atom in _INDICES:
                return _INDICES[atom]
            if atom in self.loops:
                return self.loops[atom]
            if atom.kind == "axis" and atom.name in self.given:
                return self.given[atom.name]
            raise NotPrinted(atom.text)
        if atom.name not in _SIGNS:
            raise NotPrinted(atom.name)
        sides = [self.at(arg, place) for arg in atom.args if isinstance(arg, Term)]
        left, right = (side if re.fullmatch(r"[\w.]+", side) else f"({side})" for side in sides)
        return f"({left} {_SIGNS[atom.name]} {right})"


def with_turns(form: Form, term: Term, turns: Mapping[Symbol, Term]) -> Term:
    """A term in which loop variables are written by the number of the turn."""

    def rebuilt(op: Op) -> Term:
        left, right = op.args[0], op.args[-1]
        if op.name not in _SIGNS or not isinstance(left, Term) or not isinstance(right, Term):
            return Term.of(op)
        left, right = (part.substitute(turns, rebuilt) for part in (left, right))
        if op.name == "div" and (right.value or 0) < 0:
            left, right = -left, -right
        return (divide if op.name == "div" else remainder)(form.bounds, left, right)

    return term.substitute(turns, rebuilt)
