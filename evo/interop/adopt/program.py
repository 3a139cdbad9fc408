"""From a file to the launches that are adopted: the host program is run, and one of its sequences chosen."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import declarator_name
from evo.errors import known_words
from evo.interop.adopt.host import Host
from evo.interop.adopt.host_expressions import COMPLEX, bare_type
from evo.interop.adopt.host_numbers import HostNumber, applied
from evo.interop.adopt.host_values import (
    Allocation,
    DevicePointer,
    HostEvent,
    HostVariable,
    Launched,
    problem,
)
from evo.interop.adopt.launch_sequences import matching
from evo.interop.adopt.parameters import parameters_of
from evo.interop.adopt.python_source import arguments_of, macros_in
from evo.interop.adopt.top_level_items import NOT_IN_FILE, Item, items_of, reached, refuse_what_cannot_run, words_of
from evo.spec.comments import without_comments
from evo.spec.element_types import OF_C_TYPE
from evo.spec.source_text import read_source

_MOST_ARGUMENTS, _MOST_GUESSED = 10, 4
_GUESSED_SIZE, _GUESSED_BLOCK = 1 << 10, 1 << 8
_BLOCK = re.compile(r"block|thread|tpb", re.IGNORECASE)
_CONFLICT = re.compile(r"(?m)^<{7} ")
_OTHERS = {  # what has kernels that are none of CUDA C++, by a word of it
    re.compile(r"^\s*@(?:numba\.)?cuda\.jit\b", re.MULTILINE): "Numba",
    re.compile(r"^\s*@triton\.(?:jit|autotune)\b", re.MULTILINE): "Triton",
    re.compile(r"\b__kernel\s+void\b"): "OpenCL",
    re.compile(r"\bsycl::"): "SYCL",
    re.compile(r"\bmetal_stdlib\b"): "Metal",
    re.compile(r"^\s*@cuda\b", re.MULTILINE): "Julia",
    re.compile(r"^\.(?:visible\s+)?\.?entry\b", re.MULTILINE): "PTX",
    re.compile(r"\b(?:Elementwise|Reduction)Kernel\("): "pieces that a Python library puts together",
}
_DEFINES = re.compile(r"(?<=[ \t])-D ?([A-Za-z_]\w*)(?:=([\w.]+))?(?![\w.=])")
_TASK_LINE = re.compile(r"^[ \t]*//[ \t]*evo:[ \t]*task[ \t]+(\w+)", re.MULTILINE)
_LIBRARY = re.compile(r"\b(?:cublas[A-Z]|cudnn[A-Z]|cufft[A-Z]|cusparse[A-Z]|thrust::|cub::)\w*")


@dataclass
class HostProgram:
    """What one run of the host code has shown. launches: the chosen ones. before, after: events around them."""

    path: Path
    items: list[Item]
    host: Host
    launches: list[Launched]
    before: list[HostEvent]
    after: list[HostEvent]
    others: list[str] = field(default_factory=list)
    root: str = ""

    def is_fed(self, memory: Allocation | None) -> bool:
        """Whether the host copies into it before the launches, and does not clear it then."""
        kinds = [event.kind for event in self.before if event.memory is memory]
        return bool(kinds) and kinds[-1] in ("in", "copy")

    @property
    def command_line(self) -> frozenset[str]:
        """Macros that nothing in the file defines, and that are given."""
        return frozenset(item.names[0] for item in self.items if item.line == NOT_IN_FILE)

    @property
    def kernels(self) -> dict[str, Item]:
        return {item.names[0]: item for item in self.items if item.kind == "kernel"}

    def without_output(self) -> Exception:
        """Why no tensor is an output: no kernel writes one, or one of them cannot be parsed where it does."""
        inside = [self.kernels[each.kernel].inside for each in self.launches if each.kernel in self.kernels]
        for node in (node for kernel in inside for node in kernel.walk() if node.is_error or node.is_missing):
            what = f"`{node.type}` is missing" if node.is_missing else "the kernel cannot be parsed from here on"
            return problem(self.path, node.row + 1, what, "`nvcc -c` says where; a bracket is the usual cause")
        what = "no kernel writes a tensor that the program takes back"
        return problem(self.path, self.launches[-1].line, what, "name the output: --tensor y:out")


def read_program(path: Path, kernel: str | None, given: Mapping[str, int]) -> HostProgram:
    """Run a file's host code. kernel: adopt the sequence that launches it. Raises SyntaxInvalid with file and line."""
    source = read_source(path)
    if "\n>>>>>>> " in source and (conflict := _CONFLICT.search(source)):
        line = source.count("\n", 0, conflict.start()) + 1
        raise problem(path, line, "a conflict that git has left here", "resolve it: keep one of both versions")
    items = items_of(path)
    kernels = [item for item in items if item.kind == "kernel"]
    if not kernels:
        raise _without_kernel(path)
    items[:0] = _given_macros(path, items, given, source)
    roots = _roots(path, items)
    if not roots:
        raise _without_launch(path, source, kernels)
    chosen = None
    for root, argc in ((each, argc) for each in reversed(roots) for argc in _argument_counts(each)):
        found = _run(path, items, root, given, argc, kernel)
        match = matching(found, kernel)
        if not match and found.wished:
            found = _run(path, items, root, {**{n: int(v) for n, v in found.wished.items()}, **given}, argc, kernel)
            match = matching(found, kernel)
        if match:
            run = functools.partial(_run, path, items, root, argc=argc, wanted=kernel)
            found, match = _with_guesses(found, match, run, kernel)
            chosen = (root, found, match[-1])
            break
    if chosen is None:
        what = f"no launch of {kernel} is reached" if kernel else "no launch is reached"
        raise problem(path, None, what, known_words("kernels", kernel or "", (item.names[0] for item in kernels)))
    root, host, sequence = chosen
    if host.argc > 1:
        host.notes.append(
            f"`main` is started with arguments, {host.argc - 1} of them, since it launches nothing without"
        )
    if root is not roots[-1] and roots[-1].item.names[0] == "main":
        host.notes.append(f"what {root.name} launches is adopted, which `main` does not reach")
    at = [host.events.index(event) for event in sequence]
    launched = [event.launched for event in sequence if event.launched is not None]
    used = {each.kernel for each in launched}
    _one_of_each(path, items, launched)
    refuse_what_cannot_run(reached(items, [i for i in items if i.kind == "kernel" and i.names[0] in used]))
    others = [item.names[0] for item in kernels if item.names[0] not in used]
    first, last = min(at), max(at)
    place = next(at for at, item in enumerate(items) if item.kind == "kernel")
    items[place:place] = host.functors.values()  # which the kernels that take them must know
    return HostProgram(path, items, host, launched, host.events[:first], host.events[last + 1 :], others, root.name)


