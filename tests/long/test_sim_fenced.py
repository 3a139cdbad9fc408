"""The simulator's own tests with every array between unmapped addresses: no access strays, however far."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.long


@pytest.mark.timeout(1200)
def test_no_access_outside_an_array() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / "unit" / "sim")]
    done = subprocess.run(
        command,
        env=os.environ | {"EVO_TEST_FENCED": "1"},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("beyond", [-1 << 20, -4096, 1, 1 << 20])
def test_fences_stop_a_stray_access(beyond: int) -> None:
    script = f"""import ctypes, sys
sys.path.insert(0, {str(TESTS / "data" / "sim")!r})
import fenced, numpy
array = fenced.zeros(100, numpy.uint8)
end = array.ctypes.data + 99
print(ctypes.string_at(end, 1), flush=True)
ctypes.string_at(end + {beyond}, 1)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "b'\\x00'\n"
    assert done.returncode < 0
