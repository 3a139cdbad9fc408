"""From the hardware backwards: legal tiles, warps, stages and layouts of a task on a chip, with proofs.

`derive` chooses; `prove` looks at every address of a layout; `check_layouts` holds a `.cu` file's layouts to it.
"""

from __future__ import annotations

from evo.analysis.tiles.check_layouts import Checked, check_layouts
from evo.analysis.tiles.choose import derive, over_cases, vector_width
from evo.analysis.tiles.derivation import Derivation, PlacedTile, Rejected, Rung, TileCandidate
from evo.analysis.tiles.shared_layout import Layout, Proof, by_formula, conflicts, prove, strided, swizzled

__all__ = [
    "Checked", "Derivation", "Layout", "PlacedTile", "Proof", "Rejected", "Rung", "TileCandidate", "by_formula",
    "check_layouts", "conflicts", "derive", "over_cases", "prove", "strided", "swizzled", "vector_width",
]  # fmt: skip
