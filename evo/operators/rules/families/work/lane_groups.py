"""A kernel whose threads have a row each, seen as groups of lanes that have a slice each of every row of the group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evo.cuda.source import CountedFor, Edit, Source, Span, Statement
from evo.operators.rules.dependence import varying
from evo.operators.rules.families.loop.batch_online import OnlineSoftmax, online_of
from evo.operators.rules.normal_form import guard_of
from evo.operators.rules.rewriting import fresh, indent_of, indented, rewritten
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex

ALL = "0xffffffffu"  # every lane of a warp takes part
_SHARING = re.compile(r"__shared__|__sync|_sync\b|__shfl|\basm\b|\batomic|\bgoto\b|\blaneid\b|\[[&=]|\bwhile\b")
_PLAIN = re.compile(r"[\w.]+")


class NotSplittable(Exception):
    """The kernel holds something that cannot be shared out this way."""


@dataclass(slots=True)
class LaneGroupEdit:
    """What is known of one kernel, and the names that the edit gives to its parts."""

    ctx: RuleContext
    index: ThreadIndex
    bound: str
    loop: CountedFor  # over the steps of the online softmax
    online: OnlineSoftmax
    tops: tuple[Statement, ...]
    arrays: dict[str, str]  # the thread's own arrays -> their size as written
    varying: set[str]  # what may differ between the rows of a group
    lanes: str
    lane: str
    here: str
    r: str
    needs: set[str]

    @property
    def source(self) -> Source:
        return self.ctx.source

    def first(self, extent: str) -> str:
        return fresh(self.ctx, f"first_{extent.lower()}")

    def touched(self, span: Span) -> set[str]:
        return {name for name, _ in self.source.names(span)}

    def is_array_loop(self, statement: Statement) -> bool:
        """Whether a loop walks the arrays, so that each lane takes its slice of it."""
        if statement.kind != "for":
            return False
        uses = [use for use in self.source.subscripts(statement.span) if use.name in self.arrays]
        return any(statement.name in self.touched(index) for use in uses for index in use.indices)

    def sliced(self, loop: Statement) -> list[Edit]:
        """Edits that make a loop over whole arrays one over the lane's slice of the row `r`; statements are apart."""
        source = self.source
        if not isinstance(loop, CountedFor) or loop.relation != "<" or source.slice(loop.start) != "0":
            raise NotSplittable
        limit = source.slice(loop.limit)
        if limit not in self.arrays.values():
            raise NotSplittable
        if not (loop.step.isdigit() or loop.step in self.ctx.variant.integer_knobs):
            raise NotSplittable
        self.needs.add(
            f"{limit} % ({self.lanes} * {loop.step}) == 0" if loop.step != "1" else f"{limit} % {self.lanes} == 0"
        )
        edits, own = [Edit(loop.limit, f"{limit} / {self.lanes}")], []
        counters = "|".join({s.name for s in loop.all() if s.kind == "for"})
        for use in source.subscripts(loop.body_span):
            if use.name not in self.arrays:
                continue
            text = source.slice(use.indices[0]).strip()
            if len(use.indices) != 1 or self.arrays[use.name] != limit:
                raise NotSplittable
            if not re.fullmatch(rf"{loop.name}(\s*\+\s*({counters}))?|({counters})\s*\+\s*{loop.name}", text):
                raise NotSplittable
            own.append(use.span)
            at = use.span.start + len(use.name.encode())
            edits.append(Edit(Span(at, at), f"[{self.r}]"))
        edits += [
            Edit(at, f"({self.first(limit)} + {name})")
            for name, at in source.names(loop.body_span)
            if name == loop.name and not any(span.holds(at) for span in own)
        ]
        return edits

    def each(self, loop: Statement) -> str:
        """A loop outside the softmax, once for each row of the group, with that row's values."""
        source, indent = self.source, indent_of(self.source, loop.span.start)
        inner = indent + "    "
        inside = {s.name for s in loop.all() if s.kind in ("declare", "for")}
        lines, edits = [], self.sliced(loop)
        for name in sorted((self.touched(loop.span) & self.varying) - inside - self.arrays.keys()):
            of = fresh(self.ctx, f"{name}_of")
            lines.append(f"{inner}{self.from_lane(name, of)}\n")
            edits += [Edit(at, of) for each, at in source.names(loop.span) if each == name]
        stores = False
        for statement in loop.all():
            if (
                statement is loop
                or statement.kind in ("declare", "empty", "block")
                or isinstance(statement, CountedFor)
            ):
                continue
            if statement.kind != "assign" or (statement.name and statement.name not in inside):
                raise NotSplittable
            if not statement.name and statement.target is not None:
                stores = stores or source.names(statement.target)[0][0] not in self.arrays
        body = indented(rewritten(source, Span(self.begin(loop), loop.span.end), edits))
        if stores:
            body = f"{inner}if ({self.here} - {self.lane} + {self.r} < {self.bound}) {{\n{indented(body)}\n{inner}}}"
        open_ = f"#pragma unroll\n{indent}for (int {self.r} = 0; {self.r} < {self.lanes}; ++{self.r}) {{\n"
        return f"{open_}{''.join(lines)}{body}\n{indent}}}"

    def begin(self, loop: Statement) -> int:
        """The first byte of a loop's pragma, or of its line."""
        above = self.source.above(loop.span)
        if above is None:
            raise NotSplittable
        return above

    def from_lane(self, name: str, of: str) -> str:
        """A declaration of what another lane has under a name."""
        kind = next((s.type for top in self.tops for s in top.all() if s.kind == "declare" and s.name == name), "")
        bare = re.sub(r"\s*\b(const|__restrict__)\s*$", "", kind.strip())
        if "*" in bare:
            value = f"reinterpret_cast<unsigned long long>({name})"
            return f"{bare} {of} = reinterpret_cast<{bare}>(__shfl_sync({ALL}, {value}, {self.r}, {self.lanes}));"
        bare = re.sub(r"\bconst\s+", "", bare) or self.source.element_type(self.index.function.name, name) or ""
        if bare not in ("int", "float", "double", "unsigned", "long long"):
            raise NotSplittable
        return f"const {bare} {of} = __shfl_sync({ALL}, {name}, {self.r}, {self.lanes});"

    def repeated(self, loop: Statement, texts: dict[Span, tuple[str, Span]], names: Sequence[Edit]) -> str:
        """An array loop of the softmax, with its row statements once for each row of the group.

        texts: for each such statement what stands before its value (as written in the child), and the value's span.
        names: edits of names in the loop. What all rows share of a value is computed once, before them.
        """
        source, edits = self.source, [*self.sliced(loop), *names]
        uniform = self.touched(loop.span) - self.arrays.keys() - {s.name for s in loop.all() if s.kind == "declare"}
        known = {name for span in texts for name in self.touched(span)} & {self.online.keep, self.online.weight}
        if (uniform & self.varying) - known - {self.scored}:
            raise NotSplittable
        for statement in loop.all():
            if (
                statement is loop
                or statement.kind in ("declare", "empty", "block")
                or isinstance(statement, CountedFor)
            ):
                if statement.kind == "declare" and statement.value and self.touched(statement.value) & self.rows:
                    raise NotSplittable
                continue
            if statement.span not in texts:
                raise NotSplittable
            head, value = texts[statement.span]
            inside = [edit for edit in edits if statement.span.holds(edit.span)]
            edits = [edit for edit in edits if edit not in inside]
            indent = indent_of(source, self.enclosing(loop, statement).span.start) + "    "
            shared: list[Edit] = []
            lines = ""
            for part in self.common(value):
                name = fresh(self.ctx, "common" if not shared else f"common_{len(shared) + 1}")
                lines += f"{indent}const auto {name} = {rewritten(source, part, inside)};\n"
                shared.append(Edit(part, name))
            kept = [edit for edit in inside if not any(part.span.holds(edit.span) for part in shared)]
            over = f"#pragma unroll\n{indent}for (int {self.r} = 0; {self.r} < {self.lanes}; ++{self.r})"
            text = f"{over} {head}{rewritten(source, value, [*kept, *shared])};"
            edits.append(Edit(statement.span, f"{{\n{lines}{text}\n{indent[4:]}}}"))
        return rewritten(source, Span(self.begin(loop), loop.span.end), edits)

    @property
    def scored(self) -> str:
        return self.online.score

    @property
    def rows(self) -> set[str]:
        return self.arrays.keys() | self.varying

    def enclosing(self, loop: Statement, statement: Statement) -> Statement:
        """The loop right around a statement."""
        inside = [s for s in loop.all() if s.kind == "for" and s.span.holds(statement.span)]
        return inside[-1]

    def common(self, value: Span) -> list[Span]:
        """Factors of a value that are the same for all rows and more than a name."""
        found: list[Span] = []
        if not self.touched(value) & self.rows:
            return [] if _PLAIN.fullmatch(self.source.slice(value)) else [value]
        for binary in self.source.binaries:
            if binary.operator != "*" or binary.is_assignment or not value.holds(binary.span):
                continue
            for side in (binary.left, binary.right):
                if self.touched(side) & self.rows or _PLAIN.fullmatch(self.source.slice(side)):
                    continue
                if not any(span.holds(side) for span in found):
                    found.append(side)
        return found


