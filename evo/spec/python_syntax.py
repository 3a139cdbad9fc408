"""Python's syntax trees, read by one thread at a time: CPython 3.11 counts their depth for all threads together.

Two that read at once end with `SystemError: AST constructor recursion depth mismatch` (python/cpython issue 106905).
"""

from __future__ import annotations

import ast
import threading

_READING = threading.Lock()


def expression_of(text: str) -> ast.expr:
    """The syntax tree of one Python expression. Raises SyntaxError, ValueError (null bytes) or RecursionError."""
    with _READING:
        return ast.parse(text, mode="eval").body


def module_of(text: str | bytes) -> ast.Module:
    """The syntax tree of a Python file. Raises as `expression_of`."""
    with _READING:
        return ast.parse(text)
