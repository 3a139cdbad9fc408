"""The simulator's golden cases on a real GPU: the same PTX, the same inputs, bit by bit.

Writes to $EVO_GOLDENS_REPORT (default golden_report.json) how many values of each opcode family are the GPU's bits, lie
within the stated bound, or lie beyond it, and every case that is not exact. $EVO_GOLDENS may name a folder made by
`python tests/gpu/test_goldens.py FOLDER`: simulated outputs and PTX, for a machine that cannot run the simulator.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "sim"))
pytestmark = pytest.mark.gpu


def prepare() -> Iterator[dict[str, Any]]:
    """Every case with what the simulator makes of it."""
    import goldens
    import goldens_cuda

    for group, cases in (
        ("opcode", goldens.opcodes()),
        ("warp", goldens_cuda.kernels()),
        ("function", goldens_cuda.functions()),
    ):
        for case in cases:
            yield {
                "group": group, "name": case.name, "ptx": case.ptx, "kernel": case.kernel, "inputs": case.inputs,
                "outputs": case.outputs, "grid": case.grid, "block": case.block, "relative": case.relative,
                "absolute": case.absolute, "simulated": case.simulated(),
            }  # fmt: skip


def on_gpu(case: dict[str, Any], folder: Path) -> list[Any]:
    """CuPy remembers modules by path, so every case has a path of its own."""
    import cupy

    path = folder / f"{hashlib.sha256(case['ptx'].encode()).hexdigest()}.ptx"
    path.write_text(case["ptx"])
    kernel = cupy.RawModule(path=str(path)).get_function(case["kernel"])
    inputs = [cupy.asarray(array) for array in case["inputs"]]
    outputs = [cupy.asarray(array) for array in case["outputs"]]
    kernel((case["grid"],), (case["block"],), (*inputs, *outputs))
    return [cupy.asnumpy(array) for array in outputs]


def compared(case: dict[str, Any], gpu: list[Any]) -> dict[str, Any]:
    """How far the simulator's outputs are from the GPU's; NaN equals NaN, bits are compared apart."""
    row: dict[str, Any] = {"group": case["group"], "name": case["name"], "values": 0, "exact": 0, "beyond_bound": 0}
    row |= {"exact_required": case["relative"] == case["absolute"] == 0.0}
    worst_absolute = worst_relative = 0.0
    within = True
    for mine, theirs in zip(case["simulated"], gpu, strict=True):
        bits = f"u{mine.itemsize}"
        row["values"] += mine.size
        differ = mine.view(bits) != theirs.view(bits)
        a, b = as_float(case, mine), as_float(case, theirs)
        both_nan = np.isnan(a) & np.isnan(b)
        wrong = np.isnan(a) != np.isnan(b)
        with np.errstate(all="ignore"):
            gap = np.where((a == b) | both_nan, 0.0, np.abs(a - b))
            ratio = gap / np.maximum(np.abs(b), 1e-300)
        # A NaN's payload is not defined for arithmetic: only that it is one.
        far = wrong | ((gap > case["absolute"]) & ~(ratio <= case["relative"]))
        bad = differ & ~both_nan if row["exact_required"] else far
        row["exact"] += int((~differ | both_nan).sum())
        row["beyond_bound"] += int(bad.sum())
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            row["first"] = {
                "inputs": [str(x[at % x.size]) for x in case["inputs"]], "sim": str(mine[at]), "gpu": str(theirs[at])
            }  # fmt: skip
        within &= not bad.any()
        finite = np.isfinite(a) & np.isfinite(b)
        if finite.any():
            worst_absolute = max(worst_absolute, float(gap[finite].max()))
            worst_relative = max(worst_relative, float(ratio[finite].max()))
    row |= {"max_absolute": worst_absolute, "max_relative": worst_relative, "agrees": bool(within)}
    return row


def as_float(case: dict[str, Any], array: Any) -> Any:
    """Results as numbers: packed and 16-bit float results are stored as integers."""
    words = case["name"].split(" ")[0].split(".")
    last = words[-2] if words[0] == "cvt" else words[-1]  # a conversion names its result first
    kind = last if last in ("bf16x2", "f16x2", "bf16", "f16") else ""
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if case["group"] == "opcode" and kind and "setp" not in case["name"]:
        halves = array.view(np.uint16)
        wide = (halves.astype(np.uint32) << 16).view(np.float32) if kind[0] == "b" else halves.view(np.float16)
        with np.errstate(all="ignore"):
            wide = wide.astype(np.float64)
        if not kind.endswith("x2"):
            return wide
        pairs = wide.reshape(-1, 2)
        # One number per register: the difference shows in it, a NaN in either half makes it NaN.
        with np.errstate(all="ignore"):
            return pairs[:, 0] + 3.0 * pairs[:, 1]
    return array.astype(np.float64)


COUNTS = ("values", "exact", "within_bound", "beyond_bound")


def family_of(row: dict[str, Any]) -> str:
    """The mnemonic of an opcode; warp kernels and library functions are a family each."""
    return str(row["name"].split(".")[0]) if row["group"] == "opcode" else f"{row['group']} kernels"


def by_family(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Values that are equal, within the bound and beyond it, by family."""
    out: dict[str, dict[str, Any]] = {}
    for row in rows:
        total = out.setdefault(family_of(row), dict.fromkeys(("cases", "not_run", *COUNTS), 0) | {"max_relative": 0.0})
        total["cases"] += 1
        if row["agrees"] is None:
            total["not_run"] += 1
            continue
        for name in ("values", "exact", "beyond_bound"):
            total[name] += row[name]
        total["within_bound"] += row["values"] - row["exact"] - row["beyond_bound"]
        total["max_relative"] = max(total["max_relative"], row["max_relative"])
    return dict(sorted(out.items()))


def test_goldens_on_hardware(tmp_path: Path) -> None:
    import cupy

    cupy.zeros(1)  # a context must exist before a module is loaded: without one CuPy crashes
    folder = os.environ.get("EVO_GOLDENS")
    cases = pickle.loads((Path(folder) / "cases.pickle").read_bytes()) if folder else prepare()
    rows = []
    for case in cases:
        try:
            rows.append(compared(case, on_gpu(case, tmp_path)))
        except cupy.cuda.driver.CUDADriverError as error:
            rows.append({"group": case["group"], "name": case["name"], "agrees": None, "not_run": str(error)[:200]})
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    runtime = cupy.cuda.runtime.driverGetVersion()
    ran = [row for row in rows if row["agrees"] is not None]
    summary = {
        "device": device, "driver_cuda": runtime, "cases": len(rows), "ran": len(ran),
        "agree": sum(row["agrees"] for row in ran), "bit_exact": sum(row["exact"] == row["values"] for row in ran),
    }  # fmt: skip
    inexact = [row for row in rows if row["agrees"] is None or row["exact"] != row["values"]]
    report = {"summary": summary, "families": by_family(rows), "cases_not_exact": inexact}
    Path(os.environ.get("EVO_GOLDENS_REPORT", "golden_report.json")).write_text(json.dumps(report, indent=1) + "\n")
    failed = [row["name"] for row in rows if row["agrees"] is False]
    print(summary, failed)
    assert not failed, failed


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    (target / "cases.pickle").write_bytes(pickle.dumps(list(prepare())))
