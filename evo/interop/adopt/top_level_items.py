"""The top level of a `.cu` file, taken apart: kernels, device functions, constants, types, macros, host functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import declarator_name, text_of
from evo.interop.adopt.constant_parts import without_constant_parts
from evo.interop.adopt.host_values import problem
from evo.interop.adopt.parameters import declared_as, parameters_of
from evo.interop.adopt.python_source import cuda_text
from evo.interop.adopt.torch_accessors import with_sizes, without_accessors
from evo.interop.adopt.written_macros import with_launches_written, with_macros_written
from evo.spec.comments import without_comments
from evo.spec.source_text import read_source

_WORD = re.compile(r"[A-Za-z_]\w*")
_KEPT_HEADERS = re.compile(
    r"cuda_fp16|cuComplex|cuda_bf16|cuda_fp8|mma\.h|cooperative_groups|cuda_pipeline|math_constants"
    r"|cfloat|float\.h|climits|limits\.h"
)
_KEPT_NAMESPACES = re.compile(r"\b(?:cooperative_groups|nvcuda)\b")  # of these headers; NVRTC has no `std`
_LAMBDA_MARK = re.compile(r"\]((?:\s*+__(?:host|device)__)++)(?=\s*+[({])")
_VARIABLE = re.compile(r"(?:static\s+)?(?:__managed__|__device__)\s+(?:__managed__\s+|__device__\s+)?(?!__constant__)")
_SAYS = re.compile(r"\b(?:printf|assert)\s*+\(")
NOT_IN_FILE = 0  # the line of a macro of the compiler's command line
_FOREIGN = {"std", "at", "c10", "torch", "thrust", "cub", "cooperative_groups", "nvcuda"}
_CONDITIONAL = ("preproc_ifdef", "preproc_if")
_NEVER = {
    r"\btex[123]D(?:fetch|gather|(?:Layered)?(?:Lod|Grad)?)\s*[<(]|\bcudaTextureObject_t\b|\btexture\s*<"
    r"|\bsurf[123]D\w*\s*\(": (
        "reads or writes a texture, which is not adopted",
        "read the tensor through a pointer: the texture's cache is the L1 cache since many generations",
    ),
    r"\bthis_grid\s*\(|\bgrid_group\b": (
        "waits for the whole grid, which is not adopted",
        "split the kernel there into two launches: between launches every block has ended",
    ),
    r"\b(?:thrust|cuda::std|std)::complex\b": (
        "computes with a class for complex numbers that the compiler of evo does not have",
        "use cuFloatComplex of cuComplex.h with cuCaddf and cuCmulf, or float2, in the kernel",
    ),
    r"\bcub::|\bthrust::": (
        "calls CUB or Thrust inside device code, which is not adopted",
        "write this part as plain CUDA, or adopt a kernel that does without it",
    ),
}


@dataclass(eq=False)
class Item:
    """One piece of the top level. kind: `kernel`, `device`, `host`, `symbol`, `value`, `type`, `macro`, `include`.

    text: as it is in the file, without `extern "C"`. names: what it declares. inside: the declaration below a template.
    """

    kind: str
    text: str
    names: tuple[str, ...]
    line: int
    node: Node
    path: Path

    @property
    def words(self) -> frozenset[str]:
        """What it may need: its identifiers, but not parameters, which may hide a variable of the file."""
        hidden = parameters_of(self.inside) if self.inside.type == "function_definition" else []
        return words_of(self.text) - {param.name for param in hidden}

    @property
    def inside(self) -> Node:
        """The function or declaration itself, below its template's head."""
        node = self.node
        while node.type == "template_declaration":
            node = node.named_children[-1]
        return node


def words_of(text: str) -> frozenset[str]:
    """The identifiers of a text, without comments and strings."""
    code = without_comments(text)
    return frozenset(_WORD.findall(re.sub(r'"(?:\\.|[^"\\\n])*"', '""', code)))


