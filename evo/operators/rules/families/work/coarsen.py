"""Several outputs per thread: what belonged to one index becomes an array over several of them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from evo.analysis.access import THREAD
from evo.cuda.source import CountedFor, Edit, Source, Span, Statement
from evo.operators.rules.directives import new_knob
from evo.operators.rules.families.work.block_index import BlockIndex, block_indices
from evo.operators.rules.normal_form import behind_guard, guard_of, is_guard
from evo.operators.rules.rewriting import fresh, indent_of
from evo.operators.rules.rule import Application, Rule
from evo.operators.rules.rule_context import RuleContext
from evo.operators.rules.thread_index import ThreadIndex, thread_indices

_REPEATS = (1, 2, 4, 8)
_MOST_COMMON = 2  # reads; more do not move an index further up
_SHORT = ("int", "unsigned", "unsigned int", "uint32_t")
_ALIGNED = re.compile(r"reinterpret_cast<unsigned long long>\(.*\) % \d+ == 0")
_SHARING = re.compile(r"__shared__|__sync|\basm\b|\batomic|\bgoto\b|\[&|\[=")


class _Unfit(Exception):
    """The body holds something that cannot be repeated per output."""


@dataclass(slots=True)
class _Repeater:
    """Turns each statement that depends on the index into a loop over the outputs of a thread."""

    source: Source
    index: ThreadIndex
    bound: str
    count: str  # the knob's name
    counter: str  # the variable of the new loops
    places: str  # the array of indices
    varying: set[str] = field(default_factory=set)
    locals: set[str] = field(default_factory=set)
    pointers: set[str] = field(default_factory=set)  # parameters
    arrays: set[str] = field(default_factory=set)  # of the thread's own
    inner: set[str] = field(default_factory=set)  # scalars declared inside a loop with a varying limit
    limits: set[str] = field(default_factory=set)  # varying scalars that end a loop
    flags: set[str] = field(default_factory=set)  # tests for aligned addresses, which all outputs have to pass
    edits: list[Edit] = field(default_factory=list)
    within: list[Span] = field(default_factory=list)  # statements that only outputs before the end carry out

    def spread(self, statements: Sequence[Statement]) -> None:
        """Find all names that depend on the index, through values and through what is done under a varying limit."""
        self.varying = {self.index.name}
        inside = [inner for statement in statements for inner in statement.all()]
        self.pointers = {param.name for param in self.index.function.params if param.is_pointer}
        self.locals = {inner.name for inner in inside if inner.kind == "declare"}
        self.arrays = {inner.name for inner in inside if inner.kind == "declare" and inner.dims}
        before = -1
        while before != len(self.varying):
            before = len(self.varying)
            for statement in statements:
                self._spread(statement, controlled=False)
        for inner in inside:
            if inner.kind == "for" and inner.name in self.varying:
                raise _Unfit

    def _spread(self, statement: Statement, *, controlled: bool) -> None:
        if statement.kind == "declare" and statement.value is not None and self._varies(statement.value):
            (self.flags if self._is_flag(statement) else self.varying).add(statement.name)
        if statement.kind == "assign" and statement.target is not None:
            base = statement.name or _base(self.source, statement.target)
            if controlled or self._varies(statement.span):
                if base in self.locals:
                    self.varying.add(base)
                elif statement.name or base not in self.pointers:
                    raise _Unfit  # declared in a way that is not understood
        head = statement.limit if isinstance(statement, CountedFor) else statement.condition
        if statement.kind == "for" and head is not None and self._varies(head):
            self.inner |= {s.name for s in statement.all() if s.kind == "declare" and not s.dims}
        under = controlled or (head is not None and self._varies(head))
        for inner in (*statement.body, *statement.alternative):
            self._spread(inner, controlled=under)

    def _is_flag(self, statement: Statement) -> bool:
        """Whether it asks for addresses that wide accesses need; what does without them is right for any."""
        if statement.value is None or statement.type.split() not in (["bool"], ["const", "bool"]):
            return False
        return all(_ALIGNED.fullmatch(part.strip()) for part in self.source.slice(statement.value).split("&&"))

    def _varies(self, span: Span) -> bool:
        return any(name in self.varying for name, _ in self.source.names(span))

    def emit(self, statement: Statement, conditions: tuple[str, ...], *, bare: bool = False) -> None:
        """Edits for one statement. bare: it stands without braces under a `for` or `if`."""
        touches = bool(statement.reads & self.varying)
        if statement.kind == "declare":
            if touches and statement.name in self.flags:
                self._together(statement)
            elif touches:
                self._declare(statement, conditions)
        elif not touches and not (conditions and self._writes(statement)):
            return
        elif statement.kind in ("assign", "call"):
            self._repeat(statement, conditions, bare=bare)
        elif isinstance(statement, CountedFor):
            self._loop(statement, conditions)
        elif statement.kind == "for" and statement.header is not None and not self._varies(statement.header):
            self._inside(statement, conditions)
        elif statement.kind == "if" and statement.condition is not None:
            if self._varies(statement.condition):
                self._whole_if(statement, conditions, bare=bare)
                return
            self._inside(statement, conditions)
        elif statement.kind == "block":
            self._inside(statement, conditions)
        elif statement.kind != "empty":
            raise _Unfit

    def _inside(self, statement: Statement, conditions: tuple[str, ...]) -> None:
        for branch in (statement.body, statement.alternative):
            for inner in reversed(branch):  # limits are known before the declarations they need
                before = self.source.data[: inner.span.start].rstrip()
                self.emit(inner, conditions, bare=len(branch) == 1 and before[-1:] not in (b"{", b"\n", b";"))

    def _loop(self, statement: CountedFor, conditions: tuple[str, ...]) -> None:
        if self._varies(statement.start) or any(name in self.varying for name in re.findall(r"\w+", statement.step)):
            raise _Unfit
        if self._varies(statement.limit):
            limit = self.source.slice(statement.limit)
            if limit not in self.varying or limit == self.index.name:
                raise _Unfit
            self.limits.add(limit)
            self.edits.append(Edit(statement.limit, f"{limit}_most"))
            mine = f"{statement.name} {statement.relation} {limit}[{self.counter}]"
            conditions = (*conditions, mine)
        self._inside(statement, conditions)

    def _whole_if(self, statement: Statement, conditions: tuple[str, ...], *, bare: bool) -> None:
        if any(inner.kind in ("return", "other", "declare", "for") for inner in statement.all()):
            raise _Unfit
        self._repeat(statement, conditions, bare=bare)

    def _writes(self, statement: Statement) -> bool:
        """Whether it must not happen beyond an output's own limit: it writes something, or is not understood."""
        return any(inner.kind not in ("declare", "for", "if", "block", "empty") for inner in statement.all())

    def _needed(self, statement: Statement, span: Span, conditions: tuple[str, ...]) -> tuple[str, ...]:
        """The conditions, unless the statement only computes what its loop forgets, from the thread's own values."""
        if not conditions:
            return ()
        is_own = statement.kind == "declare" or statement.name in self.inner
        return () if is_own and self._is_pure(span) else conditions

    def _together(self, statement: Statement) -> None:
        """A flag of all outputs at once."""
        assert statement.value is not None
        name, test = statement.name, self._renamed(statement.value)
        test = f"({test})" if "&&" in test else test
        more = self._over(f"{name} = {name} && {test};", indent_of(self.source, statement.span.start))
        self.edits.append(Edit(statement.span, f"bool {name} = true;{more}"))

    def _declare(self, statement: Statement, conditions: tuple[str, ...]) -> None:
        kind = statement.type
        if re.search(r"\b(static|auto|constexpr|__shared__|extern|volatile)\b", kind):
            raise _Unfit
        if "*" not in kind:
            kind = re.sub(r"\bconst\s+", "", kind)
        elif re.search(r"\*\s*(const|__restrict__)\s*$", kind):
            raise _Unfit
        dims = "".join(f"[{self.source.slice(dim)}]" for dim in statement.dims)
        text = f"{kind}{statement.name}[{self.count}]{dims};"
        indent = indent_of(self.source, statement.span.start)
        if statement.value is not None:
            if statement.dims or self.source.slice(statement.value).startswith("{"):
                raise _Unfit
            value = self._renamed(statement.value)
            tests = self._needed(statement, statement.value, conditions)
            test = f"if ({' && '.join(tests)}) " if tests else ""
            text += self._over(f"{test}{statement.name}[{self.counter}] = {value};", indent)
        if statement.name in self.limits:
            text += f"\n{indent}int {statement.name}_most = {statement.name}[0];"
            more = f"max({statement.name}_most, {statement.name}[{self.counter}])"
            text += self._over(f"{statement.name}_most = {more};", indent)
        self.edits.append(Edit(statement.span, text))

    def _over(self, body: str, indent: str) -> str:
        c = self.counter
        return f"\n#pragma unroll\n{indent}for (int {c} = 0; {c} < {self.count}; ++{c}) {body}"

    def _repeat(self, statement: Statement, conditions: tuple[str, ...], *, bare: bool) -> None:
        tests = [*self._needed(statement, statement.span, conditions)]
        if self._stores(statement):
            tests.append(f"{self.index.name} + {_apart(self.counter, self.index)} < {self.bound}")
            self.within.append(statement.span)
        body = self._selected(statement, tests)
        indent = indent_of(self.source, statement.span.start)
        if bare:
            inner = self._over(body, indent + "    ")
            self.edits.append(Edit(statement.span, "{" + inner + f"\n{indent}}}"))
        else:
            self.edits.append(Edit(statement.span, self._over(body, indent).lstrip("\n")))
            start = self.source.line_start(statement.span.start)
            if self.source.data[start : statement.span.start].strip():
                self.edits[-1] = Edit(statement.span, self._over(body, indent))
            else:  # the pragma stands at the start of its line
                self.edits[-1] = Edit(Span(start, statement.span.end), self._over(body, indent).removeprefix("\n"))

    def _selected(self, statement: Statement, tests: Sequence[str]) -> str:
        """The statement under its conditions: a branch, or a choice between values if nothing else happens."""
        if not tests:
            return self._renamed(statement.span)
        test = " && ".join(tests)
        target, value = statement.target, statement.value
        if target is None or value is None or self._stores(statement) or not self._is_pure(statement.span):
            return f"if ({test}) {self._renamed(statement.span)}"
        at, new = self._renamed(target), self._renamed(value)
        if statement.operator != "=":
            new = f"{at} {statement.operator[:-1]} ({new})"
        return f"{at} = {test} ? {new} : {at};"

    def _is_pure(self, span: Span) -> bool:
        """Whether it reads nothing but the thread's own variables and arrays."""
        reads = {each.name for each in self.source.subscripts(span)}
        return reads <= self.arrays and not self.source.dereferences(span)

    def _stores(self, statement: Statement) -> bool:
        """Whether anything but a variable or array of the thread's own may be written."""
        for inner in statement.all():
            if inner.kind == "call":
                return True
            if inner.kind == "assign" and inner.target is not None:
                base = inner.name or _base(self.source, inner.target)
                if base not in self.locals or self._is_pointed_at(base, inner.target):
                    return True
        return False

    def _is_pointed_at(self, name: str, target: Span) -> bool:
        """Whether a pointer of that name, or one of an array of them, leads to the target."""
        depths = [len(each.indices) for each in self.source.subscripts(target) if each.span == target]
        declared = [s for s in self.source.inside(self.index.function) if s.kind == "declare" and s.name == name]
        return any("*" in s.type and not (s.dims and depths == [len(s.dims)]) for s in declared)

    def _renamed(self, span: Span) -> str:
        names = {name: f"{name}[{self.counter}]" for name in self.varying}
        names[self.index.name] = f"{self.places}[{self.counter}]"
        return self.source.renamed(span, names)


