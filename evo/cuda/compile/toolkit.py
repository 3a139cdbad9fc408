"""Finds the compiler, its headers and the disassembler, and their versions, in wheels; no toolkit needed.

Nothing here imports cuda: versions come from package metadata, so a cache hit never loads the compiler.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from pathlib import Path

from evo.errors import HarnessFault

_INSTALL = "pip install 'evo-kernels[{}]' (one toolkit for the compiler and its headers; see evo doctor)"
_FOR_A_GPU = "; for a GPU the extra is cu13, or cu12 for a driver before the 580 series"
_LINUX = "NVIDIA has wheels of its compiler for Linux only; compile, check and bench there, in a container for example"
_NVDISASM = ("nvidia-cuda-nvdisasm", "nvidia/cu13/bin/nvdisasm")  # reads cubins of older toolkits too
# By the major version of cuda-bindings, which loads NVRTC: the wheels of one toolkit, each with its folder below
# site-packages. Where both toolkits are installed, the compiler of one is never given the headers of the other.
_TOOLKITS = {
    13: (
        ("nvidia-cuda-nvrtc", "nvidia/cu13"),
        ("nvidia-cuda-runtime", "nvidia/cu13/include"),
        ("nvidia-cuda-crt", "nvidia/cu13/include"),
        ("nvidia-cuda-cccl", "nvidia/cu13/include/cccl"),
        _NVDISASM,
    ),
    12: (
        ("nvidia-cuda-nvrtc-cu12", "nvidia/cuda_nvrtc"),
        ("nvidia-cuda-runtime-cu12", "nvidia/cuda_runtime/include"),
        ("nvidia-cuda-nvcc-cu12", "nvidia/cuda_nvcc/include"),
        ("nvidia-cuda-cccl-cu12", "nvidia/cuda_cccl/include"),
        _NVDISASM,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """version: as shown to people. fingerprint: every package that can change a binary or its report."""

    version: str
    fingerprint: str
    include_folders: tuple[str, ...]
    nvdisasm: str


def toolkit_version() -> str:
    """The compiler and its version, e.g. `nvrtc 13.0.88`. Raises HarnessFault when it is not installed."""
    return find_toolkit().version


@functools.cache
def find_toolkit() -> Toolkit:
    """The toolkit in this environment. Raises HarnessFault naming the missing package and the extra that brings it."""
    major = toolkit_major()
    if major not in _TOOLKITS:
        problem = "no CUDA compiler is installed" if major is None else f"cuda-bindings {major} is of another toolkit"
        raise HarnessFault(problem, hint=_LINUX if sys.platform != "linux" else _INSTALL.format("sim") + _FOR_A_GPU)
    found = [_installed(name, below, f"cu{major}") for name, below in _TOOLKITS[major]]
    (_, version, _), *headers, (_, _, nvdisasm) = found
    return Toolkit(
        version=f"nvrtc {version}",
        fingerprint=" ".join(f"{name}={version}" for name, version, _ in found),
        include_folders=tuple(dict.fromkeys(str(path) for _, _, path in headers)),
        nvdisasm=str(nvdisasm),
    )


@functools.cache
def assembler_version() -> str | None:
    """nvJitLink and its version, which assembles PTX for another architecture; None where its wheel is missing."""
    from importlib import metadata

    name = {13: "nvidia-nvjitlink", 12: "nvidia-nvjitlink-cu12"}.get(toolkit_major() or 0)
    try:
        return f"nvjitlink {metadata.version(name)}" if name else None
    except metadata.PackageNotFoundError:
        return None


def toolkit_wheels(major: int) -> tuple[str, ...]:
    """The names of the wheels that make up the toolkit of a major version, the compiler's first."""
    return tuple(name for name, _ in _TOOLKITS[major])


def toolkit_major() -> int | None:
    """The major version of the CUDA toolkit whose NVRTC is loaded: that of cuda-bindings. None if it is missing."""
    from importlib import metadata  # 20 ms, and only a compile needs it

    try:
        return int(metadata.version("cuda-bindings").partition(".")[0])
    except metadata.PackageNotFoundError:
        return None


def _installed(name: str, below: str, extra: str) -> tuple[str, str, Path]:
    from importlib import metadata

    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise HarnessFault(f"package {name} is not installed", hint=_INSTALL.format(extra)) from None
    path = Path(str(package.locate_file(below)))
    if not path.exists():
        hint = f"reinstall it: pip install --force-reinstall {name}"
        raise HarnessFault(
            f"package {name} {package.version} is installed but {path} is missing",
            problem="toolkit-incomplete",
            hint=hint,
        )
    return name, package.version, path
