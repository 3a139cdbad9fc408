"""Translated modules on disk, by content: a known PTX text is neither parsed nor emitted again.

An entry is a pickle behind its own checksum, in the folder that also holds the machine code and is trusted as much.
What is damaged, half written or of another version of this package counts as missing.
"""

from __future__ import annotations

import copy
import functools
import gc
import hashlib
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evo.sim import jit

if TYPE_CHECKING:
    from evo.sim.module import Module
    from evo.spec.chips import Chip

_LARGEST = 1 << 24  # bytes of module variables worth keeping on disk
_DAMAGE = (pickle.UnpicklingError, EOFError, ImportError, AttributeError, IndexError, KeyError, TypeError, ValueError)


@functools.cache
def _source() -> str:
    """The text of this package decides what an entry holds."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def path_of(ptx: str, chip: Chip, opt_level: int, directory: Path | None) -> Path | None:
    if directory is None:
        return None
    parts = (_source(), jit.host_key(), repr(chip), str(opt_level), ptx)
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return directory / name[:2] / f"{name}.module"


def fetch(path: Path | None) -> dict[str, Any] | None:
    """The state of a module as `keep` left it."""
    raw = jit.stored(path)
    if raw is None:
        return None
    collects = gc.isenabled()
    gc.disable()  # thousands of small objects, none of them garbage
    try:
        state = pickle.loads(raw)
        return state if isinstance(state, dict) else None
    except _DAMAGE:
        return None
    finally:
        if collects:
            gc.enable()


def keep(path: Path | None, module: Module) -> None:
    """Store what a launch needs; the text of the code is left out, its objects are kept by their own keys."""
    if path is None or sum(b.size_bytes for b in (*module.memory.buffers, *module.constants.buffers)) > _LARGEST:
        return
    state = dict(module.__dict__)
    state["program"] = copy.copy(module.program)
    state["program"].functions = {}
    state["kernels"] = {name: _thin(loaded, module.opt_level) for name, loaded in module.kernels.items()}
    jit.keep(path, pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL))


def _thin(loaded: Any, opt_level: int) -> Any:
    out = copy.copy(loaded)
    out.keys = loaded.object_keys(opt_level)
    out.text, out.support = "", []
    out.function = copy.copy(loaded.function)
    out.function.body = []
    out.kernel = copy.copy(loaded.kernel)
    out.kernel.code = copy.copy(loaded.kernel.code)
    out.kernel.code.head, out.kernel.code.lines = [], []
    return out
