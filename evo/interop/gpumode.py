"""GPU MODE problems as KernelBench ones: task.yml's sizes, reference.py's generate_input and ref_kernel.

The problem file contains the folder's reference.py unchanged. Its imports from the contest's modules
(`task`, `utils`: types, comparisons, settings of cuDNN) are not needed and get empty stand-ins.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from evo.errors import SyntaxInvalid
from evo.spec.yaml_fields import YamlFields

_HINT = "a problem folder holds task.yml with tests or benchmarks, and reference.py with generate_input and ref_kernel"


def problem_text(folder: Path) -> tuple[str, str]:
    """The problem file of a folder, and its description. Raises SyntaxInvalid naming the file."""
    reference = folder / "reference.py"
    spec = next((folder / name for name in ("task.yml", "task.yaml") if (folder / name).is_file()), folder / "task.yml")
    try:
        source, text = reference.read_text(encoding="utf-8"), spec.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        raise SyntaxInvalid(
            folder, None, f"not a GPU MODE problem: {error}", problem="another-format", hint=_HINT
        ) from None
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if missing := {"generate_input", "ref_kernel"} - functions:
        raise SyntaxInvalid(reference, 1, f"no {', '.join(sorted(missing))}", hint=_HINT)
    fields = YamlFields(spec, _without_tags(text))
    sizes = _sizes(spec, fields)
    description = str(fields.data.get("description") or folder.name).strip().split("\n")[0]
    constants = "".join(f"{name} = {value!r}\n" for name, value in sizes.items() if name != "seed")
    passed = ", ".join(f"{name}=_SEED()" if name == "seed" else f"{name}={name}" for name in sizes)
    text = _TEXT.format(source=_cleaned(source), constants=constants, passed=passed, **_called(tree))
    return text, description


def _without_tags(text: str) -> str:
    return re.sub(r":\s*!\w+\s", ": ", text)


def _sizes(spec: Path, fields: YamlFields) -> dict[str, Any]:
    """The arguments of generate_input at the largest benchmark, or the last test."""
    for key in ("benchmarks", "tests"):
        rows = fields.data.get(key)
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
            return dict(rows[-1])
    raise SyntaxInvalid(spec, 1, "neither benchmarks nor tests", hint=_HINT)


def _called(tree: ast.Module) -> dict[str, str]:
    """forward's parameters and the argument of ref_kernel, by the names to which ref_kernel unpacks its data."""
    kernel = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "ref_kernel")
    data = kernel.args.args[0].arg if kernel.args.args else "data"
    for node in ast.walk(kernel):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Name(id=name)) if name == data:
                names = [part.id for part in parts if isinstance(part, ast.Name)]
                if len(names) == len(parts) == len({*names, "self"}) - 1:
                    return {"parameters": ", ".join(names), "handed": f"({', '.join(names)},)"}
    return {"parameters": "*data", "handed": "tuple(data) if len(data) > 1 else data[0]"}


def _cleaned(source: str) -> str:
    text = source.replace("torch.Generator(", "_GENERATOR(")
    return re.sub(r"^from __future__ import annotations$", "", text, flags=re.MULTILINE)


_TEXT = '''\
from __future__ import annotations

import sys as _sys
import types as _types

import torch
from torch import nn

_REAL_GENERATOR = torch.Generator


def _GENERATOR(device=None):
    """On the CPU, wherever the problem wants it: the harness decides where tensors live."""
    return _REAL_GENERATOR()


def _SEED():
    """No larger than the seeds of the contest's own tests: problems may add theirs to the values that they draw."""
    return int(torch.initial_seed() % 1e5)


class _Nothing:
    """What the contest's own modules hold: a context, a decorator's result, a type."""

    def __init__(self, *given, **named):
        pass

    def __call__(self, *given, **named):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *what):
        return None

    def __class_getitem__(cls, item):
        return cls


class _Contest(_types.ModuleType):
    __all__ = (
        "DeterministicContext", "TestSpec", "clear_l2_cache", "get_device", "input_t", "make_match_reference",
        "match_reference", "output_t", "set_seed", "verbose_allclose", "verbose_allequal",
    )

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing


_before = {{_name: _sys.modules.get(_name) for _name in ("task", "utils")}}
_sys.modules.update({{_name: _Contest(_name) for _name in _before}})

{source}

for _name, _module in _before.items():
    _sys.modules.pop(_name)
    if _module is not None:
        _sys.modules[_name] = _module


class Model(nn.Module):
    def forward(self, {parameters}):
        return ref_kernel({handed})


{constants}

def get_inputs():
    data = generate_input({passed})
    return list(data) if isinstance(data, (list, tuple)) else [data]


def get_init_inputs():
    return []
'''
