"""The result of a derivation: tiles with their layouts, the rungs that take them, and rejected ones with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from evo.analysis.roofline import CaseLimits
from evo.analysis.tiles.shared_layout import Proof
from evo.results.codec import ALWAYS, NEVER, Decimals, Serializable, Us

_P = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedLayout(Serializable):
    """A layout that was not chosen."""

    layout: str  # the layout in words
    reason: str  # why it was not chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTile(Serializable):
    """A tile in shared memory: the layout that was chosen, its proof, and those that were not."""

    name: str  # the tile
    copies: int  # how many are in flight
    rows: int  # of the tile
    cols: int  # of the tile
    layout: str  # the layout in words
    bytes: int  # of one copy
    distinct_addresses: int  # of its elements
    misaligned_chunks: int  # 16-byte pieces of rows that are not aligned
    conflict_ways: Annotated[dict[str, int], ALWAYS]  # the worst bank conflict, by access
    instead_of: Annotated[tuple[RejectedLayout, ...], ALWAYS]  # layouts that were not chosen
    proof: Annotated[Proof, NEVER]


@dataclass(frozen=True, slots=True, kw_only=True)
class TileCandidate(Serializable):
    """One legal configuration. Counts are of the whole launch; times are modelled."""

    COMPUTED: ClassVar = ("modelled_us",)
    RENAMED: ClassVar = {
        "registers": "registers_estimated",
        "resident": "resident_blocks",
        "bytes_l2": "l2_bytes",
        "bytes_shared": "shared_bytes_read",
        "placed": "layouts",
    }

    tile: Annotated[dict[str, int], ALWAYS]  # its sizes by name
    threads: int  # per block
    blocks: int  # of the launch
    busy: Annotated[float, Decimals(6)]  # share of SM time in whole rounds of blocks
    registers: int  # per thread, estimated
    shared_bytes: int  # per block
    resident: int  # blocks on an SM
    occupancy: Annotated[float, Decimals(6)]  # warps of the SM's maximum
    vector_bytes: int  # of one access to global memory
    steps: int | None  # of the inner loop
    mma: int | None  # tensor-core instructions of the launch
    bytes_l2: int | None  # read from L2
    bytes_shared: int | None  # read from shared memory
    terms_us: Annotated[dict[str, Us], ALWAYS]  # the modelled time's terms by name
    placed: Annotated[tuple[PlacedTile, ...], ALWAYS]  # the layouts of its tiles in shared memory
    registers_by: Annotated[dict[str, int], NEVER]

    @property
    def modelled_us(self) -> Us:
        """The terms combined as they overlap in part, and `fill`, which overlaps with nothing. Never a measurement."""
        parts = [us for name, us in self.terms_us.items() if name != "fill"]
        top = max(parts, default=0.0)
        combined = top * sum((us / top) ** _P for us in parts) ** (1 / _P) if top else 0.0
        return combined + self.terms_us.get("fill", 0.0)

    @property
    def binds(self) -> str:
        return max(self.terms_us, key=lambda name: self.terms_us[name], default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(Serializable):
    """A configuration that is not legal."""

    tile: Annotated[dict[str, int], ALWAYS]  # its sizes by name
    reason: str  # why it is not legal


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A rung of the ladder whose knobs a candidate sets. refused: candidates ahead of this one that it cannot take."""

    name: str
    knobs: dict[str, int]
    candidate: TileCandidate
    refused: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """What was chosen for one case on one chip. candidates: legal ones, best first; rejected: the others."""

    task: str
    chip: str
    case: str
    limits: CaseLimits
    candidates: tuple[TileCandidate, ...]
    rejected: tuple[Rejected, ...]
    rungs: tuple[Rung, ...] = ()
    unmatched: tuple[tuple[str, str], ...] = ()  # rungs that no candidate fits, and why
    estimated: tuple[str, ...] = field(default=())

    @property
    def chosen(self) -> TileCandidate:
        return self.candidates[0]

    @property
    def knobs(self) -> dict[str, dict[str, int]]:
        """Knob values by rung, for those rungs whose knobs the derivation speaks of."""
        return {rung.name: dict(rung.knobs) for rung in self.rungs}


def knob_text(values: Mapping[str, int]) -> str:
    """`BLOCK_M 64, STAGES 2`."""
    return ", ".join(f"{name} {value}" for name, value in values.items())
