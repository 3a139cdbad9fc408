"""Sums of products of bytes four at a time: a word of four neighbours of each factor, and `__dp4a`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from evo.analysis.access import Access, Form, LaunchAnalysis, Loop, Symbol, Term
from evo.analysis.access.data_values import plain
from evo.analysis.access.reductions import Reduction
from evo.cuda.source import Edit, Function
from evo.operators.rules.lifting import names_of
from evo.operators.rules.rewriting import fresh, indent_of
from evo.operators.rules.rule import Application, Rule, by_launch
from evo.operators.rules.rule_context import RuleContext

_WORDS = {"signed char": "int", "unsigned char": "unsigned"}
_COUNT = 4  # bytes of a word
_COUNTS = (16, 4)  # of a load
_PARTS = {16: (".x", ".y", ".z", ".w"), 4: ("",)}


@dataclass(frozen=True, slots=True)
class _Dot:
    """sum over the loop of number * first * second, for some pairs of reads."""

    loop: Loop
    name: str  # of the sum
    reads: tuple[Access, ...]
    terms: tuple[tuple[int, int, int], ...]  # number, and the places of both factors in reads


def _find(ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> Iterator[Application]:
    names = names_of(ctx, function)
    if "__dp4a" in ctx.source.slice(function.span):
        return
    for reduction in analysis.reductions:
        found = _dot(analysis.form, reduction)
        extent = found.loop.trip.text if found is not None and found.loop.trip is not None else ""
        if found is None or ctx.source.is_bare(found.loop.span) or not (extent.isdigit() or extent in names):
            continue
        for rank, count in enumerate(_COUNTS):
            if not extent.isdigit() or int(extent) % count == 0:
                yield Application(
                    edits=(Edit(found.loop.span, _text(ctx, found, names.get(extent, extent), count)),),
                    summary=f"{function.name}: {count} bytes of {' and '.join(_arrays(found))} at a time",
                    arguments={"function": function.name, "to": count},
                    rank=rank,
                    is_schedule=True,
                )


def _dot(form: Form, reduction: Reduction) -> _Dot | None:
    loop = form.loops[reduction.loops[-1]] if reduction.loops else None
    operand = reduction.operand
    if loop is None or (reduction.kind, reduction.place, len(reduction.loops)) != ("sum", "register", 1):
        return None
    if operand is None or operand.op != "index" or not isinstance(operand.detail, Term) or loop.calls or loop.factor:
        return None
    if loop.start.value != 0 or loop.step.value != 1 or loop.until is not None or len(loop.carried) != 1:
        return None
    extent, update = loop.trip, plain(loop.carried[0].update)
    if update is None or update.op == "select":  # not every product counts
        return None
    if extent is None or (extent.value or 0) % _COUNT or not (extent.value or isinstance(extent.atom, Symbol)):
        return None
    inside = [access for access in form.accesses if loop.symbol in access.loops]
    if not all(_is_plain(access, loop, extent) for access in inside):
        return None
    if len({access.memory.element for access in inside}) != 1:
        return None
    reads: dict[tuple[object, Term | None], Access] = {}
    for access in inside:
        reads.setdefault((access.array, access.index), access)
    kept, terms = list(reads), []
    for atoms, number in operand.detail.parts.items():
        at = [_read(form, atom) for atom in atoms if isinstance(atom, Symbol)]
        places = [kept.index((read.array, read.index)) for read in at if read is not None and read in inside]
        if len(places) != 2 or len(atoms) != 2:
            return None
        terms.append((number, places[0], places[1]))
    return _Dot(loop, reduction.names[0], tuple(reads.values()), tuple(terms)) if terms else None


def _is_plain(access: Access, loop: Loop, extent: Term) -> bool:
    """Whether an access reads the loop's own byte of a line that begins at a multiple of its length, in every turn."""
    if not access.is_global or access.mode != "read" or access.index is None or access.loops[-1] != loop.symbol:
        return False
    rest = access.index - Term.of(loop.symbol)
    within = access.context[access.context.index(loop.symbol) + 1 :]
    return (
        access.memory.element in _WORDS
        and access.bytes == 1
        and loop.symbol not in rest.symbols()
        and all(part == loop.condition for part in within)
        and all(n % _COUNT == 0 or extent.atom in atoms for atoms, n in rest.parts.items())
    )


def _read(form: Form, value: Symbol) -> Access | None:
    """What a value was loaded by."""
    data = form.values[value].data if value in form.values else None
    number = data.detail if data is not None and data.op == "read" else None
    return form.accesses[number] if isinstance(number, int) and number >= 0 else None


def _arrays(found: _Dot) -> list[str]:
    return list(dict.fromkeys(read.memory.parameter for read in found.reads))


def _text(ctx: RuleContext, found: _Dot, extent: str, count: int) -> str:
    kind = _WORDS[found.reads[0].memory.element]
    wide = kind if count == _COUNT else f"{'u' if kind == 'unsigned' else ''}int4"
    variable, indent = found.loop.symbol.name, indent_of(ctx.source, found.loop.span.start)
    names = [fresh(ctx, name) for name in ("first", "second", "third")[: len(found.reads)]]
    lines = [
        f"const {wide} {name} = *reinterpret_cast<const {wide}*>(&{read.text});"
        for name, read in zip(names, found.reads, strict=True)
    ]
    lines += [_step(found, [name + part for name in names], kind) for part in _PARTS[count]]
    old = textwrap.indent(ctx.source.slice(found.loop.span).replace(f"\n{indent}", "\n"), "    ")
    inside = "\n".join(f"    {line}" for line in lines)
    new = f"for (int {variable} = 0; {variable} < {extent}; {variable} += {count}) {{\n{inside}\n}}"
    if not extent.isdigit():
        new = f"if ({extent} % {count} == 0) {{\n{textwrap.indent(new, '    ')}\n}} else {{\n{old}\n}}"
    return new.replace("\n", f"\n{indent}")


def _step(found: _Dot, words: list[str], kind: str) -> str:
    """What one word of each read adds to the sum."""
    if len(found.terms) == 1 and found.terms[0][0] == 1 and kind == "int":
        return f"{found.name} = __dp4a({words[found.terms[0][1]]}, {words[found.terms[0][2]]}, {found.name});"
    zero, said = ("0" if kind == "int" else "0u"), ""
    for number, one, other in sorted(found.terms, key=lambda term: term[0] < 0):
        said += (" - " if number < 0 else " + ") if said else "-" if number < 0 else ""
        said += (f"{abs(number)} * " if abs(number) != 1 else "") + f"__dp4a({words[one]}, {words[other]}, {zero})"
    return f"{found.name} += {said};"


RULES = (
    Rule(
        name="byte_dots",
        sentence="Sums products of bytes four at a time by `__dp4a`, of words of four neighbours; squares of"
        " differences as three such products.",
        find=by_launch(_find),
        reason="each byte is loaded, widened and multiplied by instructions of its own, though one takes four of them",
        expected="a quarter of the loads and multiply-adds",
        risk="where lines are no multiple of the load the old loop runs",
        next_if_kept="sizes compiled in, so that words stay in registers",
        next_if_reverted="wide loads alone",
    ),
)
