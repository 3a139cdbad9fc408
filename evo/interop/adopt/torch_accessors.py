"""PyTorch's accessors in kernels as pointers and sizes, since a task passes tensors and numbers.

`PackedTensorAccessor32<T, 2> x` becomes `T* x, int x_size0, int x_size1`, `x[i][j]` becomes `x[i * x_size1 + j]`,
`x.size(0)` becomes `x_size0`; a launch passes `x.data_ptr<T>(), x.size(0), x.size(1)` of its contiguous tensor. Extents
that one and the same variable always indexes are taken to be equal, and the launcher is given that as a TORCH_CHECK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import declarator_name
from evo.interop.adopt.host_values import problem

_ARGUMENTS = r"\s*<\s*([^<>,]+?)\s*,\s*(\d+)\s*(?:,[^<>]*)?>"
_ACCESSOR = re.compile(rf"\b(?:\w+::)*(?:Generic)?(?:Packed)?TensorAccessor(32|64)?{_ARGUMENTS}")
_PASSED = re.compile(
    r"([A-Za-z_]\w*(?:(?:\.|\[)[\w.\]]+(?:\(\))?)*?)\s*\.\s*(?:template\s+)?"
    rf"(?:generic_)?packed_accessor(?:32|64)?{_ARGUMENTS}\s*\(\s*\)"
)
Edit = tuple[int, int, str]
_SIMPLE = re.compile(r"\w+(?:\.\w+)?")


@dataclass
class _Kernel:
    """ranks: by parameter, in order; None for one that is no accessor. indices: texts by parameter and place."""

    ranks: dict[str, int | None]
    indices: dict[tuple[str, int], set[str]] = field(default_factory=dict)


def without_accessors(path: Path, text: str) -> str:
    """The same lines without accessors. Raises SyntaxInvalid if a kernel uses one as something else than an array."""
    data = text.encode()
    edits: list[Edit] = []
    kernels: dict[str, _Kernel] = {}
    root = read(data)
    for node in root.walk():
        head = next((n for n in node.walk() if n.type == "function_declarator"), None) if _takes_one(node) else None
        kernel = _Kernel({})
        edits += _edits(path, data, node, head, kernel) if head is not None else []
        if head is not None:
            kernels[head.named_children[0].text] = kernel
    for node in root.walk():
        body = node.child("body") if node.type == "function_definition" else None
        if body is not None and "<<<" in body.text and (checks := _checks(body.text, kernels)):
            edits.append((body.start_byte + 1, body.start_byte + 1, " " + " ".join(checks)))
    for start, end, new in sorted(edits, reverse=True):
        data = data[:start] + new.encode() + data[end:]
    return _launches(data.decode())


def _takes_one(node: Node) -> bool:
    return node.type == "function_definition" and "TensorAccessor" in node.text.partition("{")[0]


def _edits(path: Path, data: bytes, function: Node, head: Node, kernel: _Kernel) -> list[Edit]:
    """What changes in a kernel; kernel: filled."""
    body, params = function.child("body"), head.child("parameters")
    edits: list[Edit] = []
    for param in params.named_children if params is not None else ():
        match, name = _ACCESSOR.search(param.text), declarator_name(param) or ""
        kernel.ranks[name] = int(match[3]) if match is not None else None
        if match is not None:
            new = _parameters(match, name, is_const=param.text.lstrip().startswith("const"))
            edits.append((param.start_byte, param.end_byte, new + "\n" * param.text.count("\n")))
    if body is not None and edits:
        edits.append((body.start_byte, body.end_byte, _Body(path, data, kernel).text(body)))
    return edits


def _parameters(match: re.Match[str], name: str, *, is_const: bool) -> str:
    integer = "long long" if match[1] == "64" else "int"
    restrict = "__restrict__ " if "RestrictPtrTraits" in match[0] else ""
    sizes = [f"{integer} {name}_size{place}" for place in range(int(match[3]))]
    return ", ".join([f"{'const ' * is_const}{match[2]}* {restrict}{name}", *sizes])


def _checks(launcher: str, kernels: Mapping[str, _Kernel]) -> list[str]:
    """What the kernels' indices say about the extents of the tensors that the launcher passes."""
    found: list[str] = []
    for name, kernel in kernels.items():
        for launch in re.finditer(rf"\b{name}\s*(?:<[^;]*?>\s*)?<<<[^;]*?>>>\s*\(", launcher):
            passed = [_PASSED.fullmatch(text) for text in _arguments(launcher, launch.end())]
            tensors = {param: match[1] for param, match in zip(kernel.ranks, passed, strict=False) if match is not None}
            by_index: dict[str, list[str]] = {}
            for (param, place), indices in kernel.indices.items():
                if param not in tensors:
                    continue
                extent = f"{tensors[param]}.size({place})"
                if all(index.isdigit() for index in indices):
                    found.append(f"TORCH_CHECK({extent} == {1 + max(map(int, indices))});")
                elif len(indices) == 1 and (index := next(iter(indices))).isidentifier():
                    by_index.setdefault(index, []).append(extent)
            found += [f"TORCH_CHECK({first} == {other});" for first, *rest in by_index.values() for other in rest]
    return found


