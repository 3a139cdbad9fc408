"""A candidate whose rival was replaced before its turn on the device came."""

from __future__ import annotations

from typing import NamedTuple


class Overtaken(NamedTuple):
    """In place of an evaluation: it was not held against the variant that another is to replace."""


OVERTAKEN = Overtaken()
