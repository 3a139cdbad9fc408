"""The places of a difference that belong together: the smallest changes that could be made one by one.

Two places are one change if neither makes sense without the other: they share a name that comes or goes, the same
replacement is made in both, one computes what the other reads, a call changes with the parameters of what it calls, or
a launch line moves with the threads it starts. A new name for what is declared here, the same function in another form
(`expf`, `__expf`) and a pragma each stand alone, whatever they are near to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from evo.cuda.source.query import Source
from evo.cuda.source.spans import Region
from evo.cuda.source.statements import CountedFor, Statement

_NAME = re.compile(r"[A-Za-z_]\w*")
_THREADS = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim|__shared__|__syncthreads|__syncwarp)\b")
_DECLARED = re.compile(r"\b(?:int|float|unsigned|half|__half|bool|long|auto|double)\s*+(?:\*\s*+)?([A-Za-z_]\w*+)")
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:[-+*/]|<<|>>)?=(?!=)")
_TEXT = re.compile(r"\w+|\S")
_MACRO = re.compile(r"^[ \t]*+#[ \t]*+define[ \t]++(\w++)\(([^)\n]*+)\)", re.MULTILINE)
_FORM = re.compile(r"_r[nzud]$|f$|^f(?=max|min|sqrt|rsqrt|add|mul|sub)")
_TYPE = re.compile(
    r"^(?:u?int\w*|unsigned|signed|long|short|char|bool|auto|size_t|void|__?(?=\w*?half)\w*+|__nv_\w+|(?:float|double|half|dim)\d?)$"
)
_MOVED = 8  # tokens that have to be the same before two places of different functions are one move
_WORDS = frozenset(
    re.findall(
        r"\w+", "const int float if for return evo knob in require launch grid block shared define pragma unroll endif"
    )
)


def grouped(parent: Source, child: Source, regions: Sequence[Region]) -> tuple[tuple[Region, ...], ...]:
    """The regions in groups, in text order."""
    owner = list(range(len(regions)))

    def find(place: int) -> int:
        while owner[place] != place:
            owner[place] = owner[owner[place]]
            place = owner[place]
        return place

    links = _Links(parent, child, regions)
    for one in range(len(regions)):
        for other in range(one + 1, len(regions)):
            if find(one) != find(other) and links.joins(one, other):
                owner[find(other)] = find(one)
    groups: dict[int, list[Region]] = {}
    for place, region in enumerate(regions):
        groups.setdefault(find(place), []).append(region)
    return tuple(tuple(group) for group in groups.values())


class _Links:
    """What is needed to tell whether two regions are one change."""

    def __init__(self, parent: Source, child: Source, regions: Sequence[Region]) -> None:
        self._parent, self._regions = parent, regions
        old, new = (set(_NAME.findall(source.text)) for source in (parent, child))
        self._fresh = (old ^ new) - _WORDS
        self._names = [set(_NAME.findall(f"{r.before} {r.after}")) for r in regions]
        tops = {function.name: parent.statements(function) for function in parent.functions}
        self._paths = [_path(tops.get(r.scope, ()), r) for r in regions]
        self._statements = [path[-1] if path else None for path in self._paths]
        self._halves = _halves(regions)
        self._layouts = [_layouts(parent, region) for region in regions]
        self._renames = [_rename(parent, region, old, new) for region in regions]
        self._forms = [_is_form(parent, region) for region in regions]
        called = _called_otherwise(parent, child)
        self._called = [_of_signature(parent, region) & called for region in regions]
        self._sets = [_defined(statement, region) for statement, region in zip(self._statements, regions, strict=True)]
        self._reads = [
            (set(statement.reads) if statement is not None else set()) | names
            for statement, names in zip(self._statements, self._names, strict=True)
        ]

    def joins(self, one: int, other: int) -> bool:
        a, b = self._regions[one], self._regions[other]
        rename = self._renames[one] or self._renames[other]
        if rename is not None:
            return rename <= self._names[one] and rename <= self._names[other]
        if self._names[one] & self._names[other] & self._fresh or _moved(a, b):
            return True
        if a.scope == b.scope and (_taken_up(a, b) or _taken_up(b, a)):
            return True
        if self._forms[one] or self._forms[other] or (_is_pragma(a) and _is_pragma(b)):
            return _same_replacement(a, b) or (a.scope == b.scope and _exchanged(a, b))
        if self._calls(one, other) or self._calls(other, one):
            return True
        if (one, other) in self._halves:
            return True  # brackets that are closed elsewhere
        if a.scope == b.scope and self._layouts[one] & self._layouts[other]:
            return True
        if a.part == b.part == "signature" and a.scope == b.scope:
            return True
        if a.scope and b.scope and a.scope != b.scope:
            return _same_replacement(a, b)
        if not a.scope or not b.scope:
            return self._with_file(one, other)
        if a.statement == b.statement or _same_replacement(a, b) or _exchanged(a, b):
            return True
        return self._feeds(one, other) or self._feeds(other, one)

    def _feeds(self, one: int, other: int) -> bool:
        """Whether one place sets what the other reads, and not a variable of that name in a block of its own."""
        names = self._sets[one] & self._reads[other]
        return any(_is_seen(name, self._paths[one], self._regions[other]) for name in names)

    def _with_file(self, one: int, other: int) -> bool:
        """A line at file level, and another line or a place in a function."""
        a, b = self._regions[one], self._regions[other]
        if not a.scope and not b.scope:
            if _exchanged(a, b) or (a.part == b.part == "define" and self._directive(a) == self._directive(b)):
                return True
            if a.statement == b.statement and a.statement.start < a.statement.end:
                return True
            knobs = [r for r in (a, b) if r.part in ("knob", "define")]
            plans = [i for i in (one, other) if self._regions[i].part in ("evo launch", "evo require", "evo knob")]
            named = {name for knob in knobs for name in _named(knob.part, self._line(knob))}
            return len(knobs) == 1 and len(plans) == 1 and bool(named & self._names[plans[0]] - _WORDS)
        inside, line = (one, b) if a.scope else (other, a)
        if line.part == "evo macro":
            return bool(set(_NAME.findall(f"{line.before} {line.after}")) & self._names[inside] - _WORDS - {"macro"})
        if line.part in ("evo launch", "evo require"):
            statement = self._statements[inside]
            text = self._parent.slice(statement.span) if statement is not None else ""
            region = self._regions[inside]
            return region.part == "bounds" or bool(_THREADS.search(f"{text} {region.before} {region.after}"))
        return _same_replacement(a, b)

    def _calls(self, one: int, other: int) -> bool:
        """Whether one place changes the parameters of a function that the other's statement calls."""
        if not self._called[one]:
            return False
        region = self._regions[other]
        text = self._parent.slice(region.statement)
        return any(re.search(rf"\b{name}\s*\(", text) for name in self._called[one])

    def _directive(self, region: Region) -> int:
        """Where the directive begins that a place stands in, over lines that go on."""
        start = self._parent.line_start(region.span.start)
        while self._parent.data[:start].rstrip(b"\r\n").endswith(b"\\"):
            start = self._parent.line_start(start - 1)
        return start

    def _line(self, region: Region) -> str:
        start = self._parent.line_start(region.span.start)
        end = self._parent.data.find(b"\n", region.span.end)
        return self._parent.data[start : end if end >= 0 else len(self._parent.data)].decode()