def _arguments(text: str, start: int) -> list[str]:
    """The arguments of a call; start: behind its opening parenthesis."""
    masked = re.sub(r"<[^<>();]*>", lambda match: " " * len(match[0]), text[start:])  # template arguments
    depth, last, found = 0, 0, list[str]()
    for at, sign in enumerate(masked):
        depth += (sign in "([{") - (sign in ")]}")
        if (sign == "," and depth == 0) or depth < 0:
            found.append(text[start + last : start + at].strip())
            last = at + 1
        if depth < 0:
            break
    return found


def _launches(text: str) -> str:
    """`x.packed_accessor32<T, 2>()` as a pointer and two sizes."""

    def expanded(match: re.Match[str]) -> str:
        sizes = "".join(f", {match[1]}.size({place})" for place in range(int(match[3])))
        return f"{match[1]}.data_ptr<{match[2]}>(){sizes}" + "\n" * match[0].count("\n")

    return _PASSED.sub(expanded, text)


class _Body:
    """Prints a body with arrays in place of accessors."""

    def __init__(self, path: Path, data: bytes, kernel: _Kernel) -> None:
        self.path, self.data, self.indices = path, data, kernel.indices
        self.ranks = {name: rank for name, rank in kernel.ranks.items() if rank is not None}

    def text(self, node: Node) -> str:
        if (new := self._element(node) or self._size(node)) is not None:
            return new + "\n" * (node.text.count("\n") - new.count("\n"))
        if node.type == "identifier" and node.text in self.ranks and node.field != "field":
            hint = "index it fully, x[i][j], or pass a pointer and sizes in its place"
            raise problem(self.path, node.row + 1, f"the accessor {node.text} is used as a whole", hint)
        at, parts = node.start_byte, list[str]()
        for child in node.children:
            parts += [self.data[at : child.start_byte].decode(), self.text(child)]
            at = child.end_byte
        return "".join(parts) + self.data[at : node.end_byte].decode()

    def _element(self, node: Node) -> str | None:
        """`x[i][j]` as `x[i * x_size1 + j]`."""
        indices: list[Node] = []
        inner: Node | None = node
        while inner is not None and inner.type == "subscript_expression":
            index = inner.child("indices") or inner.child("index")
            if index is None:
                return None
            indices.insert(0, index)
            inner = inner.child("argument")
        name = inner.text if inner is not None and inner.type == "identifier" else ""
        if not indices or self.ranks.get(name) != len(indices):
            return None
        place = ""
        for at, index in enumerate(indices):
            said = self.text(index)
            said = said[1:-1].strip() if index.type == "subscript_argument_list" else said
            self.indices.setdefault((name, at), set()).add(said)
            if at:
                outer = place if _SIMPLE.fullmatch(place) else f"({place})"
                place = f"{outer} * {name}_size{at} + {said if _SIMPLE.fullmatch(said) else f'({said})'}"
            else:
                place = said
        return f"{name}[{place}]"

    def _size(self, node: Node) -> str | None:
        """`x.size(0)` as `x_size0`, `x.data()` as `x`."""
        if node.type != "call_expression":
            return None
        match = re.fullmatch(r"(\w+)\s*\.\s*(size\s*\(\s*(\d)\s*\)|data\s*\(\s*\))", node.text)
        if match is None or match[1] not in self.ranks:
            return None
        return f"{match[1]}_size{match[3]}" if match[3] is not None else match[1]


def with_sizes(text: str) -> str:
    """`x.sizes()[1]`, and `s[1]` of `const auto s = x.sizes()`, as `x.size(1)`."""
    for alias, tensor in re.findall(r"\b(\w++)\s*+=\s*+(\w++)\.sizes\(\)\s*+;", text):
        text = re.sub(rf"\b{alias}\s*+\[\s*+(-?\d++)\s*+\]", rf"{tensor}.size(\1)", text)
    return re.sub(r"\.sizes\(\)\s*+\[\s*+(-?\d++)\s*+\]", r".size(\1)", text)
