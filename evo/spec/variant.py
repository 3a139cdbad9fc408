"""A variant: one `.cu` text with its launch plan, knobs and compile flags in `// evo:` lines.

Owns the `// evo:` language (task, macro, knob, require, flags, scratch, launch). Knows no device and no compiler.
The id is a hash of all that affects the machine code: the text without comments, and the `// evo:` lines.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evo.errors import SyntaxInvalid
from evo.spec.expr import Expression, parse, parse_list

DTYPES: dict[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "bool": 1,
}

_DIRECTIVE = re.compile(r"^\s*//\s*evo:\s*(\w+)\s*(.*?)\s*$")
_LOOKS_LIKE = re.compile(r"^\s*//\s*evo\s*:")
_TRAILING = re.compile(r"\s{3,}.*$")  # three spaces open a remark at the end of a directive
_NAME = re.compile(r"^[A-Za-z_]\w*$")
_LAUNCH = re.compile(r"^(\w+)\s+grid\s*\((.*)\)\s*block\s*\((.*?)\)\s*(?:shared\s+(.+?))?(?:\s{3,}.*)?$")
_SCRATCH = re.compile(r"^(\w+)\s+(\w+)\s*\[(.*)\]\s*(?:init\s*=\s*(\w+))?(?:\s{3,}.*)?$")
_COMMENT_OR_STRING = re.compile(r'//(?:\\\r?\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)

LONGEST_TEXT = 1_000_000

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
    """One kernel launch; several are one timed sequence. Grid and block have one to three expressions."""

    kernel: str
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared: Expression
    line: int


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
            lines[knob.line - 1] = _replace_value(lines[knob.line - 1], knob.name, value)
        return parse_variant("\n".join(lines), path=self.path)


def read_variant(path: Path) -> Variant:
    """Read a `.cu` file. Raises SyntaxInvalid naming file, line and field."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # editors on Windows put a mark first, which nvrtc refuses
    except FileNotFoundError:
        raise SyntaxInvalid(path, None, "no such file", hint="give the path of a .cu file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SyntaxInvalid(path, None, f"cannot be read: {error}", hint="a variant is one UTF-8 text file") from None
    return parse_variant(text, path=path)


def parse_variant(text: str, *, path: Path | str = "<variant>") -> Variant:
    """Parse the `// evo:` lines of a text. Raises SyntaxInvalid naming file, line and field."""
    if len(text) > LONGEST_TEXT:
        problem = f"{len(text):,} characters, at most {LONGEST_TEXT:,} are read"
        raise SyntaxInvalid(path, None, problem, hint="a variant is one kernel file; leave generated padding out")
    reader = _Reader(str(path), text)
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _DIRECTIVE.match(line):
            reader.directive(number, match[1], _strip_remark(match[1], match[2]))
        elif _LOOKS_LIKE.match(line):
            raise reader.invalid(number, "malformed `// evo:` line", "write `// evo: <field> ...`")
    return reader.finish()


def _strip_remark(field: str, rest: str) -> str:
    # Launch and scratch lines may be aligned with blanks between their parts; their patterns know where they end.
    return rest if field in ("launch", "scratch") else _TRAILING.sub("", rest)


def _value_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"^(\s*#\s*define\s+{name}\s+|\s*(?:static\s+)?constexpr\s+\w+\s+{name}\s*=\s*)(-?\w+)(.*)$")


def _replace_value(line: str, name: str, value: KnobValue) -> str:
    match = _value_pattern(name).match(line)
    assert match is not None
    return f"{match[1]}{value}{match[3]}"


def _as_knob_value(token: str) -> KnobValue:
    return int(token) if re.fullmatch(r"-?\d{1,19}", token) else token


def variant_id(text: str) -> str:
    """Twelve hex digits over the text without comments and blank space, and its `// evo:` lines but `task`."""
    directives = []
    for line in text.splitlines():
        if (match := _DIRECTIVE.match(line)) and match[1] != "task":
            directives.append(f"{match[1]} {' '.join(_strip_remark(match[1], match[2]).split())}")
    code = _COMMENT_OR_STRING.sub(lambda m: " " if m[0].startswith("/") else m[0], text)
    lines = [" ".join(line.split()) for line in code.splitlines()]
    body = "\n".join([*directives, *(line for line in lines if line)])
    return hashlib.sha256(body.encode()).hexdigest()[:12]


