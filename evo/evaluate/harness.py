"""Version of the code that made a result: evo's version, and a hash of the rooms that can change a result.

The hash is of what the code does: comments, docstrings and the sentences of errors may change, and results stay
comparable.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import evo
from evo.files import CacheFolder, cache_folder
from evo.spec.python_syntax import module_of

# The rooms whose code can change a result: all that evaluation imports (a test derives the list).
# A change anywhere else leaves results comparable.
RESULT_ROOMS = ("analysis", "cuda", "decide", "device", "errors.py", "evaluate", "files.py", "results", "sim", "spec")
_LIMIT_BYTES = 1 << 20
_READING = threading.Lock()
# Where a string begins, what looks like a comment is none. The tokenizer tells the same in twenty times the time.
_STRING_OR_COMMENT = re.compile(
    rb'"""(?:\\.|[^\\])*?"""|'
    rb"'''(?:\\.|[^\\])*?'''|"
    rb'"(?:\\.|[^"\\\n])*"|'
    rb"'(?:\\.|[^'\\\n])*'|"
    rb"#[^\n]*",
    re.DOTALL,
)
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def harness_version() -> str:
    """evo's version and a hash of the sources that make a result, e.g. `0.1.0+3f2a9c017b44`."""
    with _READING:  # threads that want it at once would all read it
        return _version()


@functools.cache
def _version() -> str:
    return f"{evo.__version__}+{harness_hash(Path(evo.__file__).parent)}"


def harness_hash(package: Path) -> str:
    """Twelve digits for the code of a copy of evo. Reading it takes seconds; what was read once is kept."""
    sources = []
    for room in RESULT_ROOMS:
        inside = (package / room).rglob("*") if (package / room).is_dir() else [package / room]
        for path in sorted(path for path in inside if path.suffix in (".py", ".toml")):
            sources.append((path.relative_to(package).as_posix().encode(), path.read_bytes()))
    raw = hashlib.sha256(b"\0".join(part for source in sources for part in source)).hexdigest()
    kept = CacheFolder(cache_folder("harness"), _LIMIT_BYTES)
    if (known := kept.read(raw)) is not None:
        return known.decode()
    digest = hashlib.sha256()
    for name, data in sources:
        digest.update(name + b"\0" + (_meaning(data) if name.endswith(b".py") else data) + b"\0")
    found = digest.hexdigest()[:12]
    kept.keep(raw, found.encode())
    return found


def _meaning(data: bytes) -> bytes:
    """A module's text without comments, docstrings, the sentences of what it raises, and empty lines.

    Only places are taken from the syntax tree, so that every version of Python finds the same text.
    """
    lines = data.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(len(line) for line in lines)]
    cuts = [
        (starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset)
        for node in _sentences(module_of(data))
        if node.end_lineno is not None and node.end_col_offset is not None
    ]
    cuts += [found.span() for found in _STRING_OR_COMMENT.finditer(data) if found[0].startswith(b"#")]
    kept, at = bytearray(), 0
    for start, end in sorted(cuts):
        kept += data[at:start]
        at = max(at, end)
    kept += data[at:]
    return b"\n".join(line.rstrip() for line in bytes(kept).splitlines() if line.strip())


def _sentences(tree: ast.Module) -> Iterator[ast.expr]:
    """Docstrings, and the texts that raised exceptions are made with."""
    for node in _statements(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            yield first.value
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for value in (*node.exc.args, *(word.value for word in node.exc.keywords)):
                if isinstance(value, ast.JoinedStr) or (
                    isinstance(value, ast.Constant) and isinstance(value.value, str)
                ):
                    yield value


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all statements within it, which no expression holds."""
    yield node
    for name in _BLOCKS:
        for inner in getattr(node, name, ()):
            if isinstance(inner, ast.AST):
                yield from _statements(inner)
