"""Two kernels tuned by one script: parameters from a function, conditions as functions and texts, a missing package."""

import multiprocessing.connection  # looks for a module of another system itself

import numpy as np
import some_plotting_package as plt
from kernel_tuner import tune_kernel
from kernel_tuner.observers import BenchmarkObserver

MOST_THREADS = 256

SOURCE = """
__global__ void clear(float* x) { x[0] = 0; }

__global__ void
__launch_bounds__(bx * (by))
scale(float* out, const float* in, int width, int height) {
    out[blockIdx.x * bx + threadIdx.x] = in[0] * rows;
}
"""


def parameters():
    return {name: [2**power for power in range(2, 7)] for name in ("bx", "by")} | {"rows": (1, 2, 4), "fast": [True, False]}


def fits(config):
    """Enough threads, and not too many."""
    threads = config["bx"] * config["by"]
    if threads < 64:
        return False
    return threads <= MOST_THREADS


def tune():
    width, height = 1024, 512
    image = np.zeros(width * height, np.float32)
    results, _ = tune_kernel(
        "scale",
        SOURCE,
        (width, height),
        [image, image, np.int32(width), np.int32(height)],
        parameters(),
        block_size_names=["bx", "by"],
        grid_div_y=["by", "rows"],
        restrictions=[fits, lambda p: p["rows"] == 1 or not p["fast"], "rows in (1, 4)"],
        observers=[BenchmarkObserver()],
    )
    print(min(result["time"] for result in results))
    tune_kernel("clear", SOURCE, lambda p: 4096 // p["step"], [image], {"step": [1, 2]}, restrictions=lambda p: max(p.values()) < 9)
    with open("results.json", "w") as file:
        file.write("none")
    plt.plot(results)


if __name__ == "__main__":
    tune()
