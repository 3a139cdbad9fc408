"""The instruction mix of machine code from its opcodes alone, if all of them are known.

The disassembler takes a quarter of a second to start, which is most of what compiling a small kernel takes. What is
not known here is left to it. The tests hold both to the same counts.
"""

from __future__ import annotations

import functools
import struct
from collections import Counter

from evo.cuda.compile.binary import SYMBOLS, Section, elf_sections

# Of sm_80 to sm_90: base mnemonic and the low 12 bits of its instructions, as nvdisasm 13.5 names them; only those
# whose name no other bit changes.
_ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90")
_OPCODES = """
ATOM 38b 98a; ATOMG 3a9 9a3 9a8; ATOMS 38c 38d 98c f8c; B2R 31c; BAR 31d 51d b1d; BMOV 355 356; BRA 947; BREAK 942;
BREV 301; BSSY 945; BSYNC 941; CALL 343 344 944; CCTL 98f; CS2R 805; DADD 229 429 629 e29; DEPBAR 91a;
DFMA 22b 42b 62b 82b a2b c2b e2b; DMUL 228 828 a28 c28; DSETP 22a 42a; ENDCOLLECTIVE 91b; ERRBAR 9ab; EXIT 94d;
F2F 310; F2FP 23e; F2I 305 311; FADD 221 421 621 e21; FCHK 302 902; FFMA 223 423 623 823 a23 c23 e23; FLO 300 d00;
FMNMX 209 809; FMUL 220 820 a20 c20; FRND 307 313; FSEL 208 808; FSETP 20b 80b; HADD2 230;
HFMA2 231 235 435 831 835; HMMA 23c; HMNMX2 240; HMUL2 232; HSET2 433; HSETP2 234 434;
I2F 306 312 912 b06 b12 d06 d12; I2FP 245 a45 c45; IABS 213 a13 c13; IADD3 210 810 a10 c10; IDP 226 a26;
IMAD 224 225 227 424 624 625 824 825 827 a24 a25 a27 c24 c25 c27 e24 e25; IMMA 237; IMNMX 217 817 a17 c17;
ISETP 20c 80c a0c c0c; LD 980; LDC b82; LDG 981; LDGDEPBAR 9af; LDGSTS fae; LDL 983; LDS 984; LDSM 83b;
LEA 211 811 a11 c11; LOP3 212 812 a12 c12; MATCH 3a1; MEMBAR 992; MOV 202 802 a02 c02; MUFU 308 908 d08;
NANOSLEEP 35d 95d; NOP 918; P2R 803; PLOP3 81c; POPC 309 d09; PRMT 216 816; R2UR 2ca 3c2; RED 98e; REDG 9a6;
REDUX 3c4; RET 950; S2R 919; S2UR 9c3; SEL 207 807 a07 c07; SGXT 81a; SHF 219 819 c19; SHFL 389 589 989 f89; ST 985;
STG 986; STL 387 987; STS 388 988; UFLO 2bd; UIADD3 290 890; UIMAD 2a4 2a5 4a4 8a4 8a5; UISETP 28c 88c; ULDC ab9;
ULEA 291 891; ULOP3 292 892; UMOV 882 c82; UPLOP3 89c; UPOPC 2bf; UPRMT 896; USEL 287 887; USHF 899; VABSDIFF 214;
VIADD 836 c36; VIADDMNMX 446 846; VIMNMX 248 848 c48; VIMNMX3 20f c0f; VOTE 806; VOTEU 886; WARPSYNC 348 948;
YIELD 946
"""
_TEXT = ".text."  # one section for each entry function and what it calls
_INSTRUCTION = struct.Struct("<Q8x")
_OPCODE_BITS = 0xFFF
_SYMBOL = struct.Struct("<6xHQQ")  # section, value, size


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
    return all(value + size <= sections[at].size for at, value, size in symbols if 0 < at < len(sections))