def items_of(path: Path, seen: set[Path] | None = None) -> list[Item]:
    """The items of a file and of the files beside it that it includes. Raises SyntaxInvalid."""
    data = read_source(path).replace("\r\n", "\n")
    seen = seen if seen is not None else set()
    seen.add(path.resolve())
    if path.suffix == ".py":
        data = cuda_text(path, data)
    data = with_macros_written(with_launches_written(data))
    if "TensorAccessor" in data or "packed_accessor" in data:
        data = without_accessors(path, data)
    if ".sizes()" in data:
        data = with_sizes(data)
    if "__constant__" in data:
        data = without_constant_parts(path, data)
    if _VARIABLE.search(data):
        data = _with_variables_passed(data)
    if _SAYS.search(data):
        data = _without_words(data)
    if "namespace" in data:
        data = _set_apart(data)
    # nvcc's mark of lambdas for the device is no C++; the kernel that is given one says so as well
    data = _LAMBDA_MARK.sub(lambda match: "]" + re.sub(r"[^\n]", " ", match[1]), data)
    found: list[Item] = []
    for node in _top(read(data.encode())):
        if node.type == "preproc_include":
            found += _included(path, node, seen)
        else:
            found += _item(path, node)
    return found


def _with_variables_passed(text: str) -> str:
    """Variables of the GPU that kernels use by their names, as further parameters of what uses them; where one is no
    array, as a pointer to it. Values that they start with are not read: such a variable stays where it is."""
    data = text.encode()
    root = read(data)
    functions = [node for node in root.walk() if node.type == "function_definition"]
    variables = dict[str, tuple[str, bool]]()
    for node in root.walk():
        if node.type != "declaration" or node.around("function_definition") or not _VARIABLE.match(node.text):
            continue
        for each in node.children_of("declarator"):
            name, kind = declarator_name(each), text_of(node.child("type"))
            if name is not None and each.type in ("identifier", "array_declarator"):
                is_flat = each.text.count("[") < 2
                variables[name] = (
                    f"{kind}* __restrict__ {name}" if is_flat else f"{kind} {each.text}",
                    each.text == name,
                )
    device = {function_name(f): f for f in functions if re.search(r"__(?:device|global)__", f.text.partition("{")[0])}
    uses = {name: _own_words(node) for name, node in device.items()}
    for _ in range(len(uses)):  # what they call uses them as well
        for words in uses.values():
            words |= {word for name in words & uses.keys() for word in uses[name] & variables.keys()}
    edits: list[tuple[int, int, str]] = []
    for node in root.walk() if variables else ():
        name = function_name(node) if node.type == "function_definition" else ""
        inside = node.child("arguments") if node.type == "call_expression" else None
        if inside is not None:
            name = text_of(node.child("function")).partition("<")[0].rpartition("::")[2]
        elif name in device and device[name] is node:
            inside = next(each for each in node.walk() if each.type == "parameter_list")
            body = [each for each in node.walk() if each.type == "identifier" and each.field != "field"]
            places = [each for each in body if each.text in uses[name] & variables.keys() and variables[each.text][1]]
            edits += [(each.start_byte, each.end_byte, f"(*{each.text})") for each in places]
        if inside is not None and (own := sorted(uses.get(name, set()) & variables.keys())):
            taken = [variables[word][0] if node.type == "function_definition" else word for word in own]
            edits.append((inside.end_byte - 1, inside.end_byte - 1, ", " * bool(inside.inside) + ", ".join(taken)))
    for start, end, new in sorted(edits, reverse=True):
        data = data[:start] + new.encode() + data[end:]
    return data.decode()


def _own_words(function: Node) -> set[str]:
    """What a function names, but what it declares itself."""
    declares = ("parameter_declaration", "init_declarator", "declaration", "array_declarator")
    own = {declarator_name(node) for node in function.walk() if node.type in declares}
    return {node.text for node in function.walk() if node.type == "identifier"} - {name for name in own if name}


