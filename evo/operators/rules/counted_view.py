"""Loops and pointers that move, as rules know them: `for (int i = 0; i < n; ++i)` over `a[i]`.

`while (i < n) { ...; i++; }`, `while (n--)`, `do ... while`, loops that count down or walk a pointer are seen as loops
that count up, and `*p++` as the element that the access form says it is. A loop or pointer that the form could not
follow, or whose variable is used for anything else, stays as it is, and then so does the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.analysis.access import Compare, LaunchAnalysis, Loop, Op, Symbol, Term
from evo.analysis.access.comparisons import conjuncts
from evo.cuda.source import CountedFor, Edit, Function, Span
from evo.operators.rules.index_text import IndexText, with_turns
from evo.operators.rules.lifting import NotPrinted, names_of
from evo.operators.rules.rewriting import LEAVES, closed, fresh, listed, rewritten
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.written_out.macros import expanded_uses

_HEAD = re.compile(r"(?:while|for)\s*\(")
_COUNTS = re.compile(
    r"(?P<name>\w++)\s*+(?:<|!=)\s*+(?P<limit>[\w.]++(?:\s*+[*+]\s*+[\w.]++)*+|\([^()]*+\))(?=\s*+(?:[;)]|&&))"
)
_KINDS = ("int", "unsigned", "unsigned int", "size_t", "long", "long long")
_MOVED = r"(?:(?:\+\+|--)\s*\b{0}\b|\b{0}\b\s*(?:\+\+|--)|\b{0}\b\s*[-+]?=(?!=)[^;{{}}]*?)\s*;"
_STEPPED = r"(?:\+\+|--)\s*{0}\b|\b{0}\s*(?:\+\+|--|[-+]=)|[;{{}}(,)]\s*{0}\s*=(?!=)"
_POINTER = re.compile(r"[;{}(]\s*(?:const\s+)?\w+(?:\s+\w+)?\s*\*\s*(?:const\s+|__restrict__\s+)?(\w+)\s*=(?!=)")
_DECLARED = re.compile(
    r"(?<=[;{}\n])[ \t]*(?!return\b|goto\b)(?P<all>(?:\w+[ \t]+)*\w+[\s*]+(?:const |__restrict__ )?(?P<name>\w+)"
    r"(?:\s*=[^,;{}]*)?;)"
)
# `const float *p = x, *end = x + n;`
_SEVERAL = re.compile(
    r"(?<=[;{}\n])(?P<blanks>[ \t]*)(?P<kind>(?:const[ \t]+)?\w+(?:[ \t]+\w+)?)[ \t]*(?P<rest>\*[^;{}]*);"
)
_AUTO = re.compile(r"\bauto\s*\*?\s*(\w+)\s*=(?!=)")
_WIDE = re.compile(r"\(\s*(?:size_t|ptrdiff_t|u?int64_t|(?:unsigned )?long(?: long)?)\s*\)")
_PRODUCT = re.compile(r"(?:(?<=\A)|(?<=[-+] ))(?=[\w.]+ \*)")
_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)


def counted(ctx: RuleContext) -> list[Edit]:
    """The edits that make such loops and pointers plain, in all kernels that have some."""
    found: list[Edit] = []
    macros = [edit.span for edit in expanded_uses(ctx)]
    for analysis, function in ctx.analysed(once=True):
        if any(function.body.holds(span) for span in macros):
            continue  # they may read what moves
        try:
            found += _Counted(ctx, analysis, function).edits()
        except NotPrinted:
            continue
    return found


@dataclass(frozen=True, slots=True)
class _Turn:
    """A loop and what it becomes. old: its variable as it was; turns: that by the number of the turn.

    counts: the variable is still the author's, and only counts up.
    """

    loop: Loop
    body: Span
    old: str
    name: str
    header: str
    turns: Term
    counts: bool


class _Counted:
    """One kernel's body."""

    def __init__(self, ctx: RuleContext, analysis: LaunchAnalysis, function: Function) -> None:
        self.ctx, self.form, self.function = ctx, analysis.form, function
        self.source = ctx.source
        self.inside = self.source.inside(function)
        self.given = names_of(ctx, function)
        self.anew: frozenset[Span] = frozenset()  # the loops that are written anew

    def edits(self) -> list[Edit]:
        """The body anew; none if it is plain. Raises NotPrinted if the form does not show how a thing is used."""
        moving = self._moving()
        loops = [loop for loop in self.form.loops.values() if not loop.calls and self._is_other(loop, moving)]
        if not moving and not loops:
            return []
        self.anew = frozenset(loop.span for loop in loops)
        words = IndexText(self.form, self.source, self.function, self.given, {})
        made = [self._turn(loop, words, number) for number, loop in enumerate(loops)]
        turns = {turn.loop.symbol: turn.turns for turn in made}
        named = {symbol: symbol.name for symbol in self.form.loops if symbol not in turns}
        named |= {Symbol(turn.name, "loop"): turn.name for turn in made}
        words = IndexText(self.form, self.source, self.function, self.given, named)
        edits = [Edit(Span(turn.loop.span.start, turn.body.start), turn.header) for turn in made]
        edits += [Edit(Span(t.body.end, t.loop.span.end), "") for t in made if t.body.end < t.loop.span.end]
        # What counts up for itself in an index, `a[i++]`, is no step that could be left out as a statement.
        counts = {turn.old for turn in made if turn.counts}
        heads = [Span(turn.loop.span.start, turn.body.start) for turn in made]
        heads += [Span(turn.body.end, turn.loop.span.end) for turn in made]
        moving |= {turn.old for turn in made if not turn.counts and self._only_places(turn.old, heads)}
        edits += self._accesses(moving, counts, turns, words)
        body = rewritten(self.source, self.function.body, edits)
        return [Edit(self.function.body, _tidied(body, moving, made, set(self.given.values())))]

    def _moving(self) -> set[str]:
        """Pointers that the body writes after their declaration."""
        pointers = {s.name for s in self.inside if s.kind in ("declare", "for") and "*" in s.type}
        pointers |= {param.name for param in self.function.params if "*" in param.type}
        text = _TEXT.sub("", self.source.slice(self.function.body))
        pointers |= set(_POINTER.findall(_one_by_one(text)))
        pointers |= {name for name in _AUTO.findall(text) if _reads_through(name, text)}
        pointers |= {name for name in self._numbers() if self._only_places(name)}
        return {name for name in pointers if re.search(_STEPPED.format(re.escape(name)), text)}

    def _numbers(self) -> set[str]:
        """Integers of the body that are part of an index, and count no loop's turns."""
        own = {s.name for s in self.inside if s.kind == "declare" and self._integer(s.name) and not s.dims}
        words = {word for access in self.form.accesses for word in re.findall(r"\w+", access.text)}
        return (own & words) - {loop.symbol.name for loop in self.form.loops.values()}

    def _only_places(self, name: str, heads: Sequence[Span] = ()) -> bool:
        """Whether a number is set, moved on by statements of its own, and else only says where an access is.

        heads: of loops that count by it.
        """
        known = [*heads]
        known += [a.span for a in self.form.accesses if a.is_global and not a.calls]
        known += [s.span for s in self.inside if s.kind in ("declare", "assign") and s.name == name]
        begin, text = self.function.body.start, self.source.slice(self.function.body)
        if not text.isascii():
            return False
        known += [Span(begin + m.start(), begin + m.end()) for m in re.finditer(_MOVED.format(name), text)]
        known += self._others(name)
        return all(
            any(span.holds(at) for span in known) for each, at in self.source.names(self.function.body) if each == name
        )

    def _others(self, name: str) -> list[Span]:
        """The loops that count up by a variable of their own with this name."""
        found = [s.span for s in self.inside if isinstance(s, CountedFor) and s.name == name and s.type]
        return [span for span in found if span not in self.anew]

    def _is_other(self, loop: Loop, moving: set[str]) -> bool:
        if loop.values is not None and loop.symbol.name not in moving:
            return False  # such as the halves of a tree, which no rule wants to count up
        if self.source.slice(loop.span).startswith(("while", "do")):
            return True
        statement = next((s for s in self.inside if s.span == loop.span), None)
        if self._whole_turns(loop) is not None:
            return True
        return loop.symbol.name in moving or (statement is not None and not isinstance(statement, CountedFor))

    def _whole_turns(self, loop: Loop) -> Term | None:
        """R of `for (i = c; i < R * C; i += C)`, where 0 <= c < C is known: a walk down a column."""
        trip = loop.trip.atom if loop.trip is not None else None
        if not isinstance(trip, Op) or trip.name != "div" or loop.step != trip.terms[1]:
            return None
        top, size = trip.terms
        if not all(symbol.kind == "axis" for symbol in size.symbols()) or size.value is not None:
            return None
        ((mono, number), *more) = size.parts.items()
        turns = Term({})
        for each, times in top.parts.items():
            left = list(each)
            for atom in mono:
                left = left[: left.index(atom)] + left[left.index(atom) + 1 :] if atom in left else []
            if not more and left and not times % number:
                turns += Term({tuple(left): times // number})
        rest = top - turns * size
        inside = [access for access in self.form.accesses if loop.symbol in access.loops]
        known = {part.term for access in inside for part in conjuncts(access.guard) if isinstance(part, Compare)}
        is_within = rest in known and self.form.bounds.nonnegative(size - 1 - rest)
        return turns if is_within and turns.parts else None

    def _turn(self, loop: Loop, words: IndexText, number: int) -> _Turn:
        if loop.trip is None or loop.until is not None or loop.blocked is not None or loop.values is not None:
            raise NotPrinted("how often a loop runs")
        text, old = self.source.slice(loop.span), loop.symbol.name
        body = _body(loop, text)
        if LEAVES.search(_TEXT.sub("", self.source.slice(body))):
            raise NotPrinted("a loop that is left")
        kind = self._integer(old)
        head = self.source.slice(Span(loop.span.start, body.start))
        step = self._step(loop, text)
        whole = self._whole_turns(loop)
        counts = _COUNTS.search(head) if kind and step and not whole and not text.startswith("do") else None
        if counts is not None and counts["name"] == old and not re.search(rf"(?:\+\+|--)\s*{old}\s*[<!]", head):
            header = f"for ({kind} {old} = {words.at(loop.start, loop.span)}; {old} < {counts['limit']}; {step}) "
            return _Turn(loop, body, old, old, header, Term.of(Symbol(old, "loop")), counts=True)
        name = fresh(self.ctx, f"turn_{number + 1}" if number else "turn")
        limit = words.at(whole or _turns(loop.trip), loop.span)
        limit = f"(int)({limit})" if "Idx" in limit else limit  # a negative one is no large one
        header = f"for (int {name} = 0; {name} < {limit}; ++{name}) "
        return _Turn(
            loop, body, old, name, header, loop.start + loop.step * Term.of(Symbol(name, "loop")), counts=False
        )

    def _step(self, loop: Loop, text: str) -> str:
        """How a loop that counts up does so; empty if the text does not show it."""
        name = loop.symbol.name
        if loop.step.value == 1:
            return f"++{name}"
        said = re.findall(rf"\b{name}\s*\+=\s*([\w.]+(?:\s*\*\s*[\w.]+)*)\s*[;)]", text)
        return f"{name} += {said[0]}" if len(said) == 1 else ""

    def _integer(self, name: str) -> str:
        """The type of a variable that counts; empty if it is none."""
        kinds = {" ".join(s.type.split()) for s in self.inside if s.kind in ("declare", "for") and s.name == name}
        kind = kinds.pop() if len(kinds) == 1 else ""
        return kind if kind in _KINDS else ""

    def _accesses(
        self, moving: set[str], counts: set[str], turns: dict[Symbol, Term], words: IndexText
    ) -> Iterator[Edit]:
        """What moving pointers read and write, and what an index that steps itself does, as elements of tensors."""
        said: dict[Span, str] = {}
        wide = _WIDE.search(self.source.slice(self.function.body))  # as its author works out where a row begins
        for access in self.form.accesses:
            steps_itself = any(re.search(_STEPPED.format(name), access.text) for name in counts)
            moved = set(re.findall(r"\w+", access.text)) & moving
            moved -= {name for name in moved if any(span.holds(access.span) for span in self._others(name))}
            if not (moved or steps_itself) or access.calls:
                continue
            array = access.array
            known = array is not None and array.is_tensor and access.blocked is None and access.route == "plain"
            if array is None or not known or access.elements != 1 or array.name not in self.given:
                raise NotPrinted(access.text)
            place = with_turns(self.form, access.offset, turns)
            if any(number % array.element_bytes for number in place.parts.values()):
                raise NotPrinted(access.text)
            index = Term({mono: number // array.element_bytes for mono, number in place.parts.items()})
            at = words.at(index, access.span)
            text = f"{self.given[array.name]}[{_PRODUCT.sub(wide[0], at) if wide else at}]"
            if said.setdefault(access.span, text) != text:
                raise NotPrinted(access.text)
        for span, text in said.items():
            yield Edit(span, text)


def _turns(trip: Term) -> Term:
    """What a counter is compared with: a loop that would run less than no time does not run either way."""
    atom = trip.atom
    if not isinstance(atom, Op) or atom.name != "max" or all(term.value != 0 for term in atom.terms):
        return trip
    return next(term for term in atom.terms if term.value != 0)


def _reads_through(name: str, text: str) -> bool:
    """Whether a variable is read through as a pointer."""
    return re.search(rf"(?<![\w)\]])\s*\*\s*\(?\s*(?:\+\+|--)?{re.escape(name)}\b", text) is not None


def _body(loop: Loop, text: str) -> Span:
    """The bytes of a loop's body."""
    match = re.match(r"do\s*(?=\{)", text) if text.startswith("do") else _HEAD.match(text)
    if match is None or not text.isascii():
        raise NotPrinted("a loop's header")
    at = match.end()
    if not text.startswith("do"):
        at = closed(text, match.end() - 1)
        at += len(text[at:]) - len(text[at:].lstrip())
    end = closed(text, at) if text[at : at + 1] == "{" else len(text)
    if at < 0 or not text[at:end].strip(" ;\n") or (end < len(text) and not text.startswith("do")):
        raise NotPrinted("a loop's body")
    return Span(loop.span.start + at, loop.span.start + end)


def _tidied(body: str, moving: set[str], made: list[_Turn], tensors: set[str]) -> str:
    """The body without statements and declarations that only move what nothing reads any more. Raises NotPrinted.

    tensors: parameters; one that moved is the beginning of its tensor now.
    """
    names = [*sorted(moving), *sorted({turn.old for turn in made} - moving)]
    body = _one_by_one(body)
    for name in names:
        at = 0
        while match := re.compile(_MOVED.format(name)).search(body, at):
            before = re.sub(r"//[^\n]*\Z", "", body[: match.start()].rstrip()).rstrip()
            at = match.end()
            if before.endswith(("{", "}", ";")):
                _unread(body, match.end(), name, made)
                body, at = _cut(body, *match.span())
            elif before.endswith(")") or re.search(r"\belse\Z", before):
                body = f"{body[: match.start()]};{body[match.end() :]}"
    changed = True
    while changed:
        changed = False
        for match in _DECLARED.finditer(body):
            outside = _outside(body, match["name"], made)
            if outside == [match.start("name")]:
                if match["name"] not in names and "*" not in match[0]:
                    continue
                (body, _), changed = _cut(body, *match.span("all")), True
                break
    left = [(name, body[at:]) for name in names for at in _outside(body, name, made)]
    if any(name not in tensors or not re.match(rf"{name}\[", rest) for name, rest in left):
        raise NotPrinted("a variable that is read elsewhere")
    for turn in made:
        for first, last in _loops(body, [turn], turn.name) if turn.counts else ():
            if re.search(_STEPPED.format(turn.name), body[first + len(turn.header) : last]):
                raise NotPrinted("a step within an expression")
    return body


def _cut(body: str, first: int, last: int) -> tuple[str, int]:
    """The body without a statement, nor its line if nothing else stands there; and the place where it stood."""
    line = body.rfind("\n", 0, first) + 1
    end = last + len(body[last:]) - len(body[last:].lstrip(" \t"))
    if not body[line:first].strip() and body[end : end + 1] == "\n":
        first, end = line, end + 1
    return body[:first] + body[end:], first


def _one_by_one(body: str) -> str:
    """Pointers that are declared together, each in a declaration of its own."""

    def apart(match: re.Match[str]) -> str:
        parts = listed(match["rest"])
        if len(parts) < 2 or not all(part.startswith("*") for part in parts):
            return match[0]
        return match["blanks"] + " ".join(f"{match['kind']} {part};" for part in parts)

    return _SEVERAL.sub(apart, body)


def _unread(body: str, at: int, name: str, made: list[_Turn]) -> None:
    """Raises NotPrinted if the rest of the block that a step ends reads what it stepped."""
    if not any(turn.counts and turn.old == name for turn in made):
        return
    loops = list(_loops(body, made, name))
    depth = 0
    for place in range(at, len(body)):
        depth += (body[place] == "{") - (body[place] == "}")
        if depth < 0:
            break
        start = re.match(rf"{name}\b", body[place:])
        if start and not re.match(r"[.\w]", body[place - 1]):
            rest = body[place + len(name) :].lstrip()
            if not (rest.startswith("=") and not rest.startswith("==")) and not any(
                first > at and first <= place < last for first, last in loops
            ):
                raise NotPrinted(f"{name} is read after its step")


def _loops(body: str, made: list[_Turn], name: str | None) -> Iterator[tuple[int, int]]:
    """Where the loops that were written anew stand, header and body; those that count by a name."""
    for turn in made:
        if name is not None and turn.name != name:
            continue
        at = body.find(turn.header)
        while at >= 0:
            start = at + len(turn.header)
            is_block = body[start : start + 1] == "{"
            end = closed(body, start) if is_block else body.find(";", start) + 1
            yield at, end
            at = body.find(turn.header, end)


def _own_loops(body: str, name: str) -> Iterator[tuple[int, int]]:
    """Where other loops stand that declare a variable of this name for themselves."""
    for match in re.finditer(rf"\bfor\s*(?=\(\s*(?:{'|'.join(_KINDS)})\s+{re.escape(name)}\s*=)", body):
        start = closed(body, match.end())
        start += len(body[start:]) - len(body[start:].lstrip())
        is_block = body[start : start + 1] == "{"
        yield match.start(), closed(body, start) if is_block else body.find(";", start) + 1


def _outside(body: str, name: str, made: list[_Turn]) -> list[int]:
    """Where a name stands outside the loops that count by it, or by another one of that name."""
    loops = [*_loops(body, made, name), *_own_loops(body, name)]
    found = [match.start() for match in re.finditer(rf"(?<![.\w]){name}\b", _TEXT.sub(lambda m: " " * len(m[0]), body))]
    return [at for at in found if not any(first <= at < last for first, last in loops)]
