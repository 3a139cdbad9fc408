"""`--cluster SPEC` in parts, and the site that it means."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from evo.device import DeviceName, gpu_count, no_gpu
from evo.errors import UsageError
from evo.search.cluster.protocol import Site

FORMS = "local:N, processes:N, ray://HOST:PORT or ray:auto"
_MOST = 256
_COMPILING_PER_GPU = 8  # the simulator's checks of one variant take about as long as eight measurements side by side


@dataclass(frozen=True, slots=True)
class Cluster:
    """kind: `local` (a Ray of its own on this machine), `processes` (no Ray) or `ray` (one that runs).

    count: stations that measure; None: as many as the running Ray has GPUs. address: of the running Ray.
    """

    kind: str
    count: int | None = None
    address: str | None = None

    def __str__(self) -> str:
        return self.address or f"{self.kind}:{self.count}"


def parse_cluster(text: str) -> Cluster:
    """Parse what `--cluster` was given. Raises UsageError."""
    if match := re.fullmatch(r"(local|processes):(\d{1,4})", text):
        count = int(match[2])
        if 1 <= count <= _MOST:
            return Cluster(match[1], count)
        raise UsageError(f"--cluster {text}: {count} stations", hint=f"from 1 to {_MOST}")
    if re.fullmatch(r"ray://[^\s/]+:\d+", text) or text == "ray:auto":
        return Cluster("ray", address=text)
    raise UsageError(f"--cluster {text}: not a cluster", hint=FORMS)


def open_site(cluster: Cluster, device: DeviceName) -> Site:
    """Connect to a cluster. Raises UsageError where Ray is missing, DeviceMissing where there are too few GPUs."""
    if device.kind == "gpu" and cluster.count is not None and (found := gpu_count()) < cluster.count:
        if not found:
            raise no_gpu(device.which)
        raise UsageError(f"--cluster {cluster}: this machine has {found} GPUs", hint=f"at most {cluster.kind}:{found}")
    if cluster.kind == "processes":
        from evo.search.cluster.process_backend import ProcessSite

        assert cluster.count is not None
        return ProcessSite(device, measuring=cluster.count, compiling=compiling_beside(cluster.count, device))
    from evo.search.cluster.ray_backend import RaySite

    return RaySite(cluster, device)


def compiling_beside(measuring: int, device: DeviceName, cores: int | None = None) -> int:
    """How many stations compile for so many that measure, on so many cores (default: those of this machine)."""
    free = max(1, ((cores or os.cpu_count() or 1) - measuring) // 2)
    # Simulators compute on the cores that compiling would need, and compiling is the small part there.
    return min(free, measuring * _COMPILING_PER_GPU if device.kind == "gpu" else -(-measuring // 4))