def _named(part: str, line: str) -> list[str]:
    """The names of a line that a plan may use: of a `#define` that is not a knob, only its own name."""
    found = _NAME.findall(line)
    return found if part == "knob" else found[1:2]


def _same_replacement(a: Region, b: Region) -> bool:
    """One name for another, the same in both places."""
    both = ((a.before, a.after), (b.before, b.after))
    same = [" ".join(text.split()) for text in both[0]] == [" ".join(text.split()) for text in both[1]]
    return same and a.part != "pragma" and any(_NAME.search(text) for text in both[0])


def _rename(parent: Source, region: Region, old: set[str], new: set[str]) -> set[str] | None:
    """Old and new name, if a place renames a declaration of the parent; else None."""
    before, after = region.before, region.after
    if not (_NAME.fullmatch(before) and _NAME.fullmatch(after)) or before in new or after in old:
        return None
    if _TYPE.match(before) or _TYPE.match(after):
        return None
    declared = rf"\b(?!return\b|else\b)\w++[\s*&]++{before}\s*+[=;,)\[{{:]|#\s*+define\s++{before}\b"
    is_own = any(function.name == before for function in parent.functions) or re.search(declared, parent.text)
    return {before, after} if is_own else None


def _is_form(parent: Source, region: Region) -> bool:
    """Whether a call is of the same library function in another precision or rounding: `expf`, `__expf`."""
    before, after = region.before, region.after
    if not (_NAME.fullmatch(before) and _NAME.fullmatch(after)):
        return False
    is_called = parent.data[region.span.end :].lstrip().startswith(b"(")
    return is_called and _stem(before) == _stem(after)


def _is_pragma(region: Region) -> bool:
    """Whether it is within one pragma, and no more than that."""
    return region.part == "pragma" and not any(
        mark in text for text in (region.before, region.after) for mark in "\n;{"
    )


