"""Registers that ptxas moves to memory: told of a child that has more of them than its parent."""

from __future__ import annotations

from pathlib import Path

from tiny import HEAD, write_task

from evo.evaluate.prepare import Prepared, prepare, spills
from evo.spec.chips import chip
from evo.spec.task import load_task

BODY = """\
    float held[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) held[i] = x[min(i * 7, n - 1)] * i;
    const int at = blockIdx.x * THREADS + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 1
    for (int turn = 0; turn < n; ++turn)
#pragma unroll
        for (int i = 0; i < 128; ++i) sum = held[i] = held[i] * sum + turn;
    if (at < n) y[at] = sum;
}
"""


def test_spills_are_told_where_the_parent_has_none(tmp_path: Path) -> None:
    write_task(tmp_path)
    task = load_task(tmp_path, "scale")
    text = HEAD.format(idea="Many values at once.", each=1, threads=128) + BODY
    capped = text.replace("__global__ void", "__global__ void __maxnreg__(32)")
    free, tight = (prepare(task, each, chip=chip("l4"), arch="sm_89") for each in (text, capped))
    assert isinstance(free, Prepared)
    assert isinstance(tight, Prepared)
    assert spills(free, free) is None
    assert spills(tight, free) is None
    assert (spills(free, tight) or "").startswith("ptxas spills ")
