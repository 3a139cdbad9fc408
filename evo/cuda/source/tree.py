"""The syntax tree of one text as plain spans: functions, parameters, loops, calls, binary expressions, arrays, defines.

Spans are byte offsets into the UTF-8 text. Parsing never fails; what the grammar cannot read is simply not found.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

from evo.cuda.source.nodes import function_of, span_of
from evo.cuda.source.parser import UNREAD, Node, read
from evo.cuda.source.spans import (
    BinaryExpression,
    Call,
    CountedLoop,
    Define,
    Edit,
    Function,
    SharedArray,
    Span,
    SyntaxProblem,
)
from evo.cuda.source.types import (
    declarator_name,
    declared_types,
    exact_name,
    expression_type,
    literal_type,
    scalar_name,
    text_of,
)

# The grammar has no rule for these; blanks of the same length keep every offset.
_UNREADABLE = re.compile(rb"__align__\s*\([^()]*\)|alignas\s*\([^()]*\)|__maxnreg__\s*\([^()]*\)|__grid_constant__")
_UNROLL = re.compile(r"#\s*+pragma\s++unroll\b\s*+\(?\s*+([^()\n]*+)\)?\s*+")
_COUNTED = re.compile(
    r"for\s*+\(\s*+(?:const\s++)?(?:unsigned\s++int|unsigned|int|size_t|u?int\d+_t|(?:unsigned\s++)?long(?:\s++long)?|auto)\s++"
    r"(\w++)\s*+=\s*+([^;]++);\s*+\1\s*+(<=|<)\s*+([^;]++);\s*+(?:\+\+\s*+\1|\1\s*+\+\+|\1\s*+\+=\s*+([^)]++))\s*+\)"
)
_INTEGER = re.compile(r"-?\d+")
_CONSTANT = re.compile(  # `constexpr int DIM = 16;`
    r"(?:static\s++|inline\s++|__device__\s++)*+(?:constexpr|const)\s++(?:unsigned\s++int|unsigned|int|size_t|u?int\d++_t|"
    r"(?:unsigned\s++)?long(?:\s++long)?)\s++(\w++)\s*+=\s*+(\d++)\s*+;"
)


def readable(data: bytes) -> bytes:
    """A text as the grammar can read it, each byte at its place."""
    return _UNREADABLE.sub(lambda match: b" " * len(match[0]), data)


class Tree:
    """One text and its tree, read-only: what it holds, each kind of thing in text order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = text.encode()
        self._root = read(readable(self.data))

    @property
    def is_read(self) -> bool:
        """False for a text that the parser cannot follow in time: then nothing is found in it."""
        return self._root.type != UNREAD

    def slice(self, span: Span) -> str:
        return self.data[span.start : span.end].decode()

    def line(self, at: int) -> int:
        """1-based line of a byte offset."""
        return self.data.count(b"\n", 0, at) + 1

    def line_start(self, at: int) -> int:
        return self.data.rfind(b"\n", 0, at) + 1

    def replace(self, edits: Iterable[Edit]) -> str:
        """A new text with the spans replaced; every other byte is the same. Spans may not overlap."""
        data = self.data
        last = len(data)
        for edit in sorted(edits, key=lambda edit: edit.span, reverse=True):
            if edit.span.end > last or edit.span.start > edit.span.end:
                raise ValueError(f"edits overlap at byte {edit.span.start}")
            data = data[: edit.span.start] + edit.text.encode() + data[edit.span.end :]
            last = edit.span.start
        return data.decode()

    @functools.cached_property
    def problems(self) -> tuple[SyntaxProblem, ...]:
        found = []
        for node in self._root.walk():
            if node.is_error or node.is_missing:
                what = f"missing {node.type}" if node.is_missing else " ".join(text_of(node).split())[:60]
                found.append(SyntaxProblem(line=node.row + 1, text=what))
        return tuple(found)

    @functools.cached_property
    def functions(self) -> tuple[Function, ...]:
        """Function definitions, templates included, in text order."""
        return tuple(function for _, function in self._definitions)

    @functools.cached_property
    def _definitions(self) -> tuple[tuple[Node, Function], ...]:
        return tuple(
            (node, function)
            for node in self._root.walk()
            if node.type == "function_definition" and (function := function_of(node)) is not None
        )

    def function_at(self, at: int) -> Function | None:
        return next((f for f in self.functions if f.span.start <= at < f.span.end), None)

    @functools.cached_property
    def defines(self) -> tuple[Define, ...]:
        """Object-like `#define NAME VALUE` lines."""
        found = []
        for node in self._root.walk():
            if node.type == "preproc_def":
                name, value = node.child("name"), node.child("value")
                if name is not None and value is not None:
                    text = text_of(value).split("//")[0].strip()
                    found.append(Define(name=text_of(name), value=text, line=node.row + 1, span=span_of(value)))
        return tuple(found)

    @functools.cached_property
    def loops(self) -> tuple[CountedLoop, ...]:
        return tuple(
            loop
            for node, function in self._inside()
            if node.type == "for_statement" and (loop := self._loop(node, function))
        )

    @functools.cached_property
    def calls(self) -> tuple[Call, ...]:
        found = []
        for node, function in self._inside():
            name, arguments = node.child("function"), node.child("arguments")
            if node.type == "call_expression" and name is not None and arguments is not None:
                inner = arguments.inside
                names = self._names[function]
                found.append(
                    Call(
                        name=text_of(name),
                        span=span_of(node),
                        name_span=span_of(name),
                        arguments=tuple(span_of(argument) for argument in inner),
                        types=tuple(expression_type(argument, names) for argument in inner),
                        function=function,
                    )
                )
        return tuple(found)

    @functools.cached_property
    def binaries(self) -> tuple[BinaryExpression, ...]:
        """Sums, differences, products and quotients, the outer one first; compound assignments too."""
        found = []
        for node, function in self._inside():
            operator = text_of(node.child("operator"))
            is_assignment = node.type == "assignment_expression"
            if not (node.type == "binary_expression" and operator in "+-*/") and not (
                is_assignment and operator in ("+=", "-=", "*=", "/=")
            ):
                continue
            left, right = node.child("left"), node.child("right")
            if left is not None and right is not None:
                names = self._names[function]
                found.append(
                    BinaryExpression(
                        operator=operator[0],
                        span=span_of(node),
                        left=span_of(left),
                        right=span_of(right),
                        left_type=expression_type(left, names),
                        right_type=expression_type(right, names),
                        is_assignment=is_assignment,
                        function=function,
                    )
                )
        return tuple(found)

    @functools.cached_property
    def shared_arrays(self) -> tuple[SharedArray, ...]:
        """`__shared__ T name[a][b]...` with sizes in the text; not the launch-sized `extern` kind."""
        found = []
        for node, function in self._inside():
            if node.type != "declaration" or not re.match(r"(static\s+)?__shared__\b", text_of(node)):
                continue
            for declarator in node.children_of("declarator"):
                dims: list[Span] = []
                inner: Node | None = declarator
                while inner is not None and inner.type == "array_declarator":
                    if (size := inner.child("size")) is not None:
                        dims.insert(0, span_of(size))
                    inner = inner.child("declarator")
                if dims and (name := declarator_name(declarator)):
                    element = text_of(node.child("type"))
                    found.append(SharedArray(name=name, element=element, dims=tuple(dims), function=function))
        return tuple(found)

    @functools.cached_property
    def _exact(self) -> dict[str, dict[str, str | None]]:
        """Per function: the types of its names as they are written."""
        return {function.name: declared_types(node, exact_name) for node, function in self._definitions}

    @functools.cached_property
    def _names(self) -> dict[str, dict[str, str | None]]:
        """Per function: the types of its names (and of `callee()`)."""
        shared: dict[str, str | None] = {define.name: literal_type(define.value) for define in self.defines}
        shared |= {f"{function.name}()": scalar_name(function.return_type) for function in self.functions}
        for node in self._root.children:
            if node.type == "declaration":
                shared |= declared_types(node)
        return {function.name: shared | declared_types(node) for node, function in self._definitions}

    def _inside(self) -> Iterator[tuple[Node, str]]:
        """Every node of every function body, with the function's name."""
        for node, function in self._definitions:
            if (body := node.child("body")) is not None:
                yield from ((inner, function.name) for inner in body.walk())

    def _loop(self, node: Node, function: str) -> CountedLoop | None:
        variable, trips = self._counted(node)
        if variable is None:
            return None
        pragma, factor = None, None
        above = node.previous
        while above is not None and above.type == "comment":
            above = above.previous
        if above is not None and (match := _UNROLL.fullmatch(text_of(above))):
            end = self.data.find(b"\n", above.start_byte) + 1 or len(self.data)
            pragma, factor = Span(self.line_start(above.start_byte), end), match[1].strip()
        start = self.line_start(node.start_byte)
        indent = self.data[start : node.start_byte].decode()
        if indent.strip():
            return None  # something else on the line: a pragma cannot be put above it
        return CountedLoop(
            span=span_of(node),
            function=function,
            variable=variable,
            trips=trips,
            pragma=pragma,
            factor=factor,
            indent=indent,
        )

    def _counted(self, node: Node) -> tuple[str | None, int | None]:
        header = self.data[node.start_byte : node.end_byte].decode().split("{")[0]
        match = _COUNTED.match(header)
        if not match:
            return None, None
        start, limit = self.integer(match[2]), self.integer(match[4])
        step = self.integer(match[5]) if match[5] else 1
        if start is None or limit is None or not step:
            return match[1], None
        return match[1], max(0, -(-(limit + (match[3] == "<=") - start) // step))

    @functools.cached_property
    def constants(self) -> dict[str, int]:
        """Constants with an integer literal as their value, whose name is declared once in the text."""
        found, names = dict[str, int](), list[str]()
        for node in self._root.walk():
            if node.type == "identifier" and node.field == "declarator":
                names.append(text_of(node))
            elif node.type == "declaration" and (match := _CONSTANT.fullmatch(text_of(node))):
                found[match[1]] = int(match[2])
        return {name: value for name, value in found.items() if names.count(name) == 1}

    def integer(self, text: str) -> int | None:
        """The value of an integer literal, or of a `#define` or a constant that is one."""
        text = text.strip()
        if _INTEGER.fullmatch(text):
            return int(text)
        values = [define.value for define in self.defines if define.name == text]
        if not values:
            return self.constants.get(text)
        return int(values[0]) if len(values) == 1 and _INTEGER.fullmatch(values[0]) else None
