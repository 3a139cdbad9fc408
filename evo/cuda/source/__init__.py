"""CUDA text <-> syntax tree: find spans, replace spans, compare texts. The only room that uses tree-sitter.

Nothing is edited in place: `replace` returns a new text in which every untouched byte is the same.
"""

from evo.cuda.source.diff import Change, Classification, classify, describe, split, tree_difference
from evo.cuda.source.query import Source, kernel_signatures, parse, replace, syntax_errors
from evo.cuda.source.reachable_code import dead_code, launched, moved_launches, new_dead_code
from evo.cuda.source.spans import (
    BinaryExpression,
    Call,
    CountedLoop,
    Define,
    Edit,
    Function,
    Param,
    SharedArray,
    Span,
    Subscript,
)
from evo.cuda.source.statements import CountedFor, Statement

__all__ = [
    "BinaryExpression", "Call", "Change", "Classification", "CountedFor", "CountedLoop", "Define", "Edit", "Function",
    "Param", "SharedArray", "Source", "Span", "Statement", "Subscript",
    "classify", "dead_code", "describe", "kernel_signatures", "launched", "moved_launches", "new_dead_code", "parse",
    "replace", "split", "syntax_errors", "tree_difference",
]  # fmt: skip
