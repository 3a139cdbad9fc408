"""The worker's child process: opens the device and answers requests until the parent is gone.

Started as `python -m evo.device.child`; everything it says to the parent goes through the socket it was handed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from evo.device import DeviceName
from evo.device.pipe import Closed, receive, send
from evo.device.worker import Crashed, TimedOut
from evo.errors import EvoError, HarnessFault

_COLLECT_AFTER = 20_000  # objects


def open_device(name: DeviceName) -> Any:
    """Build the device in this process. Imports CuPy or the simulator, so only the child calls it."""
    if name.kind == "sim":
        from evo.device.sim_device import SimDevice

        return SimDevice(name)
    try:
        from evo.device.gpu import GpuDevice
    except ModuleNotFoundError as missing:
        if missing.name != "cupy":
            raise
        from evo.cuda.compile import toolkit_major

        hint = f"pip install 'evo-kernels[cu{toolkit_major() or 13}]', or --device sim:l4"
        raise HarnessFault(f"{name} needs CuPy, which is not installed", hint=hint) from None
    return GpuDevice(name)


def serve(arguments: list[str]) -> None:
    """Child side: open the device, then answer requests until the parent is gone."""
    descriptor, parent, kind, which, opener = arguments
    pipe = socket.socket(fileno=int(descriptor))
    _bind_to_parent(int(parent))
    _limit(kind)
    with contextlib.suppress(Closed):
        device: Any = None
        with _answering(pipe, lambda: False) as reply:
            module, _, function = opener.partition(":")
            device = getattr(import_module(module), function)(DeviceName(kind, which))
            if hasattr(device, "notify"):
                device.notify = lambda state: send(pipe, (state, None, False))
            if kind == "sim":  # a kernel's translation is many small objects, none of them garbage
                gc.freeze()
                gc.set_threshold(_COLLECT_AFTER)
            reply(None)
        while device is not None:
            method, args = receive(pipe, float("inf"))
            with _answering(pipe, lambda: bool(getattr(device, "spent", False))) as reply:
                known = method != "health" or hasattr(device, "health")  # a device may have nothing to check
                reply(getattr(device, method)(*args) if known else None)
    os._exit(0)  # the parent is gone or done with us: no time for atexit handlers of a broken CUDA context


@contextlib.contextmanager
def _answering(pipe: socket.socket, spent: Callable[[], bool]) -> Iterator[Callable[[object], None]]:
    """Send what the body replies, or the exception it raises, told apart as the variant's or the harness's."""
    try:
        yield lambda value: send(pipe, ("ok", value, spent()))
    except Closed:
        raise
    except (EvoError, TimedOut, Crashed) as error:
        send(pipe, ("error", error, spent() or isinstance(error, Crashed)))
    except Exception as error:  # noqa: BLE001 - the boundary: whatever it is, it is not the variant's
        send(pipe, ("error", _harness_fault(error), True))


def _harness_fault(error: Exception) -> HarnessFault:
    place = ""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    text = " ".join(str(error).split()) or "no message"
    return HarnessFault(
        f"{type(error).__name__}: {text[:500]} ({place})",
        hint="a defect of the harness or its set-up, not of the variant; run `evo doctor`",
    )


def _bind_to_parent(parent: int) -> None:
    """Make sure that this process ends when its parent does, even in the middle of a kernel."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it died before we asked
        os._exit(0)

    def watch() -> None:  # for systems without PDEATHSIG, and parents that lose the spawning thread
        while os.getppid() == parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _limit(kind: str) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if kind == "sim":  # CUDA maps far more address space than it uses, so a GPU child gets no such limit
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        bound = max(memory, 16 * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (bound if hard < 0 else min(bound, hard), hard))


if __name__ == "__main__":
    serve(sys.argv[1:])
