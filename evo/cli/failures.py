"""The end of a command: exceptions become one `error:` line, one `hint:` line and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from evo.cli.terminal import complain
from evo.errors import EvoError, HarnessFault
from evo.files import disk_fault, is_barred, is_full

INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_INTERRUPTED = ("interrupted", "nothing is half done; if the next run repairs anything, it says so")
BROKEN_PIPE = 128 + 13  # as a shell reports SIGPIPE: the reader (`| head`) closed the pipe


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, but ends the process within an import.

    Extension modules print such an exception themselves, and make it an ImportError.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # it is ignored, or a program that calls this one hears it
        yield
        return
    signal.signal(signal.SIGINT, _hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _hear(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            complain(*_INTERRUPTED)
            os._exit(INTERRUPTED)
        frame = frame.f_back
    signal.default_int_handler(number, frame)


def guarded(command: Callable[[], int]) -> int:
    """Run a command; return its exit code, or the exit code of its exception."""
    try:
        code = command()
        sys.stdout.flush()
    except EvoError as error:
        complain(error.message, error.hint)
        return error.exit_code
    except BrokenPipeError:
        _silence()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        complain(*_INTERRUPTED)
        return INTERRUPTED
    except OSError as error:
        if is_barred(error) and error.filename is not None:
            complain(f"{error.filename}: {error.strerror}", "check the owner and permissions of it and of its folder")
            return HarnessFault.exit_code
        if not is_full(error):
            return _unexpected(error)
        fault = disk_fault(error, Path(error.filename or "a file or the output"))
        complain(fault.message, fault.hint)
        return fault.exit_code
    except Exception as error:  # noqa: BLE001 - the last place where a defect of evo can be reported
        return _unexpected(error)
    return code


def _silence() -> None:
    # The interpreter flushes stdout again at exit and would print a second error there.
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(devnull, stream.fileno())


def _unexpected(error: Exception) -> int:
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    if os.environ.get("EVO_TRACEBACK"):
        traceback.print_exception(error, file=sys.stderr)
        hint = "see the traceback above"
    else:
        hint = f"{_kept_traceback(error)}; EVO_TRACEBACK=1 prints it here"
    complain(f"a defect of evo, not of a variant: {what}", hint)
    return HarnessFault.exit_code


def _kept_traceback(error: Exception) -> str:
    """Write the traceback to a file, and say where it is; on a full disk, say that it is nowhere."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="evo-traceback-", suffix=".txt", delete=False) as file:
            traceback.print_exception(error, file=file)
    except OSError as unwritten:
        return f"the traceback could not be written: {unwritten.strerror or unwritten}"
    return f"the traceback is in {file.name}"
