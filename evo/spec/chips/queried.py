"""Rows of GPUs that are not in the table: what the device itself reports, and the rest left out.

A row is kept in the user's cache, so that every process of evo on this machine knows the chip by its slug.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping

from evo.errors import HarnessFault
from evo.files import cache_folder, write_atomic
from evo.spec.chips.capability import CAPABILITIES, sources
from evo.spec.chips.chip import Chip

_FOLDER = "chips"  # of the user's cache
# Attributes by the name and number of CUDA's cudaDeviceAttr.
ATTRIBUTES = {
    "MaxThreadsPerBlock": 1,
    "MaxSharedMemoryPerBlock": 8,
    "ClockRate": 13,
    "MultiProcessorCount": 16,
    "MemoryClockRate": 36,
    "GlobalMemoryBusWidth": 37,
    "L2CacheSize": 38,
    "MaxThreadsPerMultiProcessor": 39,
    "ComputeCapabilityMajor": 75,
    "ComputeCapabilityMinor": 76,
    "MaxSharedMemoryPerMultiprocessor": 81,
    "MaxRegistersPerMultiprocessor": 82,
    "MaxSharedMemoryPerBlockOptin": 97,
    "MaxBlocksPerMultiprocessor": 106,
    "ReservedSharedMemoryPerBlock": 111,
}
_FIELDS = {
    "sms": "MultiProcessorCount",
    "registers_per_sm": "MaxRegistersPerMultiprocessor",
    "threads_per_sm": "MaxThreadsPerMultiProcessor",
    "threads_per_block": "MaxThreadsPerBlock",
    "blocks_per_sm": "MaxBlocksPerMultiprocessor",
    "shared_per_sm": "MaxSharedMemoryPerMultiprocessor",
    "shared_per_block": "MaxSharedMemoryPerBlock",
    "shared_per_block_optin": "MaxSharedMemoryPerBlockOptin",
    "shared_reserved_per_block": "ReservedSharedMemoryPerBlock",
    "l2_bytes": "L2CacheSize",
}


def slug_of(product: str) -> str:
    """`NVIDIA RTX A6000` as a slug: `rtx-a6000`."""
    words = product.removeprefix("NVIDIA ").lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-") or "gpu"


def from_attributes(product: str, attributes: Mapping[str, int]) -> Chip:
    """A row from the values of `ATTRIBUTES` by name (clocks in kHz, widths in bits). Raises KeyError for a missing one.

    Rates per clock are of the compute capability where NVIDIA
    states them; tensor rates, L2 bandwidth and latencies stay absent.
    """
    capability = attributes["ComputeCapabilityMajor"] * 10 + attributes["ComputeCapabilityMinor"]
    of = CAPABILITIES.get(capability)
    rates = dict(of.rates()) if of else {}
    said = sources(capability) if of else {}
    said |= {name: f"device attribute {attribute}" for name, attribute in _FIELDS.items()}
    said["clock_hz"] = "device attribute ClockRate"
    memory_khz, bits = attributes.get("MemoryClockRate", 0), attributes.get("GlobalMemoryBusWidth", 0)
    if memory_khz > 0 and bits > 0:
        rates["dram_bytes_per_s"] = 2.0 * memory_khz * 1e3 * bits / 8
        said["dram_bytes_per_s"] = "device attributes MemoryClockRate x GlobalMemoryBusWidth, two transfers a clock"
    sizes = {name: attributes[attribute] for name, attribute in _FIELDS.items()}
    return Chip(
        slug=slug_of(product),
        name=product,
        architecture=f"compute capability {capability / 10:.1f}",
        capability=capability,
        clock_hz=attributes["ClockRate"] * 1e3,
        registers_per_thread=255,
        register_allocation_unit=256,
        l1_bytes=of.l1_bytes if of else sizes["shared_per_sm"],
        rates=rates,
        sources=said,
        estimates=(),
        products=(),
        **sizes,
    )


def store(product: str, attributes: Mapping[str, int]) -> Chip:
    """Keep what a device reported, and return its row. A disk that cannot be written costs only the keeping."""
    row = from_attributes(product, attributes)
    if (folder := cache_folder(_FOLDER)) is not None:
        text = json.dumps({"product": product, "attributes": dict(attributes)}, indent=1, sort_keys=True)
        with contextlib.suppress(HarnessFault):
            write_atomic(folder / f"{row.slug}.json", f"{text}\n".encode(), durable=False)
    return row


def load(slug: str) -> Chip | None:
    """A row that was queried on this machine before; None if there is none or its file is damaged."""
    folder = cache_folder(_FOLDER)
    if folder is None or slug_of(slug) != slug:
        return None
    try:
        kept = json.loads((folder / f"{slug}.json").read_text(encoding="utf-8"))
        row = from_attributes(str(kept["product"]), {str(k): int(v) for k, v in kept["attributes"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return row if row.slug == slug else None
