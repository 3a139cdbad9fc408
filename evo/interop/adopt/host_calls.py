"""Calls of host code: the CUDA runtime's, kernel launches, the program's own functions, and the few of the library."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from evo.cuda.source.parser import Node, read
from evo.cuda.source.types import text_of
from evo.interop.adopt.host_expressions import bare_type, extent_of, memory_of, with_words
from evo.interop.adopt.host_fill_calls import FILLING, HostFillCalls
from evo.interop.adopt.host_fills import APPENDING
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied
from evo.interop.adopt.host_tensors import HostTensor
from evo.interop.adopt.host_values import (
    Address,
    Allocation,
    DevicePointer,
    HostArray,
    HostEvent,
    HostKernel,
    HostLambda,
    HostPack,
    HostRandom,
    HostRecord,
    HostVariable,
    Launched,
    problem,
)

_ALLOCATE = ("cudaMalloc", "cudaMallocManaged", "cudaMallocAsync", "hipMalloc")
_COPY = ("cudaMemcpy", "cudaMemcpyAsync")
_OWNERS = ("make_unique", "make_shared")
_CASTS = ("static_cast", "reinterpret_cast", "const_cast")
_SAME = tuple(f"std::{word}" for word in ("forward", "move", "ref", "cref", "as_const"))  # what they are given
_LIBRARIES = ("cublas", "cudnn", "cufft", "cusparse", "curand", "thrust", "cub::")
_ROUNDED_UP = re.compile(r"(?:ATen)?(?:ceil_?div|div_?up|div_?round_?up|divide_?up)", re.I)  # of PyTorch, CUDA, CCCL
_CHIP = {"multiProcessorCount": 58, "maxThreadsPerBlock": 1024, "warpSize": 32}
_BLOCK, _RESIDENT = 256, 6  # what the runtime advises for a small kernel: threads of a block, blocks of a processor
_DEEPEST = 24
_GUESS, _LARGEST_GUESS = 16, 1 << 18  # of a count that nothing tells: so many times the largest size, up to this
_FEW = 16  # bins, channels: such a size says nothing of how much there is


class HostCalls(HostFillCalls):
    """What a call gives, and what it does to the GPU's memory."""

    functions: dict[str, Node]
    notes: list[str]
    untold: frozenset[str]  # variables that launches ask for, and that nothing in the file sets

    heads: dict[str, Node]  # of functions that are templates
    unknown_sizes: list[str]
    run_template: Callable[[str, Sequence[Node], Sequence[object]], object]  # a function of the program that is one
    elements_made: int  # allocations that are elements of an array
    largest_bytes: int  # of an allocation so far
    as_functor: Callable[[object], object]  # a struct for a lambda

    def call(self, node: Node) -> object:
        function, arguments = node.child("function"), node.child("arguments")
        launch = next((child for child in node.children if child.type == "kernel_call_syntax"), None)
        given = [c for c in (arguments.named_children if arguments is not None else []) if c.type != "comment"]
        if node.type == "template_function":
            name, template = self._name(node)
            texts = tuple(self._template_argument(each) for each in template)
            return HostKernel(name, texts) if name in self.kernels else UNKNOWN
        given = [part for each in given for part in self._expanded(each)]
        if function is None:
            return UNKNOWN
        if launch is not None:
            return self._launch(node, function, launch, given)
        if function.type == "field_expression":
            return self._method(function, given)
        if function.type == "lambda_expression":  # `[&] { ... }()`
            return self.run_lambda(HostLambda(function, tuple(self.scopes)), [self.value(each) for each in given])
        name, template = self._name(function)
        if name in _CASTS:
            value = self.value(given[0]) if given else UNKNOWN
            return self.converted(template[0], value) if template else value
        if function.text.partition("<")[0] in _SAME and given:
            return self.value(given[0])
        if name in ("float", "double", "int", "size_t", "unsigned", "long"):
            return self.converted(function, self.value(given[0]) if given else UNKNOWN)
        if name in self.macros and self.macros[name][0] is not None:
            return self._macro(name, given)
        cell = self.find(name)
        if cell is not None and isinstance(cell.value, HostLambda) and self.depth < _DEEPEST:
            return self.run_lambda(cell.value, [self.value(each) for each in given])
        if cell is not None and isinstance(cell.value, HostRandom):
            return HostNumber(None, ("random", cell.value.low, cell.value.end)) if self.is_open else UNKNOWN
        if name in self.types and name not in self.functions and len(given) == 1 and "<" in self.types[name]:
            return self.value(given[0])  # `DevicePtr(p)`, an owner by the name of an alias
        return self._call_of(node, function, given)

    def _call_of(self, node: Node, function: Node, given: list[Node]) -> object:
        """A call of a function, of the program or of a library."""
        name, template = self._name(function)
        kind = template[0].text if name in _OWNERS and template else function.text.removeprefix("make_")
        if self.is_record(kind) and name not in self.functions:
            return self.made(kind, given)  # `make_int2(w, h)` and `std::make_unique<Solver<float>>(n)` as well
        if name in _OWNERS and name not in self.functions:
            return HostArray("", self.size(given[0]), bare_type(kind)) if given else self.constructed(kind, None)
        if name in FILLING and name not in self.functions and self.fills(name, given):
            return UNKNOWN
        if function.type == "qualified_identifier":
            done = self.static_method(function.text, lambda: [self.value(each) for each in given])
            if done is not None:
                return done
        own = self.find("this")
        if function.type == "identifier" and own is not None and isinstance(own.value, HostRecord):
            record = self.records.get(own.value.type)
            if record is not None and name in record.methods:
                return self.method_of(own.value, name, self.arguments_of(record.methods[name], given))
        if name not in self.functions and name.startswith("cuda") and (done := self._runtime(name, node, given)):
            return done[0]
        if function.text.startswith("thrust::") and name in ("raw_pointer_cast", "copy"):
            return self.vector_function(name, given, node.row + 1)
        if any(name.startswith(library) or f"{library}" in function.text for library in _LIBRARIES):
            self.notes.append(f"line {node.row + 1}: the call of {name} is not adopted")
        if name.startswith("AT_DISPATCH") and given:
            self.types.setdefault("scalar_t", "float")
            held = self.value(given[-1])
            return self.run_lambda(held, []) if isinstance(held, HostLambda) else UNKNOWN
        if name not in self.functions and _ROUNDED_UP.fullmatch(name) and len(given) == 2:
            return applied("ceil_div", *(self.size(each) for each in given))
        if function.text.startswith(("torch::", "at::")):
            return self.tensor_function(name, node, given)
        if name in self.functions and self.depth < _DEEPEST:
            values = self.arguments_of(self.functions[name], given)
            if name in self.heads:
                return self.run_template(name, template, values)
            return self.run_function(self.functions[name], values)
        return self._library(name, given)

    def _name(self, function: Node) -> tuple[str, list[Node]]:
        """A function's name without `std::`, and its template's arguments."""
        node = function
        while node.type == "qualified_identifier" and (inner := node.child("name")) is not None:
            node = inner
        if node.type == "template_function":
            inside = node.child("arguments") or next(
                (c for c in node.children if c.type == "template_argument_list"), None
            )
            name = node.child("name")
            return (name.text if name is not None else ""), inside.named_children if inside is not None else []
        return node.text, []

    def _expanded(self, node: Node) -> list[Node]:
        """`args...` as what it stands for; anything else as it is."""
        if node.type != "parameter_pack_expansion":
            return [node]
        pattern = text_of(node.child("pattern"))
        cells = {inner.text: self.find(inner.text) for inner in node.walk() if inner.type == "identifier"}
        packs = {
            word: cell.value for word, cell in cells.items() if cell is not None and isinstance(cell.value, HostPack)
        }
        texts = [re.sub(rf"\b{word}\b", name, pattern) for word, pack in list(packs.items())[:1] for name in pack.names]
        found = next(n for n in read(f"int x_ = f_({', '.join(texts)});".encode()).walk() if n.type == "argument_list")
        return found.named_children

    def _macro(self, name: str, given: list[Node]) -> object:
        params, body = self.macros[name]
        values = [self.value(each) for each in given]
        return self.in_text(body, dict(zip(params or (), values, strict=False))) if body.strip() else UNKNOWN

    # Launches.

    def _launch(self, node: Node, function: Node, launch: Node, given: list[Node]) -> object:
        name, template = self._name(function)
        line = node.row + 1
        held = self.value(function) if name not in self.kernels else None
        texts = tuple(self._template_argument(each) for each in template)
        if isinstance(held, HostKernel):
            name, texts = held.name, held.template
        elif name not in self.kernels:
            is_known = self.find(name) is not None
            what = f"nothing tells which kernel {name} is" if is_known else f"this file has no kernel {name}"
            hint = f"launch one of those that it has by its name: {', '.join(self.kernels)}; or put it into the file"
            raise problem(self.path, line, what, hint)
        if len(launch.named_children) < 2:
            raise problem(self.path, line, f"the launch of {name} has no block", "name<<<grid, block>>>(...) has both")
        self.untold = self.untold.union(*(self.untold_in(each) for each in (*launch.named_children, *given)))
        shape = [self.value(child) for child in launch.named_children]
        grid, block = (extent_of([part]) for part in (*shape, UNKNOWN, UNKNOWN)[:2])
        shared = shape[2] if len(shape) > 2 and isinstance(shape[2], HostNumber) else HostNumber.number(0)
        passed = [(each, self.as_functor(self.value(each))) for each in given]
        arguments = tuple(part for each, value in passed for part in self._arguments(each, value))
        launched = Launched(name, texts, grid, block, shared, arguments, line, tuple(value for _, value in passed))
        self.events.append(HostEvent("launch", line, launched=launched))
        return UNKNOWN

    def _arguments(self, node: Node, value: object) -> list[object]:
        return self.plain_parts(value) if isinstance(value, HostRecord) else [self._argument(node, value)]

    def _argument(self, node: Node, value: object) -> object:
        if isinstance(value, Address | HostArray) and memory_of(value) is None:
            name = value.name if isinstance(value, HostArray) else value.cell.name
            raise problem(
                self.path, node.row + 1, f"the kernel gets {name}, memory of the host", "copy it with cudaMemcpy first"
            )
        return value if isinstance(value, DevicePointer | HostNumber) else node.text

    def _template_argument(self, node: Node) -> str:
        if node.type == "type_descriptor":
            name = bare_type(node.text)
            cell = self.find(name)
            if cell is None:
                return self.types.get(name) or with_words(node.text, self.types)
            return cell.value.text if isinstance(cell.value, HostNumber) else node.text
        value = self.size(node)
        return str(int(value.value)) if value.value is not None else node.text

    # The runtime.

    def _runtime(self, name: str, node: Node, given: list[Node]) -> tuple[object] | None:
        """One value for a call that is known, nothing for others."""
        line = node.row + 1
        if name in _ALLOCATE or name == "cudaMallocPitch":
            self._allocate(name, given, line)
        elif name in ("cudaMallocHost", "cudaHostAlloc"):
            self._set(given[0], HostArray("", self.size(given[1])))
        elif name == "cudaHostGetDevicePointer":
            self._map(given, line)
        elif name in _COPY:
            self._copy(given, line)
        elif name in ("cudaMemcpy2D", "cudaMemcpy2DAsync") and len(given) > 5:
            self._copy([given[0], given[2], given[4]], line)
        elif name.startswith("cudaMemcpyToSymbol"):
            self.fill_symbol(given, line)
        elif name.startswith("cudaMemcpyFromSymbol") and (memory := memory_of(self.value(given[1]))) is not None:
            self.events.append(HostEvent("out", line, memory))
        elif name in ("cudaMemset", "cudaMemsetAsync"):
            memory, byte = memory_of(self.value(given[0])), self.size(given[1])
            if memory is not None:
                self.events.append(HostEvent("zero" if byte.value == 0 else "fill", line, memory))
        elif name.startswith("cudaLaunch") and "Kernel" in name:  # others are written as launches before
            raise problem(self.path, line, f"a launch by {name}", "launch the kernel as name<<<grid, block>>>(...)")
        elif name == "cudaGetDeviceProperties" and given:
            for field, value in _CHIP.items():
                word = f"{given[0].text.lstrip('&')}.{field}"
                self.scopes[0][word] = HostVariable(word, "", HostNumber.number(value))
        elif name == "cudaGetDeviceCount" and given:
            place = self.value(given[0])
            if isinstance(place, Address):
                place.cell.value = HostNumber.number(1)
        elif name == "cudaDeviceGetAttribute" and len(given) > 1:
            word = given[1].text.rpartition("cudaDevAttr")[2].lower()
            self._set(
                given[0], next((HostNumber.number(v) for field, v in _CHIP.items() if field.lower() == word), UNKNOWN)
            )
        elif name.startswith("cudaOccupancyMax") and len(given) > 2:
            numbers = (_CHIP["multiProcessorCount"] * _RESIDENT, _BLOCK) if "Potential" in name else (_RESIDENT,)
            for place, number in zip(given, numbers, strict=False):
                self._set(place, HostNumber.number(number))
        else:  # `cudaCheck(cudaMalloc(...))` of a header that is not there
            for each in given:
                self.value(each)
        return (HostNumber.number(0),)

    def _map(self, given: list[Node], line: int) -> None:
        """Memory of the host that kernels use: as if it were managed."""
        place, held = self.value(given[0]), self.value(given[1])
        if isinstance(place, Address) and isinstance(held, HostArray):
            element, fill = bare_type(place.cell.type), held.filled
            memory = Allocation(held.name, held.length, line, element=element, is_managed=True, fill=fill)
            place.cell.value = DevicePointer(memory)

    def _set(self, target: Node, value: object) -> None:
        place = self.value(target)
        if isinstance(place, Address):
            self.store(place.cell, value)

    def _allocate(self, name: str, given: list[Node], line: int) -> None:
        place = self.value(given[0])
        taken = next((n for n in given[0].walk() if n.type == "pointer_expression"), None)
        # `&d.values` of a struct that was copied from the host's is its array as yet
        cell = place.cell if isinstance(place, Address) else self.place(taken.child("argument") if taken else None)
        if cell is None:
            return
        size = self._known_size(given[1])
        self.largest_bytes = max(self.largest_bytes, int(size.value or 0))
        if name == "cudaMallocPitch":
            memory = self.pitched(cell, given, line)
        else:
            memory = Allocation(cell.name, size, line, is_managed=name.endswith("Managed"))
        target = given[0].text
        if cell.name != "this" and ("." in target or "->" in target):
            memory.name = re.sub(r"\W+", "_", target.rpartition("&")[2].replace("this->", "")).strip("_")
        if target.endswith("]"):  # `&planes[2]`
            memory.name, self.elements_made = cell.name, self.elements_made + 1
        memory.element = bare_type(self.types.get(bare_type(cell.type), cell.type))
        self.store(cell, DevicePointer(memory))

    def _known_size(self, node: Node) -> HostNumber:
        """Bytes of an allocation. A variable that nothing tells, such as a count of what was read, becomes a size."""
        size = self.size(node)
        if size.value is not None or size.how is not None:
            return size
        sizes = [*(int(value) for value in self.named.values() if value is not None), self.largest_bytes // 8]
        places = [inner for inner in node.walk() if inner.type in ("identifier", "field_expression")]
        for cell in [self.place(inner) for inner in places]:
            if cell is not None and cell.value == UNKNOWN and self.bytes_of(cell.type) in (4, 8):
                longest = max(sizes, default=1)
                guess = _LARGEST_GUESS if longest <= _FEW else min(_LARGEST_GUESS, _GUESS * longest)
                found = HostNumber.number(self.given.get(cell.name, guess))
                for each in [cell, *self._copies_of(cell.name)]:
                    self.store(each, found)
                if cell.name not in self.given:
                    self.unknown_sizes.append(cell.name)
        return self.size(node)

    def _copies_of(self, name: str) -> list[HostVariable]:
        """Fields of that name which are not known either: of structs that were copied from one another."""
        held = [cell.value for scope in self.scopes for cell in scope.values()]
        fields = [each.fields.get(name) for each in held if isinstance(each, HostRecord)]
        return [field for field in fields if field is not None and field.value == UNKNOWN]

    def _copy(self, given: list[Node], line: int) -> None:
        if len(given) < 3:
            return
        to, of = self.value(given[0]), self.value(given[1])
        target, source = memory_of(to), memory_of(of)
        if target is not None and source is not None:
            self.events.append(HostEvent("copy", line, target, source=source))
        elif target is not None:
            target.fill = of.filled if isinstance(of, HostArray) else None
            self.events.append(HostEvent("in", line, target))
        elif source is not None:
            self.events.append(HostEvent("out", line, source))

    # Methods, and functions of the standard library.

    def _method(self, function: Node, given: list[Node]) -> object:
        held = self.value(function.child("argument"))
        name = function.child("field")
        word = name.text.partition("<")[0] if name is not None else ""
        if isinstance(held, Address):
            held = held.cell.value
        if word == "swap" and len(given) == 1 and not isinstance(held, HostRecord):
            return self.exchange(function.child("argument"), given[0])
        if isinstance(held, DevicePointer):
            return self.vector_method(held, word, given)
        if isinstance(held, HostTensor):
            return self.tensor_method(held, function, word, given)
        if isinstance(held, HostRecord):
            part = held.fields.get(word)
            if part is not None and isinstance(part.value, HostLambda):
                return self.run_lambda(part.value, [self.value(each) for each in given])
            methods = self.records[held.type].methods if held.type in self.records else {}
            values = self.arguments_of(methods[word], given) if word in methods else []
            return self.method_of(held, word, values)
        if isinstance(held, HostArray):
            if word == "size":
                return held.length
            if word == "resize" and given:
                held.length, held.is_new = self.size(given[0]), False
            if word in APPENDING and given:
                self.appended(held, self.value(given[0]))
            return held
        for each in given:
            self.value(each)
        return UNKNOWN

    def _library(self, name: str, given: list[Node]) -> object:
        if name == "swap" and len(given) == 2:
            return self.exchange(*given)
        values = [self.value(each) for each in given]
        for value in values:  # `stbi_load(path, &width, &height, &channels, 0)`
            if isinstance(value, Address) and value.cell.value in (None, UNKNOWN) and self.is_integer(value.cell.type):
                value.cell.value = self.guessed(value.cell.name)
        if name == "dim3":
            return extent_of(values)
        if name in ("malloc", "calloc", "aligned_alloc"):
            size = values[-1] if isinstance(values[-1], HostNumber) else UNKNOWN
            return HostArray("", size)
        sizes = [value for value in values if isinstance(value, HostNumber)]
        if len(sizes) != len(values) or not sizes:
            return UNKNOWN
        if name in ("min", "max"):
            return applied(name, *sizes)
        if name == "pow":
            return _power(sizes)
        word = name.removesuffix("f")
        return applied(word, sizes[0]) if word in ("ceil", "floor", "sqrt", "log2") else UNKNOWN


def _power(sizes: list[HostNumber]) -> HostNumber:
    base, exponent = (size.value for size in sizes[:2])
    return HostNumber.number(base**exponent) if base is not None and exponent is not None else UNKNOWN
