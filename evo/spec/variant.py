"""A variant: one `.cu` text with its launch plan, knobs and compile flags in `// evo:` lines.

Owns the `// evo:` language (task, macro, knob, require, flags, scratch, launch). Knows no device and no compiler.
The id is a hash of all that affects the machine code: the text without comments, and the `// evo:` lines.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from evo.errors import SyntaxInvalid, known_words
from evo.spec.comments import without_comments
from evo.spec.element_types import DTYPES
from evo.spec.expr import Expression, parse, parse_list
from evo.spec.source_text import read_source

# Every pattern here is anchored and its repeats are possessive (`*+`), so that no text makes it go back and try again.
_DIRECTIVE = re.compile(r"\s*+//\s*+evo:\s*+(\w++)\s*+")
_LOOKS_LIKE = re.compile(r"\s*+//\s*+evo\s*+:")
_REMARK = re.compile(r"\s{3}")  # three spaces open a remark at the end of a directive
_NAME = re.compile(r"[A-Za-z_]\w*+\Z")
_KNOB = re.compile(r"(\w++)\s++in\s++(.++)\Z")
_KERNEL = re.compile(r"(\w++)\s++grid\s*+(?=\()")
_BLOCK = re.compile(r"\s*+block\s*+(?=\()")
_SHARED = re.compile(r"\s*+shared\s++")
_ARGS = re.compile(r"(?<=\s)args\s*+(?=\()")
_SCRATCH = re.compile(r"(\w++)\s++(\w++)\s*+\[([^\]]*+)\]")
_INIT = re.compile(r"\s*+init\s*+=\s*+(\w++)")
_VALUE = re.compile(
    r"\s*+(?:#\s*+define\s++(?P<define>\w++)\s++|(?:static\s++)?constexpr\s++\w++\s++(?P<constant>\w++)\s*+=\s*+)"
    r"(?P<value>-?\w++)"
)

LONGEST_TEXT = 1_000_000
_MOST_DIRECTIVES = 1_000
_MOST_VALUES = 10_000  # of a knob
_SHOWN = 60  # characters of a candidate's own text in a message

KnobValue = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """A compile-time integer or choice with a declared domain. `line` is where its value stands (1-based)."""

    name: str
    domain: tuple[KnobValue, ...]
    value: KnobValue
    line: int
    declared_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A workspace tensor between the launches. init: `poison` or `zero`; clearing is inside the timed sequence."""

    name: str
    dtype: str
    shape: tuple[Expression, ...]
    init: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchLine:
    """One kernel launch; several are one timed sequence. Grid and block have one to three expressions.

    args: what each parameter gets, a tensor or scratch by its name or a value; None: the order that the task declares.
    """

    kernel: str
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared: Expression
    line: int
    args: tuple[Expression, ...] | None = None

    @property
    def args_text(self) -> str:
        """The end of the line that names the arguments, with a blank in front; empty if it names none."""
        return "" if self.args is None else f" args ({', '.join(arg.text for arg in self.args)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One `.cu` text, parsed. `path` is where it was read, for error messages only."""

    text: str
    path: str
    task: str | None
    macros: tuple[str, ...]
    knobs: tuple[Knob, ...]
    requires: tuple[Expression, ...]
    flags: tuple[str, ...]
    scratch: tuple[Scratch, ...]
    launches: tuple[LaunchLine, ...]
    id: str

    def __repr__(self) -> str:
        return f"<Variant {self.id[:12]} of {self.task or 'no task'}, {len(self.knobs)} knobs>"

    @property
    def knob_values(self) -> dict[str, KnobValue]:
        return {knob.name: knob.value for knob in self.knobs}

    @property
    def integer_knobs(self) -> dict[str, int]:
        return {knob.name: knob.value for knob in self.knobs if isinstance(knob.value, int)}

    @property
    def headline(self) -> str:
        """The first comment line that is not an `evo:` line: the idea in a sentence."""
        for line in self.text.splitlines():
            stripped = line.strip()
            if stripped.startswith("//") and not _LOOKS_LIKE.match(line):
                return stripped.lstrip("/").strip()
        return ""

    def with_knobs(self, values: Mapping[str, KnobValue]) -> Variant:
        """The same text with other knob values. Raises KeyError for an unknown knob."""
        lines = self.text.split("\n")
        by_name = {knob.name: knob for knob in self.knobs}
        for name, value in values.items():
            knob = by_name[name]
            line = lines[knob.line - 1]
            match = _VALUE.match(line)
            assert match is not None  # it was read from this line
            lines[knob.line - 1] = f"{line[: match.start('value')]}{value}{line[match.end('value') :]}"
        return parse_variant("\n".join(lines), path=self.path)


def read_variant(path: Path) -> Variant:
    """Read a `.cu` file. Raises SyntaxInvalid naming file, line and field."""
    return parse_variant(read_source(path), path=path)


