"""Files of strangers, as `evo adopt` reads them and makes tasks of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evo.interop.adopt import Adopted, Options, adopt
from evo.interop.adopt.draft import Draft, draft_of
from evo.interop.adopt.program import read_program

FILES = Path(__file__).parents[1] / "data" / "adopt"


def drafted(path: Path, kernel: str | None = None, **axes: int) -> Draft:
    """What is read from a file."""
    return draft_of(read_program(path, kernel, axes), {})


def drafted_text(folder: Path, text: str, kernel: str | None = None, **axes: int) -> Draft:
    """What is read from a file with this text."""
    (folder / "given.cu").write_text(text)
    return drafted(folder / "given.cu", kernel, **axes)


def adopted_text(folder: Path, text: str, *, reference: Any = None, **axes: int) -> Adopted:
    """The task that a file with this text becomes, in the same folder."""
    (folder / "given.cu").write_text(text)
    return adopt(folder, folder / "given.cu", Options(name="given", axes=axes, reference=reference))
