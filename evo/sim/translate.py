"""A PTX program to LLVM IR: module variables and shared and local memory are laid out, then every kernel is emitted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evo.sim.abi import CONST_BASE, MODULE_BASE
from evo.sim.errors import NamedDefects, PtxError, UnsupportedInstruction
from evo.sim.hidden_choices import with_hidden_choices
from evo.sim.llvm_ir import Code
from evo.sim.lower.deciding import GLOBAL
from evo.sim.lower.declared_arrays import DeclaredArray
from evo.sim.lower.indirect_calls import VIRTUAL_TABLE, function_addresses
from evo.sim.lower.inline import inline_calls
from evo.sim.lower.kernel import Flow, Kernel
from evo.sim.lower.kernel_traits import threads_meet
from evo.sim.memory import Memory, SimBuffer
from evo.sim.ptx.ast import Instr, PtxFunction, PtxModule, Variable
from evo.sim.runtime.grid import run_grid
from evo.sim.runtime.routine import needed

_FLUSH = 1 << 15 | 1 << 6  # of x86's MXCSR: denormal results and operands count as zero


@dataclass(slots=True)
class TranslatedKernel:
    """One kernel: what a launch needs to know of it, and its code."""

    function: PtxFunction  # without its body
    kernel: Kernel
    shared: int  # static bytes
    local: int  # bytes of a thread
    texts: list[str]  # IR modules, the last of which defines `launch`; none if the kernel came from the disk
    keys: list[str] = field(default_factory=list)  # of their machine code


@dataclass(slots=True)
class _LaidOut:
    """One kernel before its code is written; the bytes are as in `TranslatedKernel`."""

    function: PtxFunction
    flow: Flow
    shared: int
    local: int


@dataclass(slots=True)
class Translation:
    """What PTX becomes, before any machine code: its kernels, and the module's variables in memory."""

    kernels: dict[str, TranslatedKernel]
    memory: Memory
    constants: Memory


def translate(program: PtxModule, *, coverage: bool = False, counts_only: bool = False) -> Translation:
    """Raises PtxError or UnsupportedInstruction for what cannot be executed.

    coverage: the code also counts the outcomes of conditions and logs comparisons. counts_only: it goes the same ways
    and counts the same, and leaves out what is computed only to be stored.
    """
    return _Translator(program, coverage=coverage, counts_only=counts_only).run()


