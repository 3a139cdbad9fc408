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
from evo.interop.task_folder import template
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
    text = template("gpumode_problem.py").format(
        source=_cleaned(source), constants=constants, passed=passed, **_called(tree)
    )
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
