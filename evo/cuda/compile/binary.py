"""Results of a compile: the binary and its resource report, or diagnostics. Pure parsing; no process, no file.

The ptxas log gives registers, spills, stack and shared bytes; the cubin's ELF sections give the machine-code hash.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from evo.results import StaticRule, Status

SOURCE_NAME = "variant.cu"  # every text is compiled under this name, so that a path never changes a binary
PRELUDE_NAME = "evo_prelude.h"
MAX_LOG_CHARS = 40_000  # a template bomb can print megabytes; the first errors are the useful ones


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReport:
    """Resources of one kernel as ptxas reports them. `sass` counts instructions by base mnemonic, without padding."""

    name: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int
    sass: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """PTX and machine code of one text for one arch. `cubin` is empty for a `compute_NN` arch.

    key: hash of everything that went in. code_hash: hash of the machine code alone (no names, comments, line numbers);
    it does not cover the launch plan. warnings: what ptxas remarked, and spills; front-end warnings never get this far.
    """

    key: str
    arch: str
    ptx: str
    cubin: bytes
    kernels: tuple[KernelReport, ...]
    macros: dict[str, int | str]
    code_hash: str
    warnings: tuple[str, ...]
    elapsed_s: float
    cached: bool

    def kernel(self, name: str) -> KernelReport:
        """The report of one kernel. Raises KeyError."""
        for report in self.kernels:
            if report.name == name:
                return report
        raise KeyError(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """Why there is no binary: UNCOMPILED, REFUSED or TIMED_OUT, with the first reason as `file:line: ...`.

    rule: the static rule that refused the text. exhausted: the compiler had not enough time or memory.
    """

    status: Status
    reason: str
    rule: StaticRule | None = None
    log: str = ""
    exhausted: bool = False


_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^()\n]*)\((?P<line>\d+)\): (?P<kind>warning|error|catastrophic error|internal error)\b(?P<rest>.*)$"
)
_TOOL = re.compile(
    r"^\s*(?P<tool>ptxas|nvrtc|NVVM|nvlink|nvdisasm)\b.*?\b(?P<kind>error|fatal|warning)\b\s*:?\s*(?P<rest>.*)$"
)
_OWN_MACRO = f" of {PRELUDE_NAME})"  # a redefinition of a prelude macro is our doing, not the variant's

# A barrier in shared memory, as the programming guide declares it; `init` makes it.
_SHARED_OBJECT = "#20054-D: dynamic initialization is not supported for a function-scope static __shared__ variable"


def front_end_complaint(log: str, name: str) -> str | None:
    """The first error, else the first warning, of the compiler's front end and tools, as one `file:line: ...` line."""
    first_warning: str | None = None
    for line in log.splitlines():
        if match := _DIAGNOSTIC.match(line):
            if _OWN_MACRO in line or _SHARED_OBJECT in line:
                continue
            where = name if match["file"] == SOURCE_NAME else match["file"].rsplit("/include/", 1)[-1]
            text = f"{where}:{match['line']}: {match['kind']}{match['rest']}"
            if match["kind"] != "warning":
                return text
            first_warning = first_warning or f"{text} (warnings are errors)"
        elif (match := _TOOL.match(line)) and match["kind"] != "warning":
            return f"{name}: {match['tool']} {match['kind']}: {match['rest']}"
    return first_warning


def shown_log(log: str, name: str) -> str:
    """The compiler's log with the variant's own name in it, cut to a readable length."""
    text = log.strip("\0\n ").replace(f"{SOURCE_NAME}(", f"{name}(").replace(f'"{SOURCE_NAME}"', f'"{name}"')
    return text if len(text) <= MAX_LOG_CHARS else text[:MAX_LOG_CHARS] + "\n... cut"