def _base(source: Source, target: Span) -> str:
    names = source.names(target)
    return names[0][0] if names else ""


def _find(ctx: RuleContext) -> Iterator[Application]:
    found = tuple(behind_guard(_of_threads)(ctx))
    yield from found
    if found:  # where a thread's own index cannot be seen, it may be in another view of the text
        yield from behind_guard(_of_blocks)(ctx)


def _of_threads(ctx: RuleContext) -> Iterator[Application]:
    for index in thread_indices(ctx):
        yield from _applications(ctx, index, None)


def _of_blocks(ctx: RuleContext) -> Iterator[Application]:
    for block in block_indices(ctx):
        yield from _applications(ctx, block.index, block)


def _applications(ctx: RuleContext, index: ThreadIndex, block: BlockIndex | None) -> Iterator[Application]:
    common = min(_in_common(ctx, index), _MOST_COMMON)
    for value in _REPEATS[1:]:
        if edits := _edits(ctx, index, value, block):
            yield Application(
                edits=tuple(edits),
                summary=f"{index.function.name}: {value} outputs per thread along {index.name}",
                arguments={"kernel": index.function.name, "index": index.name, "to": value},
                rank=(value >= 8) + 2 * (_MOST_COMMON - common),
            )


def _in_common(ctx: RuleContext, index: ThreadIndex) -> int:
    """How many of the reads that lanes have for themselves, in loops, all outputs along an index have in common."""
    repeater = _Repeater(ctx.source, index, "", "", "", "")
    with contextlib.suppress(_Unfit):
        repeater.spread(ctx.source.statements(index.function)[index.place + 1 :])
    forms = [analysis.form for analysis in ctx.launches if analysis.form.kernel == index.function.name]
    reads = [a for form in forms for a in form.accesses if a.is_read and a.is_global and a.loops]
    common = [a for a in reads if not repeater.varying & set(re.findall(r"\w+", a.text))]
    return sum(THREAD[0] in access.offset.symbols() for access in common)


