"""Element types (evo/spec/element_types.py) as NumPy dtypes; ml_dtypes for bfloat16 and float8."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from evo.spec.element_types import ELEMENT_TYPES

_OF_ML_DTYPES = {"bfloat16": "bfloat16", "float8_e4m3": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
NUMPY: dict[str, np.dtype[np.generic]] = {
    name: np.dtype(getattr(ml_dtypes, _OF_ML_DTYPES[name]) if name in _OF_ML_DTYPES else name) for name in ELEMENT_TYPES
}
