"""Knob values as text."""

from __future__ import annotations

from collections.abc import Mapping


def knob_text(values: Mapping[str, int]) -> str:
    """`BLOCK_M 64, STAGES 2`."""
    return ", ".join(f"{name} {value}" for name, value in values.items())
