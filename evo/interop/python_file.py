"""A Python file that the user names, read but not run."""

from __future__ import annotations

import ast
from pathlib import Path

from evo.errors import SyntaxInvalid, UsageError
from evo.spec.source_text import read_source

_HINT = "FILE.py:NAME names a class or a function of a Python file"


def read_python(path: Path, hint: str = _HINT) -> tuple[str, ast.Module]:
    """Its text and its tree. Raises UsageError that names the file and, if it is no Python, the line."""
    try:
        source = read_source(path, wanted="a .py file")
    except SyntaxInvalid as error:
        raise UsageError(error.message, hint=f"{error.hint}; {hint}") from None
    try:
        return source, ast.parse(source)
    except SyntaxError as error:
        raise UsageError(f"{path}:{error.lineno}: not Python: {error.msg}", hint=hint) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not Python: {error}", hint=hint) from None