def _guard(source: Source, statements: Sequence[Statement], name: str) -> tuple[int, str] | None:
    """As `guard_of`, unless it is `row >= n || col > row`: one row of a thread may stay where another leaves."""
    found = guard_of(source, statements, name)
    often = sum(1 for word, _ in source.names(statements[found[0]].span) if word == name) if found is not None else 0
    return found if often < 2 else None


def _edits(ctx: RuleContext, index: ThreadIndex, value: int, block: BlockIndex | None) -> list[Edit]:
    source = ctx.source
    hidden = any(re.search(rf"\b{index.name}\b", define.value) for define in source.defines)
    if hidden or _SHARING.search(source.slice(index.function.body)):
        return []
    statements = source.statements(index.function)
    guard = _guard(source, statements, index.name)
    rest = [s for place, s in enumerate(statements) if place > index.place]
    if block is not None:
        bound, guard = block.bound, (index.place, block.bound)
        rest = [s for s in rest if not is_guard(s) or index.name in s.reads]
    elif guard is not None:
        place, bound = guard
        rest = [s for s in rest if s != statements[place]]
    elif rest and (found := _wrapped(source, rest[-1], index.name)) is not None:
        bound = found
    else:
        return []
    params = {param.name: param.type for param in index.function.params}
    if params.get(bound) not in ("int", "const int") and ctx.constant(index.function, bound) is None:
        return []
    knob_name, places = fresh(ctx, f"{index.name.upper()}_REPEAT"), fresh(ctx, f"{index.name}_at")
    counter = fresh(ctx, "r" if index.axis != "x" else "c")
    repeater = _Repeater(source, index, bound, knob_name, counter, places)
    try:
        repeater.spread(rest)
        if any(inner.kind == "return" for s in rest for inner in s.all()) or repeater.varying & set(params):
            return []
        for statement in reversed(rest):  # limits are known before the declarations they need
            body = statement
            if guard is None and statement is rest[-1]:
                repeater._inside(body, ())
            else:
                repeater.emit(statement, ())
    except _Unfit:
        return []
    if _reads_as_others_write(ctx, index, repeater.within):
        return []
    indent = indent_of(source, index.statement.span.start)
    c = counter
    # `min` takes no index of 64 bits and int together.
    final = f"{bound} - 1" if index.kind in _SHORT else f"({index.kind}){bound} - 1"
    table = (
        f"\n{indent}{index.kind} {places}[{knob_name}];  // those past the end repeat the last one and are not stored"
        f"\n#pragma unroll\n{indent}for (int {c} = 0; {c} < {knob_name}; ++{c})"
        f" {places}[{c}] = min({index.name} + {_apart(c, index)}, {final});"
    )
    last = _known_at(statements, index, bound)
    if last is None:
        return []
    end = last.span.end
    remark = source.data[end : source.data.find(b"\n", end)].decode()
    at = end + len(remark.encode()) if remark.strip().startswith("//") else end
    return [
        *new_knob(ctx, knob_name, _REPEATS, value),
        *(block.edits(knob_name) if block is not None else _launched(index, knob_name)),
        Edit(Span(at, at), table),
        *repeater.edits,
    ]


