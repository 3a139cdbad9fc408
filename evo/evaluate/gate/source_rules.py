"""Static rules: what no variant may hold, found in the text before anything is compiled."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BANNED = [
    (r"\bclock(?:64)?\s*\(|%clock|%globaltimer|\bglobaltimer\b", "reads a clock"),
    (r"\bcreatepolicy\b|\bevict_last\b|\bL2::cache_hint\b", "steers the L2 eviction policy"),
    (r"\b__?nanosleep\b|\bnanosleep\.", "sleeps"),
    (r"\b(?:malloc|free)\s*\(|\bnew\s+\w|\bcudaMalloc", "allocates memory on the device"),
    (r"\bprintf\s*\(|\bvprintf\b", "prints from the device"),
    (r"<<<|\bcuda(?:Graph|Launch|Stream)\w*", "launches work from the device"),
]
_GLOBAL = re.compile(
    r"^[^\S\n]*(?:static\s+|extern\s+|volatile\s+)*(?:__device__|__managed__)"
    r"(?![^;{(]*\()(?!\s+(?:const|constexpr)\b)(?!\s*__constant__)[^;{(]*[;={]",
    re.MULTILINE,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StaticProblem:
    line: int
    what: str


def static_problem(text: str) -> StaticProblem | None:
    """The first construct that no variant may hold: clocks, eviction hints, allocation, mutable module globals."""
    code = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    found: list[StaticProblem] = []
    for pattern, what in _BANNED:
        for match in re.finditer(pattern, code):
            found.append(StaticProblem(code.count("\n", 0, match.start()) + 1, what))
    for match in _GLOBAL.finditer(code):
        start = match.start() + len(match[0]) - len(match[0].lstrip())
        found.append(StaticProblem(code.count("\n", 0, start) + 1, "keeps state in a mutable __device__ global"))
    return min(found, key=lambda problem: problem.line) if found else None
