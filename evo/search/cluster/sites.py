"""Sites by `--cluster`, and the one without Ray: workers as child processes, one per GPU of this machine."""

from __future__ import annotations

from evo.device import DeviceName, gpu_count, no_gpu
from evo.device.remote_calls import Answer, OpenedObject, Raised, RemoteCall
from evo.device.remote_device import STARTUP_LIMIT_S
from evo.errors import ChildDied, UsageError, WorkerUnreachable
from evo.search.cluster.protocol import RemoteWorker, Role, Site
from evo.search.cluster.ray_backend import RaySite
from evo.search.cluster.spec import Cluster, compiling_beside

_OPENER = "evo.search.cluster.local_worker:open_worker"


class ProcessSite:
    """The GPUs of this machine from the device's number on, or as many simulators of its chip."""

    def __init__(self, device: DeviceName, *, measuring: int, compiling: int) -> None:
        self._device = device
        self.measuring = measuring
        self.compiling = compiling

    def open(self, role: Role, index: int) -> RemoteWorker:
        own = role == "measure" and self._device.kind == "gpu"
        name = DeviceName("gpu", str(int(self._device.which) + index)) if own else self._device
        return RemoteWorker(ProcessTransport(name))

    def close(self) -> None:
        """Nothing is left: each worker ends its own process."""


class ProcessTransport:
    """One child process. One thread at a time may call."""

    def __init__(self, device: DeviceName, opener: str = _OPENER) -> None:
        self._opened = OpenedObject(device, opener)
        try:
            answer = self._opened.opened(STARTUP_LIMIT_S)
        except (TimeoutError, ChildDied) as failure:
            self._opened.child.close()
            raise _unreachable(failure, STARTUP_LIMIT_S) from None
        if isinstance(answer, Raised):
            self._opened.child.close()
            raise answer.error

    def call(self, call: RemoteCall, limit_s: float) -> Answer:
        try:
            return self._opened.call(call, limit_s)
        except (TimeoutError, ChildDied) as failure:
            raise _unreachable(failure, limit_s) from None

    def close(self) -> None:
        self._opened.child.stop()  # the process alone: a call in flight in another thread reads on, and sees the end
        self._opened.child.reap()


def _unreachable(failure: TimeoutError | ChildDied, limit_s: float) -> WorkerUnreachable:
    return WorkerUnreachable(failure.words if isinstance(failure, ChildDied) else f"no answer in {limit_s:.0f} s")


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
