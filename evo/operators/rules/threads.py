"""Which thread does what: the index that a kernel gives its threads, and the launch line that covers it.

What the structural rules have in common. An index is `const int row = E(blockIdx) * K + threadIdx.y;` with a launch
line whose block has K threads in y and whose grid holds one `ceil_div(EXTENT, K)`; or, where L lanes share an index,
`E(blockIdx) * (K / L) + threadIdx.y / L`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.cuda.source import Edit, Function, Source, Span, Statement
from evo.operators.rules.rule import Scene
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
_TYPES = ("int", "unsigned", "unsigned int", "uint32_t")
_AXES = "xyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadIndex:
    """An index with what an edit of it has to touch.

    threads: the block's extent in `axis`, as in the launch line; threads_at: K or K / lanes, as in the kernel;
    thread_at: `threadIdx.x`; grid_at: the bytes of `ceil_div(extent, threads)` in the launch line.
    """

    name: str
    axis: str
    function: Function
    launch: LaunchLine
    statement: Statement
    place: int  # of the statement in the body
    threads: str
    threads_at: Span
    thread_at: Span
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


def kernels(scene: Scene) -> Iterator[tuple[Function, LaunchLine]]:
    """Kernels that one launch line starts; with several lines there is no one grid."""
    for function in scene.source.functions:
        lines = [line for line in scene.variant.launches if line.kernel == function.name]
        if function.is_kernel and len(lines) == 1:
            yield function, lines[0]


def thread_indices(scene: Scene, *, whole: bool = False) -> Iterator[ThreadIndex]:
    """The thread indices at the top of each kernel's body; none where a variable is changed unseen.

    whole: the edit leaves the body in one piece, so that nothing in it has to be seen.
    """
    for function, launch in kernels(scene):
        if not whole and scene.source.hidden_writes(function) & _own(scene.source, function):
            continue
        for place, statement in enumerate(scene.source.statements(function)):
            if statement.kind == "declare" and statement.value is not None and not statement.dims:
                index = _index(scene, function, launch, statement, place)
                if index is not None and _declared(scene.source, function).count(index.name) == 1:
                    yield index


def _declared(source: Source, function: Function) -> list[str]:
    """The names of a kernel's variables, one that hides another once more."""
    return [s.name for top in source.statements(function) for s in top.all() if s.kind in ("declare", "for")]


def _own(source: Source, function: Function) -> set[str]:
    """A kernel's variables, and its parameters but the pointers, whose writes are stores."""
    return set(_declared(source, function)) | {param.name for param in function.params if not param.is_pointer}


def index_in(text: str) -> tuple[str, str, str] | None:
    """`blockIdx.y * K + threadIdx.x`, in any order: the block's axis, the thread's axis and K."""
    match = next((fits for form in _INDICES if (fits := form.fullmatch(text.strip())) is not None), None)
    part = re.findall(r"blockIdx\.([xyz])", match["blocks"]) if match is not None else []
    if match is None or match["lanes"] or len(part) != 1 or match["blocks"].strip() != f"blockIdx.{part[0]}":
        return None
    return part[0], match["axis"], match["threads"]


def _index(
    scene: Scene, function: Function, launch: LaunchLine, statement: Statement, place: int
) -> ThreadIndex | None:
    assert statement.value is not None
    value = scene.source.slice(statement.value).strip()
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
    is_macro = covered.isdigit() and scene.source.integer(written) == int(covered)
    if not same(written, covered) and written != f"blockDim.{axis}" and not is_macro:
        return None
    part = re.findall(r"blockIdx\.([xyz])", match["blocks"])
    text = scene.source.slice(function.body)
    if lanes:  # within its group, a lane may know its place
        text = re.sub(rf"\bthreadIdx\.{axis} % (32 / )?{lanes}\b", "", text)
    if len(part) != 1 or len(re.findall(rf"\bthreadIdx\.{axis}\b", text)) != 1:
        return None
    found = [c for c in ceil_divs(scene, launch) if same(c[2], covered)]
    if len(found) > 1:  # a square block
        found = [c for c in found if _part_of(scene, launch, c[0]) == _AXES.index(part[0])]
    if len(found) != 1:
        return None
    at, extent, _ = found[0]
    before = scene.source.slice(statement.value)
    start = statement.value.start + len(before[: match.start("threads")].encode())
    thread = statement.value.start + len(before[: before.index("threadIdx.")].encode())
    return ThreadIndex(
        name=statement.name,
        axis=axis,
        function=function,
        launch=launch,
        statement=statement,
        place=place,
        threads=threads,
        threads_at=Span(start, start + len(match["threads"].encode())),
        thread_at=Span(thread, thread + len("threadIdx.x")),
        lanes=lanes,
        extent=extent,
        grid_at=at,
    )


def _kind(statement: Statement) -> str:
    return " ".join(word for word in statement.type.split() if word != "const")


def same(one: str, other: str) -> bool:
    """Whether two expressions are the same but for blanks and an outer pair of brackets."""
    return bare(one) == bare(other)


