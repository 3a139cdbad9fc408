"""Compiler diagnostics for a variant's author: the file by its own name, the line with a caret, the next step."""

from __future__ import annotations

import re
from dataclasses import replace

from evo.cuda.compile import Diagnostics
from evo.spec.variant import Variant

_PLACE = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+): ")
_UNDEFINED = re.compile(r'identifier "([A-Z][A-Z0-9_]*)" is undefined')
_CARET = re.compile(r"\s*\^\s*")
_MOST = 200  # columns of an excerpt


def explained(built: Diagnostics, variant: Variant, compiled_as: str) -> tuple[Diagnostics, tuple[str, ...]]:
    """The diagnostics with the file's own name, and what to show of them: the reason, then the line and its caret."""
    place = _PLACE.match(built.reason)
    excerpt = _excerpt(built.log, place) if place is not None else ()
    reason = built.reason
    if place is not None and place["file"] == compiled_as and not variant.path.startswith("<"):
        reason = variant.path + reason[len(compiled_as) :]
    if (name := _UNDEFINED.search(reason)) and not re.search(rf"#\s*define\s+{name[1]}\b", variant.text):
        reason += f"; if a compiler's command line defines it, write `#define {name[1]} VALUE` at the top of the file"
    return replace(built, reason=reason), (reason, *excerpt)


def _excerpt(log: str, place: re.Match[str]) -> tuple[str, ...]:
    """The source line that the log shows below its complaint, and the caret."""
    lines = log.splitlines()
    starts = f"{place['file']}({place['line']}): "
    first = next((number for number, line in enumerate(lines) if line.startswith(starts)), None)
    if first is None:
        return ()
    for number in range(first + 2, min(first + 6, len(lines))):
        if _CARET.fullmatch(lines[number]) and len(lines[number]) <= _MOST:
            return lines[number - 1][:_MOST].rstrip(), lines[number].rstrip()
    return ()
