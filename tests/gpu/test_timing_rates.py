"""The calibrated rates of a GPU are plausible: below what the chip's row says, in a sensible order."""

import pytest

from evo.device.calibrate import calibrate
from evo.device.remote_device import RemoteGpu
from evo.spec.chips import chip

pytestmark = pytest.mark.gpu


def test_rates_lie_below_the_datasheet_and_above_a_fraction_of_it(gpu: RemoteGpu) -> None:
    row = chip(gpu.describe(time_limit_s=60)["chip"])
    found = calibrate(gpu, quick=True)
    for key, rate in found.items():
        print(f"{key}: {rate.value:.4g} {rate.unit} ({rate.condition})")
    value = {key: rate.value for key, rate in found.items()}
    assert 0.4 * row.clock_hz < value["sm_clock_hz"] < 1.1 * row.clock_hz
    per_sm = row.sms * value["sm_clock_hz"]
    limits = {
        "fp32_flop_per_s": (row.rate("fp32_lanes"), 2 * per_sm),
        "exp_per_s": (row.rate("sfu_lanes"), per_sm),
        "shared_read_bytes_per_s": (row.rate("shared_bytes_per_clock"), per_sm),
        "dram_copy_bytes_per_s": (row.rate("dram_bytes_per_s"), 1.0),
    }
    for key, (rate, factor) in limits.items():
        if rate is not None:
            # fp32 may run at a higher clock than the tensor load that the clock was read under.
            assert 0.5 * rate * factor < value[key] < 1.25 * rate * factor, key
    assert value["l2_read_bytes_per_s"] > value["dram_read_bytes_per_s"]
    assert value["mma_f16_flop_per_s"] > value["fp32_flop_per_s"]
    assert 0.2e-6 < value["launch_graph_s"] < 5e-6
    assert value["launch_event_s"] > value["launch_graph_s"]


def test_ptx_that_the_driver_compiles_reaches_the_rates_of_machine_code(gpu: RemoteGpu) -> None:
    native, older = (calibrate(gpu, arch=arch, quick=True) for arch in ("native", "sm_89"))
    ratio = older["mma_f16_flop_per_s"].value / native["mma_f16_flop_per_s"].value
    print(f"mma.sync from sm_89 over native: {ratio:.3f}")
    assert 0.8 < ratio < 1.25
