"""The child's side of `evo.device.remote_calls`: opens an object and answers calls until the driver is gone."""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from evo.device import DeviceName, Program, plugin_device
from evo.device.kept_arrays import Receiver
from evo.device.remote_calls import (
    LIBRARY_OPENER,
    LockState,
    OpenRequest,
    Raised,
    RemoteCall,
    Returned,
    packed,
    received,
    unpacked,
)
from evo.errors import Crashed, EvoError, HarnessFault, TimedOut
from evo.spec.child_entries import OPENER
from evo.spec.child_main import die_with_driver, find_entry, show_as
from evo.spec.connection import Connection, ConnectionClosed
from evo.spec.process_settings import collect_seldom, give_back_freed_arrays, give_back_freed_pages

_LONG_S = 0.2  # a call that takes so long leaves memory behind that is worth a few milliseconds


def open_device(name: DeviceName) -> Any:
    """Build the device in this process. Imports CuPy or the simulator, so only the child calls it."""
    if name.kind == "sim":
        from evo.device.sim_device import SimDevice

        return SimDevice(name)
    if name.kind != "gpu":
        return plugin_device(name)(name)
    try:
        from evo.device.gpu import GpuDevice
    except ModuleNotFoundError as missing:
        if missing.name != "cupy":
            raise
        from evo.cuda.compile import toolkit_major

        hint = f"pip install 'evo-kernels[cu{toolkit_major() or 13}]', or --device sim:l4"
        raise HarnessFault(f"{name} needs CuPy, which is not installed", hint=hint) from None
    return GpuDevice(name)


def open_library_device(name: DeviceName) -> Any:
    """The same in a process that is to time library calls, and has imported their library ahead."""
    return open_device(name)


def serve(connection: Connection, kind: str, which: str, opener: str) -> None:
    """Open the object, then answer calls. It may say `spent` (replace this process) and take a `notify`."""
    die_with_driver()
    show_as(f"{kind} {opener.rpartition(':')[2].removeprefix('open_')}")
    _limit_memory(kind)
    opened: Any = None
    _import_ahead(kind, opener)
    assert isinstance(unpacked(connection.receive()), OpenRequest)
    with _answering(connection, lambda: False) as reply:
        opened = find_entry(opener)(DeviceName(kind, which))
        if hasattr(opened, "notify"):
            opened.notify = lambda state: connection.send(packed(LockState(waiting=state == "waiting")))
        if kind == "sim":
            collect_seldom()
            give_back_freed_arrays()
        reply(None)
    arrays = Receiver()
    handed: object = None  # what the driver maps of the latest answer, until it asks again
    while opened is not None:
        call = received(connection.receive(), arrays)
        handed = None
        assert isinstance(call, RemoteCall)
        began = time.monotonic()
        with _answering(connection, lambda: bool(getattr(opened, "spent", False)), call.arguments) as reply:
            handed = getattr(opened, call.method)(*call.arguments, **(call.named or {}))
            reply(handed)
        if kind == "sim" and time.monotonic() - began > _LONG_S:
            give_back_freed_pages()


def _import_ahead(kind: str, opener: str) -> None:
    """Import what opening a device takes, without a GPU's context: a spare process is then ready but for that.

    What fails here fails again, and is told, when the object is opened.
    """
    with contextlib.suppress(Exception):
        if opener not in (OPENER, LIBRARY_OPENER):
            importlib.import_module(opener.partition(":")[0])
            return
        if kind in ("gpu", "sim"):
            importlib.import_module("evo.device.gpu" if kind == "gpu" else "evo.device.sim_device")
        if opener == LIBRARY_OPENER:
            importlib.import_module("torch")


@contextlib.contextmanager
def _answering(
    connection: Connection, spent: Callable[[], bool], arguments: Iterable[object] = ()
) -> Iterator[Callable[[object], None]]:
    """Send what the body replies, or the exception it raises, told apart as the candidate's or the harness's."""
    try:
        yield lambda value: connection.send(packed(Returned(value, spent())), by_place=True)
    except ConnectionClosed:
        raise
    except (EvoError, TimedOut, Crashed) as error:
        connection.send(packed(Raised(error, spent() or isinstance(error, Crashed))))
    except MemoryError as error:
        connection.send(packed(Raised(_out_of_memory(error, arguments), spent=True)))
    except Exception as error:  # noqa: BLE001 - the boundary: whatever it is, it is not the candidate's
        connection.send(packed(Raised(_harness_fault(error), spent=True)))


def _out_of_memory(error: MemoryError, arguments: Iterable[object]) -> Crashed | HarnessFault:
    """The candidate's doing if it asked for workspaces: the task's own tensors have fitted before."""
    scratch = sum(space.size_bytes for program in _programs(arguments) for space in program.scratch)
    return Crashed(f"out of memory with {scratch / 2**20:.1f} MiB of scratch") if scratch else _harness_fault(error)


def _programs(values: Iterable[object]) -> Iterator[Program]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _programs(value)
        elif isinstance(program := getattr(value, "program", None), Program):
            yield program


def _harness_fault(error: Exception) -> HarnessFault:
    place = ""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    text = " ".join(str(error).split()) or "no message"
    hint = "a defect of the harness or its set-up, not of the variant; run `evo doctor`"
    if isinstance(error, MemoryError):
        hint = "no memory is left for the case: end other programs, use fewer --jobs, or leave out the case"
    return HarnessFault(f"{type(error).__name__}: {text[:500]} ({place})", hint=hint)


def _limit_memory(kind: str) -> None:
    import resource

    if kind == "sim":  # CUDA maps far more address space than it uses, so a GPU child gets no such limit
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        bound = max(memory, 16 * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (bound if hard < 0 else min(bound, hard), hard))
