"""Static rules a text must pass before any compiler sees it: what it may include, and which flags it may ask for.

The compiler would read any file that `#include` names, so the scan follows the language's own phases: line splices,
then tokens, then directives. Whatever it cannot read with certainty (an open quote, a raw string) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evo.cuda.compile.binary import PRELUDE_NAME
from evo.cuda.compile.environment_names import JUDGES, Definitions, is_of_limits, names_judge
from evo.results import StaticRule

_FLOATS = (  # libcu++ leaves it to the compiler, and NVRTC's has none of these
    "#include <cuda/std/cfloat>\n#ifndef DBL_MAX\n#define DBL_MAX 1.7976931348623157e308\n"
    "#define DBL_MIN 2.2250738585072014e-308\n#define DBL_EPSILON 2.220446049250313e-16\n#endif\n"
)
# C headers that NVRTC does not have; each stands for the part of libcu++ that offers the same names on a device.
STANDARD_HEADERS: dict[str, str] = {
    "stdint.h": "#include <cuda/std/cstdint>\n",
    "cstdint": "#include <cuda/std/cstdint>\n",
    "stddef.h": "#include <cuda/std/cstddef>\n",
    "cstddef": "#include <cuda/std/cstddef>\n",
    "float.h": _FLOATS,
    "cfloat": _FLOATS,
    "limits.h": "#include <cuda/std/climits>\n",
    "climits": "#include <cuda/std/climits>\n",
    "assert.h": "#include <cuda/std/cassert>\n",
    "cassert": "#include <cuda/std/cassert>\n",
    "math.h": "",  # the device math functions are built in
    "cmath": "",
}
_CUDA_HEADER = re.compile(
    r"cuComplex\.h|cuda_(fp16|bf16|fp8|fp6|fp4|awbarrier|awbarrier_primitives|pipeline|pipeline_primitives|runtime)\.h"
    r"|mma\.h|math_constants\.h|vector_types\.h|vector_functions\.h|device_launch_parameters\.h"
    r"|cooperative_groups(/\w+)?\.h|cuda/(std/)?\w+|nv/target"
)
_HOST_HEADER = re.compile(
    r"c?std(io|lib)(\.h)?$|(iostream|vector|string|chrono|random|algorithm|fstream|time\.h|ctime)$"
    r"|(torch|ATen|c10|pybind11)/|(cuda_runtime_api|cuda|cublas\w{0,20}|helper_(?!math)\w{1,40})\.h$"
)
_HEADER_WORDS = {
    _HOST_HEADER: "; that one is for host code, which `evo adopt FILE.cu` leaves out",
    re.compile(r"helper_math\.h$"): "; copy the operators and functions that the kernel uses into the file",
    re.compile(r"(thrust|cub|cutlass|cute)/"): "; write the part that the kernel needs as plain CUDA",
}
ALLOWED_FLAGS = (
    "--use_fast_math",
    "-use_fast_math",
    "-ftz=true|false",
    "--fmad=true|false",
    "--prec-div=true|false",
    "--prec-sqrt=true|false",
    "--maxrregcount=N",
    "--extra-device-vectorization",
    "-DNAME=VALUE",
)
_FLAG = re.compile(
    r"--?use_fast_math|--?(ftz|fmad|prec-div|prec-sqrt)=(true|false)|--?maxrregcount=([1-9]\d{1,2})"
    r"|--?extra-device-vectorization"
)
_DEFINE = re.compile(r"-D([A-Za-z_]\w*)(?:=(.*))?")
_NAME = re.compile(r"[A-Za-z_]\w*")
_MACRO_VALUE = re.compile(r"[\w.+\-*/() ]*")
# Characters that turn the direction of what follows or end a line for a reader and for no compiler.
_UNSEEN = re.compile("[\u0085\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff]")
_LOCAL_NAME = re.compile(r"\w[\w-]*(\.\w+)*(/\w[\w-]*(\.\w+)*)*")
_BANNED = ("__has_include", "__has_include_next", "__has_embed", "_Pragma", "__pragma")
_CLOCKS = ("__TIME__", "__DATE__", "__TIMESTAMP__")
_OTHERWISE = "`{word}` is not allowed: it tells this compile from a user's, or from the next one"
_CONDITIONALS = frozenset(("if", "ifdef", "ifndef", "elif"))
_DIRECTIVES = frozenset(("define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error", "warning"))
# The programming guide has the second above every kernel with a barrier in shared memory.
_PRAGMA = re.compile(r"(unroll|nounroll)\b[^\n]*|(nv_)?diag_suppress[ ]static_var_with_dynamic_init")
_FORBIDDEN_ASM = re.compile(r"\.(incbin|include|file)\b", re.IGNORECASE)
_LONGEST_ASM_WORD = len(".include")

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      |(?P<open_comment>/\*)
      |(?P<raw>(?:u8|u|U|L)?R")
      |(?P<string>(?:u8|u|U|L)?"(?:\\.|[^"\\\n])*")
      |(?P<char>(?:u8|u|U|L)?'(?:\\.|[^'\\\n])+')
      |(?P<quote>["'])
      |(?P<word>[A-Za-z_]\w*)
      |(?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)
      |(?P<blank>[ \t]+)
      |(?P<newline>\n)
      |(?P<digraph>%:)
      |(?P<other>\#\#|.)""",
    re.VERBOSE | re.DOTALL,
)
_INCLUDE_REST = re.compile(
    r"[ \t]*+(?:<(?P<angle>[^<>\n]*+)>|\"(?P<local>[^\"\n]*+)\")[ \t]*+(?=\n|$|//|/\*[^\n]*?\*/[ \t]*+(?:\n|$))"
)


