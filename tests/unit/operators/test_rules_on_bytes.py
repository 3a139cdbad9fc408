"""Sums of products of bytes by words of four: what they are offered for, and what is left alone."""

from __future__ import annotations

import pytest
from rule_children import built, changed, example

RULE = "byte_dots"


@pytest.mark.parametrize(
    ("written", "otherwise", "steps"),
    [
        ("apart * apart", "points[n * D + d] * centres[k * D + d]", 5),  # four words of 16 bytes, or one of four
        ("apart * apart", "apart * apart * apart", 0),
        ("apart * apart", "apart", 0),
        ("d < D; d++", "d < D - 1; d++", 0),
        ("d < D; d++", "d < D; d += 2", 0),
        ("centres[k * D + d]", "centres[k * D + D - 1 - d]", 0),  # backwards
        ("centres[k * D + d]", "centres[k + d * K]", 0),  # down a column
        ("far += apart", "if (apart > 0) far += apart", 0),
    ],
)
def test_only_whole_lines_of_products(written: str, otherwise: str, steps: int) -> None:
    text = example(RULE)
    children = built(RULE, changed(text, (written, otherwise)))
    assert sum(child.text.count("= __dp4a(") for child in children) == steps
    assert len(children) == (2 if steps else 0)
