"""Tensor element types by the names that task files use, as NumPy dtypes (ml_dtypes for bfloat16 and float8)."""

from __future__ import annotations

import ml_dtypes
import numpy as np

NUMPY: dict[str, np.dtype[np.generic]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "int8": np.dtype(np.int8),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}

# Unit round-off: half the distance from 1 to the next number.
ROUNDOFF: dict[str, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3": 2.0**-4,
    "float8_e5m2": 2.0**-3,
}


def is_float(dtype: str) -> bool:
    return dtype in ROUNDOFF
