"""Large arrays that are freed no longer count, although a later one is held; children take few threads for algebra."""

from __future__ import annotations

import subprocess
import sys

import pytest

from evo.spec.child_process import child_environment

SEARCHES = """
import gc
from evo.cuda.source import parse
from evo.spec.process_settings import collect_seldom
found = []
gc.callbacks.append(lambda phase, _: found.append(phase))
for number, step in enumerate((lambda: None, collect_seldom)):
    step()
    for line in range(60):
        parse(f"__global__ void k(float* a) {{ a[{number}] = " + "1 + " * 40 + f"{line}; }}")
    print(len(found))
    found.clear()
"""
PROGRAM = """
import numpy as np
from evo.spec.process_settings import give_back_freed_arrays
from evo.spec.proc_files import resident_bytes
give_back_freed_arrays()
np.ones(3 << 20)  # 24 MiB, freed: from here on the library would keep smaller ones
before = resident_bytes()
held = [np.ones(1 << 20) for _ in range(12)]
del held[:-1]
print((resident_bytes() - before) >> 20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_what_is_freed_goes_back_although_a_later_array_is_held() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 24  # MiB, of which the array that is held has 8
    kept = PROGRAM.replace("\ngive_back_freed_arrays()", "")
    assert int(subprocess.run([sys.executable, "-c", kept], capture_output=True, text=True, check=True).stdout) > 48


def test_a_child_takes_a_part_of_the_cores_unless_the_user_says_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert child_environment()["OPENBLAS_NUM_THREADS"] == "4"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "9")
    assert child_environment()["OPENBLAS_NUM_THREADS"] == "9"
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert child_environment()["OPENBLAS_NUM_THREADS"] == "2"


def test_texts_are_read_with_few_searches_for_garbage() -> None:
    done = subprocess.run([sys.executable, "-c", SEARCHES], capture_output=True, text=True, check=True)
    usual, seldom = map(int, done.stdout.split())
    assert seldom * 10 < usual
