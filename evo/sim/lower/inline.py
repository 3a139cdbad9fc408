"""Device functions are inlined at their call sites; the call's param space becomes registers."""

from __future__ import annotations

import copy

from evo.sim.errors import UnsupportedInstruction, refuse
from evo.sim.lower.indirect_calls import candidates
from evo.sim.lower.recursion import Body, Recursion, placed
from evo.sim.ptx.ast import (
    WIDTH,
    Imm,
    Instr,
    Label,
    Mem,
    Not,
    Operand,
    Pair,
    PtxFunction,
    PtxModule,
    PtxParam,
    Reg,
    Sym,
    Variable,
    Vec,
)

_MAX_BODY = 200_000
# Functions of the device run-time system that have no body in PTX, with the widths of their parameters.
SYSTEM_CALLS = {"vprintf": (64, 64), "__assertfail": (64, 64, 32, 64, 64)}


def inline_calls(program: PtxModule, kernel: PtxFunction) -> PtxFunction:
    """A copy of the kernel without call instructions."""
    work = _Inliner(program, kernel)
    body = work.expand(kernel, (kernel.name,))
    if work.recursion.unwritten:
        body += [Instr("ret", (), ()), *work.bodies()]
    out = copy.copy(kernel)
    out.registers = work.registers
    out.variables = work.variables
    out.tables = work.tables
    out.body = body
    work.recursion.finish(out, work.registers, work.variables)
    return out