def bare(text: str) -> str:
    text = re.sub(r"\s+", "", text).replace("//", "/")
    while text.startswith("(") and text.endswith(")") and balanced(text[1:-1]):
        text = text[1:-1]
    return text


def balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def line_span(scene: Scene, number: int) -> Span:
    """Bytes of a 1-based line, without its newline."""
    lines = scene.source.data.split(b"\n")
    start = sum(len(line) + 1 for line in lines[: number - 1])
    return Span(start, start + len(lines[number - 1]))


def ceil_divs(scene: Scene, launch: LaunchLine) -> list[tuple[Span, str, str]]:
    """Each `ceil_div(a, b)` of a launch line's grid: its bytes, a and b."""
    line = line_span(scene, launch.line)
    text = scene.source.slice(line)
    end = text.find(" block")
    found = []
    for match in re.finditer(r"\bceil_div\(", text[: end if end > 0 else len(text)]):
        depth, comma, at = 1, -1, match.end()
        while depth and at < len(text):
            character = text[at]
            depth += (character == "(") - (character == ")")
            if character == "," and depth == 1:
                comma = at
            at += 1
        if comma > 0 and not depth:
            start = line.start + len(text[: match.start()].encode())
            span = Span(start, start + len(text[match.start() : at].encode()))
            found.append((span, text[match.end() : comma].strip(), text[comma + 1 : at - 1].strip()))
    return found


def _part_of(scene: Scene, launch: LaunchLine, at: Span) -> int:
    """In which part of a launch line's grid, counted from 0, a place lies."""
    line = line_span(scene, launch.line)
    text = scene.source.slice(Span(line.start, at.start)).partition("grid")[2].partition("(")[2]
    depth = commas = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        commas += character == "," and not depth
    return commas


def fresh(scene: Scene, wanted: str) -> str:
    """A name that the text does not use."""
    name, number = wanted, 2
    while re.search(rf"\b{name}\b", scene.source.text):
        name, number = f"{wanted}_{number}", number + 1
    return name


def knob(scene: Scene, name: str, domain: Sequence[int], value: int) -> list[Edit]:
    """A new knob: its `// evo: knob` line beside the other ones, and its `#define` where all functions see it."""
    return [
        Edit(
            directive_place(scene, ("knob", "macro", "task")),
            f"// evo: knob {name} in {', '.join(map(str, domain))}\n",
        ),
        Edit(definition_place(scene), f"#define {name} {value}\n"),
    ]


def require(scene: Scene, condition: str) -> list[Edit]:
    """A `// evo: require` line, unless the text has it already."""
    if any(same(each.text, condition) for each in scene.variant.requires):
        return []
    return [Edit(directive_place(scene, ("require", "knob", "macro", "task")), f"// evo: require {condition}\n")]


def directive_place(scene: Scene, kinds: Sequence[str]) -> Span:
    """After the last `// evo:` line of the first kind that there is, else before the first launch line."""
    at = 0
    last: dict[str, int] = {}
    for line in scene.source.data.splitlines(keepends=True):
        words = line.split()
        at += len(line)
        if words[:2] == [b"//", b"evo:"] and len(words) > 2:
            last[words[2].decode()] = at
    for kind in kinds:
        if kind in last:
            return Span(last[kind], last[kind])
    start = line_span(scene, min(launch.line for launch in scene.variant.launches)).start
    return Span(start, start)


def definition_place(scene: Scene) -> Span:
    """After the last knob's `#define` above the first function, else right above that function."""
    first = min((function.span.start for function in scene.source.functions), default=len(scene.source.data))
    start = scene.source.line_start(first)
    ends = [line_span(scene, define.line).end + 1 for define in scene.source.defines]
    before = [end for end in ends if end <= start]
    at = max(before) if before else start
    return Span(at, at)


def guard_of(source: Source, statements: Sequence[Statement], name: str) -> tuple[int, str] | None:
    """`if (name >= BOUND || ...) return;`: its place and the bound, which is one name."""
    for place, statement in enumerate(statements):
        if not is_guard(statement) or statement.condition is None:
            continue
        for part in source.slice(statement.condition).split("||"):
            if match := re.fullmatch(rf"\s*\(?\s*{name}\s*>=\s*(\w+)\s*\)?\s*", part):
                return place, match[1]
    return None


def is_guard(statement: Statement) -> bool:
    """`if (...) return;`"""
    only = len(statement.body) == 1 and statement.body[0].kind == "return"
    return statement.kind == "if" and only and not statement.alternative


def indent_of(source: Source, at: int) -> str:
    """The blanks that the line of a byte begins with."""
    start = source.line_start(at)
    line = source.data[start:at].decode()
    return line[: len(line) - len(line.lstrip())] if line.strip() else line


def merged(edits: Sequence[Edit]) -> list[Edit]:
    """Insertions at one place as one edit, in the order given."""
    found: dict[Span, str] = {}
    for edit in edits:
        found[edit.span] = found.get(edit.span, "") + edit.text if edit.span.start == edit.span.end else edit.text
    return [Edit(span, text) for span, text in found.items()]
