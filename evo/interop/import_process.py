"""The process that runs foreign problem files (`python -m evo.interop.import_process`): jobs on stdin, JSON lines out.

It imports torch once and forks for every job, so that a file that hangs, exits or eats memory takes only its own
process with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

_POLL_S = 0.02
_MANY = 8


def main() -> int:
    """Read jobs, answer each: `{"wrote": ...}`, `{"refused": ..., "hint": ...}`."""
    jobs = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a problem prints is no answer
    import torch

    torch.set_num_threads(1)  # a pool of threads does not survive a fork
    from evo.interop import import_torch_module as draft  # noqa: F401 - once, before the forks

    if len(jobs) > _MANY:
        import torch._dynamo

    for job in jobs:
        answers.write(json.dumps(_forked(job)) + "\n")
        answers.flush()
    return 0


def _forked(job: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()  # so that what it starts ends with it
        _answer(job, writing)
    os.close(writing)
    ended = _waited(child, time.monotonic() + float(job["limit_s"]))
    with os.fdopen(reading, "rb") as file:
        said = file.read() if ended is not None else b""
    if ended is None:
        return {"refused": f"not done within {job['limit_s']:g} s", "hint": "lower its sizes, or raise --limit"}
    try:
        found: dict[str, Any] = json.loads(said)
        return found
    except ValueError:
        return {"refused": f"its process ended with {_words(ended)}", "hint": "run the file by itself and see"}


def _answer(job: dict[str, Any], writing: int) -> None:
    """In the fork: do the job, write the answer, end without the parent's clean-up."""
    try:
        said = json.dumps(_done(job)).encode()
        with os.fdopen(writing, "wb") as file:
            file.write(said)
    finally:
        sys.stderr.flush()
        os._exit(0)


def _done(job: dict[str, Any]) -> dict[str, Any]:
    import resource

    from evo.errors import EvoError
    from evo.interop.import_torch_module import write_task
    from evo.interop.meta_shapes import Refused
    from evo.spec.deadline import memory_limit

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
    except Refused as refused:
        return {"refused": refused.reason, "hint": refused.hint}
    except EvoError as error:
        return {"refused": error.message, "hint": error.hint}
    except MemoryError:
        hint = "draw inputs with torch, whose large tensors are not allocated here, or lower the sizes in the file"
        return {"refused": f"it needs more than {memory_limit() // 2 / 2**30:.0f} GiB of memory", "hint": hint}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code may raise anything
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return {"refused": f"it could not be examined: {what}", "hint": "run the file by itself first"}
    return {"wrote": found.name, "cases": found.cases, "notes": found.notes}


def _mapped_bytes() -> int:
    """The address space in use: torch maps far more than it touches."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 16 * 2**30


def _waited(child: int, end: float) -> int | None:
    """The wait status; None where the time was up and the child's process group has been killed."""
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(_POLL_S)
    for kill in (os.killpg, os.kill):
        try:
            kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os.waitpid(child, 0)
    return None


def _words(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"


if __name__ == "__main__":
    raise SystemExit(main())
