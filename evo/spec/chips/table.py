"""The chips that evo knows by product. Tensor rates are dense with FP32 accumulate; clocks are boost clocks.

A tensor rate per clock is the stated peak divided by SMs and clock; the product gives the stated peak back. Each row
states what its sources state: L2 bandwidth, latencies and launch cost of most chips are stated by none and are left
out. Two rows carry estimates of them for the simulator's model, named in `estimates`.
"""

from __future__ import annotations

from functools import partial

from evo.spec.chips.capability import CAPABILITIES, sources
from evo.spec.chips.chip import Chip

_MIB = 2**20
_ADA = "NVIDIA Ada GPU Architecture whitepaper"
_GA102 = "NVIDIA Ampere GA102 GPU Architecture whitepaper"
_TURING = "NVIDIA Turing GPU Architecture whitepaper"
_A100 = "NVIDIA A100 Tensor Core GPU Architecture whitepaper"
_H100 = "NVIDIA H100 Tensor Core GPU Architecture whitepaper"
_MODEL_ONLY = (
    "lsu_lanes", "l2_bytes_per_clock", "latency_shared", "latency_l1", "latency_l2", "latency_dram", "launch_s",
)  # fmt: skip
_SPLIT = "; mma.sync reaches 0.62 of it by published microbenchmarks (arXiv 2402.13499)"


_Figure = tuple[float, str]  # a number and where it is stated


def _row(
    slug: str,
    name: str,
    architecture: str,
    capability: int,
    *,
    sms: _Figure,
    clock_hz: _Figure,
    l2_bytes: _Figure,
    estimates: tuple[str, ...] = (),
    products: tuple[str, ...] = (),
    **rates: _Figure,
) -> Chip:
    """A chip from its own figures and those of its capability. A rate that no source states is left out."""
    of = CAPABILITIES[capability]
    stated = {"sms": sms, "clock_hz": clock_hz, "l2_bytes": l2_bytes, **rates}
    return Chip(
        slug=slug,
        name=name,
        architecture=architecture,
        capability=capability,
        sms=int(sms[0]),
        clock_hz=clock_hz[0],
        l2_bytes=int(l2_bytes[0]),
        rates={**of.rates(), **{rate: number for rate, (number, _) in rates.items()}},
        sources={**sources(capability), **{figure: source for figure, (_, source) in stated.items()}},
        estimates=estimates,
        products=products,
        **of.limits(),
    )


L4 = _row(
    "l4",
    "NVIDIA L4",
    "Ada Lovelace, AD104",
    89,
    sms=(58, "deviceQuery of an L4: 58 SMs, 7,424 cores (60 is the full AD104 die)"),
    clock_hz=(2.04e9, "deviceQuery of an L4: 2,040 MHz, boost; a 72 W part sustains less under tensor load"),
    l2_bytes=(48 * _MIB, f"{_ADA}, AD104: 48 MB"),
    dram_bytes_per_s=(300.1e9, "L4 datasheet: GDDR6, 192 bit, 300 GB/s"),
    lsu_lanes=(16, f"{_ADA}, figure of the SM: 16 load and store units"),
    mma_f16_fma=(
        512,
        "L4 datasheet: 121 TFLOP/s dense FP16 (242 is with sparsity) = 58 x 512 x 2 x 2.04e9; FP32"
        " accumulate runs at the same rate, half rate is GeForce only",
    ),
    tensor_f16_fma=(512, "as mma_f16_fma: sm_89 has no wider tensor instruction than mma.sync"),
    tensor_f8_fma=(1024, "L4 datasheet: 242.5 TFLOP/s dense FP8"),
    l2_bytes_per_clock=(
        809.0,
        "estimate, unmeasured: RTX 4090 microbenchmark scaled by bus width to 1.65 TB/s; plausible 1.2 to 2.4",
    ),
    latency_shared=(30, "RTX 4090 microbenchmarks (arXiv 2402.13499); unmeasured on L4"),
    latency_l1=(33, "RTX 4090 microbenchmarks (arXiv 2402.13499); unmeasured on L4"),
    latency_l2=(273, "RTX 4090 microbenchmarks (arXiv 2402.13499); unmeasured on L4"),
    latency_dram=(541, "RTX 4090 microbenchmarks (arXiv 2402.13499); unmeasured on L4"),
    launch_s=(2.5e-6, "estimate, unmeasured"),
    estimates=_MODEL_ONLY,
)

