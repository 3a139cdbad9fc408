"""`--cluster SPEC` in parts."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from evo.device import DeviceName
from evo.errors import UsageError

FORMS = "processes:N, ray://HOST:PORT or ray:auto"
_MOST = 256
_COMPILING_PER_GPU = 8  # the simulator's checks of one variant take about as long as eight measurements side by side


@dataclass(frozen=True, slots=True)
class Cluster:
    """kind: `processes` of this machine, or `ray` (a Ray cluster that runs).

    count: workers that measure; None: as many as the running Ray has GPUs. address: of the running Ray.
    """

    kind: str
    count: int | None = None
    address: str | None = None

    def __str__(self) -> str:
        return self.address or f"{self.kind}:{self.count}"


def parse_cluster(text: str) -> Cluster:
    """Parse the value of `--cluster`. Raises UsageError."""
    if match := re.fullmatch(r"processes:(\d{1,4})", text):
        count = int(match[1])
        if 1 <= count <= _MOST:
            return Cluster("processes", count)
        raise UsageError(f"--cluster {text}: {count} workers", hint=f"from 1 to {_MOST}")
    if re.fullmatch(r"ray://[^\s/]+:\d+", text) or text == "ray:auto":
        return Cluster("ray", address=text)
    if match := re.fullmatch(r"local:(\d+)", text):
        hint = f"--cluster processes:{match[1]} does the same, without Ray"
        raise UsageError(f"--cluster {text}: evo no longer starts a Ray of its own", hint=hint)
    raise UsageError(f"--cluster {text}: not a cluster", hint=FORMS)


def compiling_beside(measuring: int, device: DeviceName, cores: int | None = None) -> int:
    """How many workers compile for so many that measure, on so many cores (default: those of this machine)."""
    free = max(1, ((cores or os.cpu_count() or 1) - measuring) // 2)
    # Simulators compute on the cores that compiling would need, and compiling is the small part there.
    return min(free, measuring * _COMPILING_PER_GPU if device.kind == "gpu" else -(-measuring // 4))