class _Translator:
    def __init__(self, program: PtxModule, *, coverage: bool, counts_only: bool) -> None:
        self.program, self.coverage, self.counts_only = program, coverage, counts_only
        self.memory, self.constants = Memory(MODULE_BASE), Memory(CONST_BASE)
        self.globals: dict[str, SimBuffer] = {}
        self.functions = function_addresses(program)

    def run(self) -> Translation:
        variables = [v for v in self.program.variables.values() if v.space in ("global", "const") and not v.extern]
        for variable in variables:
            self._place_global(variable)
        for variable in variables:
            self._patch(variable)
        entries = [function for function in self.program.functions.values() if function.entry]
        laid_out = [self._laid_out(function) for function in entries]
        deciding = [one.flow.deciding for one in laid_out if one.flow.deciding is not None]
        if any("global" in each.spaces for each in deciding):  # what a launch stores, a later one may go by
            for each in deciding:
                each.add(GLOBAL)
        if self.counts_only or not any(threads_meet(one.flow.blocks) for one in laid_out):
            for one in laid_out:
                one.flow.e.stored.clear()
        kernels = {one.function.name: self._emitted(one) for one in laid_out}
        return Translation(kernels, self.memory, self.constants)

    def _place_global(self, variable: Variable) -> None:
        memory = self.memory if variable.space == "global" else self.constants
        is_table = variable.name.startswith(VIRTUAL_TABLE)
        writable, size = variable.space == "global" and not is_table, max(1, variable.size)
        try:
            buffer = memory.allocate(size, variable.name, writable=writable, fill=b"\0")
        except MemoryError as error:
            why = f"its {size} bytes do not fit into memory"
            raise UnsupportedInstruction(f".{variable.space} {variable.name}", why=why) from error
        if variable.init:
            memory.write(buffer, np.frombuffer(variable.init, np.uint8))
        self.globals[variable.name] = buffer

    def _patch(self, variable: Variable) -> None:
        """Write the addresses in an initialiser."""
        for offset, symbol, addend in variable.patches:
            if symbol not in self.globals and symbol not in self.functions:
                raise PtxError(f"initialiser of {variable.name} names unknown {symbol}")
            place = self.globals[symbol].address if symbol in self.globals else self.functions[symbol]
            self.memory.write(self.globals[variable.name], np.array([place + addend], np.int64), at=offset)

    def _laid_out(self, function: PtxFunction) -> _LaidOut:
        function = inline_calls(self.program, function)
        if self.coverage:
            with_hidden_choices(function)
        symbols: dict[str, tuple[str, int]] = {n: ("function", a) for n, a in self.functions.items()}
        symbols |= {n: ("global", b.address) for n, b in self.globals.items()}
        shared, local = 0, 0
        arrays: dict[str, DeclaredArray] = {}
        mentioned = _mentioned(function)
        everything = [*self.program.variables.values(), *function.variables.values()]
        for variable in everything:
            if variable.space == "shared" and not variable.extern:
                if variable.name not in mentioned:
                    continue
                shared = align(shared, variable.align)
                symbols[variable.name] = ("shared", shared)
                arrays[variable.name] = DeclaredArray(variable.name, "shared", shared, shared + variable.size)
                shared += variable.size
            elif variable.space == "local":
                local = align(local, variable.align)
                symbols[variable.name] = ("local", local)
                if "__local_depot" in variable.name:  # not the stack of recursive calls
                    arrays[variable.name] = DeclaredArray(variable.name, "local", local, local + variable.size)
                local += variable.size
            elif variable.space in ("global", "const") and variable.name not in symbols:
                if variable.extern:
                    raise UnsupportedInstruction(f".extern .{variable.space} {variable.name}")
                self._place_global(variable)
                self._patch(variable)
                symbols[variable.name] = ("global", self.globals[variable.name].address)
        dynamic = [v for v in everything if v.space == "shared" and v.extern]
        start = align(shared, max([v.align for v in dynamic], default=16))
        for variable in dynamic:
            symbols[variable.name] = ("shared", start)
            arrays[variable.name] = DeclaredArray(variable.name, "shared", start, None)
        symbols |= {name: ("param", at) for name, at in function.param_offsets()[0].items()}
        flow = Flow(function, symbols, arrays, coverage=self.coverage, counts_only=self.counts_only)
        return _LaidOut(function, flow, start if dynamic else shared, align(local, 16))

    def _emitted(self, laid_out: _LaidOut) -> TranslatedKernel:
        function, flow = laid_out.function, laid_out.flow
        with NamedDefects(lambda: flow.e.ins):
            kernel = flow.emit()
        function.body = []
        texts = _modules(flow.code, _entry(ftz=flow.e.hardware_ftz))
        return TranslatedKernel(function, kernel, laid_out.shared, laid_out.local, texts)


def align(value: int, to: int) -> int:
    return (value + max(1, to) - 1) // max(1, to) * max(1, to)


def _mentioned(function: PtxFunction) -> set[str]:
    found: set[str] = set(function.variables)
    for item in function.body:
        for arg in item.args if isinstance(item, Instr) else ():
            found.add(getattr(getattr(arg, "base", None), "name", ""))
            found.add(getattr(arg, "name", ""))
    return found


def _entry(*, ftz: bool) -> Code:
    """The exported function: runs the grid, with denormals off where the kernel says .ftz throughout."""
    c = Code("void", "launch", (("ptr", "ctx"),))
    if ftz:
        old, new = c.var("i32"), c.var("i32")
        c.extern("void", "llvm.x86.sse.stmxcsr", old.place)
        new.set(c.or_(old.get(), _FLUSH))
        c.extern("void", "llvm.x86.sse.ldmxcsr", new.place)
    c.call(run_grid(), c.arg(0))
    if ftz:
        c.extern("void", "llvm.x86.sse.ldmxcsr", old.place)
    c.ret_()
    return c


def _modules(*codes: Code) -> list[str]:
    """The IR of these functions in one module, after one for each routine that they lead to."""
    declared = sorted({line for code in codes for line in code.declarations()})
    routines = needed({name: callee for code in codes for name, callee in code.callees.items()}.values())
    return [*(routine.module for routine in routines), "\n".join((*declared, *(code.text() for code in codes)))]
