"""Other names of plain types in a text: `typedef float real;`, `using real = float;`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

# Possessive, so that no text takes longer than its length.
_TYPEDEF = r"typedef[ \t]++(?P<words>\w++(?:[ \t]++\w++)++)"
_USING = r"using[ \t]++(?P<name>\w++)[ \t]*+=[ \t]*+(?P<kind>\w++(?:[ \t]++\w++)*+)"
_DEFINITION = re.compile(rf"^[ \t]*+(?:{_TYPEDEF}|{_USING})\s*+;", re.MULTILINE)
_DEEP = 8  # names of names


def alias_definitions(text: str) -> Iterator[re.Match[str]]:
    """Where each stands."""
    yield from _DEFINITION.finditer(text)


def type_aliases(text: str) -> dict[str, str]:
    """What each name stands for, through other names. One that is defined twice, maybe under #if, is left out."""
    found = [_defined(match) for match in alias_definitions(text)]
    times = Counter(name for name, _ in found)
    once = {name: kind for name, kind in found if times[name] == 1}
    for _ in range(_DEEP):
        once = {name: once.get(kind, kind) for name, kind in once.items()}
    return once


def _defined(match: re.Match[str]) -> tuple[str, str]:
    if match["name"]:
        return match["name"], " ".join(match["kind"].split())
    *kind, name = match["words"].split()
    return name, " ".join(kind)
