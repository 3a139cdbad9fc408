"""Translated modules on disk, by content: a known PTX text is neither parsed nor emitted again.

An entry is a pickle, in the folder that also holds the machine code and is trusted as much. What is damaged or of
another version of this package counts as missing.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import pickle
import sys
from pathlib import Path
from typing import Any

from evo.files import CacheFolder
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


def name_of(ptx: str, chip: Chip, opt_level: int, **kind: bool) -> str:
    """What an entry is called: it depends on all that decides what it holds."""
    parts = (_source(), jit.host_key(), repr(chip), str(opt_level), repr(kind), ptx)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{digest[:2]}/{digest}.module"


def fetch(cache: CacheFolder, name: str) -> Any:
    """What `keep` was given; None if nothing sound is there."""
    raw = cache.read(name)
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


def keep(cache: CacheFolder, name: str, state: object) -> None:
    cache.keep(name, pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL))
