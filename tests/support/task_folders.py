"""Task folders made in a test: one formula over a matrix, with whatever is to be wrong about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evo.spec.reference import Reference, load_reference
from evo.spec.task import Task, read_task
from evo.spec.tolerance import Tolerance

DRAW = "rng.standard_normal((case['N'], case['M']))"
CHECK = "[{N: 64, M: 96}, {N: 33, M: 65}, {N: 1, M: 130}]"

HALVED = """\
name: halved
description: Half of each element.
axes: {ROWS: int, COLS: int}
tensors:
  - {name: x, role: in, dtype: float16, shape: [ROWS, COLS]}
  - {name: y, role: out, dtype: float16, shape: [ROWS, COLS]}
tolerance: {rtol: 1e-3, atol: 1e-5, rival_error_factor: 2, because: exact}
check:
  - {name: whole, ROWS: 8, COLS: 64}
  - {name: ragged, ROWS: 5, COLS: 37}
  - {name: one, ROWS: 1, COLS: 1}
bench:
  tall: {ROWS: 300, COLS: 9}
  wide: {ROWS: 9, COLS: 300}
work: {flop: ROWS * COLS, bytes: 4 * ROWS * COLS}
"""
HALVED_REFERENCE = """\
import numpy as np


def inputs(case, rng):
    return {"x": rng.standard_normal((case["ROWS"], case["COLS"])).astype(np.float16)}


def expected(inputs):
    return {"y": inputs["x"].astype(np.float64) / 2}
"""


def bare_task(**fields: Any) -> Task:
    """A task of these fields alone, as no file declares it."""
    given: dict[str, Any] = {
        "name": "t",
        "folder": None,
        "axes": {},
        "tensors": (),
        "scalars": (),
        "tolerance": Tolerance(rtol=1e-2, atol=1e-3, rival_error_factor=2, because="a test"),
        "check": (),
        "bench": (),
        "headline": "",
        "score": {},
        "work": {},
    }
    return Task(**(given | fields))


def written_task(root: Path, declared: str, reference: str) -> Task:
    """The task of these two files, with no rung, in a folder of its name."""
    folder = root / declared.partition("name:")[2].split()[0]
    (folder / "ladder").mkdir(parents=True)
    (folder / "task.yaml").write_text(declared)
    (folder / "reference.py").write_text(reference)
    return read_task(folder)


def task_folder(
    folder: Path,
    formula: str,
    *,
    dtype: str = "float16",
    draw: str = DRAW,
    tolerance: str = "rtol: 1e-2, atol: 1e-3, rival_error_factor: 2",
    check: str = CHECK,
    tensor: str = "",
    more: str = "",
    python: str = "",
) -> tuple[Task, Reference]:
    """The task `y = formula` over `x` in float64; `tensor` adds fields to x, `more` to task.yaml."""
    (folder / "ladder").mkdir(parents=True)
    (folder / "task.yaml").write_text(
        f"name: {folder.name}\n"
        "axes: {N: int, M: int}\n"
        "tensors:\n"
        f"  - {{name: x, role: in, dtype: {dtype}, shape: [N, M]{tensor}}}\n"
        f"  - {{name: y, role: out, dtype: {dtype}, shape: [N, M]}}\n"
        f"tolerance: {{{tolerance}, because: a test}}\n"
        f"check: {check}\n"
        "bench: {b: {N: 8, M: 128}}\n"
        f"{more}\n"
    )
    (folder / "reference.py").write_text(
        "import numpy as np\n\n\n"
        f"def inputs(case, rng):\n    return {{'x': {draw}}}\n\n\n"
        f"def expected(inputs, case):\n    x = inputs['x'].astype(np.float64)\n    return {{'y': {formula}}}\n\n\n"
        f"{python}\n"
    )
    task = read_task(folder)
    return task, load_reference(task)