def trader_of(ctx: RuleContext, index: ThreadIndex) -> LaneGroupEdit | None:
    """The kernel's parts, if it is one online softmax per thread over private arrays."""
    source, function = ctx.source, index.function
    tops = source.statements(function)
    if _SHARING.search(source.slice(function.body)) or len(index.launch.block) > 1 or index.lanes:
        return None
    guard = guard_of(source, tops, index.name)
    if guard is None or "||" in source.slice(tops[guard[0]].condition or tops[guard[0]].span):
        return None
    if any(s.kind == "return" for place, top in enumerate(tops) if place != guard[0] for s in top.all()):
        return None
    counted = [s for s in tops if isinstance(s, CountedFor)]
    loops = [(s, found) for s in counted if (found := _online(source, function.name, s)) is not None]
    known = {*ctx.variant.integer_knobs, *ctx.variant.macros}
    arrays = {s.name: source.slice(s.dims[0]) for s in tops if s.kind == "declare" and len(s.dims) == 1}
    plain = all(s.value is None for s in tops if s.kind == "declare" and s.dims)
    if len(loops) != 1 or not arrays or not plain or any(s.kind == "declare" and len(s.dims) > 1 for s in tops):
        return None
    if not all(extent.isdigit() or extent in known for extent in arrays.values()):
        return None
    loop, online = loops[0]
    return LaneGroupEdit(
        ctx, index, guard[1], loop, online, tops, arrays, varying(source, tops, index),
        fresh(ctx, "LANES"), fresh(ctx, "lane"), fresh(ctx, f"{index.name}_here"), fresh(ctx, "r"), set(),
    )  # fmt: skip


def _online(source: Source, function: str, loop: CountedFor) -> OnlineSoftmax | None:
    is_whole = source.slice(loop.start) == "0" and source.type_of(function, loop.limit) == "int"
    return online_of(source, loop) if loop.takes_each and is_whole else None
