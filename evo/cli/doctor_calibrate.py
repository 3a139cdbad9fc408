"""`evo doctor --calibrate`: sustained rates of this machine's GPU, beside its datasheet's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evo.cli.terminal import out, out_json, out_table, paint, say
from evo.errors import DeviceMissing

if TYPE_CHECKING:
    from evo.spec.chips import Chip

# The field of the chip's row for a measured rate, and its display unit.
_SHOWN = {
    "mma_f16_flop_per_s": ("fp16 tensor, fp32 accumulate, by mma.sync", 1e12, "TFLOP/s"),
    "fp32_flop_per_s": ("fp32 multiply-add", 1e12, "TFLOP/s"),
    "exp_per_s": ("2^x", 1e12, "T/s"),
    "dram_copy_bytes_per_s": ("DRAM copy, read and written", 1e9, "GB/s"),
    "dram_read_bytes_per_s": ("DRAM read", 1e9, "GB/s"),
    "l2_read_bytes_per_s": ("L2 read", 1e9, "GB/s"),
    "shared_read_bytes_per_s": ("shared memory read", 1e9, "GB/s"),
    "launch_graph_s": ("launch in a graph", 1e-6, "µs"),
    "launch_stream_s": ("launch on a stream", 1e-6, "µs"),
    "launch_event_s": ("launch between events", 1e-6, "µs"),
    "sm_clock_hz": ("SM clock under load", 1e6, "MHz"),
    "power_w": ("power under load", 1.0, "W"),
}


def calibrate(device: str, *, quick: bool, json: bool) -> int:
    """Measure the rates, store and show them. Raises DeviceMissing without a GPU."""
    from evo.analysis.calibration import keep_rates
    from evo.device import gpu_present, parse_device
    from evo.device.calibrate import calibrate as measure
    from evo.device.remote_device import RemoteGpu
    from evo.spec.chips import chip

    name = parse_device("gpu:0" if device == "auto" else device)
    if name.kind != "gpu" or not gpu_present():
        what = f"{name} has no rates to measure" if name.kind != "gpu" else f"no GPU {name.which} on this machine"
        raise DeviceMissing(
            what, hint="calibrate on a machine with an NVIDIA GPU: evo doctor --calibrate --device gpu:0"
        )
    with RemoteGpu(name) as gpu:
        about = gpu.describe()
        row = chip(about["chip"])
        say(f"calibrating {about.get('gpu', row.name)}: about ten seconds")
        rates = measure(gpu, quick=quick)
    path = keep_rates(row.slug, about, rates, datetime.now(UTC))
    if json:
        from evo.cli.analysis_outputs import CalibrationOutput

        sheet = {key: stated for key in rates if (stated := datasheet(row, key)) is not None}
        shown = CalibrationOutput(chip=row.slug, about=about, rates=rates, datasheet=sheet, file=str(path))
        out_json(shown.to_json())
        return 0
    out(f"{paint(about.get('gpu', row.name), 'bold')} ({row.slug}), driver {about.get('driver', 'unknown')}")
    out()
    table = [_line(row, key, rate.value, rate.condition) for key, rate in rates.items()]
    out_table(["rate", ">measured", ">datasheet", ">share", "unit", "measured how"], table, flexible=5)
    out()
    say(f"stored in {path}; `evo limits` shows floors by these rates too")
    return 0


def datasheet(row: Chip, key: str) -> float | None:
    """The chip row's value of a measured rate, in the same unit; None if it has none."""
    clock = row.clock_hz
    per_sm = {
        "mma_f16_flop_per_s": ("mma_f16_fma", 2 * row.rates.get("tensor_clock_hz", clock)),
        "fp32_flop_per_s": ("fp32_lanes", 2 * clock),
        "exp_per_s": ("sfu_lanes", clock),
        "shared_read_bytes_per_s": ("shared_bytes_per_clock", clock),
    }
    if key in per_sm:
        name, factor = per_sm[key]
        rate = row.stated(name)
        return rate * row.sms * factor if rate is not None else None
    if key in ("dram_copy_bytes_per_s", "dram_read_bytes_per_s"):
        return row.stated("dram_bytes_per_s")
    if key == "l2_read_bytes_per_s":
        rate = row.stated("l2_bytes_per_clock")
        return rate * clock if rate is not None else None
    return clock if key == "sm_clock_hz" else None


def _line(row: Chip, key: str, value: float, condition: str) -> list[str]:
    words, unit, shown = _SHOWN.get(key, (key, 1.0, ""))
    stated = datasheet(row, key)
    return [
        words,
        f"{value / unit:,.4g}" if value / unit < 1e4 else f"{value / unit:,.0f}",
        f"{stated / unit:,.5g}" if stated is not None else "",
        f"{value / stated:.1%}" if stated is not None else "",
        shown,
        condition,
    ]
