"""The process that runs a Kernel Tuner script, for `evo.interop.kernel_tuner`.

The script runs with a `kernel_tuner` that only records the arguments of tune_kernel(); nothing is compiled or
tuned. Packages that are not installed are replaced by empty modules.
"""

from __future__ import annotations

import builtins
import importlib.abc
import importlib.machinery
import inspect
import io
import os
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any
from unittest.mock import MagicMock

from evo.interop.lambda_conditions import UntranslatableLambda, text_of
from evo.spec.connection import Connection

_MAIN = "kernel_tuner"
_BLOCKS = ("block_size_x", "block_size_y", "block_size_z")
_GIVEN = ("kernel_name", "kernel_source", "problem_size", "arguments", "tune_params", "grid_div_x", "grid_div_y")
_GIVEN += ("grid_div_z", "restrictions")  # type: ignore[assignment]


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finder for kernel_tuner, and for missing packages that the script or the modules beside it import.

    Missing imports of a library are left alone: the library handles them itself.
    """

    def __init__(self, *, only: str | None = None, folder: Path | None = None) -> None:
        self.only, self.folder = only, folder

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:  # noqa: ARG002
        if self.only is not None and name.split(".", maxsplit=1)[0] != self.only:
            return None
        if self.folder is not None and not _importer().is_relative_to(self.folder):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to execute."""


def _importer() -> Path:
    """The file with the present import statement."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return Path(frame.f_code.co_filename if frame is not None else "")


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return {"tune_kernel": _tune_kernel, "run_kernel": _run_kernel}.get(name) or MagicMock(name=name)


_calls: list[dict[str, Any]] = []


def _tune_kernel(*given: Any, **named: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Record the call and return one result; the script then continues with its next kernel."""
    call = {**dict(zip(_GIVEN, given, strict=False)), **named}
    _calls.append(call)
    return [{name: next(iter(values)) for name, values in call["tune_params"].items()} | {"time": 1.0}], {}


def _run_kernel(*given: Any, **named: Any) -> Any:
    return named.get("arguments") or (given[3] if len(given) > 3 else [])


def serve(connection: Connection, path: str) -> None:
    """Run one script; `{"kernels": [...]}`, or `{"refused": ...}`."""
    connection.send(_ran(Path(path)))


def _ran(path: Path) -> dict[str, Any]:
    sys.meta_path.insert(0, _StandIns(only=_MAIN))
    sys.meta_path.append(_StandIns(folder=path.parent))
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    failure = _failure_of(lambda: _run(path))
    if not _calls:
        return {"refused": failure or "tune_kernel() was never called"}
    try:
        return {"kernels": [_described(call) for call in _calls]}
    except (UntranslatableLambda, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        return {
            "refused": f"{type(error).__name__}: {error}" if not isinstance(error, UntranslatableLambda) else str(error)
        }


def _run(path: Path) -> None:
    """Run it as a script. Its writes to files are dropped, because its results are not real."""
    opened = io.open

    def read_only(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        return opened(os.devnull if set(mode) & set("wax+") else file, mode.replace("x", "w"), *given, **named)

    io.open = builtins.open = read_only
    space = runpy.run_path(str(path), run_name="__main__")
    functions = [value for name, value in space.items() if name.startswith("tune") and inspect.isfunction(value)]
    for function in functions if not _calls else ():
        if all(p.default is not p.empty for p in inspect.signature(function).parameters.values()):
            function()


def _failure_of(run: Callable[[], None]) -> str | None:
    """The exception that ended the script; one that plots its results may fail after tune_kernel()."""
    try:
        run()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code may raise anything
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return None


def _described(call: Mapping[str, Any]) -> dict[str, Any]:
    """One kernel: its source, parameters, conditions and launch as texts."""
    parameters = {str(name): [_plain(value) for value in values] for name, values in call["tune_params"].items()}
    source, notes = _source(call["kernel_source"], parameters)
    size = _components(call["problem_size"], parameters)
    names = [str(name) for name in call.get("block_size_names") or _BLOCKS]
    block = [name if name in parameters else "" for name in (*names, *_BLOCKS[len(names) :])]
    divisors = [_divisor(call.get(f"grid_div_{axis}"), block[i], parameters) for i, axis in enumerate("xyz")]
    shared = (call.get("smem_args") or {}).get("size", 0)
    conditions = []
    for given in _several(call.get("restrictions")):
        try:
            conditions.append(text_of(given, parameters))
        except UntranslatableLambda as error:
            notes.append(f"a restriction was not translated, write it as `// evo: require`: {error}")
    return {
        "kernel": str(call["kernel_name"]),
        "source": source,
        "parameters": parameters,
        "conditions": conditions,
        "size": size,
        "divisors": divisors[: len(size)],
        "block": [name or "1" for name in block],
        "shared": text_of(shared, parameters) if callable(shared) else str(_plain(shared)),
        "integers": _integers(call.get("arguments")),
        "notes": notes,
    }


def _source(given: Any, parameters: Mapping[str, Sequence[Any]]) -> tuple[str, list[str]]:
    notes: list[str] = []
    if isinstance(given, list | tuple):
        notes += [
            f"{Path(str(other)).name} belongs to the source: put it into the task's folder" for other in given[1:]
        ]
        given = given[0]
    if callable(given):
        given = given({name: values[0] for name, values in parameters.items()})
        notes.append("a function makes the source; this is its source for the first values")
    text = str(given)
    if "\n" not in text and "{" not in text:
        text = Path(text).read_text(encoding="utf-8")
    return text, notes


def _components(given: Any, parameters: Mapping[str, Sequence[Any]]) -> list[str]:
    """The problem's size by dimension, as numbers or expressions."""
    if callable(given):
        return text_of(given, parameters, several=True).split(" ; ")
    parts = given if isinstance(given, list | tuple) else [given]
    return [str(_plain(part)) for part in parts]


def _divisor(given: Any, default: str, parameters: Mapping[str, Sequence[Any]]) -> str:
    if given is None:
        return default or "1"
    if callable(given):
        return text_of(given, parameters)
    parts = [str(_plain(part)) for part in _several(given)]
    return " * ".join(part if part.isidentifier() or part.isdigit() else f"({part})" for part in parts) or "1"


def _several(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _integers(arguments: Any) -> list[int | None]:
    """The kernel's arguments: the value of an integer, None for anything else."""
    found: list[int | None] = []
    for value in _several(arguments):
        plain = _plain(value) if getattr(value, "shape", ()) == () else None
        found.append(plain if isinstance(plain, int) and not isinstance(plain, bool) else None)
    return found


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