T4 = _row(
    "t4",
    "Tesla T4",
    "Turing, TU104",
    75,
    sms=(40, f"{_TURING}, Tesla T4: 40 SMs, 2,560 cores"),
    clock_hz=(
        1.59e9,
        f"{_TURING}, Tesla T4: boost 1,590 MHz; a 70 W part sustains less",
    ),
    l2_bytes=(4 * _MIB, f"{_TURING}, TU104: 4,096 KB"),
    dram_bytes_per_s=(320e9, "T4 datasheet: GDDR6, 256 bit, 320 GB/s"),
    mma_f16_fma=(
        512,
        "T4 datasheet: 65 TFLOP/s mixed precision (FP16 operands, FP32 accumulate) = 40 x 512 x 2 x 1.59e9",
    ),
    tensor_f16_fma=(512, "as mma_f16_fma"),
)

A10 = _row(
    "a10",
    "NVIDIA A10",
    "Ampere, GA102",
    86,
    sms=(72, "A10 datasheet: 72 RT cores, one per SM; 9,216 cores"),
    clock_hz=(1.695e9, "A10 product brief: boost 1,695 MHz"),
    l2_bytes=(6 * _MIB, f"{_GA102}: 6,144 KB, 512 KB per 32-bit memory controller, 384 bit"),
    dram_bytes_per_s=(600e9, "A10 datasheet: GDDR6, 600 GB/s"),
    mma_f16_fma=(
        512,
        "A10 datasheet: 125 TFLOP/s dense FP16 and BF16 (BF16 always accumulates in FP32) = 72 x 512 x 2 x 1.695e9",
    ),
    tensor_f16_fma=(512, "as mma_f16_fma"),
)

A4000 = _row(
    "a4000",
    "NVIDIA RTX A4000",
    "Ampere, GA104",
    86,
    sms=(48, "RTX A4000 datasheet: 48 RT cores, one per SM; 6,144 cores"),
    clock_hz=(1.56e9, "RTX A4000 datasheet: 19.2 TFLOP/s FP32 = 48 x 128 x 2 x 1.56e9; boost 1,560 MHz"),
    l2_bytes=(4 * _MIB, f"{_GA102}, appendix, GA104: 4,096 KB"),
    dram_bytes_per_s=(448e9, "RTX A4000 datasheet: GDDR6, 448 GB/s"),
    lsu_lanes=(16, f"{_GA102}, figure of the SM: 16 load and store units"),
    mma_f16_fma=(512, "RTX A4000 datasheet: 153.4 TFLOP/s with sparsity, 76.7 dense = 48 x 512 x 2 x 1.56e9"),
    tensor_f16_fma=(512, "as mma_f16_fma"),
    l2_bytes_per_clock=(1079.0, "estimate, unmeasured: that of the L4 by width of the bus"),
    latency_shared=(29, "estimate, unmeasured on an A4000"),
    latency_l1=(33, "estimate, unmeasured on an A4000"),
    latency_l2=(227, "estimate, unmeasured on an A4000"),
    latency_dram=(567, "estimate, unmeasured on an A4000"),
    launch_s=(2.5e-6, "estimate, unmeasured"),
    estimates=_MODEL_ONLY,
)

_a100 = partial(
    _row,
    architecture="Ampere, GA100",
    capability=80,
    sms=(108, f"{_A100}, table of A100 specifications: 108 SMs"),
    clock_hz=(1.41e9, f"{_A100}: boost 1,410 MHz"),
    l2_bytes=(40 * _MIB, f"{_A100}: 40 MB"),
    mma_f16_fma=(1024.0, f"{_A100}: 312 TFLOP/s dense FP16 with FP32 accumulate = 108 x 1,024 x 2 x 1.41e9"),
    tensor_f16_fma=(1024.0, "as mma_f16_fma"),
    l2_bytes_per_clock=(5120.0, f"{_A100}, L2 cache: 5,120 bytes per clock of read bandwidth"),
)
A100_40 = _a100(
    "a100-40",
    "NVIDIA A100-SXM4-40GB",
    dram_bytes_per_s=(1555e9, f"{_A100}: HBM2, 5,120 bit, 1,555 GB/s"),
    products=("NVIDIA A100-PCIE-40GB",),
)
A100_80 = _a100(
    "a100-80", "NVIDIA A100-SXM4-80GB", dram_bytes_per_s=(2039e9, "A100 80GB datasheet, SXM: HBM2e, 2,039 GB/s")
)
A100_80_PCIE = _a100(
    "a100-80-pcie", "NVIDIA A100 80GB PCIe", dram_bytes_per_s=(1935e9, "A100 80GB datasheet, PCIe: HBM2e, 1,935 GB/s")
)