class _Inliner:
    def __init__(self, program: PtxModule, kernel: PtxFunction) -> None:
        self.program = program
        self.kernel = kernel
        self.registers = dict(kernel.registers)
        self.variables: dict[str, Variable] = {}
        self.tables = dict(kernel.tables)
        self.sites = 0
        self.size = 0
        self.slots: dict[str, dict[int, int]] = {}  # of a parameter variable: offset -> width
        self.recursion = Recursion(program, kernel)
        self.inside: Body | None = None  # the recursive body that is being written

    def expand(
        self, function: PtxFunction, stack: tuple[str, ...], prefix: str = "", end: str = "", loc: int = 0
    ) -> list[Instr | Label]:
        """The body with calls expanded; `prefix` renames registers, labels and variables of an inlined function.

        loc: the source line of what has none of its own, that of the call.
        """
        out: list[Instr | Label] = []
        rename = _Renamer(function, prefix, loc)
        own = {p.name for p in (*function.params, *function.results)} if prefix else set()
        own |= {name for name, variable in function.variables.items() if variable.space == "param"}
        for name, variable in function.variables.items():
            if variable.space == "param":
                continue
            moved = copy.copy(variable)
            moved.name = prefix + name
            if self.inside is not None and variable.space == "local":
                self.inside.place(moved)
            else:
                self.variables[moved.name] = moved
        for name, kind in function.registers.items():
            self.registers.setdefault(prefix + name, kind)
        if prefix:
            out += self._in_memory(function, prefix)
        for name, labels in function.tables.items():
            self.tables[prefix + name] = [prefix + label for label in labels]
        for item in function.body:
            self.size += 1
            if self.size > _MAX_BODY:
                raise UnsupportedInstruction("call", why="the program is too large after inlining")
            if isinstance(item, Label):
                out.append(Label(prefix + item.name, item.line))
            elif item.name == "call":
                out += self._any_call(item, function, rename, stack)
            elif prefix and item.name == "ret":
                out.append(_moved(item, "bra", (), (Sym(end),), rename))
            elif _param_access(item, own):
                out += self._access(item, rename)
            else:
                mods = tuple("local" if mod == "param" else mod for mod in item.mods) if prefix else item.mods
                out.append(_moved(item, item.name, mods, tuple(rename(arg) for arg in item.args), rename))
        return out

    def _in_memory(self, function: PtxFunction, prefix: str) -> list[Instr | Label]:
        """Parameters whose address a device function takes: local variables, filled from the slots on entry."""
        taken = {
            arg.name
            for item in function.body
            if isinstance(item, Instr) and item.name == "mov"
            for arg in item.args[1:]
            if isinstance(arg, Sym)
        }
        out: list[Instr | Label] = []
        for param in function.params:
            if param.register or param.name not in taken:
                continue
            place = Variable(prefix + param.name, "local", max(param.align, 8), param.size)
            if self.inside is not None:
                self.inside.place(place)
            else:
                self.variables[place.name] = place
            for offset, width in self.slots.get(place.name, {}).items():
                pair = (Mem(Sym(place.name), offset), Reg(f"{place.name}+{offset}"))
                out.append(Instr("st", ("local", f"b{width}"), pair, function.line))
        return out

    def _any_call(
        self, call: Instr, caller: PtxFunction, rename: _Renamer, stack: tuple[str, ...]
    ) -> list[Instr | Label]:
        target = call.args[1]
        if isinstance(target, Reg):
            return self._indirect(call, caller, rename, stack)
        if not isinstance(target, Sym):
            raise refuse(call, "it names no function", name="call")
        if target.name in SYSTEM_CALLS:
            return self._system(call, target.name, rename)
        return self._call(call, rename, stack)

    def _indirect(
        self, call: Instr, caller: PtxFunction, rename: _Renamer, stack: tuple[str, ...]
    ) -> list[Instr | Label]:
        """Compare the address with every function it may be; the one that matches is inlined there."""
        results, target, arguments = call.args
        found = candidates(self.program, call, caller.variables)
        if not found:
            raise refuse(call, "no function can be meant", name="call")
        self.sites += 1
        name = f"@{self.sites}"
        out: list[Instr | Label] = []
        if call.guard is not None:
            out.append(_jump(call, f"{name}.end", rename.reg(call.guard), not call.negated))
        for index, function in enumerate(found):
            hit = Reg(f"{name}.is{index}")
            self.registers[hit.name] = "pred"
            pair = (hit, rename(target), Sym(function.name))
            out.append(Instr("setp", ("eq", "u64"), pair, call.line, call.loc, call.text))
            out.append(_jump(call, f"{name}.next{index}", hit, True))
            direct = Instr("call", (), (results, Sym(function.name), arguments), call.line, call.loc, call.text)
            out += self._call(direct, rename, stack)
            out.append(_jump(call, f"{name}.end"))
            out.append(Label(f"{name}.next{index}", call.line))
        out.append(Instr("trap", (), (), call.line, call.loc, call.text))
        out.append(Label(f"{name}.end", call.line))
        return out

    def _system(self, call: Instr, name: str, rename: _Renamer) -> list[Instr | Label]:
        """printf and assert: an instruction of ours whose operands are the call's parameter slots."""
        results, arguments = _lists_of(call)
        widths = SYSTEM_CALLS[name]
        if len(arguments.items) != len(widths):
            raise refuse(call, "argument count differs", name=f"call {name}")
        args: list[Operand] = [
            self._slot(call, _plain(rename(item), call), 0, width)
            for item, width in zip(arguments.items, widths, strict=True)
        ]
        for item in results.items:
            args.insert(0, self._slot(call, _plain(rename(item), call), 0, 32))
        guard = rename.reg(call.guard) if call.guard is not None else None
        out: list[Instr | Label] = [
            Instr(f"@{name}", (), tuple(args), call.line, call.loc, call.text, guard, call.negated)
        ]
        if name == "__assertfail":
            out.append(Instr("trap", (), (), call.line, call.loc, call.text, guard, call.negated))
        return out

    def _call(self, call: Instr, rename: _Renamer, stack: tuple[str, ...]) -> list[Instr | Label]:
        (results, arguments), target = _lists_of(call), call.args[1]
        assert isinstance(target, Sym)
        function = self.program.functions.get(target.name)
        if function is None or not function.body:
            raise refuse(call, "function has no body", name=f"call {target.name}")
        if len(stack) > 64:
            raise refuse(call, "nested too deeply", name=f"call {target.name}")
        self.sites += 1
        if target.name in self.recursion.names:
            return self._recursive_call(call, function, rename)
        prefix, end = f"@{self.sites}.", f"@{self.sites}.end"
        out: list[Instr | Label] = []
        if call.guard is not None:
            out.append(_jump(call, end, rename.reg(call.guard), not call.negated))
        out += self._copy_params(call, arguments, function, rename, prefix)
        out += self.expand(function, (*stack, target.name), prefix, end, call.loc or rename.loc)
        out.append(Label(end, call.line))
        for formal, actual in zip(function.results, results.items, strict=False):
            if formal.register:
                out.append(_copied(call, formal, rename(actual), Reg(prefix + formal.name)))
                continue
            out += self._copy_slots(call, prefix + formal.name, _plain(rename(actual), call))
        return out

    def _recursive_call(self, call: Instr, function: PtxFunction, rename: _Renamer) -> list[Instr | Label]:
        """Arguments into the registers of the one body, a return number, a branch; the results when it comes back."""
        results, arguments = _lists_of(call)
        known = function.name in self.recursion.bodies
        body = self.recursion.body_of(function)
        if not known:
            self._note_slots(function, body.prefix)
        after = f"@{self.sites}.after"
        out: list[Instr | Label] = []
        if call.guard is not None:
            out.append(_jump(call, after, rename.reg(call.guard), not call.negated))
        # A caller that is the same function would overwrite its own parameters before it has saved them.
        save, back = self.recursion.enter(call, self.inside, body)
        out += [save[0], *self._copy_params(call, arguments, function, rename, body.prefix), *save[1:], *back]
        for formal, actual in zip(function.results, results.items, strict=False):
            if formal.register:
                out.append(_copied(call, formal, rename(actual), Reg(body.prefix + formal.name)))
            else:
                out += self._copy_slots(call, body.prefix + formal.name, _plain(rename(actual), call))
        out.append(Label(after, call.line))
        return out

    def _note_slots(self, function: PtxFunction, prefix: str) -> None:
        """The widths in which a function writes its results, before its body is written."""
        formal = {p.name for p in function.results}
        for item in function.body:
            if isinstance(item, Instr) and item.name == "st" and _param_access(item, formal):
                self._access(item, _Renamer(function, prefix))

    def bodies(self) -> list[Instr | Label]:
        """Every recursive body that is called, those that only these call among them."""
        out: list[Instr | Label] = []
        while self.recursion.unwritten:
            body = self.recursion.unwritten.pop()
            self.inside = body
            code = self.expand(body.function, (body.function.name,), body.prefix, body.leave)
            out += [Label(body.entry), *placed(body, code), Label(body.leave)]
            out.append(Instr("brx", ("idx",), (body.back, Sym(body.leave)), body.function.line))
        return out

    def _copy_params(
        self, call: Instr, arguments: Vec, function: PtxFunction, rename: _Renamer, prefix: str
    ) -> list[Instr | Label]:
        out: list[Instr | Label] = []
        if len(arguments.items) != len(function.params):
            raise refuse(call, "argument count differs", name="call")
        for formal, actual in zip(function.params, arguments.items, strict=True):
            if formal.register:
                out.append(_copied(call, formal, Reg(prefix + formal.name), rename(actual)))
                continue
            out += self._copy_slots(call, _plain(rename(actual), call), prefix + formal.name)
        return out

    def _copy_slots(self, call: Instr, source: str, target: str) -> list[Instr | Label]:
        out: list[Instr | Label] = []
        for offset, width in list(self.slots.get(source, {}).items()):
            dest, origin = self._slot(call, target, offset, width), self._slot(call, source, offset, width)
            out.append(Instr("mov", (f"b{width}",), (dest, origin), call.line, call.loc, call.text))
        return out

    def _slot(self, item: Instr, name: str, offset: int, width: int) -> Reg:
        known = self.slots.setdefault(name, {}).setdefault(offset, width)
        if known != width:
            raise refuse(item, "parameter accessed with two widths")
        register = f"{name}+{offset}"
        self.registers[register] = f"b{width}"
        return Reg(register)

    def _access(self, item: Instr, rename: _Renamer) -> list[Instr | Label]:
        """ld.param / st.param of a call parameter: a move from or to its slot."""
        kind = item.mods[-1]
        width = WIDTH[kind]
        value, memory = item.args if item.name == "ld" else (item.args[1], item.args[0])
        assert isinstance(memory, Mem)
        base = rename(memory.base) if memory.base is not None else None
        assert isinstance(base, Sym)
        parts = value.items if isinstance(value, Vec) else (value,)
        out: list[Instr | Label] = []
        for index, part in enumerate(parts):
            at = memory.offset + index * width // 8
            if item.name == "st":
                pair = (self._slot(item, base.name, at, width), rename(part))
                out.append(_moved(item, "mov", (f"b{width}",), pair, rename))
                continue
            code, held = self._read(item, base.name, at, width, rename)
            out += code
            out.append(_moved(item, *_extended(kind, held, rename(part)), rename))
        return out

    def _read(
        self, item: Instr, name: str, at: int, width: int, rename: _Renamer
    ) -> tuple[list[Instr | Label], Operand]:
        """A parameter as it is read: the slot itself, a part of a wider one, or several put together."""
        known = self.slots.get(name, {})
        around = [o for o, bits in known.items() if o <= at and at + width // 8 <= o + bits // 8 and bits > width]
        inside = sorted(o for o in known if at <= o < at + width // 8)
        if (at not in known and around) or known.get(at, width) > width:
            whole = known[around[0]]
            part, shift = f"{name}+{at}.{width}", 8 * (at - around[0])
            self.registers[part] = f"b{whole}"
            pair = (Reg(part), Reg(f"{name}+{around[0]}"), Imm(shift))
            return [_moved(item, "shr", (f"b{whole}",), pair, rename)], Reg(part)
        if len(inside) > 1 and {known[o] for o in inside} == {width // len(inside)}:
            whole_name = f"{name}+{at}.{width}"
            self.registers[whole_name] = f"b{width}"
            pieces = Vec(tuple(Reg(f"{name}+{o}") for o in inside))
            return [_moved(item, "mov", (f"b{width}",), (Reg(whole_name), pieces), rename)], Reg(whole_name)
        return [], self._slot(item, name, at, width)


class _Renamer:
    """Renames what belongs to the function; module names stay."""

    def __init__(self, function: PtxFunction, prefix: str, loc: int = 0) -> None:
        self.prefix, self.loc = prefix, loc
        labels = {item.name for item in function.body if isinstance(item, Label)}
        parameters = {p.name for p in (*function.params, *function.results)}
        self.names = labels | parameters | set(function.variables) | set(function.tables)

    def reg(self, reg: Reg) -> Reg:
        return Reg(self.prefix + reg.name) if self.prefix else reg

    def __call__(self, arg: Operand) -> Operand:
        if not self.prefix:
            return arg
        if isinstance(arg, Reg):
            return self.reg(arg)
        if isinstance(arg, Sym):
            return Sym(self.prefix + arg.name, arg.offset) if arg.name in self.names else arg
        if isinstance(arg, Mem):
            base = self(arg.base) if arg.base is not None else None
            assert base is None or isinstance(base, Reg | Sym)
            return Mem(base, arg.offset)
        if isinstance(arg, Vec):
            return Vec(tuple(self(item) for item in arg.items))
        if isinstance(arg, Pair):
            return Pair(self(arg.first), self(arg.second))
        if isinstance(arg, Not):
            return Not(self.reg(arg.reg))
        return arg


def _moved(item: Instr, name: str, mods: tuple[str, ...], args: tuple[Operand, ...], rename: _Renamer) -> Instr:
    guard = rename.reg(item.guard) if item.guard is not None else None
    return Instr(name, mods, args, item.line, item.loc or rename.loc, item.text, guard, item.negated)


def _extended(kind: str, held: Operand, to: Operand) -> tuple[str, tuple[str, ...], tuple[Operand, ...]]:
    """The move of a value of this type from a register that may be wider; ld extends what is narrower."""
    return "mov", (kind if kind[0] == "s" else f"b{WIDTH[kind]}",), (to, held)


def _copied(call: Instr, formal: PtxParam, to: Operand, source: Operand) -> Instr:
    """A parameter that is a register."""
    kind = formal.type if formal.type == "pred" else f"b{WIDTH[formal.type]}"
    return Instr("mov", (kind,), (to, source), call.line, call.loc, call.text)


def _jump(call: Instr, label: str, guard: Reg | None = None, negated: bool = False) -> Instr:
    return Instr("bra", (), (Sym(label),), call.line, call.loc, call.text, guard, negated)


def _plain(arg: Operand, call: Instr) -> str:
    if not isinstance(arg, Sym):
        raise refuse(call, "argument is not a parameter variable", name="call")
    return arg.name


def _lists_of(call: Instr) -> tuple[Vec, Vec]:
    """The results and the arguments of a call."""
    results, _, arguments = call.args
    assert isinstance(results, Vec)
    assert isinstance(arguments, Vec)
    return results, arguments


def _param_access(item: Instr, own: set[str]) -> bool:
    if item.name not in ("ld", "st") or "param" not in item.mods or len(item.args) != 2:
        return False
    if WIDTH.get(item.mods[-1], 0) < 8:  # it is refused for that where it is emitted
        return False
    memory = item.args[1] if item.name == "ld" else item.args[0]
    return isinstance(memory, Mem) and isinstance(memory.base, Sym) and memory.base.name in own
