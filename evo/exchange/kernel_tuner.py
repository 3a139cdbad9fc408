"""A Kernel Tuner problem (a T1 file and its CUDA source) as a variant: parameters become knobs, conditions `require`s.

The launch is taken from the specification. What a task computes is not in such a file: `evo new` writes that part.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from evo.errors import SyntaxInvalid
from evo.expr import parse
from evo.tune.formats import Declared, read_declaration
from evo.variant import parse_variant

_SYMBOLS = (("&&", " and "), ("||", " or "))
_HINT = "a T1 file has KernelSpecification with KernelName, KernelFile, LocalSize and GlobalSize"


def variant_text(spec: Path, source: Path | None, task: str | None) -> tuple[str, list[str]]:
    """The text of a variant, and notes on what is left to do. Raises SyntaxInvalid naming the file."""
    declared = read_declaration(spec)
    body = json.loads(spec.read_text(encoding="utf-8")).get("KernelSpecification")
    if not isinstance(body, dict):
        raise SyntaxInvalid(spec, None, "no KernelSpecification", hint=_HINT)
    path = source or spec.parent / str(body.get("KernelFile", f"{spec.stem}.cu"))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SyntaxInvalid(path, None, f"cannot be read: {error}", hint="pass --source FILE.cu") from None
    kernel = str(body.get("KernelName") or "")
    if not re.search(rf"\b{re.escape(kernel)}\s*\(", text) or not kernel:
        raise SyntaxInvalid(path, None, f"no kernel {kernel!r} in it", hint=_HINT)
    notes: list[str] = []
    lines = [f"// {kernel}, from a Kernel Tuner specification: {spec.name}."]
    lines += [f"// evo: task   {task}"] if task else []
    values = _defaults(text, declared)
    for knob in declared.knobs:
        domain = ", ".join(str(_plain(value)) for value in knob.values)
        lines.append(f"// evo: knob   {knob.name} in {domain}")
    lines += [f"// evo: require {_expression(spec, condition.text)}" for condition in declared.conditions]
    lines.append(_launch(spec, kernel, body))
    defines = [f"#define {name} {value}" for name, value in values.items()]
    cleaned = _without_defaults(text, set(values))
    if 'extern "C"' not in cleaned:
        cleaned = re.sub(r"(?m)^(\s*)(?=(?:template\b.*)?__global__)", r'\1extern "C" ', cleaned, count=1)
        notes.append('`extern "C"` was added in front of the kernel')
    found = "\n".join([*lines, *defines, "", cleaned])
    parse_variant(found, path=path)
    notes.append("parameters must be the task's tensors in order, then its axes: compare with its skeleton.cu")
    return found, notes


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


def _defaults(text: str, declared: Declared) -> dict[str, object]:
    """The values in the source where they are in the domain, else the first of each domain."""
    found: dict[str, object] = {}
    for knob in declared.knobs:
        match = re.search(rf"(?m)^\s*#\s*define\s+{re.escape(knob.name)}\s+(\S+)\s*$", text)
        domain = {str(_plain(value)): _plain(value) for value in knob.values}
        found[knob.name] = domain.get(match[1] if match else "", next(iter(domain.values())))
    return found


def _without_defaults(text: str, names: set[str]) -> str:
    """The source without its own definitions of the knobs, guarded or not."""
    for name in names:
        word = re.escape(name)
        guarded = rf"(?m)^\s*#\s*ifndef\s+{word}\s*\n\s*#\s*define\s+{word}\b.*\n\s*#\s*endif.*\n?"
        text = re.sub(rf"(?m)^\s*#\s*define\s+{word}\b.*\n?", "", re.sub(guarded, "", text))
    return text


def _expression(spec: Path, text: str) -> str:
    for symbol, word in _SYMBOLS:
        text = text.replace(symbol, word)
    text = re.sub(r"!(?!=)", " not ", text)
    return parse(" ".join(text.split()), path=spec).text


def _launch(spec: Path, kernel: str, body: dict[str, Any]) -> str:
    block = _sizes(spec, body, "LocalSize")
    grid = _sizes(spec, body, "GlobalSize")
    if str(body.get("GlobalSizeType", "CUDA")).upper() == "OPENCL":  # in threads, not in blocks
        grid = [f"ceil_div({whole}, {part})" for whole, part in zip(grid, block, strict=False)]
    shared = str(body.get("SharedMemory") or 0)
    return f"// evo: launch {kernel} grid ({', '.join(grid)}) block ({', '.join(block)}) shared {shared}"


def _sizes(spec: Path, body: dict[str, Any], key: str) -> list[str]:
    given = body.get(key)
    if not isinstance(given, dict) or "X" not in given:
        raise SyntaxInvalid(spec, None, f"KernelSpecification has no {key} with X, Y, Z", hint=_HINT)
    found = [_expression(spec, str(given[axis])) for axis in "XYZ" if given.get(axis) not in (None, "")]
    while len(found) > 1 and found[-1] == "1":
        found.pop()
    return found
