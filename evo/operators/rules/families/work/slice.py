"""Private arrays that are too large for one thread: a group of lanes keeps a slice each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from evo.cuda.source import Edit, Source, Span, Statement
from evo.operators.rules.directives import require
from evo.operators.rules.families.work.lanes import Lanes
from evo.operators.rules.guards import behind_guard, is_guard
from evo.operators.rules.reductions import NEUTRAL, Reduction, reduction_of
from evo.operators.rules.rewriting import fresh, indent_of, merged
from evo.operators.rules.rule import Application, Example, Rule
from evo.operators.rules.scene import Scene
from evo.operators.rules.thread_index import ThreadIndex, thread_indices

_LANES = (4, 8, 16, 32)
_SHARING = re.compile(r"__shared__|__sync|_sync\b|__shfl|\basm\b|\batomic|\bgoto\b")


@dataclass(slots=True)
class _Slicer:
    """What is known of one kernel: its private arrays, and the loops that walk them."""

    source: Source
    statements: tuple[Statement, ...]
    arrays: dict[str, Statement]
    extents: dict[str, str]  # array -> its size as written
    loops: list[tuple[Statement, Sequence[Statement], list[Reduction]]] = field(default_factory=list)

    def understood(self) -> bool:
        """Whether each use of the arrays is in a loop over their whole size, and nothing else is done twice."""
        return all(self._walk(self.statements)) and self._all_inside() and bool(self.loops)

    def _walk(self, statements: Sequence[Statement]) -> Iterator[bool]:
        for statement in statements:
            if statement.kind == "for" and self._is_over_arrays(statement):
                yield self._loop(statement, statements)
            elif statement.kind in ("for", "if", "block"):
                yield is_guard(statement) or not any(s.kind == "return" for s in statement.all())
                yield from self._walk((*statement.body, *statement.alternative))
            elif statement.kind == "assign":
                # A store would be done by every lane; what is written in an array of the thread's own is repeated.
                base = self.source.names(statement.target)[0][0] if statement.target is not None else ""
                yield bool(statement.name) or base in self._repeated()
            else:
                yield statement.kind in ("declare", "empty", "return")

    def _repeated(self) -> set[str]:
        inside = (s for top in self.statements for s in top.all())
        return {s.name for s in inside if s.kind == "declare" and s.dims} - set(self.arrays)

    def _is_over_arrays(self, loop: Statement) -> bool:
        uses = [use for use in self.source.subscripts(loop.span) if use.name in self.arrays]
        return any(loop.name in {n for n, _ in self.source.names(index)} for use in uses for index in use.indices)

    def _loop(self, loop: Statement, siblings: Sequence[Statement]) -> bool:
        if loop.limit is None or loop.start is None or loop.relation != "<" or self.source.slice(loop.start) != "0":
            return False
        limit = self.source.slice(loop.limit)
        reductions: list[Reduction] = []
        inside = {s.name for s in loop.all() if s.kind == "declare"}
        for statement in loop.all():
            if statement is loop or statement.kind in ("declare", "block", "empty"):
                continue
            if statement.kind == "for":
                if not statement.is_counted:
                    return False
            elif statement.kind != "assign":
                return False
            elif statement.name:
                found = reduction_of(self.source, statement)
                if statement.name not in inside and (found is None or found.combine not in NEUTRAL):
                    return False
                if found is not None and statement.name not in inside:
                    reductions.append(found)
            elif statement.target is None or loop.name not in {n for n, _ in self.source.names(statement.target)}:
                return False
        assert loop.body_span is not None
        uses = [name for name, _ in self.source.names(loop.body_span)]
        for found in reductions:
            if uses.count(found.name) != (1 if found.combine == "+" else 2):
                return False
        for use in self.source.subscripts(loop.body_span):
            if use.name in self.arrays and (self.extents[use.name] != limit or not self._is_own(loop, use.indices)):
                return False
        self.loops.append((loop, siblings, reductions))
        return True

    def _is_own(self, loop: Statement, indices: tuple[Span, ...]) -> bool:
        if len(indices) != 1:
            return False
        text = self.source.slice(indices[0]).strip()
        inner = {s.name for s in loop.all() if s.kind == "for"}
        return bool(
            re.fullmatch(rf"{loop.name}(\s*\+\s*({'|'.join(inner)}))?|({'|'.join(inner)})\s*\+\s*{loop.name}", text)
        )

    def _all_inside(self) -> bool:
        spans = [loop.body_span for loop, _, _ in self.loops if loop.body_span is not None]
        declared = [array.span for array in self.arrays.values()]
        for top in self.statements:
            for name, at in self.source.names(top.span):
                if name in self.arrays and not any(span.holds(at) for span in (*spans, *declared)):
                    return False
        return True


def _find(scene: Scene) -> Iterator[Application]:
    for index in thread_indices(scene):
        for value in _LANES:
            edits = _edits(scene, index, value)
            if edits:
                yield Application(
                    edits=tuple(edits),
                    summary=f"{index.function.name}: {value} lanes keep a slice each of what one {index.name} needs",
                    arguments={"kernel": index.function.name, "index": index.name, "to": value},
                    rank=0 if value < 16 else 1,
                )


def _edits(scene: Scene, index: ThreadIndex, value: int) -> list[Edit]:
    source = scene.source
    if _SHARING.search(source.slice(index.function.body)) or len(index.launch.block) > 1 or index.lanes:
        return []
    statements = source.statements(index.function)[index.place + 1 :]
    arrays = {s.name: s for s in statements if s.kind == "declare" and len(s.dims) == 1 and s.value is None}
    known = {*scene.variant.integer_knobs, *scene.variant.macros}
    extents = {name: source.slice(array.dims[0]) for name, array in arrays.items()}
    if not arrays or not all(extent.isdigit() or extent in known for extent in extents.values()):
        return []
    slicer = _Slicer(source, statements, arrays, extents)
    if not slicer.understood():
        return []
    lanes = Lanes.over(scene, index)
    edits = lanes.head(scene, index, value, reduces=any(reductions for _, _, reductions in slicer.loops))
    firsts = {extent: fresh(scene, f"first_{extent.lower()}") for extent in dict.fromkeys(extents.values())}
    indent = indent_of(source, index.statement.span.start)
    text = "".join(
        f"\n{indent}const int {first} = {lanes.lane} * ({extent} / {lanes.name});" for extent, first in firsts.items()
    )
    edits[-1] = Edit(edits[-1].span, edits[-1].text + text)
    for name, array in arrays.items():
        edits.append(Edit(array.dims[0], f"{extents[name]} / {lanes.name}"))
    needs = set()
    for loop, siblings, reductions in slicer.loops:
        assert loop.limit is not None
        limit = source.slice(loop.limit)
        needs.add(
            f"{limit} % ({lanes.name} * {loop.step}) == 0" if loop.step != "1" else f"{limit} % {lanes.name} == 0"
        )
        if not (loop.step.isdigit() or loop.step in known):
            return []
        edits.append(Edit(loop.limit, f"{limit} / {lanes.name}"))
        edits += _placed(source, slicer, loop, firsts[limit])
        for found in reductions:
            edits += lanes.combine(source, siblings, loop, found)
    for need in sorted(needs):
        edits += require(scene, need)
    return merged(edits)


def _placed(source: Source, slicer: _Slicer, loop: Statement, first: str) -> list[Edit]:
    """Outside the arrays, the loop's variable stands for the lane's part of the whole."""
    assert loop.body_span is not None
    own = [use.span for use in source.subscripts(loop.body_span) if use.name in slicer.arrays]
    return [
        Edit(at, f"({first} + {name})")
        for name, at in source.names(loop.body_span)
        if name == loop.name and not any(span.holds(at) for span in own)
    ]


RULES = (
    Rule(
        name="slice",
        family="work",
        sentence="Gives each of a group of lanes a slice of a thread's private arrays; sums over the whole array are"
        " combined with warp shuffles.",
        find=behind_guard(_find),
        examples=(Example.of_files("slice"),),
        reason="large private arrays cost registers, and so resident warps; neighbours that share one read together",
        expected="as many times fewer registers and more threads as lanes, and loads that coalesce",
        risk="a few shuffles per sum, and scalar work that every lane repeats",
        next_if_kept="several outputs per thread, now that there are registers for them",
        next_if_reverted="fewer lanes",
    ),
)