class _Refusal(Exception):
    """Control flow inside this file, never seen outside."""

    def __init__(self, rule: StaticRule, line: int, problem: str) -> None:
        super().__init__(problem)
        self.rule, self.line, self.problem = rule, line, problem


@dataclass(frozen=True, slots=True)
class TextRefusal:
    """Why a text may not be compiled. line: 0 if the refusal is about the file as a whole."""

    rule: StaticRule
    file: str
    line: int
    problem: str

    @property
    def reason(self) -> str:
        """`file:line: problem`."""
        return f"{self.file}:{self.line}: {self.problem}" if self.line else f"{self.file}: {self.problem}"


def refusal(text: str, *, name: str, headers: Mapping[str, str], flags: Sequence[str]) -> TextRefusal | None:
    """Why this text, its headers or its flags may not be compiled; None if they may."""
    for flag in flags:
        if not flag_allowed(flag):
            return TextRefusal(
                StaticRule.FLAG, name, 0, f"flag `{flag}` is not allowed; allowed: {', '.join(ALLOWED_FLAGS)}"
            )
    for header in headers:
        if not _LOCAL_NAME.fullmatch(header) or header in (PRELUDE_NAME, *STANDARD_HEADERS):
            return TextRefusal(StaticRule.INCLUDE, name, 0, f"`{header}` cannot be the name of a local header")
    for file, content in [(name, text), *headers.items()]:
        try:
            _scan(content, local=headers, is_header=file in headers and content is not text)
        except _Refusal as found:
            return TextRefusal(found.rule, file, found.line, found.problem)
    return None


def flag_allowed(flag: str) -> bool:
    """Whether a variant may ask for this compiler flag."""
    if match := _DEFINE.fullmatch(flag):
        return macro_allowed(match[1], match[2] or "1")
    return _FLAG.fullmatch(flag) is not None


def macro_allowed(name: str, value: int | str) -> bool:
    """Whether `-Dname=value` is a plain constant: no way to smuggle a directive past the scan."""
    text = str(value)
    words = _NAME.findall(text)
    plain = _NAME.fullmatch(name) and _MACRO_VALUE.fullmatch(text) and "//" not in text and "/*" not in text
    return bool(plain) and not any(word in _BANNED or names_judge(word) for word in (name, *words))


def _scan(text: str, *, local: Mapping[str, str], is_header: bool) -> None:
    """Raises _Refusal at the first token or directive that is not allowed."""
    _check_characters(text)
    spliced, line_at = _splice(text)
    pastes = "##" in spliced
    defined = Definitions(spliced)
    at_start, at = True, 0
    said = ""  # the end of the string literals that stand next to each other
    while at < len(spliced):
        match = _TOKEN.match(spliced, at)
        assert match is not None  # `other` takes any character
        kind, token, line = match.lastgroup, match[0], line_at(at)
        at = match.end()
        if kind in ("comment", "blank"):
            continue
        if kind == "newline":
            at_start = True
            continue
        _check_token(kind, token, line, pastes, defined.quotes)
        if token == "#" and at_start:
            at = _directive(spliced, at, line, local, is_header, defined)
        elif token == "_Pragma":
            at = _pragma_operator(spliced, at, line)
        elif kind == "string":
            said += token[token.index('"') + 1 : -1]
            if _FORBIDDEN_ASM.search(said):
                raise _Refusal(StaticRule.FILE, line, "assembly text may not name files (.incbin, .include, .file)")
            said = said[-_LONGEST_ASM_WORD:]
            at_start = False
            continue
        said = ""
        at_start = False


def _check_token(kind: str | None, token: str, line: int, pastes: bool, quotes: bool) -> None:
    if kind == "raw":
        raise _Refusal(StaticRule.SPELLING, line, "raw string literals are not allowed; write an ordinary string")
    if kind == "digraph":
        raise _Refusal(StaticRule.SPELLING, line, "the digraph `%:` is not allowed; write `#`")
    if kind == "open_comment":
        raise _Refusal(StaticRule.SPELLING, line, "comment is never closed")
    if kind == "quote":
        raise _Refusal(StaticRule.SPELLING, line, "quote is never closed on its line")
    if kind != "word":
        return
    if token in _BANNED and token != "_Pragma":
        raise _Refusal(StaticRule.FILE, line, f"`{token}` is not allowed: a variant may not look at files")
    if names_judge(token) or (quotes and is_of_limits(token)):
        raise _Refusal(
            StaticRule.COMPILER,
            line,
            _OTHERWISE.format(word=token),
        )
    if token in _CLOCKS:
        raise _Refusal(StaticRule.COMPILER, line, f"`{token}` is not allowed: it makes every compile different")
    # With token pasting a banned word can be put together; any such chain starts with one of its prefixes.
    if (
        pastes
        and token.startswith("_")
        and any(word.startswith(token) and word != token for word in (*_BANNED, *JUDGES, *_CLOCKS))
    ):
        raise _Refusal(
            StaticRule.SPELLING, line, f"`{token}` in a file that pastes tokens (##) could build a forbidden word"
        )


