"""Machine code of PTX for another architecture than `--arch`, by nvJitLink. It needs no driver and no GPU.

A chip of another architecture than `--arch` gets PTX. A compiler process assembles it ahead and keeps it in the user's
cache; the device that loads the variant finds it there.
"""

from __future__ import annotations

import hashlib

from evo.cuda.compile.nvrtc_process import link
from evo.cuda.compile.process_pool import shared_pool
from evo.cuda.compile.toolkit import assembler_version
from evo.files import CacheFolder, cache_folder, cache_limit

_LIMIT_BYTES = 1 << 30
_TIME_LIMIT_S = 60.0


def assemble_ahead(ptx: str, arch: str) -> None:
    """Have the machine code of a PTX text for `sm_NN` in the cache; what does not assemble is told where it is loaded.

    Raises TimedOut, Crashed (the text's doing), or HarnessFault where no compiler process starts.
    """
    if (name := _name(ptx, arch)) is None or _kept().read(name) is not None:
        return
    answer, cubin = shared_pool().run({"ptx": ptx, "arch": arch}, _TIME_LIMIT_S)
    if not answer["result"]:
        _kept().keep(name, cubin)


def assembled(ptx: str, arch: str) -> bytes | None:
    """The machine code, from the cache or made in this process. None if nvJitLink is missing or takes neither."""
    if (name := _name(ptx, arch)) is None:
        return None
    known = _kept().read(name)
    return known if known is not None else (link(ptx, arch).get("cubin") or None)


def _name(ptx: str, arch: str) -> str | None:
    version = assembler_version()
    return hashlib.sha256(f"{version} {arch}\0{ptx}".encode()).hexdigest() if version else None


def _kept() -> CacheFolder:
    return CacheFolder(cache_folder("assembled"), cache_limit(_LIMIT_BYTES))
