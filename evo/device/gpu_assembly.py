"""Machine code of PTX for the chip at hand, by the driver's own assembler: ahead of the device, or where it is loaded.

A chip of another architecture than `--arch` gets PTX. Each variant's takes 0.1 to 1 s to assemble, so a process in
which no candidate runs does it beforehand and keeps it in the user's cache. Who finds it there loads the same code.
"""

from __future__ import annotations

import contextlib
import hashlib

import cupy
from cupy.cuda import driver, function

from evo.files import CacheFolder, cache_folder, cache_limit

_LIMIT_BYTES = 1 << 30


def assembled(ptx: str, capability: int, *, keep: bool = False) -> bytes:
    """The cubin of a PTX text. keep: for other processes too. Raises CUDADriverError if it does not assemble."""
    kept = CacheFolder(cache_folder("assembled"), cache_limit(_LIMIT_BYTES))
    what = f"{cupy.cuda.runtime.driverGetVersion()} {capability}\0{ptx}"
    name = hashlib.sha256(what.encode()).hexdigest()
    if (known := kept.read(name)) is not None:
        return known
    cupy.cuda.runtime.free(0)  # the assembler asks the context for the chip, so there has to be one
    linker = function.LinkState()
    linker.add_ptr_data(ptx.encode() + b"\0", "variant.ptx")
    found = bytes(linker.complete())
    if keep:
        kept.keep(name, found)
    return found


def assemble_ahead(ptx: str, capability: int) -> None:
    """Have it at hand for other processes; what does not assemble is told where it is loaded."""
    with contextlib.suppress(driver.CUDADriverError):
        assembled(ptx, capability, keep=True)
