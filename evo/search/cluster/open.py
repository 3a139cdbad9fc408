"""Opens the site of a parsed `--cluster`."""

from __future__ import annotations

from evo.device import DeviceName, gpu_count, no_gpu
from evo.errors import UsageError
from evo.search.cluster.process_backend import ProcessSite
from evo.search.cluster.protocol import Site
from evo.search.cluster.ray_backend import RaySite
from evo.search.cluster.spec import Cluster, compiling_beside


def open_site(cluster: Cluster, device: DeviceName) -> Site:
    """Connect to a cluster. Raises UsageError if Ray is missing, DeviceMissing if there are too few GPUs."""
    if device.kind == "gpu" and cluster.count is not None and (found := gpu_count()) < cluster.count:
        if not found:
            raise no_gpu(device.which)
        raise UsageError(f"--cluster {cluster}: this machine has {found} GPUs", hint=f"at most {cluster.kind}:{found}")
    if cluster.kind == "processes":
        assert cluster.count is not None
        return ProcessSite(device, measuring=cluster.count, compiling=compiling_beside(cluster.count, device))
    return RaySite(cluster, device)