def _with_guesses(
    host: Host, match: list[list[HostEvent]], run: Callable[..., Host], kernel: str | None
) -> tuple[Host, list[list[HostEvent]]]:
    """The same with guesses for sizes that a library or a file tells, as `int n = archive.shape(0)`."""
    given, guesses = host.given, dict[str, int]()
    for _ in range(_MOST_GUESSED):
        if not (new := host.untold - guesses.keys()):
            break
        guesses |= {name: _GUESSED_BLOCK if _BLOCK.search(name) else _GUESSED_SIZE for name in new}
        again = run({**guesses, **given})
        if not (found := matching(again, kernel)):
            break
        again.unknown_sizes += [name for name in guesses if name not in given and name in again.named]
        host, match = again, found
    return host, match


def _given_macros(path: Path, items: Sequence[Item], given: Mapping[str, int], source: str) -> list[Item]:
    """Macros of the compiler's command line, which nothing in the file defines: sizes that are given, and what a
    comment says that the file is compiled with, as `nvcc -DN=256 -DREAL=double`."""
    words = {word for item in items for word in item.words}
    nodes = [node for item in items for node in item.node.walk() if node.type.endswith(("declarator", "declaration"))]
    words -= {name for item in items for name in item.names} | {declarator_name(node) for node in nodes}
    told = {name: (f"{value}", NOT_IN_FILE) for name, value in given.items()}
    if path.suffix == ".py":
        told |= {name: (value, NOT_IN_FILE) for name, value in macros_in(source).items() if name not in given}
    for said in _DEFINES.finditer(source):
        told.setdefault(said[1], (said[2] or "1", source.count("\n", 0, said.start()) + 1))
    found = []
    for name, (value, line) in told.items():
        if name in words:
            text = f"#define {name} {value}"
            found.append(Item("macro", text, (name,), line, read(f"{text}\n".encode()).named_children[0], path))
    return found


def _one_of_each(path: Path, items: list[Item], launched: Sequence[Launched]) -> None:
    """Of kernels with one name, the one that takes as much as it is passed. Raises SyntaxInvalid for two of them."""
    for each in launched:
        same = [item for item in items if item.kind == "kernel" and item.names[0] == each.kernel]
        fitting = [item for item in same if len(parameters_of(item.inside)) == len(each.passed)] or same
        if len(fitting) > 1:
            what = f"there are two kernels {each.kernel}, in line {fitting[0].line} and here"
            raise problem(path, fitting[1].line, what, "give one of them another name, and launch that by it")
        items[:] = [item for item in items if item not in same or item in fitting]


