"""The bits that a GPU gave for the golden cases, in one file, and how results are held against them.

`tests/gpu/test_goldens.py` writes the file, every default run compares the simulator with it (`test_golden_cases.py`).
"""

from __future__ import annotations

import hashlib
import json
import lzma
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

STORED = Path(__file__).parents[2] / "data" / "sim" / "golden_h200.xz"


class Measured(NamedTuple):
    """What a GPU left in the outputs of one case."""

    digest: str  # of the PTX, but for the places of its sources, and the inputs that it was given
    outputs: list[Any]


def digest_of(ptx: str, inputs: Iterable[Any]) -> str:
    lines = ptx.splitlines(keepends=True)
    digest = hashlib.sha256("".join(line for line in lines if not line.lstrip().startswith(".file")).encode())
    for array in inputs:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def packed(about: dict[str, Any], measured: dict[str, Measured]) -> bytes:
    """A header of JSON (`about`; names, digests and types of the outputs), then all outputs one behind the other."""
    rows = [
        [name, one.digest, [[array.dtype.str, array.size] for array in one.outputs]] for name, one in measured.items()
    ]
    header = json.dumps({"about": about, "cases": rows}).encode()
    raw = b"".join(canonical(array).tobytes() for one in measured.values() for array in one.outputs)
    return lzma.compress(struct.pack("<Q", len(header)) + header + raw, preset=9)


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, Measured]]:
    raw = lzma.decompress(data)
    (size,) = struct.unpack_from("<Q", raw)
    header, at = json.loads(raw[8 : 8 + size]), 8 + size
    measured = {}
    for name, digest, shapes in header["cases"]:
        outputs = []
        for dtype, count in shapes:
            outputs.append(np.frombuffer(raw, dtype, count, at))
            at += outputs[-1].nbytes
        measured[name] = Measured(digest, outputs)
    return header["about"], measured


def canonical(array: Any) -> Any:
    """No payload of a NaN is defined for arithmetic: one for all."""
    if array.dtype.kind != "f":
        return array
    return np.where(np.isnan(array), array.dtype.type(np.nan), array)


def compared(case: dict[str, Any], mine: list[Any], gpu: list[Any]) -> dict[str, Any]:
    """How far results are from the GPU's; NaN equals NaN, bits are compared apart.

    case: `group`, `name`, `inputs`, `relative`, `absolute`, `number`, `known` of a golden case.
    """
    exact_required = case["relative"] == case["absolute"] == 0.0
    row: dict[str, Any] = {"group": case["group"], "name": case["name"], "values": 0, "exact": 0, "beyond_bound": 0}
    row |= {"bound": "exact" if exact_required else {name: case[name] for name in ("relative", "absolute")}}
    row |= {"max_absolute": 0.0, "max_relative": 0.0, "differing": []}
    for ours, theirs in zip(mine, gpu, strict=True):
        pairs = case["number"].endswith("x2")
        raw = np.uint16 if pairs else f"u{ours.itemsize}"
        a, b = as_float(case, ours), as_float(case, theirs)
        both_nan = np.isnan(a) & np.isnan(b)
        differ = (ours.view(raw) != theirs.view(raw)) & ~both_nan
        with np.errstate(all="ignore"):
            gap = np.where((a == b) | both_nan, 0.0, np.abs(a - b))
            ratio = np.where((b != 0) & np.isfinite(a), gap / np.abs(b), 0.0)
            far = (np.isnan(a) != np.isnan(b)) | ((gap > case["absolute"]) & ~(gap <= case["relative"] * np.abs(b)))
        bad = differ if exact_required else far
        if pairs:
            differ, bad = (flags.reshape(-1, 2).any(1) for flags in (differ, bad))
        row["values"] += ours.size
        row["exact"] += int((~differ).sum())
        row["beyond_bound"] += int(bad.sum())
        # The worst first: beyond the bound, then any other difference.
        for at in [*np.flatnonzero(bad), *np.flatnonzero(differ & ~bad)]:
            inputs = [str(x[at % x.size]) for x in case["inputs"]]
            found = [*inputs, "sim", str(ours[at]), "gpu", str(theirs[at])]
            if len(row["differing"]) < 20 and found not in row["differing"]:
                row["differing"].append(found)
        finite = np.isfinite(a) & np.isfinite(b)
        if finite.any():
            row["max_absolute"] = max(row["max_absolute"], float(gap[finite].max()))
            row["max_relative"] = max(row["max_relative"], float(ratio[finite].max()))
    if case["known"]:
        row["known"] = case["known"]
    return row | {"agrees": row["beyond_bound"] == 0}


def as_float(case: dict[str, Any], array: Any) -> Any:
    """Results as numbers: 16-bit floats are stored as integers, pairs of them are two numbers."""
    kind = case["number"].removesuffix("x2")
    with np.errstate(all="ignore"):
        if kind == "f16":
            return array.view(np.float16).astype(np.float64)
        if kind == "bf16":
            return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return array.astype(np.float64)