def _without_words(text: str) -> str:
    """Device functions without `printf` and `assert`: what they compute is the same."""
    data = text.encode()
    for node in reversed([*read(data).walk()]):
        call = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
        if call is None or call.type != "call_expression" or not _SAYS.match(call.text):
            continue
        function, above = None, node.parent
        while above is not None:
            function, above = (above if above.type == "function_definition" else function), above.parent
        if function is not None and re.search(r"__(?:device|global)__", function.text.partition("{")[0]):
            given = call.child("arguments")
            values = [] if given is None else given.inside[call.text.startswith("printf") :]
            kept = ", ".join(f"(void)({value.text})" for value in values)  # else the compiler warns of what is unused
            left = f"{kept};" if kept else "{}"
            lines = "\n" * (node.text.count("\n") - left.count("\n"))
            data = data[: node.start_byte] + f"{left}{lines}".encode() + data[node.end_byte :]
    return data.decode()


def _set_apart(text: str) -> str:
    """Names that several namespaces have, with that of their namespace before them: `naive::run` as `naive_run`."""
    data = text.encode()
    root = read(data)
    spaces = [node for node in root.walk() if node.type == "namespace_definition" and node.child("name") is not None]
    has: dict[str, set[str]] = {}
    for node in spaces:
        body = node.child("body")
        for child in body.named_children if body is not None else ():
            for item in _item(Path(), child):
                for name in item.names:
                    has.setdefault(name, set()).add(text_of(node.child("name")))
    several = {name for name, inside in has.items() if len(inside) > 1}
    edits: list[tuple[int, int, str]] = []
    for node in root.walk() if several else ():
        if node.type == "qualified_identifier" and text_of(node.child("name")) in several:
            scope = text_of(node.child("scope")).rpartition("::")[2]
            edits += [(node.start_byte, node.end_byte, f"{scope}_{text_of(node.child('name'))}")]
    for space in spaces:
        for node in space.walk() if several else ():
            is_own = node.text in several and space.start_byte == _innermost(spaces, node).start_byte
            if is_own and node.type in ("identifier", "type_identifier") and node.field != "scope":
                edits.append((node.start_byte, node.end_byte, f"{text_of(space.child('name'))}_{node.text}"))
    whole = {start: end for start, end, new in edits if "::" in data[start:end].decode()}
    for start, end, new in sorted(edits, reverse=True):
        if not any(first <= start and end <= last and (first, last) != (start, end) for first, last in whole.items()):
            data = data[:start] + new.encode() + data[end:]
    own = {text_of(node.child("name")) for node in spaces} - _FOREIGN  # what they have is lifted out of them
    found = re.compile(rf"\b(?:{'|'.join(map(re.escape, own))})::(?=\w)") if own else None
    return found.sub("", data.decode()) if found is not None else data.decode()


def _innermost(spaces: Sequence[Node], node: Node) -> Node:
    return [each for each in spaces if each.start_byte <= node.start_byte < each.end_byte][-1]


