"""Workers in the test's own process, behind a transport: the real one but for the way to it."""

from __future__ import annotations

from typing import ClassVar

from evo.device import DeviceName
from evo.device.remote_calls import Answer, Raised, RemoteCall, Returned
from evo.errors import EvoError
from evo.search.cluster import Cluster, RemoteWorker
from evo.search.cluster.local_worker import LocalWorker
from evo.search.cluster.protocol import Role


class InProcessTransport:
    asked: ClassVar[set[str]] = set()

    def __init__(self, device: DeviceName) -> None:
        self.worker = LocalWorker(device)

    def call(self, call: RemoteCall, limit_s: float) -> Answer:
        self.asked.add(call.method)
        try:
            return Returned(getattr(self.worker, call.method)(*call.arguments, **(call.named or {})))
        except EvoError as error:
            return Raised(error)

    def close(self) -> None:
        self.worker.close()


class InProcessSite:
    """Takes the place of `open_site`, with any cluster and device."""

    def __init__(self, cluster: Cluster, device: DeviceName, *, measuring: int = 1, compiling: int = 1) -> None:
        self.device, self.measuring, self.compiling = device, measuring, compiling

    def open(self, role: Role, index: int) -> RemoteWorker:
        return RemoteWorker(InProcessTransport(self.device))

    def close(self) -> None: ...