def _check_characters(text: str) -> None:
    for number, line in enumerate(text.split("\n"), start=1):
        body = line.removesuffix("\r")
        if any((ord(c) < 32 and c != "\t") or ord(c) == 127 for c in body):
            raise _Refusal(StaticRule.SPELLING, number, "control character in the text")
        if hidden := _UNSEEN.search(body):
            raise _Refusal(
                StaticRule.SPELLING,
                number,
                f"invisible U+{ord(hidden[0]):04X}: the text would read otherwise than it compiles",
            )
        if "??/" in body or "??=" in body:
            raise _Refusal(StaticRule.SPELLING, number, "trigraphs are not allowed")
        if body.endswith((" ", "\t")) and body.rstrip().endswith("\\"):
            raise _Refusal(StaticRule.SPELLING, number, "blanks after a line-continuation backslash")


def _splice(text: str) -> tuple[str, _LineMap]:
    """The text with continued lines joined, and a map from its offsets to original lines."""
    pieces: list[str] = []
    starts: list[tuple[int, int]] = []
    offset = 0
    lines = text.split("\n")
    for number, raw in enumerate(lines, start=1):
        line = raw.removesuffix("\r")
        starts.append((offset, number))
        piece = line[:-1] if line.endswith("\\") and number < len(lines) else line + "\n"
        pieces.append(piece)
        offset += len(piece)
    return "".join(pieces), _LineMap(starts)


class _LineMap:
    """Offset in the spliced text -> 1-based line of the original; offsets are asked in rising order."""

    def __init__(self, starts: list[tuple[int, int]]) -> None:
        self._starts, self._at = starts, 0

    def __call__(self, offset: int) -> int:
        while self._at + 1 < len(self._starts) and self._starts[self._at + 1][0] <= offset:
            self._at += 1
        return self._starts[self._at][1]


def _words_after(text: str, at: int) -> Iterator[tuple[str | None, str, int]]:
    """Tokens from `at` to the end of the line, without blanks and comments: (kind, token, end)."""
    while (match := _TOKEN.match(text, at)) and match.lastgroup != "newline":
        at = match.end()
        if match.lastgroup not in ("comment", "blank"):
            yield match.lastgroup, match[0], at


def _directive(text: str, at: int, line: int, local: Mapping[str, str], is_header: bool, defined: Definitions) -> int:
    """Check the directive whose `#` ends at `at`; returns where scanning goes on."""
    kind, name, end = next(_words_after(text, at), (None, "", at))
    if kind is None:
        return at
    if name == "include":
        match = _INCLUDE_REST.match(text, end)
        if match is None:
            raise _Refusal(StaticRule.INCLUDE, line, "`#include` must name one header literally")
        header = match["angle"] if match["angle"] is not None else match["local"]
        if header not in local and header not in STANDARD_HEADERS and not _CUDA_HEADER.fullmatch(header):
            raise _Refusal(
                StaticRule.INCLUDE,
                line,
                f"`#include` of `{header}` is not allowed: CUDA headers and the task's own files only"
                + next((words for known, words in _HEADER_WORDS.items() if known.match(header)), ""),
            )
        return match.end()
    if name == "pragma":
        rest = text[end : text.find("\n", end)].strip()
        if not (_PRAGMA.fullmatch(rest) or (is_header and rest == "once")):
            raise _Refusal(StaticRule.DIRECTIVE, line, f"`#pragma {rest}` is not allowed; only unroll and nounroll are")
        return end
    if name not in _DIRECTIVES:
        raise _Refusal(StaticRule.DIRECTIVE, line, f"`#{name}` is not allowed")
    if name in _CONDITIONALS:
        for kind, token, _ in _words_after(text, end):
            if kind == "word" and (word := defined.other_elsewhere(token)) is not None:
                raise _Refusal(StaticRule.COMPILER, line, _OTHERWISE.format(word=word))
    return end


def _pragma_operator(text: str, at: int, line: int) -> int:
    tokens = []
    for _, token, end in _words_after(text, at):
        tokens.append(token)
        at = end
        if len(tokens) == 3:
            break
    if len(tokens) == 3 and tokens[0] == "(" and tokens[2] == ")" and _PRAGMA.fullmatch(tokens[1].strip('"')):
        return at
    raise _Refusal(StaticRule.DIRECTIVE, line, "`_Pragma` may hold unroll or nounroll only")
