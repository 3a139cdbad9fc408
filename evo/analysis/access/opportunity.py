"""A rewrite to consider, and from which size on it is worth a word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evo.analysis.access.form import Access
from evo.analysis.access.launches import LaunchAnalysis
from evo.results import Json

FAR = 1.9  # times the fewest sectors that would do
WORTH = 0.02  # of the requested sectors of a launch; less is not mentioned
SAVED = 0.1  # of them, what shared memory has to take off L1 to be worth its barriers
LITTLE = 65_536  # bytes of a launch; how they are moved does not matter
REUSED = 2.0
LONE = 16  # turns of one thread from which on a warp would be faster
WIDE = 16  # bytes of the widest load


@dataclass(frozen=True, slots=True, kw_only=True)
class Opportunity:
    """A rewrite to consider. lines: of the file; refused: why it would be wrong here, empty if nothing forbids it."""

    name: str
    why: str
    lines: tuple[int, ...]
    facts: Mapping[str, Json] = field(default_factory=dict)
    refused: str = ""


def moved_bytes(analysis: LaunchAnalysis) -> int:
    """What the requests of a launch move; of little it does not matter how."""
    return max(sum(t.sector_bytes for t in analysis.traffic.arrays.values()), int(LITTLE / WORTH))


def mode_word(access: Access) -> str:
    return {"read": "reads of", "write": "writes of"}.get(access.mode, "atomics on")
