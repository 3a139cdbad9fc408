"""Chips: capacities and rates of GPUs, each number with its condition and source. Knows nothing of kernels.

A chip that is neither in the table nor queried from a device is an error, never a guess.
"""

from __future__ import annotations

from evo.errors import DeviceMissing
from evo.spec.chips import queried
from evo.spec.chips.chip import Chip
from evo.spec.chips.table import ALIASES, CHIPS, H200, L4

__all__ = ["CHIPS", "H200", "L4", "Chip", "chip", "chip_by_name", "queried"]


def chip(slug: str) -> Chip:
    """The row of a slug such as `l4`: of the table, else one that was queried from a GPU on this machine.

    Raises DeviceMissing for any other.
    """
    row = CHIPS.get(ALIASES.get(slug, slug)) or queried.load(slug)
    if row is None:
        raise DeviceMissing(
            f"no chip {slug!r} in the table (known: {', '.join(sorted(CHIPS))})",
            hint="name one of the known chips; a GPU that is not in the table is known once evo has run on it",
        )
    return row


def chip_by_name(device_name: str) -> Chip | None:
    """The table's row for a product name as the driver reports it, or None for a GPU that is not in the table."""
    wanted = device_name.removeprefix("NVIDIA ").strip()
    for row in CHIPS.values():
        if wanted in (name.removeprefix("NVIDIA ") for name in (row.name, *row.products)):
            return row
    return None
