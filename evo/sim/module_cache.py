"""Translated modules on disk, by content: a known PTX text is neither parsed nor emitted again.

An entry is a pickle behind its own checksum, in the folder that also holds the machine code and is trusted as much.
What is damaged, half written or of another version of this package counts as missing.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import pickle
import sys
from pathlib import Path
from typing import Any

from evo.sim import jit
from evo.spec.chips import Chip

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


def fetch(path: Path | None) -> Any:
    """What `keep` was given; None if nothing sound is there."""
    raw = jit.stored(path)
    if raw is None:
        return None
    collects = gc.isenabled()
    gc.disable()  # thousands of small objects, none of them garbage
    try:
        return pickle.loads(raw)
    except _DAMAGE:
        return None
    finally:
        if collects:
            gc.enable()


def keep(path: Path | None, state: object) -> None:
    if path is not None:
        jit.keep(path, pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL))