def _top(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        if child.type in ("linkage_specification", "namespace_definition"):
            body = child.child("body")
            if body is not None and body.type == "declaration_list":
                yield from _top(body)
            elif body is not None:
                yield body
        elif child.type in _CONDITIONAL:
            yield from _branch(child)
        else:
            yield child


def _branch(node: Node) -> Iterator[Node]:
    """What stands under `#ifdef`: the first branch under `#ifndef` and `#if 1`, the other one under `#if 0`."""
    name = node.child("name") or node.child("condition")
    other = node.child("alternative")
    text = name.text if name is not None else ""
    taken = node.text.startswith("#ifndef") or (node.type == "preproc_if" and text != "0")
    own = [child for child in node.named_children if child is not name and child is not other]
    if taken:
        for child in own:
            yield from _branch(child) if child.type in _CONDITIONAL else [child]
    elif other is not None:
        yield from _top(other)


def _included(path: Path, node: Node, seen: set[Path]) -> list[Item]:
    name = node.text.partition("include")[2].split("//")[0].strip()
    word = name.strip('<>"')
    beside = path.parent / word
    if name.startswith('"') and beside.is_file():
        return items_of(beside, seen) if beside.resolve() not in seen else []
    if _KEPT_HEADERS.search(name):
        return [Item("include", f"#include <{word}>", (), node.row + 1, node, path)]
    return []


def _item(path: Path, node: Node) -> list[Item]:
    inside = node
    while inside.type == "template_declaration" and inside.named_children:
        inside = inside.named_children[-1]
    line, text = node.row + 1, node.text
    match inside.type:
        case "function_definition":
            head = text[: _body_start(inside) - node.start_byte]
            kind = "kernel" if "__global__" in head else "device" if "__device__" in head else "host"
            called = function_name(inside)
            if called.isupper() and inside.child("type") is None:  # `TEST_F(Suite, Name) {...}`
                called = "_".join(_WORD.findall(head.partition("(")[2]))
            return [Item(kind, text, (called,), line, node, path)] if called else []
        case "preproc_def" | "preproc_function_def":
            name_node = inside.child("name")
            return [Item("macro", text.rstrip("\n"), (name_node.text,) if name_node else (), line, node, path)]
        case "declaration" | "field_declaration":
            names = tuple(word for d in inside.children_of("declarator") if (word := declarator_name(d)))
            is_symbol = re.match(r"(?:static\s+|extern\s+)*(?:__constant__|__device__|__managed__)\b", text)
            return [Item("symbol" if is_symbol else "value", text, names, line, node, path)] if names else []
        case "namespace_alias_definition":
            return [Item("type", text, (text_of(inside.child("name")),), line, node, path)]
        case "using_declaration" if _KEPT_NAMESPACES.search(text):
            return [Item("include", text, (), line, node, path)]
        case "type_definition" | "alias_declaration" | "struct_specifier" | "class_specifier" | "enum_specifier":
            named = [n for n in (inside.child("declarator"), inside.child("name")) if n is not None]
            inner = [n.child("name") for n in inside.walk() if n.type.endswith("_specifier")]
            found = tuple(n.text for n in (*named, *inner) if n is not None)
            found += tuple(n.text for n in inside.walk() if n.type == "enumerator" and n.named_children)
            text = text if text.rstrip().endswith(";") else f"{text};"
            return [Item("type", text, tuple(_WORD.findall(word)[0] for word in found), line, node, path)]
    return []


def _body_start(function: Node) -> int:
    body = function.child("body")
    return body.start_byte if body is not None else function.end_byte


def function_name(function: Node) -> str:
    declarator = declared_as(function)
    name = declarator.child("declarator") if declarator is not None else None
    return name.text if name is not None else ""


def reached(items: Iterable[Item], start: Iterable[Item], named: Iterable[str] = ()) -> list[Item]:
    """The items that some need, themselves included, in the order of the file. Host functions are none of them.

    named: words of instances, which name constants that only a launch's template arguments do.
    """
    items = list(items)
    by_name: dict[str, list[Item]] = {}
    for item in items:
        for name in item.names:
            if item.kind not in ("host", "kernel"):
                by_name.setdefault(name, []).append(item)
    waiting = list(dict.fromkeys([*start, *(item for word in named for item in by_name.get(word, ()))]))
    needed = set(waiting)
    while waiting:
        for word in waiting.pop().words:
            for item in by_name.get(word, ()):
                if item not in needed:
                    needed.add(item)
                    waiting.append(item)
    return [item for item in items if item in needed or item.kind == "include"]


def shared_extents(items: Iterable[Item]) -> set[str]:
    """Names that are an extent of shared memory by themselves, with padding or without: `[TILE][TILE_K + 1]`."""
    found = set[str]()
    for item in items:
        for declared in item.text.split("__shared__")[1:]:
            found |= set(re.findall(r"\[\s*([A-Za-z_]\w*)\s*(?:\+\s*\d+\s*)?\]", declared.partition(";")[0]))
    return found


def refuse_what_cannot_run(items: Iterable[Item]) -> None:
    """Raises SyntaxInvalid for device code that no task can hold, with file and line."""
    for item in items:
        if item.kind not in ("kernel", "device", "type"):
            continue
        code = without_comments(item.text, keep_lines=True)
        for pattern, (what, hint) in _NEVER.items():
            if match := re.search(pattern, code):
                raise problem(item.path, item.line + code.count("\n", 0, match.start()), what, hint)
        if match := re.search(r"<<<", code):
            line = item.line + code.count("\n", 0, match.start())
            raise problem(item.path, line, "a launch from device code (dynamic parallelism)", "launch it from the host")
