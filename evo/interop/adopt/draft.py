"""What a task of the launches looks like: tensors with role, type and shape, axes, scalars, and the variant's text.

Roles come from what the host copies in, clears and copies out; the simulator then shows where that was not the truth.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evo.analysis.access.preprocess import ExpansionTooLong, expand
from evo.cuda.source import Param
from evo.interop.adopt.device_code import device_code, filled_symbols
from evo.interop.adopt.draft_parts import LaunchDraft, ScalarDraft, TensorDraft, dims_of, is_left_alone, table_lengths
from evo.interop.adopt.fills import UNTOLD, replaced
from evo.interop.adopt.host_expressions import VECTOR_BASES, VECTORS, bare_type
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, names_of, substituted, written
from evo.interop.adopt.host_values import Allocation, DevicePointer, Launched, problem
from evo.interop.adopt.kernel_instance import Instance, instances_of
from evo.interop.adopt.pointer_accesses import PointerAccess, accesses_of
from evo.interop.adopt.program import HostProgram
from evo.interop.adopt.top_level_items import reached, shared_extents
from evo.spec.element_types import ELEMENT_TYPES, OF_C_TYPE, is_float

_NAME_PARTS = re.compile(r"^(?:d|dev|device|gpu|g|cu)_(?=\w)|_(?:d|dev|device|gpu)$|^d(?=[A-Z])|^dev(?=[A-Z])")
_SCALARS = {"eps": 1e-5, "epsilon": 1e-5, "alpha": 1.5, "beta": 0.5, "scale": 0.125, "slope": 0.01, "lr": 0.01}
_FLOAT_SCALAR = 0.75
SMALL_SIZE = 16  # up to here a size is what it is: channels, a filter's width
_TAKEN = frozenset(["min", "max", "sqrt", "log2", "ceil_div", "chip", "np", "case", "rng"])
_TAKEN |= frozenset(["on", "off", "yes", "no", "true", "false", "null"])  # which YAML takes for something else
_BLOCK_NAME = re.compile(r"block|thread|tpb|warp|tile", re.IGNORECASE)


@dataclass
class Draft:
    """A task and its first variant, before anything has run."""

    program: HostProgram
    axes: dict[str, int]
    compiled: list[str]  # axes that the device code has as macros
    knobs: dict[str, int]
    tensors: list[TensorDraft]
    scalars: list[ScalarDraft]
    launches: list[LaunchDraft]
    constants: dict[str, int]  # sizes that are compiled in and stay what they are
    code: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        return str(self.program.path)

    @property
    def given(self) -> list[TensorDraft]:
        return [tensor for tensor in self.tensors if tensor.role != "scratch"]


def draft_of(program: HostProgram, options: Mapping[str, Mapping[str, str]]) -> Draft:
    """options: what the user has set: `role`, `dtype`, `shape` and `init` by tensor, `scalar` by name."""
    macros = [item.text for item in program.items if item.kind == "macro"]
    order = instances_of(program.launches, program.kernels, program.host, macros)
    symbols, edited = filled_symbols(program, order)
    maker = _Maker(program, order, symbols, options)
    draft = maker.draft()
    draft.code = device_code(program, order, edited, draft.compiled, symbols)
    return draft


class _Maker:
    def __init__(
        self,
        program: HostProgram,
        order: Sequence[Instance],
        symbols: Mapping[str, Allocation],
        options: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.program, self.order, self.symbols, self.options = program, order, symbols, options
        self.notes = list(dict.fromkeys(program.host.notes))
        self.constants: dict[str, int] = {}
        self.memories: dict[Allocation, list[tuple[Launched, Param, PointerAccess]]] = {}
        for launched, instance in zip(program.launches, order, strict=True):
            touches = accesses_of(self.expanded(instance), instance.name)
            params = instance.params
            if len(params) != len(launched.arguments):
                raise problem(
                    program.path,
                    launched.line,
                    f"{launched.kernel} takes {len(params)} parameters, the launch passes {len(launched.arguments)}",
                    "make them equal",
                )
            for param, argument in zip(params, launched.arguments, strict=True):
                if isinstance(argument, DevicePointer):
                    self._no_offset(launched, argument)
                    touch = touches.get(param.name, PointerAccess())
                    self.memories.setdefault(argument.memory, []).append((launched, param, touch))
            read = PointerAccess(read=True, read_first=True)
            for name in instance.symbols:
                param = Param(type=f"const {symbols[name].element}*", name=name, is_pointer=True, is_const=True)
                self.memories.setdefault(symbols[name], []).append((launched, param, read))

    def expanded(self, instance: Instance) -> str:
        """A kernel and the device functions of the file, with macros replaced."""
        parts = [item.text for item in self.program.items if item.kind in ("macro", "device", "type")]
        try:
            return expand("\n".join([*parts, instance.text]).encode(), {}).data.decode()
        except ExpansionTooLong:
            what = f"the macros in {instance.name} stand for more text than can be read"
            raise problem(self.program.path, instance.item.line, what, "nest them less deeply") from None

    def _no_offset(self, launched: Launched, argument: DevicePointer) -> None:
        if argument.offset.value != 0:
            raise problem(
                self.program.path,
                launched.line,
                f"the launch passes a place inside {argument.memory.name}, {argument.offset.text} elements in",
                "pass the tensor, and add the offset inside the kernel",
            )

    def draft(self) -> Draft:
        tensors = {memory: self._tensor(memory) for memory in self.memories}
        self._set_apart(list(tensors.values()))
        if not any(t.role in ("out", "inout") for t in tensors.values()):
            self._take_last(tensors)
        if not any(t.role in ("out", "inout") for t in tensors.values()):
            raise self.program.without_output()
        axes, compiled, knobs, fixed = self._axes(tensors)
        guesses = set(fixed) & set(self.program.host.unknown_sizes)  # that no kernel can follow: found by trial
        for tensor in tensors.values():
            is_guess = any(names_of(dim) & guesses for dim in tensor.dims or [])
            tensor.dims = None if tensor.dims is None or is_guess else [substituted(d, fixed) for d in tensor.dims]
            tensor.fill = self._fill(tensor, {**{name: name for name in (*axes, *knobs)}, **fixed})
        scalars: dict[str, ScalarDraft] = {}
        pairs = zip(self.program.launches, self.order, strict=True)
        launches = [self._launch(launched, instance, tensors, fixed, scalars) for launched, instance in pairs]
        if not axes:
            axes = {"ONE": 1}
        ordered = sorted(tensors.values(), key=lambda t: {"in": 0, "inout": 1, "out": 2}.get(t.role, 3))
        numbers = list(scalars.values())
        return Draft(self.program, axes, compiled, knobs, ordered, numbers, launches, self.constants, notes=self.notes)

    # Tensors.

    def _fill(self, tensor: TensorDraft, known: Mapping[str, object]) -> object:
        """What the host code fills an input of whole numbers with; None if it says nothing."""
        found = tensor.memory.fill if tensor.memory is not None and not is_float(tensor.dtype) else None
        told: dict[object, object] = dict(known.items())
        for name in names_of(found) - {*known}:
            told[name] = getattr(self.program.host.in_text(name, {}), "value", None)
        return UNTOLD if any(told[name] is None for name in names_of(found)) else replaced(found, told)

    def _tensor(self, memory: Allocation) -> TensorDraft:
        uses = self.memories[memory]
        name = self._tensor_name(memory)
        said = {kind: named.get(name) for kind, named in self.options.items()}
        element = self._element(memory, uses)
        if element is None:
            param = uses[0][1]
            raise problem(
                self.program.path,
                uses[0][0].line,
                f"{param.name} of {uses[0][0].kernel} is `{param.type}`: no type that a tensor has",
                f"pass plain arrays, one for each field; or name the type: --tensor {name}:in:float32[N]",
            )
        dtype = OF_C_TYPE[element]
        whole = self.program.host.bytes_of(memory.element or "") or 0
        dims = dims_of(memory, ELEMENT_TYPES[dtype].size_bytes, whole)
        role, init, why = self._role(memory, uses)
        if said.get("role"):
            role, init, why = str(said["role"]), "poison", "given"
        dtype = said.get("dtype") or dtype
        return TensorDraft(name, role, dtype, dims, said.get("init") or init, why, memory)

    def _tensor_name(self, memory: Allocation) -> str:
        is_shared = any(other.name == memory.name for other in self.memories if other is not memory)
        name = re.sub(r"\W", "_", memory.name * (not is_shared) or self.memories[memory][0][1].name)
        short = _NAME_PARTS.sub("", name)
        return short if re.fullmatch(r"[A-Za-z_]\w*", short) and not keyword.iskeyword(short) else name

    def _take_last(self, tensors: Mapping[Allocation, TensorDraft]) -> None:
        """Where nothing that is written is copied back (pointers changed places): what the last launch writes."""
        for memory, tensor in tensors.items():
            launched, _, touch = self.memories[memory][-1]
            if tensor.role == "scratch" and touch.written and launched is self.program.launches[-1]:
                tensor.role, tensor.init = ("inout" if touch.read_first else "out"), "poison"
                tensor.why = "written by the last launch"

    def _set_apart(self, tensors: Sequence[TensorDraft]) -> None:
        """Names of their own, also beside the sizes'."""
        taken = set(self.program.host.named)
        for tensor in tensors:
            while tensor.name in taken or tensor.name.lower() in _TAKEN or keyword.iskeyword(tensor.name):
                tensor.name += "_"
            taken.add(tensor.name)

    def _element(self, memory: Allocation, uses: Sequence[tuple[Launched, Param, PointerAccess]]) -> str | None:
        types = self.program.host.types
        for kind in (memory.element, *(bare_type(param.type) for _, param, _ in uses)):
            name = bare_type(types.get(kind or "", kind or ""))
            if name in OF_C_TYPE:
                return name
            if name in VECTORS:
                return VECTOR_BASES.get(VECTORS[name][0], VECTORS[name][0])
            if (fields := self.program.host.element_of_record(name)) and fields[0] in OF_C_TYPE:
                return fields[0]
            if name in ("__half2", "half2"):
                return "__half"
            if name == "__nv_bfloat162":
                return "__nv_bfloat16"
        return None

    def _role(self, memory: Allocation, uses: Sequence[tuple[Launched, Param, PointerAccess]]) -> tuple[str, str, str]:
        kinds_before = [e.kind for e in self.program.before if e.memory is memory]
        taken = any(e.kind == "out" and e.memory is memory for e in self.program.after)
        taken = taken or any(e.kind == "copy" and e.source is memory for e in self.program.after)
        copied_back = any(e.kind == "out" for e in self.program.after)
        last = kinds_before[-1] if kinds_before else ""
        fed, zeroed = self.program.is_fed(memory), last in ("zero", "fill")
        write = any(touch.written for _, _, touch in uses)
        read_first = uses[0][2].read_first
        if not write:
            return "in", "poison", "copied to the GPU" if fed else "only read"
        open_ended = memory.is_parameter or memory.is_managed or not copied_back
        # What one launch reads, changes and leaves in memory is the state of the next call: moments, a running sum.
        is_state = zeroed and read_first and uses[0][2].used and len(uses) == 1 and self._is_float(memory, uses)
        if not taken and not open_ended and not (fed and read_first) and not is_state:
            init = "zero" if zeroed else "poison"
            return "scratch", init, "between the launches" if len(self.order) > 1 else "not copied back"
        if fed or (memory.is_managed and read_first and not zeroed):
            if read_first:
                back = ", copied back" if taken else ""
                return "inout", "poison", f"copied in, changed{back}" if fed else "read and changed"
            return "out", "poison", "written, copied back"
        if zeroed:
            # What is written whole need not be cleared. Floats that are read for more than to be added to show little
            # of what a kernel does while they are zero: if the simulator sees them read first, they become inputs.
            is_clear = read_first and not (uses[0][2].used and self._is_float(memory, uses))
            return "out", "zero" if is_clear else "poison", "cleared, then written"
        if not copied_back and not memory.is_parameter and not memory.is_managed:
            later = any(t.read and not t.written for _, _, t in uses)
            return ("scratch", "poison", "between the launches") if later else ("out", "poison", "written")
        if not memory.is_parameter and not memory.is_managed:  # nothing has filled it: what is read was written here
            return "out", *(("zero", "added to with atomics") if uses[0][2].added else ("poison", "written"))
        if read_first:
            return "inout", "poison", "given, added to with atomics" if uses[0][2].added else "read and written"
        return "out", "poison", "written"

    def _is_float(self, memory: Allocation, uses: Sequence[tuple[Launched, Param, PointerAccess]]) -> bool:
        element = self._element(memory, uses)
        return element is not None and is_float(OF_C_TYPE[element])

    # Sizes.

    def _axes(
        self, tensors: Mapping[Allocation, TensorDraft]
    ) -> tuple[dict[str, int], list[str], dict[str, int], dict[str, int | float]]:
        """Axes, those of them that are macros of the device code, knobs, and sizes that stay what they are."""
        named = self.program.host.named
        outer = {n for t in tensors.values() if t.role != "scratch" for dim in t.dims or [] for n in names_of(dim)}
        arguments, reals, blocks, every = set[str](), set[str](), set[str](), set[str]()
        device = self._device_words()
        for launched, instance in zip(self.program.launches, self.order, strict=True):
            for param, argument in zip(instance.params, launched.arguments, strict=True):
                if not isinstance(argument, HostNumber):
                    continue
                # `ceil_div(n, TILE)` tells no tile that the kernel has itself
                told = {n for n in argument.names if n == argument.how or n not in device or n in outer}
                if is_float(self._c_type(param) or ""):  # a macro there may be a constant of nature
                    reals |= argument.names - set(named)
                    told &= set(named)
                arguments |= told
            for part in (*launched.block.parts, launched.shared):
                blocks |= part.names
            rows = {name for part in launched.grid.parts for name in part.names}
            every |= blocks | rows
            asked = rows.intersection(self.program.host.unknown_sizes)  # of a launcher that nobody calls
            outer |= {name for name in asked if not _BLOCK_NAME.search(name)}
        extents, tiles = set(every), shared_extents(reached(self.program.items, [i.item for i in self.order]))
        every |= tiles
        every |= (
            outer | arguments | reals | {n for t in tensors.values() for dim in t.dims or [] for n in names_of(dim)}
        )
        tables = table_lengths(list(tensors.values()))
        plain_blocks = {name for name in blocks if name not in outer or _BLOCK_NAME.search(name)}
        axes: dict[str, int] = {}
        knobs: dict[str, int] = {}
        fixed: dict[str, int | float] = {}
        for name in sorted(sorted(every), key=lambda n: list(named).index(n) if n in named else len(named)):
            value = named.get(name, self._macro_value(name))
            if value is None:
                continue
            # What is neither passed, of the launch nor a macro of the kernel, no kernel can follow, unless indices do.
            is_told = name in arguments | reals | device | extents | tables
            stays = self.program.host.kept | self.program.host.counted
            is_size = ((name in outer and is_told) or name in arguments) and name not in stays
            if is_size and name not in plain_blocks and name in device and self._stays(name):
                self.constants[name], fixed[name] = int(value), value
            elif is_size and name not in plain_blocks:
                axes[name] = int(value)
            elif name in device and name in extents | tiles and name not in outer and self._literal(name) is not None:
                knobs[name] = int(value)
            else:
                fixed[name] = value
        for name, value in self.program.host.given.items():
            is_block = name in plain_blocks - outer and name in self.program.command_line
            if name in every and name not in self.program.host.kept and name not in self.constants and not is_block:
                axes.setdefault(name, value)
                fixed.pop(name, None)
                knobs.pop(name, None)
        return axes, [name for name in axes if name in device], knobs, fixed

    def _literal(self, name: str) -> int | None:
        """The value of a constant, if one line holds nothing but it."""
        pattern = (
            rf"\s*(?:#\s*define\s+{name}\s+(\d+)|(?:static\s+)?const(?:expr)?\s+\w+\s+{name}\s*=\s*(\d+)\s*;)"
            r"\s*(?://.*)?"
        )
        matches = (re.fullmatch(pattern, item.text) for item in self.program.items if name in item.names)
        return next((int(match[1] or match[2]) for match in matches if match), None)

    def _stays(self, name: str) -> bool:
        """Whether a size that is compiled in is part of the kernel: taps, bins. A short one, or one given as it is."""
        value, given = self._literal(name), self.program.host.given.get(name)
        return value is not None and (given == value if given is not None else value <= SMALL_SIZE)

    def _macro_value(self, name: str) -> int | None:
        value = self.program.host.macro_value(name) if name in self.program.host.macros else UNKNOWN
        return int(value.value) if isinstance(value, HostNumber) and value.value is not None else None

    def _device_words(self) -> frozenset[str]:
        """Names of macros and constants that the device code reads."""
        near = reached(self.program.items, [instance.item for instance in self.order])
        constants = {name for item in near if item.kind in ("macro", "value") for name in item.names}
        return frozenset(constants)

    # Launches.

    def _c_type(self, param: Param) -> str | None:
        """The element type of a number by value."""
        return OF_C_TYPE.get(bare_type(self.program.host.types.get(bare_type(param.type), param.type)))

    def _launch(
        self,
        launched: Launched,
        instance: Instance,
        tensors: Mapping[Allocation, TensorDraft],
        fixed: dict[str, int | float],
        scalars: dict[str, ScalarDraft],
    ) -> LaunchDraft:
        args = []
        for param, argument in zip(instance.params, launched.arguments, strict=True):
            if isinstance(argument, DevicePointer):
                args.append(tensors[argument.memory].name)
            elif is_left_alone(param, argument, instance):
                args.append("0")  # a struct's field that the kernel does not look at
            else:
                args.append(self._value(launched, param, argument, fixed, scalars))
        args += [tensors[self.symbols[name]].name for name in instance.symbols]

        def texts(sizes: Sequence[HostNumber], what: str) -> tuple[str, ...]:
            found = [self._text(launched, size, fixed, what) for size in sizes]
            while len(found) > 1 and found[-1] == "1":
                found.pop()
            return tuple(found)

        return LaunchDraft(
            instance,
            texts(launched.grid.parts, "grid"),
            texts(launched.block.parts, "block"),
            self._text(launched, launched.shared, fixed, "shared size"),
            tuple(args),
        )

    def _text(self, launched: Launched, size: HostNumber, fixed: dict[str, int | float], what: str) -> str:
        how = substituted(size.how, fixed) if size.how is not None else size.value
        if how is None:
            why, hint = "", "give it a variable, `int n = ...;`: as a size, it is guessed, and --axis n=4096 changes it"
            if unknown := sorted(self.program.host.undefined):
                why = f": nothing in the file defines {', '.join(unknown[:3])}"
                hint = f"if nvcc is given -D{unknown[0]}=..., give it here as well: --axis {unknown[0]}=256"
            raise problem(self.program.path, launched.line, f"the {what} of {launched.kernel} is not known{why}", hint)
        return written(int(how) if isinstance(how, float) else how)

    def _value(
        self,
        launched: Launched,
        param: Param,
        argument: object,
        fixed: dict[str, int | float],
        scalars: dict[str, ScalarDraft],
    ) -> str:
        dtype = self._c_type(param)
        size = argument if isinstance(argument, HostNumber) else UNKNOWN
        if dtype is None:
            raise problem(
                self.program.path,
                launched.line,
                f"{launched.kernel} takes {param.name} as `{param.type}`, by value",
                "pass its fields as numbers and pointers of their own",
            )
        said = self.options.get("scalar", {}).get(param.name)
        if not dtype.startswith(("float", "bfloat")):
            return said or self._text(launched, size, fixed, f"argument {param.name}")
        if dtype in ("float16", "bfloat16"):
            dtype = "float32"
        how = substituted(size.how, fixed)
        if size.names and size.value is not None and names_of(how) <= set(self.program.host.named):
            return written(how)
        known = float(said) if said is not None else size.value
        value = known if known is not None else _SCALARS.get(param.name.lower(), _FLOAT_SCALAR)
        name = param.name
        taken = {*self.program.host.named, *(self._tensor_name(memory) for memory in self.memories)}
        while name in taken or (name in scalars and scalars[name].value != value):
            name += "_"
        if known is None:
            self.notes.append(f"{name} = {value:g} is a guess; set it with --scalar {name}=VALUE")
        scalars[name] = ScalarDraft(name, dtype, float(value), known is not None)
        return name
