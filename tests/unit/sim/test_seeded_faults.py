"""Every kernel of data/sim/faults is caught: kind, source line, block and thread.

The head of each file says what is wrong, the kind and the clean kernel whose inputs it takes; a line that ends in
FAULT is where it must be reported (a race or a spin has several such places).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from harness import nvrtc, run

from evo import sim

DATA = Path(__file__).parents[2] / "data" / "sim"
sys.path.insert(0, str(DATA))
from clean_cases import CASES  # noqa: E402

FILES = sorted((DATA / "faults").glob("*.cu"))
EXPECTED = dict(line.split(maxsplit=1) for line in (DATA / "faults" / "where.txt").read_text().splitlines() if line)


def head(text: str, name: str, default: str = "") -> str:
    found = re.search(rf"^// {name}: (.*)$", text, re.M)
    return found[1] if found else default


def test_there_are_enough() -> None:
    bases = {path.stem.split("__")[0] for path in FILES}
    assert len(FILES) >= 60
    assert len(bases) >= 10
    assert set(EXPECTED) == {path.stem for path in FILES}


# Two of three by default, at least 60 of them.
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] if number % 3 == 2 else [])
        for number, path in enumerate(FILES)
    ],
)
def test_seeded_fault(path: Path) -> None:
    text = path.read_text()
    case = CASES[Path(head(text, "like")).stem]
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "// FAULT" in line]
    undefined = tuple(int(word) for word in head(text, "undefined").split())
    writable = {int(word) for word in head(text, "writable").split()}
    kernel = sim.load(nvrtc(text), opt_level=0)  # compiled soonest; the clean kernels run at level 1
    arrays = [i for i, a in enumerate(case.args) if isinstance(a, np.ndarray)]
    inputs = tuple(i for i in arrays if i not in (*case.expected, *case.scratch) and i not in writable)
    few = path.stem.startswith(("reduce_last", "scan_look", "spin", "grid_barrier", "chain_of_blocks"))
    _, result = run(
        kernel,
        "k",
        case.args,
        grid=case.grid,
        block=case.block,
        undefined=undefined,
        readonly=() if few else inputs,
        budget=int(head(text, "budget", "50000000")),
    )
    assert result.faults, "nothing was reported"
    first = result.faults[0]
    assert first.kind in head(text, "fault").split(" or "), first
    assert first.source_line in lines, first
    assert f"{first.kind} block={first.block} thread={first.thread}" == EXPECTED[path.stem]