def _without_kernel(path: Path) -> Exception:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".ipynb":
        return problem(path, None, "a notebook", "save the cell with the kernel and its launch as a .cu file")
    if match := _LIBRARY.search(text):
        line = text.count("\n", 0, match.start()) + 1
        hint = "evo tunes kernels in CUDA C++: write the operation as a kernel, or describe it with `evo new`"
        return problem(path, line, f"calls a library ({match[0]}) and has no kernel of its own", hint)
    for decorator, language in _OTHERS.items():
        if match := decorator.search(text):
            line = text.count("\n", 0, match.end()) + 1
            hint = "evo tunes kernels in CUDA C++: write this one so, or describe what it computes with `evo new`"
            return problem(path, line, f"a kernel in {language}", hint)
    code = without_comments(text, keep_lines=True)
    if match := re.search(r"\b__global__\b", code):
        line = code.count("\n", 0, match.start()) + 1
        hint = "`nvcc -c` says where; a bracket that is missing is the usual cause"
        return problem(path, line, "a __global__ function from here on cannot be parsed", hint)
    hint = "adopt a .cu file with a kernel and its launch; `evo new` makes a task without any"
    return problem(path, 1, "no __global__ kernel in this file", hint)


def _without_launch(path: Path, source: str, kernels: Sequence[Item]) -> Exception:
    """Why no function of a file launches a kernel."""
    if own := _TASK_LINE.search(source):
        what = f"is a kernel file of evo already: its task is {own[1]}"
        return problem(path, source.count("\n", 0, own.start()) + 1, what, f"`evo check {path.name}`")
    names = ", ".join(item.names[0] for item in kernels)
    code = without_comments(source, keep_lines=True)
    if (left_open := code.count("{") - code.count("}")) > 0:
        what = f"the file ends before a launch of {names}, with {left_open} bracket{'s' * (left_open > 1)} open"
        return problem(path, code.rstrip().count("\n") + 1, what, "is it whole?")
    hint = "add a launcher to the file, a host function with the launch, so that grid, block and sizes are known"
    if other := re.search(r"\b(?:hipLaunchKernelGGL|cu(?:da)?LaunchKernel\w*)", code):
        hint = f"{other[0]} is not read here: write that launch as name<<<grid, block>>>(...), with cudaMalloc"
    line, known = kernels[0].line, names.replace(", ", "|")
    if meant := re.search(rf"(?<!void )\b({known})\s*(?:<<?[^<;]{{0,80}})?\([^;{{}}]{{0,200}}\)\s*;", code):
        line = code.count("\n", 0, meant.start()) + 1
        hint = f"`{meant[0][:40]}` is no launch: write {meant[1]}<<<grid, block>>>(...)"
    return problem(path, line, f"no launch of {names}: no name<<<grid, block>>>(...) in this file", hint)


@dataclass(frozen=True)
class _Root:
    """A function that may be run first. owner: the class whose method it is."""

    item: Item
    owner: str = ""

    @property
    def name(self) -> str:
        return self.item.names[0]


def _argument_counts(root: _Root) -> range:
    """How many words a program may be started with: alone, or with as many as it asks for before it goes on."""
    return range(1, _MOST_ARGUMENTS if "argc" in words_of(root.item.text) else 2)


def _roots(path: Path, items: Sequence[Item]) -> list[_Root]:
    """Functions that launch, and that no other one calls: methods of classes, launchers, and `main` as the last."""
    host = _host(path, items, {})
    methods = [
        _Root(Item("host", node.text, (name,), node.row + 1, node, path), owner)
        for owner, record in host.records.items()
        for name, node in record.methods.items()
    ]
    methods = [each for each in methods if _launches(each.item, host)]
    suites = {name for name, record in host.records.items() if record.node is not None}
    launching = [
        _Root(item, _suite_of(item, suites)) for item in items if item.kind == "host" and "::" not in item.names[0]
    ]
    launching = [each for each in launching if host.touches_gpu(each.item.inside) and _launches(each.item, host)]
    every = [(each, words_of(each.item.text)) for each in (*methods, *launching)]
    called = [each for each, _ in every if any(each.name in words for other, words in every if other is not each)]
    return sorted((each for each, _ in every if each not in called), key=lambda each: each.name == "main")


def _suite_of(item: Item, suites: Collection[str]) -> str:
    """The class that a test is written for: `TEST_F(Suite, Name) {...}`."""
    first = item.inside.text.partition("(")[2].partition(",")[0].strip()
    return first if first in suites and item.inside.child("type") is None else ""


