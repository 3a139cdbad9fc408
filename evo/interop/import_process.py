"""The process that runs foreign problem files: answers jobs of `evo.interop.kernelbench`, one after the other.

It imports torch once and forks for every job. If a file hangs, exits or uses too much memory, only its own
process ends.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from evo.errors import ChildDied, ChildGarbled
from evo.spec.child_process import ChildProcess
from evo.spec.connection import Connection

_MANY = 8


def serve(connection: Connection, count: str) -> None:
    """Answer `count` jobs: `{"wrote": ...}`, or `{"refused": ..., "hint": ...}`."""
    import torch

    torch.set_num_threads(1)  # a pool of threads does not survive a fork
    from evo.interop import import_torch_module  # noqa: F401 - once, before the forks

    if int(count) > _MANY:
        import torch._dynamo
    sys.path.insert(0, "")  # a problem may import modules from the working folder
    for _ in range(int(count)):
        job: Any = connection.receive()
        connection.send(answer(job))


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """The answer for one file, examined in a fork of this process."""
    limit_s = float(job["limit_s"])
    with contextlib.closing(ChildProcess.fork(lambda connection: connection.send(_done(job)), plain=True)) as child:
        try:
            said = child.receive(time.monotonic() + limit_s)
        except TimeoutError:
            return {"refused": f"not done within {limit_s:g} s", "hint": "lower its sizes, or raise --limit"}
        except ChildDied as death:
            return {"refused": f"its process ended with {death.words}", "hint": "run the file by itself"}
        except ChildGarbled as error:
            return {"refused": error.message, "hint": "run the file by itself"}
    assert isinstance(said, dict)
    return said


def _done(job: dict[str, Any]) -> dict[str, Any]:
    import resource

    from evo.errors import EvoError
    from evo.interop.import_torch_module import write_task
    from evo.interop.meta_shapes import ProblemRefused
    from evo.spec.proc_files import memory_limit

    most = _mapped_bytes() + memory_limit() // 2
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        found = write_task(
            Path(job["file"]),
            job["name"],
            Path(job["into"]),
            description=job.get("description", ""),
            compiled=bool(job.get("compiled")),
            most_bytes=job.get("most_bytes"),
        )
    except ProblemRefused as refused:
        return {"refused": refused.reason, "hint": refused.hint}
    except EvoError as error:
        return {"refused": error.message, "hint": error.hint}
    except MemoryError:
        hint = "draw inputs with torch, whose large tensors are not allocated here, or lower the sizes in the file"
        return {"refused": f"it needs more than {memory_limit() // 2 / 2**30:.0f} GiB of memory", "hint": hint}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code may raise anything
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return {"refused": f"the import failed: {what}", "hint": "run the file by itself first"}
    return {"wrote": found.name, "cases": found.cases, "notes": found.notes}


def _mapped_bytes() -> int:
    """The address space in use; torch maps much more than it touches."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 16 * 2**30
