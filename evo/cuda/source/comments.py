"""CUDA text without its comments."""

import re

_COMMENT = re.compile(r"//(?:\\\r?\n|[^\n])*+|/\*.*?(?:\*/|\Z)", re.DOTALL)


def without_comments(text: str) -> str:
    """Each comment as one blank, as the compiler reads it. Quotes are not looked at: a `//` in a string counts."""
    return _COMMENT.sub(" ", text)
