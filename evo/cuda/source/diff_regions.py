"""One place where two texts differ."""

from __future__ import annotations

from dataclasses import dataclass

from evo.cuda.source.spans import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One smallest run of differing tokens. scope: the function it is in, empty at file level; parent_line: from 1.

    part: `evo KIND`, define, include, pragma, bounds, signature, body or file.
    """

    scope: str
    part: str
    parent_line: int
    before: str
    after: str
    statement: Span  # in the parent; regions of one statement are one edit to a reader
    span: Span  # what is replaced, in the parent
    lead: str = ""  # the blank space before and behind it in the child
    trail: str = ""
