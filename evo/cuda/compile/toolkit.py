"""Where the compiler, its headers and the disassembler are, and their versions. Found in wheels; no toolkit needed.

Nothing here imports cuda: versions come from package metadata, so a cache hit never loads the compiler.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from evo.errors import HarnessFault

_INSTALL = "pip install 'cuda-bindings>=13,<14' {} (one toolkit for the compiler and its headers; see evo doctor)"
# Wheel name -> folder below site-packages; the -cu12 line is the documented route for drivers older than CUDA 13.
_NVRTC = {"nvidia-cuda-nvrtc": "nvidia/cu13", "nvidia-cuda-nvrtc-cu12": "nvidia/cuda_nvrtc"}
_HEADERS = (
    {"nvidia-cuda-runtime": "nvidia/cu13/include", "nvidia-cuda-runtime-cu12": "nvidia/cuda_runtime/include"},
    {"nvidia-cuda-crt": "nvidia/cu13/include", "nvidia-cuda-nvcc-cu12": "nvidia/cuda_nvcc/include"},
    {"nvidia-cuda-cccl": "nvidia/cu13/include/cccl", "nvidia-cuda-cccl-cu12": "nvidia/cuda_cccl/include"},
)
_NVDISASM = {"nvidia-cuda-nvdisasm": "nvidia/cu13/bin/nvdisasm"}


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
    """The toolkit in this environment. Raises HarnessFault naming the missing package."""
    nvrtc, nvrtc_version, _ = _installed(_NVRTC)
    found = [_installed(choice) for choice in _HEADERS]
    disassembler, disassembler_version, nvdisasm = _installed(_NVDISASM)
    packages = [(nvrtc, nvrtc_version), *((n, v) for n, v, _ in found), (disassembler, disassembler_version)]
    return Toolkit(
        version=f"nvrtc {nvrtc_version}",
        fingerprint=" ".join(f"{name}={version}" for name, version in packages),
        include_folders=tuple(dict.fromkeys(str(path) for _, _, path in found)),
        nvdisasm=str(nvdisasm),
    )


def _installed(choice: dict[str, str]) -> tuple[str, str, Path]:
    from importlib import metadata  # 20 ms, and only a compile needs it

    wanted = next(iter(choice))
    for name, below in choice.items():
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        path = Path(str(package.locate_file(below)))
        if not path.exists():
            hint = f"reinstall it: pip install --force-reinstall {name}"
            raise HarnessFault(f"package {name} {package.version} is installed but {path} is missing", hint=hint)
        return name, package.version, path
    raise HarnessFault(f"package {wanted} is not installed", hint=_INSTALL.format(wanted))
