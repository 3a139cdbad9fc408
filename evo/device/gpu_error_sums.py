"""The sums of `evo.device.error_sums` by a kernel each, for the judge: one pass over memory, one module to compile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.device.error_sums import ErrorSums, TruthSums

BLOCKS, THREADS = 1024, 256
COLUMNS = 5  # of the rows that the blocks write

SOURCE = (
    f"const int THREADS = {THREADS}, COLUMNS = {COLUMNS};\n"
    + r"""
__device__ double larger(double a, double b) { return a != a || a > b ? a : b; }  // NaN wins, as in NumPy
__device__ double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }

// own: what a thread found. One row for a block: the first column's maximum, the sums of the others.
__device__ void write_row(const double* own, double* rows) {
    __shared__ double all[COLUMNS][THREADS];
    for (int c = 0; c < COLUMNS; ++c) all[c][threadIdx.x] = own[c];
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            for (int c = 0; c < COLUMNS; ++c) {
                double a = all[c][threadIdx.x], b = all[c][threadIdx.x + half];
                all[c][threadIdx.x] = c ? a + b : larger(b, a);
            }
        }
    }
    __syncthreads();
    if (threadIdx.x < COLUMNS) rows[(long long)blockIdx.x * COLUMNS + threadIdx.x] = all[threadIdx.x][0];
}

extern "C" __global__ void error_sums(
    const double* got, const double* truth, double rtol, double atol, long long n, double* rows
) {
    double own[COLUMNS] = {0.0, 0.0, 0.0, 0.0, 0.0};
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long long)gridDim.x * THREADS) {
        double wanted = truth[i], error = got[i] - wanted, size = fabs(error);
        own[0] = larger(size, own[0]);
        own[1] += size * size;
        own[2] += error;
        own[3] += error * sign(wanted);
        own[4] += size <= __dadd_rn(__dmul_rn(fabs(wanted), rtol), atol) ? 0.0 : 1.0;
    }
    write_row(own, rows);
}

extern "C" __global__ void truth_sums(const double* truth, double most, long long n, double* rows) {
    double own[COLUMNS] = {0.0, 0.0, 0.0, 0.0, 0.0};
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += (long long)gridDim.x * THREADS) {
        double size = fabs(truth[i]);
        own[0] = larger(size, own[0]);
        own[1] += size * size;
        own[2] += size;
        own[4] += size <= most ? 0.0 : 1.0;
    }
    write_row(own, rows);
}
"""
)


def errors_of_rows(rows: NDArray[np.float64]) -> ErrorSums:
    """What the blocks' rows say of all errors. rows: (blocks, 5)."""
    _, squares, total, outward, beyond = (float(value) for value in rows.sum(axis=0))
    return ErrorSums(float(rows[:, 0].max()), squares, total, outward, beyond > 0)


def truths_of_rows(rows: NDArray[np.float64]) -> TruthSums:
    """What the blocks' rows say of all numbers of a truth. rows: (blocks, 5)."""
    _, squares, total, _, beyond = (float(value) for value in rows.sum(axis=0))
    return TruthSums(squares, float(rows[:, 0].max()), total, beyond == 0)


class GpuErrorSums:
    """The two kernels, compiled for the GPU at hand. cupy: the module."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        module = cupy.RawModule(code=SOURCE)
        self._errors, self._truths = module.get_function("error_sums"), module.get_function("truth_sums")

    def errors(self, got: Any, truth: Any, rtol: float, atol: float) -> ErrorSums:
        """Of a flat block of any type against a flat float64 truth."""
        wide = got.astype(np.float64, copy=False)
        return errors_of_rows(self._rows(self._errors, wide, truth, np.float64(rtol), np.float64(atol)))

    def truths(self, truth: Any, most: float) -> TruthSums:
        """Of a flat float64 truth."""
        return truths_of_rows(self._rows(self._truths, truth, np.float64(most)))

    def _rows(self, kernel: Any, *arguments: Any) -> NDArray[np.float64]:
        rows = self._cupy.empty((BLOCKS, COLUMNS), np.float64)
        kernel((BLOCKS,), (THREADS,), (*arguments, np.int64(arguments[0].size), rows))
        found: NDArray[np.float64] = rows.get()
        return found
