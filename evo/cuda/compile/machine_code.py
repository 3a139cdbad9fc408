"""Machine code as the scheduler sees it: each instruction's opcode, control word, branch target and PTX line.

The layout of the 128 bits and of the control word is that of sm_70 to sm_90; the line table is ptxas's own
(`.nv_debug_line_sass`, DWARF 2), which `-lineinfo` leaves in a cubin. Nothing is disassembled: operands stay unread.
The disassembler takes a quarter of a second to start, most of what compiling a small kernel takes. So instructions are
counted here too where all their opcodes are known; the tests hold both to the same counts.
"""

from __future__ import annotations

import functools
import struct
from collections import Counter
from collections.abc import Iterator

from evo.cuda.compile.binary import SYMBOLS, Section, elf_sections
from evo.spec.machine_instruction import MachineInstruction

_WORDS = struct.Struct("<QQ")
_SYMBOL = struct.Struct("<IBBHQQ")  # of which the last three are section, value and size
_TEXT = ".text."  # one section for each entry function and what it calls
_ADDED = "$__internal_"  # slow paths of division and roots
_LINES = ".nv_debug_line_sass"
_FUNCTION = 2
_INDIRECT = {0x949: "BRX"}  # not of the opcodes that the compile counts
_ALWAYS = 7  # the predicate that is true
# Of sm_80 to sm_90: base mnemonic and the low 12 bits of its instructions, as nvdisasm 13.5 names them; only those
# whose name no other bit changes.
_ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90")
_OPCODES = """
ATOM 38b 98a; ATOMG 3a9 9a3 9a8; ATOMS 38c 38d 98c f8c; B2R 31c; BAR 31d 51d b1d; BMOV 355 356; BRA 947; BREAK 942;
BREV 301; BSSY 945; BSYNC 941; CALL 343 344 944; CCTL 98f; CS2R 805; DADD 229 429 629 e29; DEPBAR 91a;
DFMA 22b 42b 62b 82b a2b c2b e2b; DMUL 228 828 a28 c28; DSETP 22a 42a; ENDCOLLECTIVE 91b; ERRBAR 9ab; EXIT 94d;
F2F 304 310; F2FP 23e; F2I 305 311; FADD 221 421 621 e21; FCHK 302 902; FFMA 223 423 623 823 a23 c23 e23; FLO 300 d00;
FMNMX 209 809; FMUL 220 820 a20 c20; FRND 307 313; FSEL 208 808; FSETP 20b 80b; HADD2 230;
HFMA2 231 235 435 831 835; HMMA 23c; HMNMX2 240; HMUL2 232; HSET2 433; HSETP2 234 434;
I2F 306 312 912 b06 b12 d06 d12; I2FP 245 a45 c45; IABS 213 a13 c13; IADD3 210 810 a10 c10; IDP 226 a26;
IMAD 224 225 227 424 624 625 824 825 827 a24 a25 a27 c24 c25 c27 e24 e25; IMMA 237; IMNMX 217 817 a17 c17;
ISETP 20c 80c a0c c0c; LD 980; LDC b82; LDG 981; LDGDEPBAR 9af; LDGSTS fae; LDL 983; LDS 984; LDSM 83b;
LEA 211 811 a11 c11; LOP3 212 812 a12 c12; MATCH 3a1; MEMBAR 992; MOV 202 802 a02 c02; MOVM 23a; MUFU 308 908 d08;
NANOSLEEP 35d 95d; NOP 918; P2R 803; PLOP3 81c; POPC 309 d09; PRMT 216 816; R2UR 2ca 3c2; RED 98e; REDG 9a6;
REDUX 3c4; RET 950; S2R 919; S2UR 9c3; SEL 207 807 a07 c07; SGXT 81a; SHF 219 819 c19; SHFL 389 589 989 f89; ST 985;
STG 986; STL 387 987; STS 388 988; UFLO 2bd; UIADD3 290 890; UIMAD 2a4 2a5 4a4 8a4 8a5; UISETP 28c 88c; ULDC ab9;
ULEA 291 891; ULOP3 292 892; UMOV 882 c82; UPLOP3 89c; UPOPC 2bf; UPRMT 896; USEL 287 887; USHF 899; VABSDIFF 214;
VIADD 836 c36; VIADDMNMX 446 846; VIMNMX 248 848 c48; VIMNMX3 20f c0f; VOTE 806; VOTEU 886; WARPSYNC 348 948;
YIELD 946
"""
_INSTRUCTION = struct.Struct("<Q8x")
_OPCODE_BITS = 0xFFF


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
        helpers = _helpers(sections, index)
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


def _helpers(sections: list[Section], index: int) -> list[tuple[int, int]]:
    """First and end address of the functions that ptxas added to a kernel: slow paths of division and roots."""
    table = next((s for s in sections if s.kind == SYMBOLS), None)
    names = next((s for s in sections if s.name == ".strtab"), None)
    if table is None or names is None:
        return []
    found = []
    for at, info, _, section, value, size in _SYMBOL.iter_unpack(table.data):
        if section == index and info & 0xF == _FUNCTION:
            name = names.data[at : names.data.index(b"\0", at)].decode("utf-8", "replace")
            if name.startswith(_ADDED):  # a function of the text itself is named after its kernel
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


@functools.cache
def opcode_names(arch: str) -> dict[int, str]:
    rows = (row.split() for row in _OPCODES.split(";"))
    found = {int(opcode, 16): mnemonic for mnemonic, *opcodes in rows for opcode in opcodes}
    return found | {0x98E: "REDG"} if arch == "sm_90" else found


def known_arch(arch: str) -> bool:
    """Whether opcodes of this arch are known at all."""
    return arch in _ARCHS


def instruction_mix(cubin: bytes, arch: str) -> dict[str, dict[str, int]] | None:
    """{function: {base mnemonic: count}} without padding, as the disassembler gives it; None if only that can tell."""
    names = opcode_names(arch)
    mix: dict[str, dict[str, int]] = {}
    sections = elf_sections(cubin)
    if not _sound(sections):
        return None
    for section in sections:
        if not section.name.startswith(_TEXT):
            continue
        if len(section.data) % _INSTRUCTION.size:
            return None
        opcodes = Counter(word & _OPCODE_BITS for (word,) in _INSTRUCTION.iter_unpack(section.data))
        if not opcodes.keys() <= names.keys():
            return None
        counts = mix.setdefault(section.name.removeprefix(_TEXT), {})
        for opcode, count in opcodes.items():
            if (mnemonic := names[opcode]) != "NOP":  # padding up to the section's alignment
                counts[mnemonic] = counts.get(mnemonic, 0) + count
    return mix


def _sound(sections: list[Section]) -> bool:
    """Whether all symbols lie within their sections: of an array of 4 GiB they do not, which nvdisasm refuses."""
    tables = (section.data for section in sections if section.kind == SYMBOLS)
    symbols = (symbol for table in tables for symbol in _SYMBOL.iter_unpack(table))
    return all(value + size <= sections[at].size for *_, at, value, size in symbols if 0 < at < len(sections))