class _Reader:
    """Collects the directives of one text."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.lines = path, text, text.splitlines()
        self.task: str | None = None
        self.macros: list[str] = []
        self.knobs: list[Knob] = []
        self.requires: list[Expression] = []
        self.flags: list[str] = []
        self.scratch: list[Scratch] = []
        self.launches: list[LaunchLine] = []

    def invalid(self, line: int | None, problem: str, hint: str) -> SyntaxInvalid:
        return SyntaxInvalid(self.path, line, problem, hint=hint)

    def directive(self, line: int, field: str, rest: str) -> None:
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
                known = "task, macro, knob, require, flags, scratch, launch"
                raise self.invalid(line, f"unknown field `{field}` in `// evo:` line", f"known fields: {known}")

    def _name(self, line: int, field: str, text: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][\w-]*", text):
            raise self.invalid(line, f"field `{field}`: {text!r} is not a name", f"write `// evo: {field} NAME`")
        return text

    def _knob(self, line: int, rest: str) -> None:
        match = re.fullmatch(r"(\w+)\s+in\s+(.+)", rest)
        if not match or not _NAME.match(match[1]):
            raise self.invalid(line, "field `knob`: cannot parse", "write `// evo: knob NAME in 1, 2, 4`")
        name = match[1]
        domain = tuple(_as_knob_value(token.strip()) for token in match[2].split(","))
        if not all(isinstance(v, int) or _NAME.match(v) for v in domain) or len(set(domain)) != len(domain):
            raise self.invalid(
                line, f"field `knob`: bad domain `{match[2]}`", "distinct integers or names, with commas"
            )
        if any(knob.name == name for knob in self.knobs):
            raise self.invalid(line, f"field `knob`: {name} is declared twice", "keep one line")
        pattern = _value_pattern(name)
        found = [(n, m[2]) for n, text in enumerate(self.lines, start=1) if (m := pattern.match(text))]
        if len(found) != 1:
            problem = "has no" if not found else "has more than one"
            hint = f"add one line `#define {name} {domain[0]}`"
            raise self.invalid(line, f"field `knob`: {name} {problem} `#define` or constexpr line", hint)
        at, token = found[0]
        value = _as_knob_value(token)
        if value not in domain:
            listed = ", ".join(map(str, domain))
            raise self.invalid(at, f"knob {name} = {token} is outside its domain", f"one of {listed}")
        self.knobs.append(Knob(name=name, domain=domain, value=value, line=at, declared_line=line))

    def _scratch(self, line: int, rest: str) -> None:
        match = _SCRATCH.match(rest)
        if not match:
            hint = "write `// evo: scratch NAME dtype [dims] init=poison`"
            raise self.invalid(line, "field `scratch`: cannot parse", hint)
        name, dtype, dims, init = match[1], match[2], match[3], match[4] or "poison"
        if dtype not in DTYPES:
            raise self.invalid(line, f"field `scratch`: unknown dtype {dtype!r}", f"one of {', '.join(DTYPES)}")
        if init not in ("poison", "zero"):
            raise self.invalid(line, f"field `scratch`: init={init}", "init=poison or init=zero")
        shape = parse_list(dims, path=self.path, line=line)
        if not shape:
            raise self.invalid(line, "field `scratch`: no dimensions", "e.g. [B, HQ, SQ]")
        self.scratch.append(Scratch(name=name, dtype=dtype, shape=shape, init=init, line=line))

    def _launch(self, line: int, rest: str) -> None:
        match = _LAUNCH.match(rest)
        if not match:
            hint = "write `// evo: launch KERNEL grid (x, y, z) block (threads) shared BYTES`"
            raise self.invalid(line, "field `launch`: cannot parse", hint)
        grid = parse_list(match[2], path=self.path, line=line)
        block = parse_list(match[3], path=self.path, line=line)
        if not 1 <= len(grid) <= 3 or not 1 <= len(block) <= 3:
            raise self.invalid(line, "field `launch`: grid and block take one to three values", "e.g. grid (SQ, HQ, B)")
        shared = parse(match[4] or "0", path=self.path, line=line)
        self.launches.append(LaunchLine(kernel=match[1], grid=grid, block=block, shared=shared, line=line))

    def finish(self) -> Variant:
        if not self.launches:
            hint = "add `// evo: launch KERNEL grid (...) block (...) shared 0` at the top of the file"
            raise self.invalid(None, "no `// evo: launch` line", hint)
        return Variant(
            text=self.text,
            path=self.path,
            task=self.task,
            macros=tuple(self.macros),
            knobs=tuple(self.knobs),
            requires=tuple(self.requires),
            flags=tuple(self.flags),
            scratch=tuple(self.scratch),
            launches=tuple(self.launches),
            id=variant_id(self.text),
        )
