"""GPU MODE problems as KernelBench ones: task.yml's sizes, reference.py's generate_input and ref_kernel.

The folder's reference.py is kept word for word inside the problem file; what it imports from the contest's own modules
(`task`, `utils`) is not needed and stands in as nothing.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from evo.errors import SyntaxInvalid
from evo.fields import Fields

_HINT = "a problem folder holds task.yml with tests or benchmarks, and reference.py with generate_input and ref_kernel"
_OWN = ("task", "utils")


def problem_text(folder: Path) -> tuple[str, str]:
    """The problem file of a folder, and its description. Raises SyntaxInvalid naming the file."""
    reference = folder / "reference.py"
    spec = next((folder / name for name in ("task.yml", "task.yaml") if (folder / name).is_file()), folder / "task.yml")
    try:
        source, text = reference.read_text(encoding="utf-8"), spec.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        raise SyntaxInvalid(folder, None, f"no GPU MODE problem: {error}", hint=_HINT) from None
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if missing := {"generate_input", "ref_kernel"} - functions:
        raise SyntaxInvalid(reference, 1, f"no {', '.join(sorted(missing))}", hint=_HINT)
    fields = Fields(spec, _without_tags(text))
    sizes = _sizes(spec, fields)
    description = str(fields.data.get("description") or folder.name).strip().split("\n")[0]
    constants = "".join(f"{name} = {value!r}\n" for name, value in sizes.items() if name != "seed")
    passed = ", ".join(f"{name}=_SEED()" if name == "seed" else f"{name}={name}" for name in sizes)
    return _TEXT.format(source=_cleaned(source, tree), constants=constants, passed=passed), description


def _without_tags(text: str) -> str:
    return re.sub(r":\s*!\w+\s", ": ", text)


def _sizes(spec: Path, fields: Fields) -> dict[str, Any]:
    """The arguments of generate_input at the largest benchmark, or the last test."""
    for key in ("benchmarks", "tests"):
        rows = fields.data.get(key)
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
            return dict(rows[-1])
    raise SyntaxInvalid(spec, 1, "neither benchmarks nor tests", hint=_HINT)


def _cleaned(source: str, tree: ast.Module) -> str:
    """The text without the imports of the contest's own modules and what is made of them."""
    lines = source.split("\n")
    gone: set[str] = set()
    for node in tree.body:
        own = isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _OWN
        names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        if own and isinstance(node, ast.ImportFrom):
            gone |= {alias.asname or alias.name for alias in node.names}
        if own or (isinstance(node, ast.Assign) and names & gone) or _is_check(node):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            lines[first:last] = ["" for _ in range(last - first)]
    text = "\n".join(lines).replace("torch.Generator(", "_GENERATOR(")
    return re.sub(r"^from __future__ import annotations$", "", text, flags=re.MULTILINE)


def _is_check(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("check_implementation")


_TEXT = '''\
from __future__ import annotations

import torch
from torch import nn

_REAL_GENERATOR = torch.Generator


def _GENERATOR(device=None):
    """On the CPU, wherever the problem wants it: the harness decides where tensors live."""
    return _REAL_GENERATOR()


def _SEED():
    return torch.initial_seed() % 2**31


{source}


class Model(nn.Module):
    def forward(self, *data):
        result = ref_kernel(tuple(data) if len(data) > 1 else data[0])
        return result


{constants}

def get_inputs():
    data = generate_input({passed})
    return list(data) if isinstance(data, (list, tuple)) else [data]


def get_init_inputs():
    return []
'''