def parse_variant(text: str, *, path: Path | str = "<variant>") -> Variant:
    """Parse the `// evo:` lines of a text. Raises SyntaxInvalid naming file, line and field."""
    if len(text) > LONGEST_TEXT:
        problem = f"{len(text):,} characters, at most {LONGEST_TEXT:,} are read"
        raise SyntaxInvalid(path, None, problem, hint="a variant is one kernel file; leave generated padding out")
    if not _is_text(text):
        raise SyntaxInvalid(path, None, "half of a surrogate pair", hint="a variant is one UTF-8 text file")
    reader = _Reader(str(path), text)
    for number, line in enumerate(reader.lines, start=1):
        if found := _directive(line):
            reader.directive(number, *found)
        elif _LOOKS_LIKE.match(line):
            raise reader.invalid(number, "malformed `// evo:` line", "write `// evo: <field> ...`")
    return reader.finish()


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _directive(line: str) -> tuple[str, str] | None:
    """The field of a `// evo:` line and what stands behind it, without a remark; None for any other line."""
    match = _DIRECTIVE.match(line)
    if match is None:
        return None
    rest = line[match.end() :].rstrip()
    # Launch and scratch lines may be aligned with blanks between their parts; they know themselves where they end.
    return match[1], rest if match[1] in ("launch", "scratch") else _before_remark(rest)


def _before_remark(text: str) -> str:
    found = _REMARK.search(text)
    return text[: found.start()] if found else text


def _is_remark(text: str) -> bool:
    """Whether what is left of a line is nothing, or a remark."""
    return not text.strip() or _REMARK.match(text) is not None


