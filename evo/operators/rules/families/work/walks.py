"""Loops that a thread walks alone and lanes may share out: which they are, and how lanes combine what they found."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evo.analysis.access import BLOCK, THREAD, Access, Branch, Form, LaunchAnalysis, Loop, Nest, Node, Reduction, Term
from evo.analysis.access.data_values import is_number, number_in
from evo.analysis.access.reductions import RECURRENCE
from evo.cuda.source import Edit, Function, Span
from evo.operators.rules.families.work.few import SUFFIX, kept_of_both
from evo.operators.rules.families.work.moments import is_moments, merging, with_count
from evo.operators.rules.families.work.softmax_parts import by_elements, is_natural, softmax_of_both
from evo.operators.rules.families.work.walked_pointers import indexed
from evo.operators.rules.lifting import NotPrinted
from evo.operators.rules.rewriting import WORD, fresh, indent_of, listed
from evo.operators.rules.rule_context import RuleContext
from evo.spec.comments import without_comments

_HEADER = re.compile(r"for\s*\((?P<init>[^;]*);(?P<test>[^;]*);(?P<step>[^;]*)\)\s*$", re.DOTALL)
_INIT = re.compile(r"(?P<head>\s*(?:[\w:]+[\s*&]+)*?(?P<name>\w+)\s*=\s*)(?P<value>.+?)\s*$", re.DOTALL)
_COMBINED = {"sum": "{0} += {1}", "product": "{0} *= {1}"}
_VECTOR = re.compile(r"(float|double|int|uint)[234]")
_WORD = re.compile(r"[\w.]+")
_CONTROLS = re.compile(r"(?:return|for|if|while|do)\b")
_TYPES = re.compile(r"[A-Za-z_][\w:<> ]*")
_NEUTRAL = {"sum": "0", "product": "1", "online_softmax": "0"}  # of an online softmax, for each of its sums
_LOWEST = {"float": "-3.402823466e+38f", "double": "-1.7976931348623157e+308"}
# From which of a reduction's names on they add up; a maximum may be counted more than once.
_SUMS = {"online_softmax": 1}
_PLACED = re.compile(r"\b(?:threadIdx|blockIdx|gridDim|__shared__|__sync\w*|\w+_sync|laneid)\b")


@dataclass(frozen=True, slots=True)
class SharedLoop:
    """A loop that the lanes share out, with what they combine behind it, and edits that it needs for that.

    is_scan: its turns store what they have come to, so lanes combine in order and on the way. whole: a loop around it
    behind which they combine, if each of its turns only goes on.
    """

    loop: Loop
    reductions: tuple[Reduction, ...]
    edits: tuple[Edit, ...] = ()
    is_scan: bool = False
    whole: Loop | None = None

    @property
    def span(self) -> Span:
        """Of all turns whose outcome lanes combine at once."""
        return (self.whole or self.loop).span


def is_called_by(ctx: RuleContext, loop: Loop, kernel: Function) -> bool:
    """Whether only this kernel calls the functions that a loop stands in."""
    others = [f for f in ctx.source.functions if f.is_kernel and f.name != kernel.name]
    return not any(re.search(rf"\b{name}\b", ctx.source.slice(f.body)) for f in others for name in loop.calls)


def is_met_in(ctx: RuleContext, access: Access, shared: Sequence[SharedLoop]) -> bool:
    """Whether the statement of a store, which one lane is to carry out, calls a function in which all lanes meet."""
    statement = ctx.source.slice(ctx.source.enclosing_statement(access.span))
    return any(re.search(rf"\b{name}\b", statement) for each in shared for name in each.loop.calls)


def outermost(nodes: tuple[Node, ...]) -> Iterator[Loop]:
    return (loop for loop, _ in nests(nodes))


def nests(nodes: tuple[Node, ...]) -> Iterator[tuple[Loop, tuple[Node, ...]]]:
    """The outermost loops, each with its body."""
    for node in nodes:
        if isinstance(node, Nest):
            yield node.loop, node.body
        elif isinstance(node, Branch):
            yield from nests(node.then)
            yield from nests(node.otherwise)


def are_known(form: Form, loop: Loop, reductions: tuple[Reduction, ...]) -> bool:
    known = ("sum", "product", "max", "min", "argmax", "argmin", "online_softmax", "welford", RECURRENCE)
    named = {name for r in reductions for name in r.names}
    return (
        all((r.kind in known and r.place == "register") or r.kind.endswith(SUFFIX) for r in reductions)
        and {carried.name for carried in loop.carried} <= named
        and all(_NAMED.fullmatch(name) or r.kind.endswith(SUFFIX) for r in reductions for name in r.names)
        and all(r.kind != "online_softmax" or is_natural(form, r) for r in reductions)
        and all(r.kind != "welford" or is_moments(r) for r in reductions)
    )


def shared_loop(ctx: RuleContext, loop: Loop, reductions: tuple[Reduction, ...]) -> SharedLoop:
    """A loop whose reductions are known, with all that lanes have to combine. Raises NotPrinted."""
    found, edits = [], list[Edit]()
    for each in reductions:
        made, needed = with_count(ctx, loop, each) if each.kind == "welford" else (each, ())
        found.append(made)
        edits += needed
    return SharedLoop(loop, tuple(found), tuple(edits))


def shared_of(ctx: RuleContext, analysis: LaunchAnalysis, loop: Loop, own: Collection[str] = ()) -> SharedLoop | None:
    """A loop as lanes may share it, scans too; None if they may not. Raises NotPrinted.

    own: arrays of which each of those who share it has one.
    """
    # An atomic is each turn's own: the lanes carry out as many, in another order.
    known = {("local", name) for name in own}  # what is added up there is theirs too
    reductions = tuple(r for r in analysis.legality.is_reduction(loop) if r.place != "atomic")
    reductions = tuple(r for r in reductions if not {(r.place, name) for name in r.names} <= known or not r.names)
    reductions = by_elements(analysis, reductions)
    if not are_known(analysis.form, loop, reductions) or not _are_named(ctx, loop, reductions):
        return None
    verdict = analysis.legality.parallel(loop)
    if verdict.holds or (verdict.buffers and set(verdict.buffers) <= {*own}):
        return shared_loop(ctx, loop, reductions)
    if analysis.legality.parallel(loop, scans=True).holds:
        return replace(shared_loop(ctx, loop, reductions), is_scan=True)
    return None


def _are_named(ctx: RuleContext, loop: Loop, reductions: Sequence[Reduction]) -> bool:
    """Whether a function that a kernel calls has variables of its own for what its loop combines, and no addresses."""
    inside = next((f for f in ctx.source.functions if f.body.holds(loop.span)), None) if loop.calls else None
    addresses = {param.name for param in inside.params if param.is_pointer} if inside is not None else set[str]()
    others = set(WORD.findall(ctx.source.text)) - set(WORD.findall(ctx.source.slice(loop.span)))
    names = {word for found in reductions for name in found.names for word in WORD.findall(name)[:1]}
    return inside is None or not names & (addresses | others)


def going_on(ctx: RuleContext, analysis: LaunchAnalysis, loop: Loop, inner: SharedLoop) -> SharedLoop:
    """A shared loop in another one: combined behind that one if its turns do nothing else to what is combined."""
    around = shared_of(ctx, analysis, loop)
    if around is None or around.is_scan or inner.is_scan or around.edits or inner.edits or loop.calls:
        return inner
    said = [[(found.kind, found.names) for found in each.reductions] for each in (around, inner)]
    names = {name for _, found in said[0] for name in found}
    beside = (at for name, at in ctx.source.names(loop.span) if name in names and not inner.span.holds(at))
    if said[0] != said[1] or any(beside) or not all(_NAMED.fullmatch(name) for name in names):
        return inner
    return replace(inner, reductions=around.reductions, whole=loop)


_NAMED = re.compile(r"\w+(?:\.\w+|\[\d+\])?")  # a variable, a field of one, or an element of a short array


def index_of(
    ctx: RuleContext, analysis: LaunchAnalysis, function: Function, placed: re.Pattern[str] = _PLACED
) -> Span | None:
    """What the kernel's one index is set to, if nothing else depends on which thread it is.

    placed: words that would.
    """
    form = analysis.form
    wanted = Term.of(BLOCK[0]) * form.block[0] + Term.of(THREAD[0])
    name = form.names.get(wanted)
    for statement in ctx.source.inside(function):
        if statement.kind == "declare" and statement.name == name and statement.value is not None:
            span, body = statement.value, function.body
            text = ctx.source.data
            rest = (text[body.start : span.start] + text[span.end : body.end]).decode()
            here = ctx.source.slice(span)
            aliases = re.findall(r"\b(\w+)\s*=\s*threadIdx\.x\s*;", rest)
            for alias in aliases:
                if len(re.findall(rf"\b{alias}\b", rest)) == 1 and re.search(rf"\b{alias}\b", here):
                    rest = re.sub(rf"\b{alias}\s*=\s*threadIdx\.x", "", rest)
            return span if not placed.search(without_comments(rest)) else None
    return None


def stay_with_their_lane(analysis: LaunchAnalysis, shared: Sequence[SharedLoop]) -> bool:
    """Whether what is written and read or written again is touched by one lane: at the same turn of every loop."""
    loops = {each.loop.symbol: each.loop for each in shared}
    for array in analysis.form.tensors:
        inside = [not loops.keys().isdisjoint(a.loops) for a in analysis.form.of(array) if a.is_write]
        is_over = len(set(inside)) > 1 and analysis.legality.is_written_over(array)
        if not is_over and array not in analysis.legality.rereads_output:
            continue
        places, turn = dict[Term, Loop](), Term.of(THREAD[2])
        for access in analysis.form.of(array):
            ours = [loops[symbol] for symbol in access.loops if symbol in loops]
            if len(ours) == 1:
                places[access.offset.substitute({ours[0].symbol: turn + ours[0].start})] = ours[0]
        outside = [access for access in analysis.form.of(array) if loops.keys().isdisjoint(access.loops)]
        if any(len(loops.keys() & {*a.loops}) > 1 for a in analysis.form.of(array)) or not places:
            return False
        (place, loop), *others = places.items()
        length = place.coefficient(THREAD[2])  # to the next value of the loop's variable
        apart = [abs(number) if (number := (other - place).value) is not None else None for other, _ in others]
        if any(each is not loop for _, each in others):
            return False
        apart_at_least = (length.value or 0) * (loop.step.value or 0) if length is not None else 0
        if any(not number or number >= apart_at_least for number in apart):
            return False
        # An element in front of the first that the loop touches is written by nobody.
        before = place.substitute({THREAD[2]: Term.number(-1)}) if loop.step.value == 1 else None
        if any(access.is_write or access.offset != before for access in outside):
            return False
    return True


def starts_neutral(found: Reduction) -> bool:
    sums = found.carried[_SUMS.get(found.kind, 0) :]
    is_each = len(found.carried) == len(found.names)  # no element of an array, which is set somewhere
    neutral = float(_NEUTRAL.get(found.kind, 0))
    return found.kind not in _NEUTRAL or (is_each and all(is_number(one.initial, neutral) for one in sums))


def combined(ctx: RuleContext, found: Reduction, head: str, other: Callable[[str], str]) -> list[str] | None:
    """Lines that combine what all lanes have: a loop's head, and how a turn of it spells another lane's value."""
    names: Mapping[int, str] = dict(enumerate(found.names))
    if found.kind in _COMBINED:
        return [f"{head} {_COMBINED[found.kind].format(names[0], other(names[0]))};"]
    if found.kind.endswith(SUFFIX):
        return kept_of_both(ctx, found, head, other)
    theirs, word = fresh(ctx, "theirs"), fresh(ctx, "their_other")
    if found.kind in ("max", "min"):
        sign = ">" if found.kind == "max" else "<"
        return [
            f"{head} {{",
            f"    const auto {theirs} = {other(names[0])};",
            f"    {names[0]} = {theirs} {sign} {names[0]} ? {theirs} : {names[0]};",
            "}",
        ]
    if found.kind == "welford" and len(names) == 3:
        said = [fresh(ctx, f"their_{word}") for word in ("mean", "squares", "count")]
        lines = [f"    const auto {name} = {other(names[at])};" for at, name in enumerate(said)]
        return [f"{head} {{", *merging(found.names, said, lines, fresh(ctx, "total"), fresh(ctx, "apart")), "}"]
    both = [f"    const auto {theirs} = {other(names[0])};", f"    const auto {word} = {other(names[1])};"]
    if found.kind in ("argmax", "argmin"):
        sign = ">" if found.kind == "argmax" else "<"
        test = f"{theirs} {sign} {names[0]} || ({theirs} == {names[0]} && {word} < {names[1]})"
        return [f"{head} {{", *both, f"    if ({test}) {names[0]} = {theirs}, {names[1]} = {word};", "}"]
    if found.kind == "online_softmax":
        return softmax_of_both(ctx, found, head, other)
    return None


def stepped(
    ctx: RuleContext, shared: SharedLoop, lane: str, step: str, start: str | None = None, *, apart: int = 1
) -> list[Edit] | None:
    """The header of a loop that starts at each lane's turn; sums of all lanes but the first start at nothing.

    start: where the first lane's turns start, if it is not where the loop does. apart: how far a turn of the loop as
    it is written is from the next one.
    """
    source, loop = ctx.source, shared.loop
    header = _HEADER.match(source.slice(loop.header))
    init = _INIT.match(header["init"]) if header is not None else None
    if header is None or init is None or source.is_bare(loop.span) or len(listed(header["step"])) > 1:
        return None
    first_value, *others = listed(init["value"]) or [init["value"].strip()]
    start = first_value if start is None else start
    if apart > 1:
        said = re.fullmatch(rf"\s*{init['name']}\s*\+=\s*(\w+)\s*", header["step"])
        if said is None or ctx.source.integer(said[1]) != apart:
            return None  # a pointer's bytes, or no number
        lane_at, step = (
            f"{apart} * {each}" if _WORD.fullmatch(each) else f"{apart} * ({each})" for each in (lane, step)
        )
    else:
        lane_at = lane
    first = lane_at if start == "0" else f"{start} + {lane_at}"
    test = _below(header["test"], init["name"])
    if test is None:
        return None
    first = ", ".join([first, *others])  # `int i = 0, n = C`
    text, old = f"for ({init['head'].lstrip()}{first};{test}; {init['name']} += {step})", source.slice(loop.header)
    edits = [Edit(loop.header, text + old[len(old.rstrip()) :])]
    takes_each = start == "0" and re.sub(r"\s", "", header["step"]) in (f"{init['name']}++", f"++{init['name']}")
    known = {name for found in shared.reductions for name in found.names}
    pointers = indexed(ctx, loop.span, loop.header, init["name"], known, takes_each=takes_each)
    if pointers is None:
        return None
    edits += [*pointers, *shared.edits]
    indent = indent_of(source, shared.span.start)
    for found in shared.reductions:
        starts = starts_of(ctx, loop, found)
        above = source.above(shared.span)
        if starts and above is None:
            return None
        if starts and above is not None:
            edits.append(Edit(Span(above, above), f"{indent}if ({lane} > 0) {', '.join(starts)};\n"))
    return edits


def starts_of(ctx: RuleContext, loop: Loop, found: Reduction) -> list[str]:
    """What all lanes but the first set before a loop, so that nothing counts twice. Raises NotPrinted.

    A maximum that others are compared with by their difference is no infinity there: an element may be one too.
    """
    starts = []
    if found.kind == "online_softmax" and not math.isfinite(number_in(found.carried[0].initial)):
        kind = type_of(ctx, loop, found.names[0]).split()[-1]
        if kind not in _LOWEST:
            raise NotPrinted(f"the lowest {kind}")
        starts.append(f"{found.names[0]} = {_LOWEST[kind]}")
    if not starts_neutral(replace(found, names=found.names[: len(found.carried)])):
        starts += [f"{name} = {value}" for name, value in neutral_of(found).items()]
    elif not starts_neutral(found):  # elements of an array, which are set somewhere
        starts += [f"{name} = {value}" for name, value in neutral_of(found).items() if "[" in name]
    return starts


def neutral_of(found: Reduction) -> dict[str, str]:
    """What adds up, with the number that adds nothing; extrema may be counted more than once."""
    sums = found.names[_SUMS.get(found.kind, 0) :] if found.kind in _NEUTRAL else ()
    return dict.fromkeys(sums, _NEUTRAL.get(found.kind, ""))


def _below(test: str, name: str) -> str | None:
    """A loop's test for steps of more than one, which may leap over the end that `!=` waits for."""
    if "!=" not in test:
        return test
    sides = [side.strip() for side in test.split("!=")]
    if len(sides) != 2 or name not in sides or re.search(r"[&|^?<>=]", test.replace("!=", "")):
        return None
    return f" {name} < {sides[sides[0] == name]}"


