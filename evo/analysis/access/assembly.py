"""Inline assembly: the instructions that move data or name threads are followed, others are computations."""

from __future__ import annotations

import re
from collections.abc import Callable

from evo.analysis.access.c_types import FLOAT, INT, OTHER, UINT, CType
from evo.analysis.access.comparisons import ALWAYS, Condition, compare, less
from evo.analysis.access.form import Access, Data, Multiply
from evo.analysis.access.groups import Groups
from evo.analysis.access.simplify import remainder
from evo.analysis.access.terms import ZERO, Op, Term
from evo.analysis.access.values import ArrayPlace, Number, Place, Pointer, Real, Value
from evo.cuda.source.parser import Node

_STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
_INSTRUCTION = re.compile(r"(?:@(!?)(\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_SPECIAL = re.compile(r"%+(tid|ctaid|ntid|nctaid)\.([xyz])$")
_BUILTINS = {"tid": "threadIdx", "ctaid": "blockIdx", "ntid": "blockDim", "nctaid": "gridDim"}
_SIZE = re.compile(r"\.(?:v(\d))?\.?[bsuf](\d+)(?:x2)?$")


class _Operands:
    """The operands of one statement, and the registers that it declares."""

    def __init__(self, places: list[tuple[Place | None, Value]]) -> None:
        self.places = places
        self.registers: dict[str, Value] = {}
        self.written: dict[int, Value] = {}

    def get(self, word: str) -> Value:
        word = word.strip()
        if match := re.fullmatch(r"%(\d+)", word):
            at = int(match[1])
            if at in self.written:
                return self.written[at]
            return self.places[at][1] if at < len(self.places) else Real(Data("unknown"), OTHER)
        if re.fullmatch(r"-?(0x[\da-fA-F]+|\d+)", word):
            return Number(Term.number(int(word, 0)))
        return self.registers.get(word, Real(Data("unknown"), OTHER))

    def set(self, word: str, value: Value) -> None:
        word = word.strip()
        if match := re.fullmatch(r"%(\d+)", word):
            self.written[int(match[1])] = value
        else:
            self.registers[word] = value


class Assembly(Groups):
    """Reads asm statements."""

    def assembly(self, node: Node) -> None:
        text = "".join(_STRING.findall(_text_of_code(node)))
        text = re.sub(r"\\[nrt]", " ", text)
        operands = _Operands(self._places(node))
        for written in re.split(r";", re.sub(r"//[^\n]*", "", text)):
            piece = written.strip()
            if "{" in piece and ".reg" in piece:
                piece = piece.lstrip("{").rstrip("}").strip()
            if not _INSTRUCTION.fullmatch(piece):
                piece = re.sub(r"^\{\s*", "", piece).strip()
            match = _INSTRUCTION.fullmatch(piece)
            if match is None or piece.startswith((".", "}")):
                continue
            negated, predicate, opcode, rest = match.groups()
            conditions: tuple[Condition, ...] = ()
            if predicate:
                held = self.as_condition(operands.get(predicate), node)
                conditions = (held.negated() if negated else held,)
            with self.under(*conditions):
                self._instruction(opcode, _split(rest), operands, node)
        for at, value in operands.written.items():
            place = operands.places[at][0] if at < len(operands.places) else None
            if place is not None:
                self.put(place, value, node)

    def _places(self, node: Node) -> list[tuple[Place | None, Value]]:
        """Operands by number: where an output goes, and the value of an input."""
        found: list[tuple[Place | None, Value]] = []
        for child in node.children:
            if child.type not in ("gnu_asm_output_operand_list", "gnu_asm_input_operand_list"):
                continue
            for operand in child.children_of("operand"):
                constraint, value = operand.child("constraint"), operand.child("value")
                if constraint is None or value is None:
                    continue
                if operand.type == "gnu_asm_output_operand":
                    place = self.place(value)
                    old: Value = Real(Data("unknown"), _type_of(place))
                    if "+" in constraint.text:
                        old = self.fetch(place, value)
                    found.append((place, old))
                else:
                    found.append((None, self.evaluate(value)))
        return found

    def _instruction(self, opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        for prefix, how in _OPCODES:
            if opcode.startswith(prefix):
                how(self, opcode, words, operands, node)
                return
        inputs = tuple(self.data_of(operands.get(word)) for word in words[1:])
        kind = FLOAT if re.search(r"\.f(16|32|64)", opcode) else INT
        data = Data(_DATA.get(opcode.split(".", maxsplit=1)[0], "call"), inputs, opcode)
        if opcode.startswith("fma."):
            data = Data("add", (Data("mul", inputs[:2]), *inputs[2:]))
        for word in _group(words[0]) if words else ():
            operands.set(word, self.of_data(data, kind, node))

    def _move(self, _opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        if match := _SPECIAL.match(words[1]):
            record = self._builtin_record(_BUILTINS[match[1]])
            operands.set(words[0], self.fetch(record.fields[match[2]], node))
        elif words[1].endswith("laneid"):
            lane = remainder(self.bounds, self.thread_rank(), Term.number(32))
            operands.set(words[0], Number(lane, UINT))
        elif "{" not in words[1] and "{" not in words[0]:
            operands.set(words[0], operands.get(words[1]))
        else:
            data = Data("pack", tuple(self.data_of(operands.get(w)) for w in _group(words[1])))
            for word in _group(words[0]):
                operands.set(word, self.of_data(data, UINT, node))

    def _compare(self, opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        left, right = operands.get(words[1]), operands.get(words[2])
        word = {"ne": "!=", "eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.get(opcode.split(".")[1])
        if word is not None:
            operands.set(words[0], self.operate(word, left, right, node))

    def _copy_async(self, opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        if "shared.global" not in opcode:
            return  # commit and wait
        to, source = self._address(words[0], operands), self._address(words[1], operands)
        size = _number(operands.get(words[2])) or 16
        condition: Condition = ALWAYS
        if len(words) > 3:
            condition = self._some(operands.get(words[3]), node)
        with self.under(condition):
            reads = (
                self.touch(source, "read", node, route="cp.async", count=size) if isinstance(source, ArrayPlace) else ()
            )
        data = Data("read", detail=reads[0].number) if reads else Data("unknown")
        if isinstance(to, ArrayPlace):
            self.touch(to, "write", node, data, "cp.async", count=size)

    def _some(self, value: Value, node: Node) -> Condition:
        """Whether any byte is copied: sizes are `present ? 16 : 0`."""
        if not isinstance(value, Number):
            return self.data_condition(node, self.data_of(value))
        atom = value.term.atom
        if value.term.value is None and isinstance(atom, Op) and atom.name == "select":
            when, left, right = atom.args
            if isinstance(left, Term) and isinstance(right, Term) and isinstance(when, Condition):
                sides = [(when, left), (when.negated(), right)]
                full = [condition for condition, side in sides if side.value]
                if all(side.value is not None for _, side in sides):
                    return full[0] if len(full) == 1 else ALWAYS
        for mono, n in value.term.parts.items():  # 16 * present
            if len(value.term.parts) == 1 and n > 0 and len(mono) == 1 and isinstance(mono[0], Op):
                return self.truth_of(Number(Term.of(mono[0])), node)
        return self.bounds.decided(compare(value.term - 1, ">="))

    def _address(self, word: str, operands: _Operands) -> ArrayPlace | None:
        """`[%0]` or `[%0 + 16]`."""
        inside = word.strip().strip("[]")
        base, _, offset = inside.partition("+")
        value = operands.get(base)
        term = value.term if isinstance(value, Number | Pointer) else None
        if term is None:
            return None
        shift = operands.get(offset) if offset else Number(ZERO)
        return ArrayPlace(term + (shift.term if isinstance(shift, Number) else ZERO), OTHER)

    def _load_matrix(self, opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        is_store = opcode.startswith("stmatrix")
        place = self._address(words[0 if is_store else 1], operands)
        registers = _group(words[1 if is_store else 0])
        # Lane i gives the address of row i: eight rows for each 8x8 matrix.
        conditions: list[Condition] = []
        if len(registers) < 4:
            lane = remainder(self.bounds, self.thread_rank(), Term.number(32))
            conditions.append(self.bounds.decided(less(lane, Term.number(8 * len(registers)))))
        data = tuple(self.data_of(operands.get(word)) for word in registers) if is_store else ()
        with self.under(*conditions):
            reads: tuple[Access, ...] = ()
            if place is not None:
                mode, value = ("write", Data("pack", data)) if is_store else ("read", None)
                reads = self.touch(place, mode, node, value, "stmatrix" if is_store else "ldmatrix", count=16)
        if not is_store:
            loaded = Data("read", detail=reads[0].number) if reads else Data("unknown")
            for word in registers:
                operands.set(word, self.of_data(Data("shuffle", (loaded,), None), UINT, node))

    def _multiply(self, opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        span = self.span(node)
        self.emit(Multiply(name=opcode, context=tuple(self.context), span=span, line=self.line(span)))
        sides = [tuple(self.data_of(operands.get(word)) for word in _group(part)) for part in words[1:4]]
        packs = tuple(Data("pack", side) for side in sides)
        data = Data("mma", packs, opcode)
        kind = INT if ".s32" in opcode else FLOAT
        for word in _group(words[0]):
            operands.set(word, self.of_data(data, kind, node))

    def _load(self, opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        if opcode.startswith("ld.param"):
            return
        place = self._address(words[1], operands)
        size, count = _width(opcode)
        reads = self.touch(place, "read", node, route="asm", count=size) if place is not None else ()
        data = Data("read", detail=reads[0].number) if reads else Data("unknown")
        kind = FLOAT if ".f32" in opcode else UINT
        for at, word in enumerate(_group(words[0])):
            part = data if count == 1 else Data("part", (data,), Term.number(at))
            operands.set(word, self.of_data(part, kind, node))

    def _store(self, opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        place = self._address(words[0], operands)
        size, _ = _width(opcode)
        data = tuple(self.data_of(operands.get(word)) for word in _group(words[1]))
        if place is not None:
            value = data[0] if len(data) == 1 else Data("pack", data)
            self.touch(place, "write", node, value, "asm", count=size)

    def _reduce(self, opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        is_atom = opcode.startswith("atom")
        place = self._address(words[1 if is_atom else 0], operands)
        size, _ = _width(opcode)
        operation = next((part for part in opcode.split(".") if part in ("add", "max", "min", "exch", "cas")), "add")
        if place is not None:
            value = self.data_of(operands.get(words[-1]))
            self.touch(place, "atomic", node, value, "asm", operation=operation, count=size)
        if is_atom:
            operands.set(words[0], self.of_data(Data("unknown"), UINT, node, "what an atomic returned"))

    def _meet(self, opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        if opcode.startswith(("bar.warp", "barrier.sync.warp")):
            self.barrier("warp", node)
            return
        is_whole = not words or (len(words) == 1 and _number(operands.get(words[0])) == 0)
        self.barrier("block" if is_whole else "group", node)

    def _add(self, opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        word = {"add": "+", "sub": "-", "shl": "<<", "shr": ">>", "and": "&", "or": "|", "xor": "^", "mul": "*"}
        left, right = operands.get(words[1]), operands.get(words[2])
        operator = word[opcode.split(".", maxsplit=1)[0]]
        if not re.search(r"\.f(16|32|64)", opcode) and isinstance(left, Number) and isinstance(right, Number):
            operands.set(words[0], self.operate(operator, left, right, node))
        else:
            name = {"+": "add", "-": "sub", "*": "mul"}.get(operator, "call")
            data = Data(name, (self.data_of(left), self.data_of(right)), opcode)
            kind = FLOAT if ".f" in opcode else INT
            operands.set(words[0], self.of_data(data, kind, node))

    def _nothing(self, opcode: str, words: list[str], operands: _Operands, node: Node) -> None:
        """Fences, prefetches and waits touch no element."""


_Instruction = Callable[[Assembly, str, list[str], _Operands, Node], None]
_OPCODES: tuple[tuple[str, _Instruction], ...] = (
    ("mov.", Assembly._move),
    ("cvta.", Assembly._move),
    ("cvt.u32.u64", Assembly._move),
    ("cvt.u64.u32", Assembly._move),
    ("setp.", Assembly._compare),
    ("cp.async", Assembly._copy_async),
    ("ldmatrix.", Assembly._load_matrix),
    ("stmatrix.", Assembly._load_matrix),
    ("mma.", Assembly._multiply),
    ("ld.", Assembly._load),
    ("st.", Assembly._store),
    ("red.", Assembly._reduce),
    ("atom.", Assembly._reduce),
    ("bar.", Assembly._meet),
    ("barrier.", Assembly._meet),
    *((f"{word}.", Assembly._add) for word in ("add", "sub", "mul", "shl", "shr", "and", "or", "xor")),
    *((word, Assembly._nothing) for word in ("membar", "fence", "prefetch", "discard", "nanosleep", "griddepcontrol")),
)
_DATA = {"max": "max", "min": "min", "div": "div", "neg": "neg"}


def _text_of_code(node: Node) -> str:
    code = node.child("assembly_code")
    return code.text if code is not None else ""


def _split(text: str) -> list[str]:
    """Operands at the commas outside of braces and brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "{[(") - (char in "}])")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _group(word: str) -> list[str]:
    return [part.strip() for part in word.strip().strip("{}").split(",") if part.strip()]


def _width(opcode: str) -> tuple[int, int]:
    """(bytes, registers) of a load or store."""
    match = _SIZE.search(opcode)
    if match is None:
        return 4, 1
    count = int(match[1] or 1)
    return count * int(match[2]) // 8, count


def _number(value: Value) -> int | None:
    return value.term.value if isinstance(value, Number) else None


def _type_of(place: Place) -> CType:
    return getattr(place, "type", OTHER)