def _bracketed(text: str, at: int) -> int | None:
    """Where the bracket that opens at a place is closed; None if it is not."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    return None


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _as_knob_value(token: str) -> KnobValue:
    return int(token) if re.fullmatch(r"-?\d{1,19}", token) else token


def variant_id(text: str) -> str:
    """Twelve hex digits over the text without comments and blank space, and its `// evo:` lines but `task`."""
    directives = []
    for line in text.splitlines():
        if (found := _directive(line)) and found[0] != "task":
            directives.append(f"{found[0]} {' '.join(found[1].split())}")
    code = without_comments(text)
    lines = [" ".join(line.split()) for line in code.splitlines()]
    body = "\n".join([*directives, *(line for line in lines if line)])
    return hashlib.sha256(body.encode()).hexdigest()[:12]


class _Reader:
    """Collects the directives of one text."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.lines = path, text, text.split("\n")
        self.directives = 0
        self.task: str | None = None
        self.macros: list[str] = []
        self.knobs: dict[str, Knob] = {}
        self.requires: list[Expression] = []
        self.flags: list[str] = []
        self.scratch: list[Scratch] = []
        self.launches: list[LaunchLine] = []

    @cached_property
    def values(self) -> dict[str, list[tuple[int, str]]]:
        """Per name: the lines that `#define` it or declare it constexpr, and the value that stands there."""
        found: dict[str, list[tuple[int, str]]] = {}
        for number, line in enumerate(self.lines, start=1):
            if match := _VALUE.match(line):
                found.setdefault(match["define"] or match["constant"], []).append((number, match["value"]))
        return found

    def invalid(self, line: int | None, problem: str, hint: str) -> SyntaxInvalid:
        return SyntaxInvalid(self.path, line, problem, hint=hint)

    def directive(self, line: int, field: str, rest: str) -> None:
        self.directives += 1
        if self.directives > _MOST_DIRECTIVES:
            hint = "a kernel has a few knobs and launches; leave the rest out"
            raise self.invalid(line, f"more than {_MOST_DIRECTIVES:,} `// evo:` lines", hint)
        match field:
            case "task":
                if self.task is not None:
                    raise self.invalid(line, "field `task`: a second one", "a variant is for one task; keep one line")
                self.task = self._name(line, "task", rest)
            case "macro":
                self.macros += [self._name(line, "macro", part) for part in re.split(r"[,\s]+", rest) if part] or [
                    self._name(line, "macro", rest)
                ]
            case "knob":
                self._knob(line, rest)
            case "require" if not rest:
                raise self.invalid(line, "field `require`: missing", "e.g. `// evo: require BLOCK_M % 16 == 0`")
            case "require":
                self.requires.append(parse(rest, path=self.path, line=line))
            case "flags":
                self.flags += rest.split()
            case "scratch":
                self._scratch(line, rest)
            case "launch":
                self._launch(line, rest)
            case _:
                known = ("task", "macro", "knob", "require", "flags", "scratch", "launch")
                hint = known_words("fields", field, known)
                raise self.invalid(line, f"unknown field `{_shown(field)}` in `// evo:` line", hint)

    def _name(self, line: int, field: str, text: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][\w-]*", text):
            problem = f"field `{field}`: {_shown(text)!r} is not a name"
            raise self.invalid(line, problem, f"write `// evo: {field} NAME`")
        return text

    def _knob(self, line: int, rest: str) -> None:
        match = _KNOB.match(rest)
        if not match or not _NAME.match(match[1]):
            raise self.invalid(line, "field `knob`: cannot parse", "write `// evo: knob NAME in 1, 2, 4`")
        name = match[1]
        domain = tuple(_as_knob_value(token.strip()) for token in match[2].split(","))
        if not all(isinstance(v, int) or _NAME.match(v) for v in domain) or len(set(domain)) != len(domain):
            problem = f"field `knob`: bad domain `{_shown(match[2])}`"
            raise self.invalid(line, problem, "distinct integers or names, with commas")
        if len(domain) > _MOST_VALUES:
            problem = f"field `knob`: {len(domain):,} values"
            raise self.invalid(line, problem, f"at most {_MOST_VALUES:,}")
        shown = _shown(name)
        if name in self.knobs:
            raise self.invalid(line, f"field `knob`: {shown} is declared twice", "keep one line")
        found = self.values.get(name, [])
        if len(found) != 1:
            problem = "has no" if not found else "has more than one"
            hint = f"add one line `#define {shown} {_shown(str(domain[0]))}`"
            raise self.invalid(line, f"field `knob`: {shown} {problem} `#define` or constexpr line", hint)
        at, token = found[0]
        value = _as_knob_value(token)
        if value not in domain:
            listed = _shown(", ".join(map(str, domain[:_SHOWN])))
            raise self.invalid(at, f"knob {shown} = {_shown(token)} is outside its domain", f"one of {listed}")
        self.knobs[name] = Knob(name=name, domain=domain, value=value, line=at, declared_line=line)

    def _scratch(self, line: int, rest: str) -> None:
        match = _SCRATCH.match(rest)
        cleared = _INIT.match(rest, match.end()) if match else None
        if not match or not _is_remark(rest[(cleared or match).end() :]):
            hint = "write `// evo: scratch NAME dtype [dims] init=poison`"
            raise self.invalid(line, "field `scratch`: cannot parse", hint)
        name, dtype, dims, init = match[1], match[2], match[3], cleared[1] if cleared else "poison"
        if dtype not in DTYPES:
            problem = f"field `scratch`: unknown dtype {_shown(dtype)!r}"
            raise self.invalid(line, problem, f"one of {', '.join(DTYPES)}")
        if init not in ("poison", "zero"):
            raise self.invalid(line, f"field `scratch`: init={_shown(init)}", "init=poison or init=zero")
        shape = parse_list(dims, path=self.path, line=line)
        if not shape:
            raise self.invalid(line, "field `scratch`: no dimensions", "e.g. [B, HQ, SQ]")
        self.scratch.append(Scratch(name=name, dtype=dtype, shape=shape, init=init, line=line))

    def _launch(self, line: int, rest: str) -> None:
        parts = _launch_parts(rest)
        if parts is None:
            hint = "write `// evo: launch KERNEL grid (x, y, z) block (threads) shared BYTES args (x, y, N)`"
            raise self.invalid(line, "field `launch`: cannot parse", hint)
        kernel, blocks, threads, dynamic, given = parts
        grid = parse_list(blocks, path=self.path, line=line)
        block = parse_list(threads, path=self.path, line=line)
        if not 1 <= len(grid) <= 3 or not 1 <= len(block) <= 3:
            raise self.invalid(line, "field `launch`: grid and block take one to three values", "e.g. grid (SQ, HQ, B)")
        shared = parse(dynamic, path=self.path, line=line)
        args = None if given is None else parse_list(given, path=self.path, line=line, real=True)
        self.launches.append(LaunchLine(kernel=kernel, grid=grid, block=block, shared=shared, line=line, args=args))

    def finish(self) -> Variant:
        if not self.launches:
            hint = (
                "add `// evo: launch KERNEL grid (...) block (...) shared 0` at the top of the file; "
                "`evo adopt FILE.cu` reads it from a launch with <<<>>>"
            )
            raise self.invalid(None, "no `// evo: launch` line", hint)
        return Variant(
            text=self.text,
            path=self.path,
            task=self.task,
            macros=tuple(self.macros),
            knobs=tuple(self.knobs.values()),
            requires=tuple(self.requires),
            flags=tuple(self.flags),
            scratch=tuple(self.scratch),
            launches=tuple(self.launches),
            id=variant_id(self.text),
        )


def _launch_parts(rest: str) -> tuple[str, str, str, str, str | None] | None:
    """`KERNEL grid (...) block (...) shared ... args (...)`: the name, and what each holds; None: no such line."""
    kernel = _KERNEL.match(rest)
    grid_end = _bracketed(rest, kernel.end()) if kernel else None
    block = _BLOCK.match(rest, grid_end + 1) if grid_end is not None else None
    block_end = _bracketed(rest, block.end()) if block else None
    if kernel is None or grid_end is None or block is None or block_end is None:
        return None
    grid_text, block_text = rest[kernel.end() + 1 : grid_end], rest[block.end() + 1 : block_end]
    tail, given = rest[block_end + 1 :], None
    if named := _ARGS.search(tail):
        end = _bracketed(tail, named.end())
        if end is None or not _is_remark(tail[end + 1 :]):
            return None
        tail, given = tail[: named.start()], tail[named.end() + 1 : end]
    if (shared := _SHARED.match(tail)) and (dynamic := _before_remark(tail[shared.end() :])):
        return kernel[1], grid_text, block_text, dynamic, given
    return (kernel[1], grid_text, block_text, "0", given) if _is_remark(tail) else None
