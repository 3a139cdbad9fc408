"""Errors by class and fixed name, so that a sentence may be improved without touching the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from evo.errors import EvoError


@contextmanager
def refused(kind: type[EvoError], problem: str) -> Iterator[pytest.ExceptionInfo[EvoError]]:
    """The block raises an error of this class with this `problem`."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.problem == problem, caught.value.message
