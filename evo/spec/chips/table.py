"""The chips that evo knows by product, as `table.toml` beside this module states them."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

from evo.spec.chips.capability import CAPABILITIES, sources
from evo.spec.chips.chip import Chip

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
L4, H200 = CHIPS["l4"], CHIPS["h200"]

# A bare family name means its most common product.
ALIASES = {"a100": "a100-80", "h100": "h100-sxm", "3090": "rtx3090", "4090": "rtx4090"}