L40S = _row(
    "l40s",
    "NVIDIA L40S",
    "Ada Lovelace, AD102",
    89,
    sms=(142, "L40S datasheet: 142 RT cores, one per SM; 18,176 cores"),
    clock_hz=(2.52e9, "L40S product brief: boost 2,520 MHz"),
    l2_bytes=(96 * _MIB, f"{_ADA}, AD102: 98,304 KB; the L40S datasheet does not state it"),
    dram_bytes_per_s=(864e9, "L40S datasheet: GDDR6 with ECC, 864 GB/s"),
    mma_f16_fma=(
        512,
        "L40S datasheet: 733 TFLOP/s FP16 with sparsity, 366 dense = 142 x 512 x 2 x 2.52e9 (its dense"
        " column prints 362)",
    ),
    tensor_f16_fma=(512, "as mma_f16_fma"),
    tensor_f8_fma=(1024, "L40S datasheet: 733 TFLOP/s dense FP8"),
)

RTX_3090 = _row(
    "rtx3090",
    "NVIDIA GeForce RTX 3090",
    "Ampere, GA102",
    86,
    sms=(82, f"{_GA102}, appendix, GeForce RTX 3090: 82 SMs"),
    clock_hz=(1.695e9, f"{_GA102}, appendix, GeForce RTX 3090: boost 1,695 MHz"),
    l2_bytes=(6 * _MIB, f"{_GA102}, appendix, GeForce RTX 3090: 6,144 KB"),
    dram_bytes_per_s=(936e9, f"{_GA102}, appendix, GeForce RTX 3090: GDDR6X, 936 GB/s"),
    mma_f16_fma=(
        256,
        f"{_GA102}, appendix: 71 TFLOP/s dense FP16 with FP32 accumulate (142 with FP16 accumulate)"
        " = 82 x 256 x 2 x 1.695e9",
    ),
    tensor_f16_fma=(256, "as mma_f16_fma"),
)

RTX_4090 = _row(
    "rtx4090",
    "NVIDIA GeForce RTX 4090",
    "Ada Lovelace, AD102",
    89,
    sms=(128, f"{_ADA}, appendix, GeForce RTX 4090: 128 SMs"),
    clock_hz=(2.52e9, f"{_ADA}, appendix, GeForce RTX 4090: boost 2,520 MHz"),
    l2_bytes=(72 * _MIB, f"{_ADA}, appendix, GeForce RTX 4090: 73,728 KB"),
    dram_bytes_per_s=(1008e9, f"{_ADA}, appendix, GeForce RTX 4090: GDDR6X, 1,008 GB/s"),
    mma_f16_fma=(
        256,
        f"{_ADA}, appendix: 165.2 TFLOP/s dense FP16 with FP32 accumulate (330.3 with FP16 accumulate)"
        " = 128 x 256 x 2 x 2.52e9",
    ),
    tensor_f16_fma=(256, "as mma_f16_fma"),
    tensor_f8_fma=(512, f"{_ADA}, appendix: 330.3 TFLOP/s dense FP8 with FP32 accumulate"),
)

H100_SXM = _row(
    "h100-sxm",
    "NVIDIA H100 80GB HBM3",
    "Hopper, GH100",
    90,
    sms=(132, f"{_H100}, table of H100 specifications, SXM5: 132 SMs"),
    clock_hz=(1.98e9, f"{_H100}, SXM5: boost 1,980 MHz outside tensor cores of low precision"),
    l2_bytes=(50 * _MIB, f"{_H100}: 50 MB"),
    dram_bytes_per_s=(3352e9, f"{_H100}, SXM5: HBM3, 3,352 GB/s"),
    mma_f16_fma=(1270, f"{_H100}: 989.4 TFLOP/s dense{_SPLIT}; unmeasured here"),
    tensor_f16_fma=(
        2048,
        f"{_H100}, SXM5: 989.4 TFLOP/s dense FP16 with FP32 accumulate = 132 x 2,048 x 2 x 1.83e9 (wgmma)",
    ),
    tensor_f8_fma=(4096, f"{_H100}, SXM5: 1,978.9 TFLOP/s dense FP8"),
    tensor_clock_hz=(1.83e9, f"{_H100}, SXM5: boost 1,830 MHz for FP8, FP16, BF16 and TF32 tensor operations"),
    estimates=("mma_f16_fma",),
)