_ENTRY = re.compile(r"Compiling entry function '([^']+)' for")
# The log holds names that a variant chose: digits are read once, from their first on.
_FRAME = re.compile(r"(?<!\d)(\d++) bytes stack frame, (\d++) bytes spill stores, (\d++) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_CUMULATIVE = re.compile(r"(?<!\d)(\d++) bytes cumulative stack size")
_SHARED = re.compile(r"(?<!\d)(\d++) bytes smem")


def kernel_reports(log: str, sass: Mapping[str, Mapping[str, int]]) -> tuple[KernelReport, ...]:
    """One report per entry function in the ptxas log, by name. Spills of functions it calls count as its own."""
    chunks = _ENTRY.split(log)[1:]  # name, text, name, text ...
    reports = []
    for name, text in zip(chunks[::2], chunks[1::2], strict=True):
        used = next((line for line in text.splitlines() if _USED.search(line)), "")
        frames = [(int(a), int(b), int(c)) for a, b, c in _FRAME.findall(text)]
        cumulative = _CUMULATIVE.search(used)
        registers, shared = _USED.search(used), _SHARED.search(used)
        reports.append(
            KernelReport(
                name=name,
                registers=int(registers[1]) if registers else 0,
                spill_store_bytes=sum(frame[1] for frame in frames),
                spill_load_bytes=sum(frame[2] for frame in frames),
                stack_bytes=int(cumulative[1]) if cumulative else (frames[0][0] if frames else 0),
                shared_bytes=int(shared[1]) if shared else 0,
                sass=dict(sorted(sass.get(name, {}).items())),
            )
        )
    return tuple(sorted(reports, key=lambda report: report.name))


def remarks(log: str, kernels: tuple[KernelReport, ...]) -> tuple[str, ...]:
    """ptxas warnings, and one sentence per kernel that spills. Noted, not failures: a spill can still pay."""
    found = [
        f"{match['tool']} warning: {match['rest']}"
        for line in log.splitlines()
        if (match := _TOOL.match(line)) and match["kind"] == "warning"
    ]
    found += [
        f"{k.name} spills {k.spill_store_bytes} bytes of stores and {k.spill_load_bytes} bytes of loads"
        for k in kernels
        if k.spill_store_bytes or k.spill_load_bytes
    ]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Section:
    """One section of an ELF file; data is empty if it has only a size."""

    name: str
    kind: int
    data: bytes
    size: int
    info: int


SYMBOLS, _SHT_RELA, _SHT_NOBITS = 2, 4, 8
_CODE = (".text", ".nv.constant", ".nv.global", ".rodata")
_SHARED_SECTION = ".nv.shared"


def code_hash(cubin: bytes) -> str:
    """Hash of a cubin's code and constant data. Equal for texts that differ in names, comments and lines only.

    Relocations enter by target value instead of symbol index, and sections in sorted order, because both follow names.
    """
    sections = elf_sections(cubin)
    symbols = next((s.data for s in sections if s.kind == SYMBOLS), b"")
    parts = []
    for section in sections:
        stem = _stem(section.name)
        if stem in (".rel", ".rela"):
            target = sections[section.info].name if section.info < len(sections) else ""
            if _stem(target).startswith(_CODE):
                parts.append(repr((stem, _stem(target), _relocations(section, symbols, sections))).encode())
        elif stem.startswith((*_CODE, _SHARED_SECTION)):
            # sh_info's top byte of a text section is its register count, which decides occupancy.
            registers = section.info >> 24 if stem == ".text" else 0
            parts.append(repr((stem, registers, section.size, section.data)).encode())
    return hashlib.sha256(b"\n".join(sorted(parts))).hexdigest()[:16]


_PTX_PLACE_LINES = re.compile(r"^[ \t]*+\.(?:loc|file)\b[^\n]*+$|//[^\n]*+$", re.MULTILINE)
_PTX_DEBUG = re.compile(r"^[ \t]*+\.section[ \t]++\.debug\w*+\s*+\{[^{}]*+\}", re.MULTILINE)


def ptx_hash(ptx: str) -> str:
    """Hash of PTX without line numbers, file names and comments, for an arch that has no machine code."""
    text = _PTX_DEBUG.sub("", _PTX_PLACE_LINES.sub("", ptx))
    lines = [line.strip() for line in text.splitlines()]
    return hashlib.sha256("\n".join(line for line in lines if line).encode()).hexdigest()[:16]


def _stem(name: str) -> str:
    """`.text.k` -> `.text`, `.nv.constant0.k` -> `.nv.constant0`, `.rela.text.k` -> `.rela`."""
    if name.startswith((".rela.", ".rel.")):
        return name[: name.index(".", 1)]
    return ".".join(name.split(".")[: 3 if name.startswith(".nv.") else 2])


def _relocations(section: Section, symbols: bytes, sections: list[Section]) -> list[tuple[int, int, int, str, int]]:
    size = 24 if section.kind == _SHT_RELA else 16
    rows = []
    for at in range(0, len(section.data) - size + 1, size):
        offset, info = struct.unpack_from("<QQ", section.data, at)
        addend = struct.unpack_from("<q", section.data, at + 16)[0] if size == 24 else 0
        target, value = "", 0
        if (symbol_at := (info >> 32) * 24) + 24 <= len(symbols):
            _, _, _, index, value, _ = struct.unpack_from("<IBBHQQ", symbols, symbol_at)
            target = _stem(sections[index].name) if index < len(sections) else ""
        rows.append((offset, info & 0xFFFFFFFF, addend, target, value))
    return rows


def elf_sections(image: bytes) -> list[Section]:
    """The sections of a cubin. Raises ValueError if it is none."""
    if image[:4] != b"\x7fELF" or image[4] != 2:
        raise ValueError("a cubin is a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", image, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * entry_size) for i in range(count)]
    names_at = rows[names_index][4]
    sections = []
    for name, kind, _flags, _address, offset, size, _link, info, _align, _entry in rows:
        end = image.index(b"\0", names_at + name)
        data = b"" if kind == _SHT_NOBITS else image[offset : offset + size]
        text = image[names_at + name : end].decode("utf-8", "replace")
        sections.append(Section(text, kind, data, size, info))
    return sections
