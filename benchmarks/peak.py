"""Sustained rates of the GPU at hand beside the chip table: tensor pipe, memory, L2, exponentials, launches, clock.

Twice: as machine code for this chip, and as the PTX of compute_89 that a newer chip compiles when it is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from report import Clock, parser, required_gpu, run, say, table, write_json

from evo.device.calibrate import calibrate
from evo.device.remote_device import RemoteGpu
from evo.results import Rate
from evo.spec.chips import Chip, chip

_SCALES = {
    "FLOP/s": (1e12, "TFLOP/s"),
    "B/s": (1e9, "GB/s"),
    "1/s": (1e9, "G/s"),
    "Hz": (1e6, "MHz"),
    "s": (1e-6, "us"),
}


def from_table(row: Chip) -> dict[str, float]:
    """What the chip's row says for each rate that it states."""
    per_sm = row.sms * row.clock_hz
    scales = {
        "mma_f16_flop_per_s": ("mma_f16_fma", 2 * per_sm),
        "fp32_flop_per_s": ("fp32_lanes", 2 * per_sm),
        "exp_per_s": ("sfu_lanes", per_sm),
        "dram_copy_bytes_per_s": ("dram_bytes_per_s", 1.0),
        "dram_read_bytes_per_s": ("dram_bytes_per_s", 1.0),
        "l2_read_bytes_per_s": ("l2_bytes_per_clock", row.clock_hz),
        "shared_read_bytes_per_s": ("shared_bytes_per_clock", per_sm),
        "launch_graph_s": ("launch_s", 1.0),
    }
    stated = {key: (row.rate(name), factor) for key, (name, factor) in scales.items()}
    found = {key: rate * factor for key, (rate, factor) in stated.items() if rate is not None}
    return {**found, "sm_clock_hz": row.clock_hz}


def rows(found: Mapping[str, Mapping[str, Rate]], row: Chip) -> list[list[object]]:
    """One row a rate: each arch's figure, the table's, and measured / table for the first arch."""
    wanted = from_table(row)
    columns = list(found.values())
    out: list[list[object]] = []
    for key, rate in columns[0].items():
        factor, unit = _SCALES.get(rate.unit, (1.0, rate.unit))
        measured = [f"{column[key].value / factor:,.4g}" if key in column else None for column in columns]
        stated = wanted.get(key)
        share = f"{rate.value / stated:.2f}" if stated else None
        out.append([key, unit, *measured, f"{stated / factor:,.4g}" if stated else None, share])
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__.splitlines()[0]).parse_args(arguments)
    clock = Clock()
    with RemoteGpu(required_gpu(options.gpu)) as gpu:
        about = gpu.describe()
        found: dict[str, dict[str, Rate]] = {}
        for arch in dict.fromkeys((about["capability"], "sm_89")):
            say(f"measuring with kernels for {arch}")
            found[arch] = calibrate(gpu, arch=arch, quick=options.quick)
    print(f"{about['gpu']}, driver {about['driver']}, {clock.seconds:.1f} s")
    print(table(["rate", "unit", *found, "table", "measured/table"], rows(found, chip(about["chip"]))))
    for rate in next(iter(found.values())).items():
        print(f"  {rate[0]}: {rate[1].condition}")
    figures = {arch: {key: rate.to_json() for key, rate in rates.items()} for arch, rates in found.items()}
    write_json(options.json, {"environment": about, "rates": figures, "elapsed_s": round(clock.seconds, 1)})
    return 0


if __name__ == "__main__":
    run(main)
