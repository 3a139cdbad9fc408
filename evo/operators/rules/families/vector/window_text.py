"""How windows are spelled in a kernel: their structs, loads and stores, and the tests that allow them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.analysis.access import BLOCK, THREAD, Compare, LaunchAnalysis, Op, Symbol, Term
from evo.operators.rules.element import BYTES, pack_name, pack_struct
from evo.operators.rules.families.vector.windows import (
    FIRST,
    OUTPUT,
    PLACES,
    SHARED,
    Divisible,
    Neighbours,
    Stretch,
    Test,
)
from evo.operators.rules.lifting import NotPrinted, names_of
from evo.operators.rules.rewriting import bracketed, closed, fresh
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex

_LONG = re.compile(r"\b(?:long|size_t|ptrdiff_t|u?int64_t)\b")
_SHORT = ("int", "unsigned", "unsigned int", "uint32_t")


@dataclass(frozen=True, slots=True)
class WindowText:
    """One kernel, its index and its windows, and how terms are spelled in it. known: what its integers hold."""

    ctx: RuleContext
    analysis: LaunchAnalysis
    index: ThreadIndex
    found: Neighbours
    windows: list[Stretch]
    first: str
    output: str
    packs: list[str]
    known: Mapping[Term, str]

    @property
    def number(self) -> str:
        """The type of places: a long one if the kernel has any."""
        text = self.ctx.source.slice(self.index.function.span)
        return "long long" if self.index.kind not in _SHORT or _LONG.search(text) else "int"

    def said(self, term: Term) -> str:
        """Raises NotPrinted."""
        term = term.substitute(dict(self.analysis.form.derived))
        if not term.parts:
            return "0"
        for meant, name in self.known.items() if len(term.parts) > 1 else ():
            if len(meant.parts) > 1 and (rest := (term - meant).value) is not None:
                return f"{name} {'-' if rest < 0 else '+'} {abs(rest)}" if rest else name
        ordered = sorted(term.parts.items(), key=lambda part: (not part[0], part[1] < 0))
        text = ""
        for mono, number in ordered:
            size = abs(number)
            factors = self._factors(mono) + ([str(size)] if size != 1 or not mono else [])
            sign = (" - " if text else "-") if number < 0 else (" + " if text else "")
            text += sign + " * ".join(factors)
        return text

    def _factors(self, mono: Sequence[Symbol | Op]) -> list[str]:
        """The parts of a product; sizes that the kernel gets multiplied together are one of them."""
        left, found = list(mono), list[str]()
        own = names_of(self.ctx, self.index.function)
        axes = {atom.name: atom for atom in mono if isinstance(atom, Symbol) and atom.kind == "axis"}
        for text, name in own.items():
            parts = [part.strip() for part in text.split("*")]
            if len(parts) > 1 and len(set(parts)) == len(parts) and set(parts) <= axes.keys() - own.keys():
                found.append(name)
                gone = [axes.pop(part) for part in parts]
                left = [atom for atom in left if atom not in gone]
        return [*found, *map(self._atom, left)]

    def _atom(self, atom: Symbol | Op) -> str:
        if isinstance(atom, Op):
            return self._operation(atom)
        if atom == FIRST:
            if self.index.kind not in _SHORT:  # signed, and as wide as what it is compared with
                return f"(long long){self.first}"
            return self.first if self.index.kind == "int" else f"(int){self.first}"
        if atom == OUTPUT:
            return self.output
        for by, shared in SHARED.items():
            if atom == shared:
                return f"({self.output} / {by})"
        if atom in PLACES.values():
            if Term.of(atom) in self.known:
                return self.known[Term.of(atom)]
            axis = atom.name[-1]
            return f"({self.number})(blockIdx.{axis} * blockDim.{axis} + threadIdx.{axis})"
        if atom in (*BLOCK, *THREAD):
            return f"({self.number}){atom.name}"
        if atom.kind == "loop":
            return atom.name
        name = names_of(self.ctx, self.index.function).get(atom.name) if atom.kind == "axis" else None
        if name is None:
            raise NotPrinted(atom.name)
        kind = next((param.type for param in self.index.function.params if param.name == name), "int")
        return f"(long long){name}" if re.search(r"unsigned|size_t|uint", kind) else name

    def _operation(self, op: Op) -> str:
        if op.name in ("div", "mod"):
            left, right = (self.said(term) for term in op.terms)
            left, right = (text if closed(text, 0) == len(text) else bracketed(text) for text in (left, right))
            return f"({left} {'/' if op.name == 'div' else '%'} {right})"
        if op.name in ("min", "max"):
            sides = [self.said(term) for term in op.terms]
            is_long = any("long long" in side for side in sides)  # both, or no `min` is chosen
            return f"{op.name}({', '.join(f'(long long)({side})' if is_long else side for side in sides)})"
        if op.name == "select" and isinstance(op.args[0], Compare):
            condition, (taken, otherwise) = op.args[0], op.terms
            test = f"{self.said(condition.term)} {condition.relation} 0"
            return f"({test} ? {self.said(taken)} : {self.said(otherwise)})"
        raise NotPrinted(op.name)

    def test(self, test: Test) -> str:
        if isinstance(test, Divisible):
            return f"{bracketed(self.said(test.sizes))} % {test.by} == 0" if str(test.sizes) else ""
        negative = Term({mono: -n for mono, n in test.parts.items() if n < 0})
        return f"{self.said(negative)} <= {self.said(test + negative)}"

    def pieces(self, window: Stretch, size: int = 0) -> str:
        """The name of the struct that holds a window, or so many elements of it."""
        return f"{pack_name(self._kind(window))}{size or window.size}x{window.unit}"

    def structs(self, window: Stretch) -> list[str]:
        kind = self._kind(window)
        sizes = dict.fromkeys((window.size, window.unit) if window.is_ragged else (window.size,))
        return [pack_struct(self.pieces(window, size), kind, size, window.unit) for size in sizes]

    def _kind(self, window: Stretch) -> str:
        kind = self.ctx.source.element_type(self.index.function.name, window.array.parameter)
        if kind not in BYTES or BYTES[kind] != window.array.element_bytes:
            raise NotPrinted("a type of no known size")
        return kind

    def row(self, window: Stretch) -> str:
        """Which of a window's stretches a turn has, as subscripts."""
        said = ""
        for symbol in window.rows:
            turns = self._turns(symbol)
            start, step = turns.start, turns.step
            at = symbol.name if start == 0 else f"{symbol.name} - {start}" if start > 0 else f"{symbol.name} + {-start}"
            said += f"[{at}]" if step == 1 else f"[({at}) / {step}]"
        return said

    def _turns(self, symbol: Symbol) -> range:
        """The values of a loop's variable. Raises NotPrinted."""
        values = self.analysis.form.loops[symbol].counted
        if values is None or values.step < 0:
            raise NotPrinted("a loop of no known length")
        return values

    def address(self, window: Stretch) -> str:
        return f"{window.array.parameter}[{self._begin(window)}]"

    def _begin(self, window: Stretch) -> str:
        """Where a window begins: by rows where its places have subscripts, else as a sum."""
        begin, (spot, *_), moving = window.base + window.start, window.places, {OUTPUT, *SHARED.values()}
        if len(spot.access.subscripts) < 2:
            return self.said(begin)
        with contextlib.suppress(NotPrinted):
            *outer, last = (self.found.spread(term) for term in spot.access.subscripts)
            every, sizes = [*outer, last - spot.inside + window.start], window.array.shape[1:]
            whole = every[0]
            for size, term in zip(sizes, every[1:], strict=True):
                whole = whole * size + term
            if len(begin.parts) > 1 and whole == begin and not any(moving & term.symbols() for term in every):
                return self._by_rows(every, sizes)
        return self.said(begin)

    def _by_rows(self, subscripts: Sequence[Term], sizes: Sequence[Term]) -> str:
        """An offset as people write it, `(z * H + y) * W + x`. Raises NotPrinted."""
        text = self.said(subscripts[0])
        for size, term in zip(sizes, subscripts[1:], strict=True):
            factors = (f"({part})" if re.search(r" [-+/%] ", part) else part for part in (text, self.said(size)))
            row, said = "" if text == "0" else " * ".join(factors), self.said(term)
            text = said if not row else row if said == "0" else f"{row} + {said}"
        return text

    def loaded(self, window: Stretch, pack: str, indent: str) -> str:
        """The declaration of a window and the loops that load it."""
        kind = self.pieces(window)
        if not window.is_read:
            return f"{indent}{kind} {pack};\n"
        load = f"*reinterpret_cast<const {kind}*>(&{self.address(window)})"
        if not window.rows and not window.is_ragged:
            return f"{indent}{'' if window.is_written else 'const '}{kind} {pack} = {load};\n"
        turns = [self._turns(symbol) for symbol in window.rows]
        text = f"{indent}{kind} {pack}{''.join(f'[{len(values)}]' for values in turns)};\n"
        heads = []
        for symbol, values in zip(window.rows, turns, strict=True):
            name, step = symbol.name, values.step
            grows = f"++{name}" if step == 1 else f"{name} += {step}"
            heads.append(f"for (int {name} = {values.start}; {name} < {values.stop}; {grows}) {{")
        line = f"{pack}{self.row(window)} = {load};"
        if window.is_ragged:
            piece = fresh(self.ctx, "piece")
            heads.append(f"for (int {piece} = 0; {piece} < {window.size}; {piece} += {window.unit}) {{")
            line = self._piece(window, pack, piece)
        for depth, head in enumerate(heads):
            text += f"#pragma unroll\n{indent}{'    ' * depth}{head}\n"
        text += f"{indent}{'    ' * len(heads)}{line}\n"
        return text + "".join(f"{indent}{'    ' * depth}}}\n" for depth in reversed(range(len(heads))))

    def _piece(self, window: Stretch, pack: str, piece: str) -> str:
        """One piece of a window; one that would lie outside of the tensor is another, of which nothing is used."""
        kind, unit = self.pieces(window, window.unit), window.unit
        number = self.number
        at = f"({number})({self._begin(window)}) + {piece}"
        at = f"min(max({at}, ({number})0), ({number})({self.said(window.total)}) - {unit})"
        own = f"*reinterpret_cast<{kind}*>(&{pack}{self.row(window)}.at[{piece}])"
        return f"{own} = *reinterpret_cast<const {kind}*>(&{window.array.parameter}[{at}]);"

    def stored(self, window: Stretch, pack: str, indent: str) -> str:
        return f"{indent}*reinterpret_cast<{self.pieces(window)}*>(&{self.address(window)}) = {pack};\n"