def _apart(counter: str, index: ThreadIndex) -> str:
    """How far an output is from the thread's first one."""
    return counter if index.stride == "1" else f"{counter} * {index.stride}"


def _launched(index: ThreadIndex, knob: str) -> list[Edit]:
    """Fewer blocks, each of which covers more values of the index."""
    return [
        Edit(index.grid_at, f"ceil_div({index.extent}, {index.stride.replace('/', '//')} * {knob})"),
        Edit(index.threads_at, f"({index.stride} * {knob})"),
    ]


def _reads_as_others_write(ctx: RuleContext, index: ThreadIndex, within: Sequence[Span]) -> bool:
    """Whether an output past the end would read an element of the last one while that one's thread writes it."""
    for analysis in ctx.launches:
        if analysis.form.kernel != index.function.name:
            continue
        for array in analysis.legality.rereads_output:
            reads = [access for access in analysis.form.of(array) if access.mode == "read"]
            if any(not any(span.holds(access.span) for span in within) for access in reads):
                return True
    return False


def _known_at(statements: Sequence[Statement], index: ThreadIndex, bound: str) -> Statement | None:
    """The statement behind which an index and its bound are known; None if the index is looked at before that."""
    declared = [place for place, s in enumerate(statements) if s.kind == "declare" and s.name == bound]
    last = max([index.place, *declared])
    between = statements[index.place + 1 : last + 1]
    return None if any(index.name in s.reads for s in between) else statements[last]


def _wrapped(source: Source, statement: Statement, name: str) -> str | None:
    """The bound of a last `if (name < bound) ...`."""
    if statement.kind != "if" or statement.alternative or statement.condition is None:
        return None
    match = re.fullmatch(rf"{name}\s*<\s*(\w+)", source.slice(statement.condition))
    return match[1] if match else None


RULES = (
    Rule(
        name="coarsen",
        sentence="Gives each thread several outputs along one of its indices: what depends on the index becomes an"
        " array in registers, and what does not is loaded once for all of them.",
        find=_find,
        reason="what several outputs have in common is loaded once instead of once per output",
        expected="fewer load instructions per multiply-add, by up to the number of outputs",
        risk="registers grow with the number of outputs, and there are fewer threads to hide latency",
        next_if_kept="the other index, or a larger number",
        next_if_reverted="fewer outputs, or the other index",
    ),
)