def _launches(item: Item, host: Host) -> bool:
    """Whether a function launches, itself or through those that it calls."""
    seen: set[int] = set()
    waiting: list[Node] = [item.inside]
    while waiting:
        node = waiting.pop()
        if node.start_byte in seen:
            continue
        seen.add(node.start_byte)
        for inner in node.walk():
            if inner.type == "kernel_call_syntax":
                return True
            if inner.type == "call_expression":
                called = inner.child("function")
                waiting += host.called(called.text) if called is not None else []
    return False


def _host(path: Path, items: Sequence[Item], given: Mapping[str, int]) -> Host:
    host = Host(path, given)
    host.passed = arguments_of(path)
    for item in items:
        name = item.names[0] if item.names else ""
        match item.kind:
            case "macro":
                params = item.node.child("parameters")
                value = item.node.child("value")
                names = None
                if item.node.type == "preproc_function_def":
                    names = tuple(c.text for c in (params.named_children if params is not None else []))
                text = value.text.split("//")[0].replace("\\\n", " ").strip() if value is not None else ""
                if names is None and bare_type(text) in OF_C_TYPE:
                    host.types[name] = bare_type(text)  # `#define REAL double`
                host.macros[name] = (names, str(given[name]) if name in given and names is None else text)
            case "host" | "device":
                host.functions[name] = item.inside
                lists = (n for n in item.inside.walk() if n.type == "template_argument_list")
                host.compiled_in.update(word for each in lists for word in words_of(each.text))
                if item.node is not item.inside:
                    host.heads[name] = item.node
            case "kernel":
                host.kernels[name] = item.inside
            case "type":
                host.define_type(item.inside)
    for name, node in list(host.functions.items()):
        owner, _, method = name.rpartition("::")
        if (record := host.records.get(owner)) is not None:  # defined outside of its class
            record.constructors += [node] if method == owner else []
            record.methods |= {method: node} if method != owner else {}
    for item in items:
        if item.kind == "value":
            host.declare(item.inside)
        elif item.kind == "symbol":
            _declare_symbol(host, item)
    return host


def _declare_symbol(host: Host, item: Item) -> None:
    """A `__constant__` array, which the host fills, or another variable of the GPU."""
    host.declare(item.inside)
    for name in item.names:
        cell = host.scopes[0][name]
        kind = item.inside.child("type")
        element = bare_type(kind.text if kind is not None else "float")
        element = host.types.get(element, element) if element in COMPLEX else element
        length = getattr(cell.value, "length", HostNumber.number(1))
        size = applied("*", length, HostNumber.number(host.bytes_of(element) or 4))
        is_managed = "__managed__" in item.text
        memory = Allocation(name, size, item.line, is_symbol=True, element=element, is_managed=is_managed)
        host.scopes[0][name] = HostVariable(name, element, DevicePointer(memory))


def _run(
    path: Path, items: Sequence[Item], root: _Root, given: Mapping[str, int], argc: int, wanted: str | None
) -> Host:
    tight = False
    while True:
        host = _host(path, items, given)
        host.argc, host.wanted = argc, wanted
        host.tight_rows = tight
        owner = host.records.get(root.owner)
        makers = [maker.text for maker in owner.constructors[:1]] if owner is not None else []
        host.start(root.item.inside, _defaults([root.item.text, *makers]), root.owner)
        gaps = [e.memory for e in host.events if e.kind == "out" and e.memory is not None and e.memory.rows is not None]
        if tight or not gaps:
            return host
        tight = True  # no kernel writes the gaps, and every element of an output is compared


_BESIDE_TENSORS = 4


def _defaults(functions: Sequence[str]) -> dict[str, int]:
    """Sizes for a launcher that nobody calls: a million elements in all, the block as its name says."""
    heads = " ".join(text.partition("{")[0] for text in functions)
    params = re.findall(r"\b(?:int|unsigned|size_t|long|int64_t|uint32_t)\s+(\w+)\s*[,)]", heads)
    blocks = [name for name in params if _BLOCK.search(name)]
    sizes = [name for name in params if name not in blocks]
    each = {0: 1 << 20, 1: 1 << 20, 2: 1 << 10, 3: 1 << 7}.get(len(sizes), 1 << 5)
    if "Tensor" in heads:  # they have the sizes; what is passed beside them is a number of groups, taps or steps
        each = _BESIDE_TENSORS
    return dict.fromkeys(sizes, each) | dict.fromkeys(blocks, 256)
