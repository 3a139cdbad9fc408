"""The table of element types: NumPy agrees with its sizes and rounding, and nvcc's words for a type are told apart."""

from __future__ import annotations

import ml_dtypes
import pytest

from evo.spec.dtypes import NUMPY
from evo.spec.element_types import ELEMENT_TYPES, OF_C_TYPE, is_float


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_numpy_agrees(name: str) -> None:
    one = ELEMENT_TYPES[name]
    assert NUMPY[name].itemsize == one.size_bytes
    assert is_float(name) == (NUMPY[name].kind not in "iub")
    if one.roundoff is not None:
        assert float(ml_dtypes.finfo(NUMPY[name]).eps) == 2 * one.roundoff


def test_no_c_type_means_two_types() -> None:
    spelled = [word for one in ELEMENT_TYPES.values() for word in one.c_types]
    assert len(spelled) == len(set(spelled)) == len(OF_C_TYPE)
