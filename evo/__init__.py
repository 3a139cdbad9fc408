"""evo improves CUDA kernels one verified mutation at a time. The names below are its public API (docs/python.md)."""

import importlib
import sys
import warnings
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evo.api import Session, load_task, load_variant, run_search
    from evo.errors import EvoError
    from evo.results import Evaluation, Status, Verdict
    from evo.search.events import Event, RunSummary, TrialResult
    from evo.spec.task import Task
    from evo.spec.variant import Variant, parse_variant

__version__ = "0.1.0"

__all__ = [
    "Evaluation", "Event", "EvoError", "RunSummary", "Session", "Status", "Task", "TrialResult", "Variant", "Verdict",
    "load_task", "load_variant", "parse_variant", "run_search",
]  # fmt: skip

# Loaded when they are asked for: `evo --help` and `import evo` stay quick.
_HOMES = {
    "evo.api": ("Session", "load_task", "load_variant", "run_search"),
    "evo.errors": ("EvoError",),
    "evo.results": ("Evaluation", "Status", "Verdict"),
    "evo.search.events": ("Event", "RunSummary", "TrialResult"),
    "evo.spec.task": ("Task",),
    "evo.spec.variant": ("Variant", "parse_variant"),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            globals()[name] = found = getattr(importlib.import_module(module), name)
            return found
    raise AttributeError(f"module 'evo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Modules under the name that earlier versions gave them: people's own reference.py files and programs import these.
MOVED = {
    "evo.device.sim": "evo.sim",
    "evo.exchange": "evo.interop",
    "evo.exchange.module": "evo.interop.torch_reference",
}


class _Moved(Loader):
    """Finds a moved module under its old name, with a DeprecationWarning."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        return ModuleSpec(name, self) if name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = MOVED[spec.name]
        warnings.warn(f"{spec.name} is now {new}", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(new)
        spec.loader_state = module.__spec__  # the import system is about to overwrite it
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run: the module has run under its new name."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


# First in the list: a folder of the old name that only holds byte code would count as a namespace package.
sys.meta_path.insert(0, _Moved())
