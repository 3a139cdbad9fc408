"""Which thread does what: the index that a kernel gives its threads, and the launch line that covers it.

What the structural rules have in common. An index is `const int row = E(blockIdx) * K + threadIdx.y;` with a launch
line whose block has K threads in y and whose grid holds one `ceil_div(EXTENT, K)`; or, if L lanes share an index,
`E(blockIdx) * (K / L) + threadIdx.y / L`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evo.analysis.access import THREAD, LaunchAnalysis
from evo.analysis.access.numeric import number_of
from evo.cuda.source import CountedFor, Function, Source, Span, Statement
from evo.operators.rules.directives import ceil_divs, grid_part_of
from evo.operators.rules.rewriting import bare, same
from evo.operators.rules.rule_context import RuleContext
from evo.spec.variant import LaunchLine

_INDEX = re.compile(
    r"(?P<blocks>.*\bblockIdx\.[xyz]\b.*?)\s*\*\s*(?P<threads>[\w.]+|\([^()]*\))\s*\+\s*threadIdx\.(?P<axis>[xyz])"
    r"(?:\s*/\s*(?P<lanes>\w+))?"
)
_THREAD = r"threadIdx\.(?P<axis>[xyz])(?P<lanes>)"
_PRODUCT = (
    r"(?P<blocks>blockIdx\.[xyz])\s*\*\s*(?P<threads>[\w.]+|\([^()]*\))",
    r"(?P<threads>[\w.]+|\([^()]*\))\s*\*\s*(?P<blocks>blockIdx\.[xyz])",
)
_INDICES = (  # the same in another order, or with brackets
    _INDEX,
    *(
        re.compile(form)
        for each in _PRODUCT
        for product in (each, rf"\(\s*{each}\s*\)")
        for form in (rf"{product}\s*\+\s*{_THREAD}", rf"{_THREAD}\s*\+\s*{product}")
    ),
)
_TYPES = ("int", "unsigned", "unsigned int", "uint32_t", "size_t", "long long", "int64_t", "long", "unsigned long long")
_AXES = "xyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadIndex:
    """An index with what an edit of it has to touch.

    threads: the block's extent in `axis`, as in the launch line; threads_at: K or K / lanes, as in the kernel;
    grid_at: the bytes of `ceil_div(extent, threads)` in the launch line.
    """

    name: str
    axis: str
    function: Function
    launch: LaunchLine
    statement: Statement
    place: int  # of the statement in the body
    value: str  # what it is set to
    threads: str
    threads_at: Span
    lanes: str
    extent: str
    grid_at: Span

    @property
    def kind(self) -> str:
        """Its type, without const."""
        return _kind(self.statement)

    @property
    def stride(self) -> str:
        """How many values of the index a block covers, in C++."""
        return f"{self.threads} / {self.lanes}" if self.lanes else self.threads


def kernels(ctx: RuleContext) -> Iterator[tuple[Function, LaunchLine]]:
    """Kernels that one launch line starts; with several lines there is no one grid."""
    for function in ctx.source.functions:
        lines = [line for line in ctx.variant.launches if line.kernel == function.name]
        if function.is_kernel and len(lines) == 1:
            yield function, lines[0]


def thread_indices(ctx: RuleContext, *, whole: bool = False) -> Iterator[ThreadIndex]:
    """The thread indices at the top of each kernel's body; none if a variable is changed unseen.

    whole: the edit leaves the body in one piece, so that nothing in it has to be seen.
    """
    for function, launch in kernels(ctx):
        if not whole and ctx.source.hidden_writes(function) & _own(ctx.source, function):
            continue
        for place, statement in enumerate(ctx.source.statements(function)):
            if statement.kind == "declare" and statement.value is not None and not statement.dims:
                index = _index(ctx, function, launch, statement, place)
                if index is not None and _declared(ctx.source, function).count(index.name) == 1:
                    yield index


def _declared(source: Source, function: Function) -> list[str]:
    """The names of a kernel's variables, one that hides another once more."""
    return [s.name for s in source.inside(function) if s.kind in ("declare", "for")]


def _own(source: Source, function: Function) -> set[str]:
    """A kernel's variables, and its parameters but the pointers, whose writes are stores."""
    return set(_declared(source, function)) | {param.name for param in function.params if not param.is_pointer}


def is_index_text(text: str) -> bool:
    """Whether a text gives a thread's index in the words that rules know."""
    matches = (form.fullmatch(text.strip()) for form in _INDICES)
    return any(match is not None and match["blocks"].count("blockIdx") == 1 for match in matches)


def index_in(text: str) -> tuple[str, str, str] | None:
    """`blockIdx.y * K + threadIdx.x`, in any order: the block's axis, the thread's axis and K."""
    match = next((fits for form in _INDICES if (fits := form.fullmatch(text.strip())) is not None), None)
    part = re.findall(r"blockIdx\.([xyz])", match["blocks"]) if match is not None else []
    if match is None or match["lanes"] or len(part) != 1 or match["blocks"].strip() != f"blockIdx.{part[0]}":
        return None
    return part[0], match["axis"], match["threads"]


