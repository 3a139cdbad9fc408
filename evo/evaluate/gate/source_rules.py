"""Static rules: what no variant may hold, found in the text before anything is compiled."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from evo.results import StaticRule
from evo.spec.comments import without_comments

_BANNED = [
    (r"\bclock(?:64)?\s*\(|%clock|%globaltimer|\bglobaltimer\b", StaticRule.CLOCK, "reads a clock"),
    (r"\bcreatepolicy\b|\bevict_last\b|\bL2::cache_hint\b", StaticRule.CACHE_POLICY, "steers the L2 eviction policy"),
    (r"\b(?:malloc|free)\s*\(|\bnew\s+\w|\bcudaMalloc", StaticRule.ALLOCATION, "allocates memory on the device"),
    (r"\bprintf\s*\(|\bvprintf\b", StaticRule.PRINT, "prints from the device"),
    (r"<<<|\bcuda(?:Graph|Launch|Stream)\w*", StaticRule.LAUNCH, "launches work from the device"),
]
_OF_HOSTS = {StaticRule.LAUNCH, StaticRule.ALLOCATION, StaticRule.PRINT}
_HOST = re.compile(r"\bint\s++main\s*+\(|<<<|\bcuda(?:Malloc|Memcpy|Memset|Free|DeviceSynchronize|Event)\w*+\s*+\(")
_ADOPT = (
    "a variant holds kernels alone, and `// evo: launch` says grid and block; "
    "`evo adopt FILE.cu` makes task and variant of a file with host code"
)
_GLOBAL = re.compile(r"__device__|__managed__")
_CONSTANT = re.compile(r"\s++(?:const|constexpr)\b|\s*+__constant__")
_DELIMITER = re.compile(r"[;{(]")
_BEFORE_GLOBAL = frozenset(("static", "extern", "volatile"))


@dataclass(frozen=True, slots=True)
class StaticProblem:
    """What a static rule refuses, and its line in the source; 0 if the line is not known."""

    rule: StaticRule
    line: int
    what: str

    @property
    def reason(self) -> str:
        return f"line {self.line}: {self.what}" if self.line else self.what


def static_problem(text: str) -> StaticProblem | None:
    """The first construct that no variant may hold: clocks, eviction hints, allocation, mutable module globals."""
    code = without_comments(text, keep_lines=True)
    found: list[tuple[int, StaticRule, str]] = []  # of each rule, the first place
    for pattern, rule, what in _BANNED:
        if match := re.search(pattern, code):
            found.append((match.start(), rule, what))
    if (place := _mutable_global(code)) is not None:
        found.append((place, StaticRule.STATE, "keeps state in a mutable __device__ global"))
    problems = [StaticProblem(rule, code.count("\n", 0, place) + 1, what) for place, rule, what in found]
    if not problems:
        return None
    first = min(problems, key=lambda problem: problem.line)
    if (host := _HOST.search(code)) is None or first.rule not in _OF_HOSTS:
        return first
    line = code.count("\n", 0, host.start()) + 1
    word = host[0].rstrip(" (")
    what = f"host code (`{word}`)" + (", or a launch from the device" if word == "<<<" else "")
    return replace(first, line=line, what=f"{what}: {_ADOPT}")


def _mutable_global(code: str) -> int | None:
    """Where the first variable is declared that a launch could leave something in for the next one."""
    last = code.rfind("=")
    line_end, delimiter = -1, -1
    for match in _GLOBAL.finditer(code):
        if match.start() < line_end:  # not the first on its line
            continue
        newline = code.find("\n", match.end())
        line_end = newline if newline >= 0 else len(code)
        before = code[code.rfind("\n", 0, match.start()) + 1 : match.start()]
        if not _BEFORE_GLOBAL.issuperset(before.split()) or before.rstrip() == before != "":
            continue
        if delimiter < match.end():
            found = _DELIMITER.search(code, match.end())
            delimiter = found.start() if found else len(code)
        is_function = code.startswith("(", delimiter)
        is_declared = delimiter < len(code) or last >= match.end()
        if not is_function and is_declared and not _CONSTANT.match(code, match.end()):
            return match.start()
    return None
