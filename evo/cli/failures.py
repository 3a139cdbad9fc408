"""How a command ends: exceptions become one `error:` line, one `hint:` line and an exit code."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable

from evo.cli.terminal import complain
from evo.errors import EvoError, HarnessFault

INTERRUPTED = 128 + 2  # as a shell reports SIGINT
BROKEN_PIPE = 128 + 13  # as a shell reports SIGPIPE: the reader (`| head`) had enough


def guarded(command: Callable[[], int]) -> int:
    """Run a command; return its exit code, or the one that its failure stands for."""
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
        complain("interrupted", "nothing was left half done; the next run says so if it mends anything")
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last place where a bug in evo can still be explained
        return _unexpected(error)
    return code


def _silence() -> None:
    # The interpreter flushes stdout once more at exit and would print a second complaint there.
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
        hint = "the traceback above says where"
    else:
        with tempfile.NamedTemporaryFile("w", prefix="evo-traceback-", suffix=".txt", delete=False) as file:
            traceback.print_exception(error, file=file)
        hint = f"the traceback is in {file.name}; EVO_TRACEBACK=1 prints it here"
    complain(f"a fault in evo itself, not in a variant: {what}", hint)
    return HarnessFault.exit_code
