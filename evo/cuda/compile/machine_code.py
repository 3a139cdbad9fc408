"""Machine code as the scheduler sees it: each instruction's opcode, control word, branch target and PTX line.

The layout of the 128 bits and of the control word is that of sm_70 to sm_90; the line table is ptxas's own
(`.nv_debug_line_sass`, DWARF 2), which `-lineinfo` leaves in a cubin. Nothing is disassembled: operands stay unread.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator

from evo.cuda.compile.binary import SYMBOLS, Section, elf_sections
from evo.cuda.compile.sass import known_arch, opcode_names
from evo.spec.machine_instruction import MachineInstruction

_WORDS = struct.Struct("<QQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_TEXT, _LINES = ".text.", ".nv_debug_line_sass"
_FUNCTION = 2
_INDIRECT = {0x949: "BRX"}  # not of the opcodes that the compile counts
_ALWAYS = 7  # the predicate that is true


@functools.lru_cache(maxsize=4)  # several cases of one binary are modelled, one after the other
def machine_code(cubin: bytes, arch: str) -> dict[str, tuple[MachineInstruction, ...]]:
    """The instructions of each kernel, without padding at the end; none without a line table or of an unknown arch."""
    sections = elf_sections(cubin)
    lines = next((section for section in sections if section.name == _LINES), None)
    if lines is None or not known_arch(arch):
        return {}
    known = opcode_names(arch) | _INDIRECT
    rows = _line_rows(lines.data, sections)
    found: dict[str, tuple[MachineInstruction, ...]] = {}
    for index, section in enumerate(sections):
        if not section.name.startswith(_TEXT):
            continue
        name = section.name.removeprefix(_TEXT)
        helpers = _helpers(sections, index, name)
        found[name] = _decoded(section.data, known, rows.get(name, {}), helpers, wide=arch >= "sm_90")
    return found


def _decoded(
    data: bytes, known: dict[int, str], lines: dict[int, int], helpers: list[tuple[int, int]], *, wide: bool
) -> tuple[MachineInstruction, ...]:
    out: list[MachineInstruction] = []
    line = 0
    for address, (low, high) in zip(range(0, len(data), 16), _WORDS.iter_unpack(data), strict=False):
        opcode = known.get(low & 0xFFF, "")
        line = lines.get(address, line)
        control = high >> 41
        out.append(
            MachineInstruction(
                address=address,
                opcode=opcode,
                guarded=(low >> 12) & 0xF != _ALWAYS,
                stall=control & 0xF,
                sets=(control >> 5) & 7,
                frees=(control >> 8) & 7,
                waits=(control >> 11) & 0x3F,
                target=address + 16 + _offset(low, high, wide=wide) if opcode in ("BRA", "CALL") else None,
                line=line,
                helper=bool(helpers) and any(begin <= address < end for begin, end in helpers),
            )
        )
    while out and out[-1].opcode in ("NOP", "BRA") and (out[-1].opcode == "NOP" or out[-1].target == out[-1].address):
        out.pop()
    return tuple(out)


def _offset(low: int, high: int, *, wide: bool) -> int:
    """Bytes from the next instruction to a branch's target."""
    if wide:  # in units of four bytes, its lowest byte apart from the others
        value = ((low >> 34) | (high & 0x3FFFF) << 30) << 8 | (low >> 16) & 0xFF
        value &= (1 << 48) - 1
        return (value - (1 << 48) if value >> 47 else value) * 4
    value = (low >> 32 | (high & 0x3FFFF) << 32) & ((1 << 48) - 1)
    return value - (1 << 48) if value >> 47 else value


def _helpers(sections: list[Section], index: int, kernel: str) -> list[tuple[int, int]]:
    """First and end address of the functions that ptxas added to a kernel: slow paths of division and roots."""
    table = next((s for s in sections if s.kind == SYMBOLS), None)
    names = next((s for s in sections if s.name == ".strtab"), None)
    if table is None or names is None:
        return []
    found = []
    for at, info, _, section, value, size in _SYMBOL.iter_unpack(table.data):
        if section == index and info & 0xF == _FUNCTION:
            name = names.data[at : names.data.index(b"\0", at)].decode("utf-8", "replace")
            if name != kernel and value:
                found.append((value, value + size))
    return found


def _line_rows(data: bytes, sections: list[Section]) -> dict[str, dict[int, int]]:
    """By kernel: address -> PTX line, at each address where it changes."""
    symbols = next((s.data for s in sections if s.kind == SYMBOLS), b"")
    sections_at: dict[int, str] = {}
    for kind, size in (("rel", 16), ("rela", 24)):
        for table in (s.data for s in sections if s.name == f".{kind}{_LINES}"):
            for at in range(0, len(table), size):
                offset, info = struct.unpack_from("<QQ", table, at)
                section = _SYMBOL.unpack_from(symbols, (info >> 32) * _SYMBOL.size)[3]
                sections_at[offset] = sections[section].name.removeprefix(_TEXT)
    out: dict[str, dict[int, int]] = {}
    at = 0
    while at + 10 < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        for name, address, line in _program(data, at, at + 4 + length, sections_at):
            out.setdefault(name, {})[address] = line
        at += 4 + length
    return out


def _leb(data: bytes, at: int) -> tuple[int, int, int]:
    """An LEB128 number unsigned and signed, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, value - (1 << shift) if byte & 0x40 else value, at


def _program(data: bytes, at: int, end: int, sections_at: dict[int, str]) -> Iterator[tuple[str, int, int]]:
    """The rows of one line-number program: kernel, address, line."""
    (header,) = struct.unpack_from("<I", data, at + 6)
    least, _, base, span, first = struct.unpack_from("<BBbBB", data, at + 10)
    lengths = data[at + 15 : at + 14 + first]
    at += 10 + header
    name, address, line = "", 0, 1
    while at < end:
        code = data[at]
        at += 1
        if code >= first:
            address += (code - first) // span * least
            line += base + (code - first) % span
            yield name, address, line
        elif code == 0:
            size, _, at = _leb(data, at)
            if data[at] == 2:  # DW_LNE_set_address
                name, address = sections_at.get(at + 1, name), struct.unpack_from("<Q", data, at + 1)[0]
            elif data[at] == 1:  # DW_LNE_end_sequence
                name, address, line = "", 0, 1
            at += size
        elif code == 1:
            yield name, address, line
        elif code == 2:
            step, _, at = _leb(data, at)
            address += step * least
        elif code == 3:
            _, step, at = _leb(data, at)
            line += step
        elif code == 8:
            address += (255 - first) // span * least
        elif code == 9:
            address += struct.unpack_from("<H", data, at)[0]
            at += 2
        else:
            for _ in range(lengths[code - 1]):
                _, _, at = _leb(data, at)
