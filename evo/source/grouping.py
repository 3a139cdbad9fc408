"""Which places of a difference belong together: the smallest changes that could be made one by one.

Two places are one change where neither makes sense without the other: they share a name that comes or goes, the same
replacement is made in both, one computes what the other reads, or a launch line moves with the threads it starts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evo.source.regions import Region
from evo.source.statements import Statement
from evo.source.tree import Source

_NAME = re.compile(r"[A-Za-z_]\w*")
_THREADS = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim|__shared__|__syncthreads|__syncwarp)\b")
_DECLARED = re.compile(r"\b(?:int|float|unsigned|half|__half|bool|long|auto|double)\s*\*?\s*([A-Za-z_]\w*)")
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:[-+*/]|<<|>>)?=(?!=)")
_WORDS = frozenset(
    re.findall(r"\w+", "const int float if for return evo knob in require launch grid block shared define pragma")
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
        self._statements = [_around(tops.get(r.scope, ()), r) for r in regions]
        self._open = [_is_open(region) for region in regions]
        self._sets = [_defined(statement, region) for statement, region in zip(self._statements, regions, strict=True)]
        self._reads = [
            (set(statement.reads) if statement is not None else set()) | names
            for statement, names in zip(self._statements, self._names, strict=True)
        ]

    def joins(self, one: int, other: int) -> bool:
        a, b = self._regions[one], self._regions[other]
        if self._names[one] & self._names[other] & self._fresh:
            return True
        if a.part == b.part == "signature" and a.scope == b.scope:
            return True
        if a.scope and b.scope and a.scope != b.scope:
            return _same_replacement(a, b)
        if not a.scope or not b.scope:
            return self._with_file(one, other)
        if self._open[one] and self._open[other]:
            return True  # brackets that are closed elsewhere
        if a.statement == b.statement or _same_replacement(a, b) or _exchanged(a, b):
            return True
        return bool(self._sets[one] & self._reads[other] or self._sets[other] & self._reads[one])

    def _with_file(self, one: int, other: int) -> bool:
        """A line at file level, and another line or a place in a function."""
        a, b = self._regions[one], self._regions[other]
        if not a.scope and not b.scope:
            knobs = [r for r in (a, b) if r.part == "knob"]
            plans = [i for i in (one, other) if self._regions[i].part in ("evo launch", "evo require", "evo knob")]
            named = {name for knob in knobs for name in _NAME.findall(self._line(knob))}
            return len(knobs) == 1 and len(plans) == 1 and bool(named & self._names[plans[0]] - _WORDS)
        inside, line = (one, b) if a.scope else (other, a)
        if line.part == "evo launch":
            statement = self._statements[inside]
            text = self._parent.slice(statement.span) if statement is not None else ""
            region = self._regions[inside]
            return region.part == "bounds" or bool(_THREADS.search(f"{text} {region.before} {region.after}"))
        return _same_replacement(a, b)

    def _line(self, region: Region) -> str:
        start = self._parent.line_start(region.span.start)
        end = self._parent.data.find(b"\n", region.span.end)
        return self._parent.data[start : end if end >= 0 else len(self._parent.data)].decode()


def _same_replacement(a: Region, b: Region) -> bool:
    """One name for another, the same in both places."""
    both = ((a.before, a.after), (b.before, b.after))
    same = [" ".join(text.split()) for text in both[0]] == [" ".join(text.split()) for text in both[1]]
    return same and a.part != "pragma" and any(_NAME.search(text) for text in both[0])


def _is_open(region: Region) -> bool:
    """Whether brackets are left open or closed that were not."""
    before, after = region.before, region.after
    return any(
        before.count(left) - before.count(right) != after.count(left) - after.count(right)
        for left, right in ("()", "{}", "[]")
    )


def _exchanged(a: Region, b: Region) -> bool:
    """What leaves one place comes to the other."""
    one, other = " ".join(a.before.split()), " ".join(b.before.split())
    return bool(one or other) and (one, other) == (" ".join(b.after.split()), " ".join(a.after.split()))


def _around(statements: Sequence[Statement], region: Region) -> Statement | None:
    """The innermost simple statement, or the loop or test whose head holds the region."""
    for statement in statements:
        if statement.span.holds(region.span):
            inner = _around((*statement.body, *statement.alternative), region)
            return inner if inner is not None else statement
    return None


def _defined(statement: Statement | None, region: Region) -> set[str]:
    """Names that a changed statement gives a value; also those that new text declares."""
    found = set(_DECLARED.findall(region.after))
    found |= {name for text in (region.before, region.after) for name in _ASSIGNED.findall(text)}
    if statement is not None and statement.kind in ("declare", "assign", "for") and statement.name:
        found.add(statement.name)
    return found