def stored_if(ctx: RuleContext, access: Access, condition: str) -> Edit | None:
    """The edit that puts a condition in front of a store."""
    statement = ctx.source.enclosing_statement(access.span)
    text = ctx.source.slice(statement)
    if not text.endswith(";") or _CONTROLS.match(text) or statement == access.span:
        return None
    if access.mode == "atomic" and not text.startswith("atomic"):
        return None  # its result is used
    return Edit(Span(statement.start, statement.start), f"if ({condition}) ")


def combined_in_shared(
    ctx: RuleContext, shared: SharedLoop, shape: tuple[str, str], place: tuple[str, str]
) -> list[str]:
    """Lines by which the lanes of each column combine what a loop left, through shared memory.

    shape: names of the numbers of columns and lanes; place: of a thread's column and lane. Raises NotPrinted.
    """
    (count, per), (column, lane) = shape, place
    if not shared.reductions:
        return []
    parts = {name: parts_name(ctx, name) for found in shared.reductions for name in found.names}
    lines = [f"__shared__ {type_of(ctx, shared.loop, name)} {own}[{per}][{count}];" for name, own in parts.items()]
    lines += [f"{own}[{lane}][{column}] = {name};" for name, own in parts.items()] + ["__syncthreads();"]
    half = fresh(ctx, "half")
    lines += [f"for (int {half} = {per} / 2; {half} > 0; {half} /= 2) {{", f"    if ({lane} < {half}) {{"]
    for found in shared.reductions:
        made = combined(ctx, found, "", lambda name: f"{parts[name]}[{lane} + {half}][{column}]")
        if made is None:
            raise NotPrinted(f"a reduction by {found.kind}")
        lines += [f"        {line.lstrip() if not at else line}" for at, line in enumerate(made)]
    lines += [f"        {own}[{lane}][{column}] = {name};" for name, own in parts.items()]
    lines += ["    }", "    __syncthreads();", "}"]
    lines += [f"{name} = {own}[0][{column}];" for name, own in parts.items()]
    return lines