H100_PCIE = _row(
    "h100-pcie",
    "NVIDIA H100 PCIe",
    "Hopper, GH100",
    90,
    sms=(114, f"{_H100}, table of H100 specifications, PCIe: 114 SMs"),
    clock_hz=(1.755e9, f"{_H100}, PCIe: boost 1,755 MHz outside tensor cores of low precision"),
    l2_bytes=(50 * _MIB, f"{_H100}: 50 MB"),
    dram_bytes_per_s=(2039e9, f"{_H100}, PCIe: HBM2e, 2,039 GB/s"),
    mma_f16_fma=(1270, f"{_H100}: 756 TFLOP/s dense{_SPLIT}; unmeasured here"),
    tensor_f16_fma=(
        2048,
        f"{_H100}, PCIe: 756 TFLOP/s dense FP16 with FP32 accumulate = 114 x 2,048 x 2 x 1.62e9 (wgmma)",
    ),
    tensor_f8_fma=(4096, f"{_H100}, PCIe: 1,513 TFLOP/s dense FP8"),
    tensor_clock_hz=(1.62e9, f"{_H100}, PCIe: boost 1,620 MHz for FP8, FP16, BF16 and TF32 tensor operations"),
    estimates=("mma_f16_fma",),
)

H200 = _row(
    "h200",
    "NVIDIA H200",
    "Hopper, GH100",
    90,
    sms=(132, "H200 SXM: 132 SMs read from the device"),
    clock_hz=(1.98e9, "maximum SM clock read from the device, 1,980 MHz"),
    l2_bytes=(60 * _MIB, "read from the device: 62,914,560 bytes, driver 580"),
    dram_bytes_per_s=(4.8e12, "H200 SXM datasheet: HBM3e, 4.8 TB/s"),
    lsu_lanes=(32, f"{_H100}, figure of the SM: 32 load and store units"),
    mma_f16_fma=(
        1270,
        "mma.sync at 0.62 of the 2,048 dense wgmma rate (arXiv 2402.13499), 613 TFLOP/s; one H200"
        " sustains 616 by `evo doctor --calibrate`",
    ),
    tensor_f16_fma=(
        2048,
        "H200 SXM datasheet: 1,979 TFLOP/s FP16 with sparsity, 989 dense = 132 x 2,048 x 2 x 1.83e9 (wgmma)",
    ),
    tensor_f8_fma=(4096, "H200 SXM datasheet: 3,958 TFLOP/s FP8 with sparsity, 1,979 dense"),
    tensor_clock_hz=(1.83e9, "the clock at which 132 x 2,048 x 2 gives the datasheet's 989 TFLOP/s, as for H100 SXM5"),
    l2_bytes_per_clock=(
        2778.0,
        "estimate: 5.5 TB/s assumed; an H200 reads 16 MiB at 9.1 TB/s (`evo doctor --calibrate`)",
    ),
    latency_shared=(29, "estimate from H100 microbenchmarks (arXiv 2402.13499)"),
    latency_l1=(33, "estimate from H100 microbenchmarks (arXiv 2402.13499)"),
    latency_l2=(260, "estimate from H100 microbenchmarks (arXiv 2402.13499)"),
    latency_dram=(600, "estimate from H100 microbenchmarks (arXiv 2402.13499)"),
    launch_s=(2.2e-6, "estimate, unmeasured"),
    estimates=("mma_f16_fma", *_MODEL_ONLY),
)

B200 = _row(
    "b200",
    "NVIDIA B200",
    "Blackwell, GB100",
    100,
    sms=(148, "device properties of a B200: 148 SMs (pytorch/ao pull request 4002)"),
    clock_hz=(1.965e9, "maximum SM clock that nvidia-smi reports for a B200, 1,965 MHz"),
    l2_bytes=(129_536 * 1024, "device properties of a B200: 129,536 KiB (pytorch/ao pull request 4002: 126.5 MB)"),
    dram_bytes_per_s=(
        8.0e12,
        "B200 datasheet: HBM3e, 8 TB/s; 7,680 bit at 3,996 MHz as read from a device is 7.67 TB/s",
    ),
    tensor_f16_fma=(
        4096,
        "B200 datasheet: 4.5 PFLOP/s FP16 with sparsity, 2.25 dense = 148 x 4,096 x 2 x 1.856e9"
        " (tcgen05); no source states the rate of mma.sync",
    ),
    tensor_f8_fma=(8192, "B200 datasheet: 9 PFLOP/s FP8 with sparsity, 4.5 dense"),
    tensor_clock_hz=(1.856e9, "the clock at which 148 x 4,096 x 2 gives the datasheet's 2.25 PFLOP/s"),
)

CHIPS: dict[str, Chip] = {
    row.slug: row
    for row in (
        L4, T4, A10, A4000, A100_40, A100_80, A100_80_PCIE, L40S, RTX_3090, RTX_4090, H100_SXM, H100_PCIE, H200, B200,
    )
}  # fmt: skip

# A bare family name means its most common product.
ALIASES = {"a100": "a100-80", "h100": "h100-sxm", "3090": "rtx3090", "4090": "rtx4090"}
