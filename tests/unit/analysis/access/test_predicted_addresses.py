"""The addresses that the analysis predicts, beside those that the compiled kernel takes on the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from long_cases import long
from numpy.typing import NDArray
from ptx_log import touched

from evo.analysis.access import Form, FormSizes, Symbol, analyse
from evo.analysis.access.instances import NoValue, instances, offsets, places
from evo.spec.chips import chip
from evo.spec.reference import load_reference
from evo.spec.task import read_task
from evo.spec.variant import read_variant

FOREIGN = Path(__file__).parents[3] / "data" / "foreign" / "kernels"
NAMES = sorted(path.name for path in FOREIGN.iterdir())
# A second or more each.
SLOW = {"sgemm_uint", "sgemm_tiled", "linear_forward", "bmm_ijk", "depthwise_conv", "layernorm_product_guard"}
SLOW |= {
    "argmax_rows",
    "column_mean",
    "crossentropy_rows",
    "dot_atomic",
    "reduce_tree",
    "softmax_rows",
    "softmax_online_rows",
    "mean_filter",
    "pairwise_distance",
    "quantise_rows",
    "small_inverse",
    "rmsnorm_thread_rows",
}
Bytes = NDArray[np.int64]
_ROW = Symbol("row", "value", 0)  # the thread, carried along with its indices


def predicted(form: Form, sizes: FormSizes, blocks: list[int]) -> tuple[dict[tuple[str, str], Bytes], set[str]]:
    """Per array and mode the distinct (block, thread, byte); arrays with an access that data decides."""
    found: dict[tuple[str, str], list[Bytes]] = {}
    unknown: set[str] = set()
    row = np.arange(sizes.threads)
    starts = [{**places(sizes, [block], range(sizes.threads)), _ROW: row} for block in blocks]
    for access in form.accesses:
        if access.array is None or access.array.space not in ("global", "shared"):
            continue
        for block, start in zip(blocks, starts, strict=True):
            try:
                columns = instances(form, access, sizes, start)
                at = offsets(access, columns, sizes)
            except NoValue:
                unknown.add(access.array.name)
                continue
            rows = np.stack([np.full_like(at, block), columns[_ROW], at], axis=1)
            found.setdefault((access.array.name, access.mode), []).append(spread(rows, access.bytes))
    return {key: np.unique(np.concatenate(parts), axis=0) for key, parts in found.items()}, unknown


def spread(rows: Bytes, width: int | Bytes) -> Bytes:
    """A row for each byte of (block, thread, first byte)."""
    most = int(np.max(width)) if len(rows) else 0
    parts = []
    for byte in range(most):
        kept = rows[np.broadcast_to(np.asarray(width) > byte, len(rows))].copy()
        kept[:, 2] += byte
        parts.append(kept)
    return np.concatenate(parts) if parts else np.empty((0, 3), np.int64)


@pytest.mark.parametrize("name", [long(name) if name in SLOW else name for name in NAMES])
def test_predictions_are_what_the_kernel_does(name: str) -> None:
    task = read_task(FOREIGN / name)
    variant = read_variant(next((FOREIGN / name / "ladder").glob("*.cu")))
    l4 = chip("l4")
    compared = 0
    for case in task.check:
        arrays = load_reference(task).inputs(case, 1)
        seen = touched(variant, task, case, l4, arrays)
        for analysis, real in zip(analyse(variant, task, case, l4), seen, strict=True):
            expected, unknown = predicted(analysis.form, analysis.sizes, real.blocks)
            for (array, mode), rows in real.rows.items():
                if array in unknown:
                    continue
                done = np.unique(spread(rows[:, :3], rows[:, 3]), axis=0)
                known = expected.get((array, mode), np.empty((0, 3), np.int64))
                # The compiler may leave out a read whose value it has; a write it must carry out.
                both = np.unique(np.concatenate([known, done]), axis=0)
                assert len(both) == len(known), f"{case.name}: {mode} of {array} outside of what was predicted"
                if mode == "write":
                    assert len(done) == len(known), f"{case.name}: writes of {array} that are not carried out"
                compared += len(done)
    assert compared