def parts_name(ctx: RuleContext, name: str, taken: Collection[str] = ()) -> str:
    """A name for what several threads have of a variable, or of a field; none of those taken."""
    return fresh(ctx, f"{'_'.join(re.findall(r'[A-Za-z0-9]+', name))}_parts", taken)


def type_of(ctx: RuleContext, loop: Loop, name: str) -> str:
    """What a variable that a loop combines is declared as. Raises NotPrinted."""
    variable, _, field = name.partition("[")[0].partition(".")
    if not re.search(rf"\b{variable}\b", ctx.source.text):
        return "float"  # a count that was not in the text
    inside = next(f for f in ctx.source.functions if f.body.holds(loop.span))
    said = [s for s in ctx.source.inside(inside) if s.kind == "declare" and s.name == variable]
    kinds = {s.type for s in said if bool(s.dims) == ("[" in name)}
    if field:
        kinds = {_field_type(ctx, kinds.pop() if len(kinds) == 1 else "", field)}
    if not kinds and (known := ctx.source.element_type(inside.name, variable)) is not None:
        kinds = {known}  # declared with others
    kind = " ".join(word for word in (kinds.pop() if len(kinds) == 1 else "").split() if word != "register")
    if not _TYPES.fullmatch(kind) or "auto" in kind.split():
        raise NotPrinted(f"the type of {name}")
    return kind


def _field_type(ctx: RuleContext, kind: str, field: str) -> str:
    """What a field of a struct of the file is declared as; empty if that is no type by a name."""
    name = " ".join(word for word in kind.split() if word != "struct")
    if (vector := _VECTOR.fullmatch(name)) is not None:
        return vector[1].replace("uint", "unsigned") if field in tuple("xyzw") else ""
    text = without_comments(ctx.source.text)
    said = rf"\bstruct\s+{re.escape(name)}\s*\{{([^{{}}]*)\}}|\bstruct\s*\{{([^{{}}]*)\}}\s*{re.escape(name)}\s*;"
    bodies = ["".join(each) for each in re.findall(said, text)] if _WORD.fullmatch(name) else []
    for declared in bodies[0].split(";") if len(bodies) == 1 else ():
        match = re.fullmatch(r"\s*(?P<kind>(?:unsigned\s+|long\s+)*\w+)\s+(?P<names>\w+(?:\s*,\s*\w+)*)\s*", declared)
        if match is not None and field in re.findall(r"\w+", match["names"]):
            return match["kind"]
    return ""