def _index(
    ctx: RuleContext, function: Function, launch: LaunchLine, statement: Statement, place: int
) -> ThreadIndex | None:
    assert statement.value is not None
    value = ctx.source.slice(statement.value).strip()
    match = next((fits for form in _INDICES if (fits := form.fullmatch(value)) is not None), None)
    if match is None or _kind(statement) not in _TYPES:
        return None
    axis = match["axis"]
    if _AXES.index(axis) >= len(launch.block):
        return None
    threads = launch.block[_AXES.index(axis)].text.strip()
    lanes = match["lanes"] or ""
    covered = f"{threads} / {lanes}" if lanes else threads
    written = match["threads"].strip("() ")
    is_macro = covered.isdigit() and ctx.source.integer(written) == int(covered)
    if not same(written, covered) and written != f"blockDim.{axis}" and not is_macro:
        return None
    part = re.findall(r"blockIdx\.([xyz])", match["blocks"])
    text = ctx.source.slice(function.body)
    if lanes:  # within its group, a lane may know its place
        text = re.sub(rf"\bthreadIdx\.{axis} % (32 / )?{lanes}\b", "", text)
    if len(part) != 1 or len(re.findall(rf"\bthreadIdx\.{axis}\b", text)) != 1:
        return None
    # Where the body looks at its block beside the index, other blocks would look at another place.
    if len(re.findall(rf"\bblockIdx\.{part[0]}\b", text)) != 1:
        return None
    found = [c for c in ceil_divs(ctx, launch) if same(c[2], covered)]
    if len(found) > 1:  # a square block
        found = [c for c in found if grid_part_of(ctx, launch, c[0]) == _AXES.index(part[0])]
    if len(found) != 1:
        return None
    at, extent, _ = found[0]
    before = ctx.source.slice(statement.value)
    start = statement.value.start + len(before[: match.start("threads")].encode())
    return ThreadIndex(
        name=statement.name,
        axis=axis,
        function=function,
        launch=launch,
        statement=statement,
        place=place,
        value=value,
        threads=threads,
        threads_at=Span(start, start + len(match["threads"].encode())),
        lanes=lanes,
        extent=extent,
        grid_at=at,
    )


def _kind(statement: Statement) -> str:
    return " ".join(word for word in statement.type.split() if word != "const")


def takes_turns(ctx: RuleContext, launch: LaunchLine, function: Function, loop: CountedFor) -> bool:
    """Whether the starts are 0 to step - 1 over a group of lanes or over a block."""
    start, text = ctx.source.slice(loop.start).strip(), ctx.source.text
    if start == "threadIdx.x" and len(launch.block) == 1:
        known = re.search(rf"constexpr\s+int\s+{re.escape(loop.step)}\s*=\s*([^;]+);", text)
        return same(known[1] if known else loop.step, launch.block[0].text) or loop.step == "blockDim.x"
    if _walks_grid(ctx, launch, function, start, loop.step):
        return True
    inside = ctx.source.slice(function.body)
    if re.search(rf"const int {re.escape(start)} = threadIdx\.x % {re.escape(loop.step)};", inside):
        return True
    return any(_begins_side_by_side(each, loop) for each in ctx.launches if each.form.kernel == function.name)


def _begins_side_by_side(analysis: LaunchAnalysis, loop: CountedFor) -> bool:
    """Whether each so many neighbouring threads of a block start at 0, 1, 2 ..., however that is written."""
    found = next((each for each in analysis.form.loops.values() if each.span == loop.span), None)
    step = number_of(found.step, analysis.sizes.values) if found is not None else None
    if found is None or not step or analysis.sizes.threads % step:
        return False
    width, height, _ = analysis.sizes.block
    for thread in range(analysis.sizes.threads):
        at = (thread % width, thread // width % height, thread // width // height)
        here = analysis.sizes.values | dict(zip(THREAD, at, strict=True))
        if number_of(found.start, here) != thread % step:
            return False
    return True


def _walks_grid(ctx: RuleContext, launch: LaunchLine, function: Function, start: str, step: str) -> bool:
    """Whether all threads of a grid's row start at 0, 1, 2 ... and step by how many they are."""
    tops = ctx.source.statements(function)
    constant = {s.name: ctx.source.slice(s.value) for s in tops if s.kind == "declare" and s.value is not None}
    written = {s.name for top in tops for s in top.all() if s.kind == "assign"} | ctx.source.hidden_writes(function)
    start, step = (constant[text] if text in constant and text not in written else text for text in (start, step))
    index = index_in(start)
    if index is None or index[:2] != ("x", "x") or len(launch.block) > 1:
        return False
    threads = {"blockDim.x", bare(launch.block[0].text)}
    factors = bare(step.replace("(int)", "").replace("size_t", "")).split("*")
    return (
        bare(index[2]) in threads
        and len(factors) == 2
        and any({bare(one) for one in factors} == {"gridDim.x", each} for each in threads)
    )
