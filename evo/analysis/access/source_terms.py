"""Terms in the author's words: `row` for blockIdx.y * 16 + threadIdx.y, `bx` and `tx` for the indices themselves."""

from __future__ import annotations

from collections.abc import Callable

from evo.analysis.access.comparisons import Condition, spell_condition
from evo.analysis.access.form import BLOCK, THREAD, Access, Form, Loop
from evo.analysis.access.terms import Op, Predicate, Symbol, Term, spell

_SHORT = {symbol: f"b{axis}" for symbol, axis in zip(BLOCK, "xyz", strict=True)}
_SHORT |= {symbol: f"t{axis}" for symbol, axis in zip(THREAD, "xyz", strict=True)}
_LONGEST = 110


class Wording:
    """Spells the terms of one form. used: the author's names that were said, with what they stand for."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.used: dict[str, Term] = {}
        self._names = [(term, name) for term, name in form.names.items() if name not in ("tid",) or term.parts]
        self._names.sort(key=lambda pair: -len(pair[0].key))

    def term(self, term: Term) -> str:
        """A term with the longest names that the author has for its parts."""
        exact = next((name for named, name in self._names if named == term), None)
        if exact is not None and len(term.parts) >= 1 and not _is_bare(term):
            self.used[exact] = term
            return exact
        rest, said = term, []
        for named, name in self._names:
            if _is_bare(named) or not set(named.parts) <= set(rest.parts):
                continue
            if all(rest.parts[mono] == n for mono, n in named.parts.items() if mono) and named.constant == 0:
                rest = rest - named
                said.append(name)
                self.used[name] = named
        text = spell(self._short(rest)) if rest.parts or not said else ""
        if not said:
            return _clipped(text)
        joined = " + ".join(said)
        return _clipped(
            joined if not text else f"{joined} - {text[1:]}" if text.startswith("-") else f"{joined} + {text}"
        )

    def _short(self, term: Term) -> Term:
        values = {symbol: Term.of(Symbol(_SHORT[symbol], symbol.kind)) for symbol in term.symbols() if symbol in _SHORT}
        return self._named_inside(term).substitute(values, Term.of)

    def _named_inside(self, term: Term) -> Term:
        """Operands of divisions in the author's words."""
        return term.mapped(lambda atom: Term.of(self._op(atom) if isinstance(atom, Op) else atom))

    def _op(self, op: Op) -> Op:
        args: list[Term | Predicate] = []
        for arg in op.args:
            name = next((name for named, name in self._names if named == arg and not _is_bare(named)), None)
            if name is not None and isinstance(arg, Term):
                self.used[name] = arg
                args.append(Term.of(Symbol(name, "thread")))
            else:
                args.append(self._named_inside(arg) if isinstance(arg, Term) else arg)
        return Op(op.name, tuple(args))

    def condition(self, condition: Condition) -> str:
        return _clipped(spell_condition(condition, self.term))

    def place(self, access: Access) -> str:
        """`a[row, i]`, with a range where one thread takes several elements."""
        if access.array is None:
            return f"?[{access.text}]"
        if access.subscripts:
            inside = [self.term(term) for term in access.subscripts]
            if access.elements > 1:
                inside[-1] += f" .. +{access.elements - 1}"
            return f"{access.array.name}[{', '.join(inside)}]"
        at = f"{self.term(access.index)}" if access.index is not None else f"byte {self.term(access.offset)}"
        return f"{access.array.name}[{at}]"

    def loop(self, loop: Loop) -> str:
        """`for i in 0 .. K`, `for c = tx; c < C; c += 256`, `for s in 16, 8, 4, 2, 1`."""
        name = loop.symbol.name
        kept, self._names = self._names, [pair for pair in self._names if pair[1] != name]
        try:
            return self._loop(loop, name)
        finally:
            self._names = kept

    def _loop(self, loop: Loop, name: str) -> str:
        if loop.values is not None:
            values = loop.values if len(loop.values) <= 6 else (*loop.values[:2], "...", loop.values[-1])
            return f"for {name} in {', '.join(map(str, values))}"
        if name == "turn" and loop.condition.key == "and()":
            return "repeat" + (f" until {self.condition(loop.until)}" if loop.until is not None else "")
        end = self._end(loop)
        if end is not None and loop.step.value == 1:
            said = f"for {name} in {self.term(loop.start)} .. {end}"
        else:
            step = loop.step.value
            by = f"{name} -= {-step}" if step is not None and step < 0 else f"{name} += {self.term(loop.step)}"
            said = f"for {name} = {self.term(loop.start)}; {self.condition(loop.condition)}; {by}"
        return said + (f", left if {self.condition(loop.until)}" if loop.until is not None else "")

    def _end(self, loop: Loop) -> str | None:
        """The bound of `i < bound`."""
        term = getattr(loop.condition, "term", None)
        if not isinstance(term, Term) or getattr(loop.condition, "relation", "") != ">=":
            return None
        weight = term.coefficient(loop.symbol)
        if weight is None or weight.value != -1:
            return None
        return self.term(term.without((loop.symbol,)) + 1)

    def legend(self) -> list[str]:
        """What the names stand for that were used, those of which others are made too."""
        said: dict[str, str] = {}
        waiting = dict(self.used)
        spelled = Wording.plain()
        for name, term in sorted(waiting.items(), key=lambda pair: len(pair[1].key)):
            said[name] = f"{name} = {spelled(term)}"
        return list(said.values())

    @staticmethod
    def plain() -> Callable[[Term], str]:
        """Terms with the short names of indices only."""

        def spelled(term: Term) -> str:
            values = {s: Term.of(Symbol(_SHORT[s], s.kind)) for s in term.symbols() if s in _SHORT}
            return _clipped(spell(term.substitute(values, Term.of)))

        return spelled


def _is_bare(term: Term) -> bool:
    """A single index needs no other name."""
    return isinstance(term.atom, Symbol)


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
