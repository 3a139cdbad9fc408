"""The layouts that a `.cu` file declares, checked by the same proofs as derived ones.

Two kinds are read: `__shared__ T name[a][b]` arrays, whose last dimension is the row stride, and comment lines
`// layout: NAME ROWS x COLS DTYPE at FORMULA [of ELEMENTS] [read ACCESS, ...]`, FORMULA being the element offset of
(row, col). Names in them are axes, knobs, `#define` and `constexpr int` constants of the file. Rows must be 16-byte
aligned where the file's code or an ACCESS moves 16 bytes at a time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evo.analysis.tiles.shared_layout import WORD, Layout, Proof, by_formula, prove, strided
from evo.cuda.source import Source
from evo.cuda.source import parse as parse_source
from evo.errors import SyntaxInvalid
from evo.spec.comments import without_comments
from evo.spec.element_types import DTYPES, OF_C_TYPE
from evo.spec.expr import Expression, Number, parse
from evo.spec.tile_model import READS

_LINE = re.compile(r"\s*+//\s*+layout:\s*+(\w++)\s++")
_READ = re.compile(r"[\w,]++")
_LOOKS_LIKE = re.compile(r"^\s*//\s*layout\s*:")
# Possessive repeats and a bounded value: any text is read in time that grows with its length alone.
_CONSTANT = re.compile(
    r"^[ \t]*+(?:static\s++)?(?:constexpr|const)\s++(?:unsigned\s++)?(?:int|unsigned|size_t)\s++(\w++)"
    r"\s*+=\s*+([^;]{1,500}+);",
    re.M,
)
_VECTOR = re.compile(r"cp\.async|ldmatrix|\bu?int4\b|\bfloat4\b|__pipeline_memcpy_async|\bv4\.")
_LARGEST = 2**18  # elements of one tile


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One layout of a file, its line, and the result of the check."""

    layout: Layout
    proof: Proof
    line: int


def check_layouts(text: str, *, path: str, axes: Mapping[str, int], knobs: Mapping[str, int]) -> tuple[Checked, ...]:
    """All layouts that the file declares. Raises SyntaxInvalid for a `// layout:` line that cannot be read."""
    source = parse_source(text)
    names = constants(text, source, {**axes, **knobs})
    code = without_comments(text)
    reads = ("ldmatrix",) if "ldmatrix" in code else ()
    vector = _VECTOR.search(code) is not None
    found = _arrays(source, names, text, vector, reads)
    for number, line in enumerate(text.splitlines(), start=1):
        if _LOOKS_LIKE.match(line):
            found.append(_stated(line, number, path, names, vector))
    return tuple(found)


def constants(text: str, source: Source, known: Mapping[str, int]) -> dict[str, Number]:
    """Integer constants of the file with a known value; those that only the compiler can evaluate are left out."""
    names: dict[str, Number] = dict(known)
    pairs = [(define.name, define.value) for define in source.defines] + _CONSTANT.findall(text)
    for name, value in pairs:
        if name in names:
            continue
        try:
            names[name] = _c_expression(value).value(names)
        except SyntaxInvalid:
            continue
    return names


def _c_expression(text: str) -> Expression:
    """C integer arithmetic: `/` there is division towards zero, which for sizes is `//`."""
    return parse(re.sub(r"/(?!/)", "//", text.split("//", maxsplit=1)[0].strip()).replace("& &", "and"))


def _arrays(
    source: Source, names: Mapping[str, Number], text: str, vector: bool, reads: tuple[str, ...]
) -> list[Checked]:
    found = []
    raw = text.encode()
    for array in source.shared_arrays:
        dtype = OF_C_TYPE.get(array.element.strip())
        if dtype is None or len(array.dims) < 2:
            continue
        try:
            dims = [int(_c_expression(raw[d.start : d.end].decode()).value(names)) for d in array.dims]
        except SyntaxInvalid:
            continue
        rows, cols = 1, dims[-1]
        for dim in dims[:-1]:
            rows *= dim
        if rows < 1 or cols < 1 or rows * cols > _LARGEST:
            continue
        layout = strided(array.name, rows, cols, DTYPES[dtype])
        used = reads if DTYPES[dtype] == 2 else ()
        line = raw[: array.dims[0].start].count(b"\n") + 1
        found.append(Checked(layout=layout, proof=prove(layout, used, vector=vector), line=line))
    return found


class _Parts(NamedTuple):
    """The words of a `// layout:` line; `of` and `read` may be left out."""

    name: str
    rows: str
    cols: str
    dtype: str
    at: str
    of: str
    read: str


def _parts(line: str) -> _Parts | None:
    """`NAME ROWS x COLS DTYPE at FORMULA of SIZE read WAYS`, each part up to the first word that may end it."""
    head = _LINE.match(line)
    words = line[head.end() :].split() if head is not None else []
    times = _place("x", words, 1, len(words) - 1)
    at = _place("at", words, times + 3, len(words) - 1)
    if head is None or not times or not at:
        return None
    tail, end = words[at + 1 :], len(words) - at - 1
    read = _place("read", tail, 1, end - 1)
    if read and all(_READ.fullmatch(word) for word in tail[read + 1 :]):
        end = read
    else:
        read = 0
    of = _place("of", tail, 1, end - 1)
    return _Parts(
        name=head[1],
        rows=" ".join(words[:times]),
        cols=" ".join(words[times + 1 : at - 1]),
        dtype=words[at - 1],
        at=" ".join(tail[: of or end]),
        of=" ".join(tail[of + 1 : end]) if of else "",
        read=" ".join(tail[read + 1 :]) if read else "",
    )


def _place(word: str, words: Sequence[str], first: int, end: int) -> int:
    """Where a word stands from `first` on and before `end`; 0 if it does not."""
    return next((place for place in range(first, end) if words[place] == word), 0)


def _stated(line: str, number: int, path: str, names: Mapping[str, Number], vector: bool) -> Checked:
    def invalid(problem: str) -> SyntaxInvalid:
        hint = "write `// layout: k 64 x 64 float16 at row * 72 + col of 64 * 72 read ldmatrix`"
        return SyntaxInvalid(path, number, f"`// layout:` line: {problem}", hint=hint)

    parts = _parts(line)
    if parts is None:
        raise invalid("cannot parse")
    dtype = parts.dtype
    if dtype not in DTYPES:
        raise invalid(f"unknown dtype {dtype!r}")
    reads = tuple(word.strip() for word in parts.read.split(",") if word.strip())
    if unknown := [read for read in reads if read not in READS]:
        raise invalid(f"unknown access {unknown[0]!r}, one of {', '.join(READS)}")

    if "fragment" in reads and DTYPES[dtype] > WORD:
        raise invalid(f"fragments are read as words of {WORD} bytes, elements of {dtype} are wider")

    def number_of(text: str) -> int:
        return int(parse(text, path=path, line=number).value(names))

    rows, cols = number_of(parts.rows), number_of(parts.cols)
    if rows < 1 or cols < 1 or rows * cols > _LARGEST:
        raise invalid(f"{rows} x {cols} elements")
    formula = parse(parts.at, path=path, line=number)
    constant = {name: value for name, value in names.items() if name in formula.names and name not in ("row", "col")}
    room = number_of(parts.of) if parts.of else None
    layout = by_formula(parts.name, rows, cols, dtype, formula, room, constant)
    return Checked(layout=layout, proof=prove(layout, reads, vector=vector), line=number)
