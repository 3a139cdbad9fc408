"""What holds for every test and the processes that it starts: byte code is shared, and arithmetic has one thread."""

from __future__ import annotations

import gc
import os
import re
import sys
from pathlib import Path

import pytest

# Tests start evo hundreds of times. Where byte code is not written (containers often ask for that), each of those
# processes would compile all of evo first, which is a third of what a short command takes.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The arrays are small. Threads of BLAS and torch wait for each other by spinning, which is a third of the processor
# time of such sums, and the suite already uses every core by its own processes. Before numpy is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# A process of tests holds millions of objects, and reads thousands of texts: every search for garbage looks at many.
gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def copies() -> None:
    """In each process that runs tests."""
    import child_copies

    child_copies.install()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is imported and collected stays: no search for garbage needs to look at it."""
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The process ends; pytest would look through all that it leaves behind five times."""
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose marker leaves out all of its tests is not imported either: what such files import takes seconds."""
    chosen = re.fullmatch(r"not (\w+)(?: and not (\w+))?", config.option.markexpr)
    if chosen is None or collection_path.suffix != ".py":
        return None
    of_all = re.search(r"^pytestmark = \[?\s*pytest\.mark\.(\w+)", collection_path.read_text(), re.MULTILINE)
    return True if of_all and of_all[1] in chosen.groups() else None
