"""Chips: capacities and rates of GPUs, each number with its condition and source. Knows nothing of kernels.

A chip that is neither in the table nor queried from a device is an error, never a guess.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

from evo.errors import DeviceMissing
from evo.spec.chips import queried
from evo.spec.chips.capability import CAPABILITIES, sources
from evo.spec.chips.chip import Chip

__all__ = ["CHIPS", "L4", "Chip", "chip", "chip_by_name", "queried"]

_TABLE: dict[str, Any] = tomllib.loads(files(__package__).joinpath("table.toml").read_text(encoding="utf-8"))


def _chip(slug: str) -> Chip:
    """A chip from its own figures and those of its capability. A rate that no source states is left out."""
    own = _TABLE[slug]
    row = _TABLE[own["like"]] | own if "like" in own else own
    figures = {**_TABLE[own.get("like", slug)]["figures"], **own["figures"]}
    numbers = {name: number for name, (number, _) in figures.items()}
    of = CAPABILITIES[row["capability"]]
    return Chip(
        slug=slug,
        name=row["name"],
        architecture=row["architecture"],
        capability=row["capability"],
        **{name: numbers.pop(name) for name in ("sms", "clock_hz", "l2_bytes")},
        rates={**of.rates(), **numbers},
        sources={**sources(row["capability"]), **{name: source for name, (_, source) in figures.items()}},
        estimates=tuple(own.get("estimates", ())),
        products=tuple(own.get("products", ())),
        **of.limits(),
    )


CHIPS: dict[str, Chip] = {slug: _chip(slug) for slug in _TABLE}
L4 = CHIPS["l4"]

# A bare family name means its most common product.
ALIASES = {"a100": "a100-80", "h100": "h100-sxm", "3090": "rtx3090", "4090": "rtx4090"}


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