def _stem(name: str) -> str:
    short = name.lstrip("_")
    while (less := _FORM.sub("", short)) != short:
        short = less
    return short


def _called_otherwise(parent: Source, child: Source) -> set[str]:
    """Functions and macros that have another number of parameters in the child."""
    old, new = (
        {f.name: len(f.params) for f in source.functions}
        | {name: len(params.split(",")) for name, params in _MACRO.findall(source.text)}
        for source in (parent, child)
    )
    return {name for name in old if name in new and old[name] != new[name]}


def _of_signature(parent: Source, region: Region) -> set[str]:
    """The function or macro in whose head or definition a place stands."""
    if region.part == "signature":
        return {region.scope}
    if region.part != "define":
        return set()
    end = parent.data.find(b"\n", region.span.start)
    line = parent.data[parent.line_start(region.span.start) : end if end >= 0 else len(parent.data)].decode()
    return {match[1] for match in _MACRO.finditer(line)}


def _moved(a: Region, b: Region) -> bool:
    """Whether a longer text leaves one place and comes to the other, wherever it was cut."""
    left, come = (Counter(_TEXT.findall(f"{one} {two}")) for one, two in ((a.before, b.before), (a.after, b.after)))
    return left == come and left.total() >= _MOVED


def _taken_up(a: Region, b: Region) -> bool:
    """Whether the removed text of one place is part of the added text of another: the same text, cut elsewhere."""
    lost = Counter(_TEXT.findall(a.before))
    return not a.after and bool(_NAME.search(a.before)) and lost < Counter(_TEXT.findall(b.after))


def _left_open(region: Region) -> dict[str, int]:
    """Brackets that a place opens (above 0) or closes (below) without its other half."""
    before, after = region.before, region.after
    counts = {
        left: after.count(left) - after.count(right) - before.count(left) + before.count(right)
        for left, right in (*("()", "{}", "[]"), ("#if", "#endif"))
    }
    return {left: count for left, count in counts.items() if count}


def _exchanged(a: Region, b: Region) -> bool:
    """What leaves one place comes to the other."""
    one, other = " ".join(a.before.split()), " ".join(b.before.split())
    return bool(one or other) and (one, other) == (" ".join(b.after.split()), " ".join(a.after.split()))


def _path(statements: Sequence[Statement], region: Region) -> tuple[Statement, ...]:
    """From the outside in: the statements around a region, down to the one whose head holds it or a simple one."""
    for statement in statements:
        if statement.span.holds(region.span):
            return (statement, *_path((*statement.body, *statement.alternative), region))
    return ()


def _is_seen(name: str, path: Sequence[Statement], other: Region) -> bool:
    """Whether a name that is set at the end of a path means the same at another place."""
    for around in reversed(path):
        declares = isinstance(around, CountedFor) and around.name == name
        inside = (*around.body, *around.alternative)
        if declares or any(s.kind == "declare" and s.name == name for s in inside):
            return around.span.holds(other.span)
    return True


def _layouts(parent: Source, region: Region) -> set[str]:
    """The shared arrays whose indices contain a place: if all of their accesses change, one layout changes."""
    names = {array.name for array in parent.shared_arrays if array.function == region.scope}
    function = next((f for f in parent.functions if names and f.name == region.scope), None)
    uses = parent.subscripts(function.body) if function is not None else ()
    return {use.name for use in uses if use.name in names and any(at.holds(region.span) for at in use.indices)}


def _halves(regions: Sequence[Region]) -> set[tuple[int, int]]:
    """Pairs of regions of one function of which one opens a bracket that the other closes, the nearest ones."""
    found: set[tuple[int, int]] = set()
    for half in ("(", "{", "[", "#if"):
        waiting: dict[str, list[tuple[int, int]]] = {}
        for place, region in enumerate(regions):
            if not region.scope and half in "([":
                continue  # those of a directive are closed in it
            stack = waiting.setdefault(region.scope, [])
            count = _left_open(region).get(half, 0)
            for sign in [1 if count > 0 else -1] * abs(count):
                if stack and stack[-1][1] == -sign:
                    found.add((stack.pop()[0], place))
                else:
                    stack.append((place, sign))
    return found


def _defined(statement: Statement | None, region: Region) -> set[str]:
    """Names that a changed statement gives a value; also those that new text declares."""
    found = set(_DECLARED.findall(region.after))
    found |= {name for text in (region.before, region.after) for name in _ASSIGNED.findall(text)}
    if statement is not None and statement.kind in ("declare", "assign", "for") and statement.name:
        found.add(statement.name)
    return found
