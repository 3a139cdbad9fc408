"""Elements of short records that a loop walks, `x[2 * i]` and `x[2 * i + 1]`: where each lies, and packs of several."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evo.cuda.source import Source, Statement, Subscript
from evo.operators.rules.element import BYTES, pack_name, pack_struct
from evo.operators.rules.reductions import is_steady

_MOST = 4  # elements of a record
_MOST_BYTES = 64  # of a pack
_WORD_BYTES = 16


@dataclass(frozen=True, slots=True)
class Records:
    """Neighbouring records of so many elements, from `name[offset]` on."""

    name: str
    offset: str
    length: int
    kind: str

    def fits(self, count: int) -> bool:
        return self.length * count * BYTES[self.kind] <= _MOST_BYTES

    def unit(self, count: int) -> int:
        """Bytes that so many records are moved in at a time."""
        size = self.length * count * BYTES[self.kind]
        return min(_WORD_BYTES, size & -size)

    def struct(self, count: int) -> tuple[str, str]:
        """The name and the text of a pack of so many records."""
        name, length = f"{pack_name(self.kind)}{self.length * count}", self.length * count
        return name, pack_struct(name, self.kind, length, self.unit(count) // BYTES[self.kind])

    def address(self, turn: str) -> str:
        at = " + ".join(part for part in (self.offset, f"{self.length} * {turn}" if turn != "0" else "") if part)
        return f"&{self.name}[{at or '0'}]"


def record_of(source: Source, loop: Statement, use: Subscript, kind: str | None) -> tuple[Records, int] | None:
    """The records that an element at `E + 2 * i + 1` is one of, and which; None for other places."""
    if kind not in BYTES or len(use.indices) != 1:
        return None
    text = source.slice(use.indices[0]).strip()
    found = re.findall(rf"(?<![\w*/%)])\s*(?:(\d)\s*\*\s*{loop.name}\b|\b{loop.name}\s*\*\s*(\d))(?!\s*[*/%\w])", text)
    length = int("".join(found[0])) if len(found) == 1 else 0
    if not 2 <= length <= _MOST:
        return None
    product = rf"(?:{length}\s*\*\s*{loop.name}|{loop.name}\s*\*\s*{length})"
    match = re.fullmatch(rf"(?:(?P<rest>.+?)\s*\+\s*)?{product}(?:\s*\+\s*(?P<at>\d))?", text, re.DOTALL)
    if match is None or int(match["at"] or 0) >= length:
        return None
    if match["rest"] is not None and not is_steady(loop, match["rest"]):
        return None
    return Records(use.name, match["rest"] or "", length, str(kind)), int(match["at"] or 0)
