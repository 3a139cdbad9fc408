"""Chip rows: stated peaks come back from rates per clock, every number has a source, unknown GPUs invent nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refused

from evo.device import parse_device
from evo.errors import DeviceMissing, UsageError
from evo.spec.chips import CHIPS, L4, chip, chip_by_name, queried

# TFLOP/s dense FP16 with FP32 accumulate and GB/s, as the datasheets print them.
STATED = {
    "l4": (121, 300),
    "t4": (65, 320),
    "a10": (125, 600),
    "a4000": (76.7, 448),
    "a100-40": (312, 1555),
    "a100-80": (312, 2039),
    "a100-80-pcie": (312, 1935),
    "l40s": (366, 864),
    "rtx3090": (71, 936),
    "rtx4090": (165.2, 1008),
    "h100-sxm": (989.4, 3352),
    "h100-pcie": (756, 2039),
    "h200": (989, 4800),
    "b200": (2250, 8000),
}
# Threads, blocks and opt-in shared bytes of an SM by compute capability, written down apart from the table.
LIMITS = {
    75: (1024, 16, 65_536),
    80: (2048, 32, 166_912),
    86: (1536, 16, 101_376),
    89: (1536, 24, 101_376),
    90: (2048, 32, 232_448),
    100: (2048, 32, 232_448),
}

# What an RTX A6000 would report: no row of the table.
A6000 = {
    "MaxThreadsPerBlock": 1024,
    "MaxSharedMemoryPerBlock": 49152,
    "ClockRate": 1_800_000,
    "MultiProcessorCount": 84,
    "MemoryClockRate": 8_001_000,
    "GlobalMemoryBusWidth": 384,
    "L2CacheSize": 6 * 2**20,
    "MaxThreadsPerMultiProcessor": 1536,
    "ComputeCapabilityMajor": 8,
    "ComputeCapabilityMinor": 6,
    "MaxSharedMemoryPerMultiprocessor": 102_400,
    "MaxRegistersPerMultiprocessor": 65_536,
    "MaxSharedMemoryPerBlockOptin": 101_376,
    "MaxBlocksPerMultiprocessor": 16,
    "ReservedSharedMemoryPerBlock": 1024,
}


@pytest.mark.parametrize("slug", sorted(CHIPS))
def test_rates_per_clock_give_the_stated_peaks_back(slug: str) -> None:
    row = CHIPS[slug]
    tflops, gigabytes = STATED[slug]
    assert row.peak_tensor_flop_per_s == pytest.approx(tflops * 1e12, rel=0.003)
    assert row.rate("dram_bytes_per_s") == pytest.approx(gigabytes * 1e9, rel=0.001)


@pytest.mark.parametrize("slug", sorted(CHIPS))
def test_every_number_of_a_row_names_its_source(slug: str) -> None:
    row = CHIPS[slug]
    fields = {"sms", "clock_hz", "l2_bytes", "registers_per_sm", "threads_per_sm", "blocks_per_sm", "shared_per_sm"}
    assert not (fields | set(row.rates)) - set(row.sources)
    assert set(row.estimates) <= set(row.rates)
    assert all(row.sources[name] for name in row.sources)


@pytest.mark.parametrize("slug", sorted(CHIPS))
def test_an_sm_has_the_limits_of_its_capability(slug: str) -> None:
    row = CHIPS[slug]
    assert (row.threads_per_sm, row.blocks_per_sm, row.shared_per_block_optin) == LIMITS[row.capability]
    assert row.registers_per_sm == 65_536
    assert row.shared_per_block_optin <= row.shared_per_sm <= row.l1_bytes


def test_the_l4_is_what_the_devices_report_and_not_the_full_die() -> None:
    assert (L4.sms, L4.l2_bytes, L4.clock_hz) == (58, 48 * 2**20, 2.04e9)
    assert L4.peak_mma_flop_per_s == pytest.approx(121.16e12, rel=1e-4)
    assert L4.peak_fp32_flop_per_s == pytest.approx(30.3e12, rel=2e-3)


def test_what_no_source_states_is_absent_and_asking_for_it_says_so() -> None:
    t4 = chip("t4")
    assert t4.rate("l2_bytes_per_clock") is None
    assert t4.l2_bytes_per_s is None
    with pytest.raises(DeviceMissing, match="l2_bytes_per_clock"):
        _ = t4.l2_bytes_per_clock
    with refused(UsageError, "rate-unknown"):
        parse_device("sim:t4")
    assert parse_device("sim:h200").which == "h200"


@pytest.mark.parametrize(
    ("product", "slug"),
    [
        ("NVIDIA L4", "l4"),
        ("Tesla T4", "t4"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA A100-PCIE-40GB", "a100-40"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
    ],
)
def test_products_are_found_by_the_name_the_driver_reports(product: str, slug: str) -> None:
    row = chip_by_name(product)
    assert row is not None
    assert row.slug == slug


def test_an_unknown_gpu_is_queried_and_the_rest_stays_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path))
    assert chip_by_name("NVIDIA RTX A6000") is None
    with pytest.raises(DeviceMissing, match="rtx-a6000"):
        chip("rtx-a6000")
    row = queried.store("NVIDIA RTX A6000", A6000)
    assert row == chip("rtx-a6000")
    assert (row.sms, row.capability, row.shared_per_block_optin) == (84, 86, 101_376)
    assert row.rate("dram_bytes_per_s") == pytest.approx(768e9, rel=1e-3)
    assert row.rate("fp32_lanes") == 128  # of the compute capability
    for name in ("tensor_f16_fma", "mma_f16_fma", "l2_bytes_per_clock", "latency_l2", "launch_s"):
        assert row.rate(name) is None
    assert "device attribute" in row.sources["sms"]


def test_a_capability_without_a_table_row_has_no_rates() -> None:
    row = queried.from_attributes("NVIDIA Future", {**A6000, "ComputeCapabilityMajor": 13, "ComputeCapabilityMinor": 0})
    assert set(row.rates) == {"dram_bytes_per_s"}


def test_a_damaged_kept_row_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path))
    queried.store("NVIDIA RTX A6000", A6000)
    (tmp_path / "chips" / "rtx-a6000.json").write_text("{")
    with pytest.raises(DeviceMissing):
        chip("rtx-a6000")
