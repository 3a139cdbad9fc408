"""What a formula of `evo new` may call besides `np`: NumPy's functions by their bare names, and a few that NumPy lacks.

One file of Python sources serves both the run here and the reference.py that is written.
"""

from __future__ import annotations

import ast
import builtins
import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from evo.interop.task_folder import template

_SOURCES = {
    source.partition("(")[0].removeprefix("def "): source
    for source in template("formula_functions.py").strip().split("\n\n\n")
}
MASK = _SOURCES.pop("_mask")  # called by the inputs that are written, not by formulas
KNOWN = ", ".join(sorted(_SOURCES))


def called(formulas: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The functions that formulas use by their bare names: of this table, then of NumPy."""
    trees = [ast.parse(formula, mode="eval") for formula in formulas]
    used = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)} - set(taken)
    used -= {name for tree in trees for name in _over_generators(tree)}
    return sorted(name for name in used if name in _SOURCES or _is_numpys(name))


def unknown(formula: str, known: Collection[str]) -> tuple[str, str] | None:
    """The first name of a formula that nothing has, and a hint: a name like it, or all names that there are.

    known: what the formula is over. Python's own, NumPy's and the functions of this table are known anyway.
    """
    tree = ast.parse(formula, mode="eval")
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    have = {*known, *bound, *_SOURCES, "np"}
    for name in (node.id for node in names):
        if name in have or hasattr(builtins, name) or _is_numpys(name):
            continue
        close = difflib.get_close_matches(name, [*known, *_SOURCES], 1)
        meant = f"did you mean {close[0]}? " if close else ""
        return name, f"{meant}names here: {', '.join(known)}; `np`, NumPy's functions, {KNOWN}"
    return None


def _over_generators(tree: ast.AST) -> Iterator[str]:
    """`sum(... for ...)` is Python's own: NumPy takes no generator."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if hasattr(builtins, node.func.id) and any(isinstance(arg, ast.GeneratorExp) for arg in node.args):
            yield node.func.id


def source_lines(names: Iterable[str]) -> list[str]:
    """Their definitions for a reference.py, after its imports."""
    names = list(names)
    plain = [f"{name} = np.{name}" for name in names if name not in _SOURCES]
    lines = ["", *plain] if plain else []
    for name in names:
        lines += ["", "", *_SOURCES[name].splitlines()] if name in _SOURCES else []
    return lines


def functions(names: Iterable[str]) -> Mapping[str, object]:
    """The functions themselves."""
    import math

    space: dict[str, object] = {"np": np, "math": math}
    exec("\n".join(source_lines(names)), space)
    return {name: space[name] for name in names}


def _is_numpys(name: str) -> bool:
    """NumPy's own function of that name: also for `sum` and `abs`, which Python has, but not for `float` or `len`."""
    found = getattr(np, name, None)
    return callable(found) and (not hasattr(builtins, name) or not isinstance(getattr(builtins, name), type))
