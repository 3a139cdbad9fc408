"""Evaluation on several devices at once: workers that compile or measure, and a pool that hands out the work.

Only the caller decides and writes. If a worker is lost, slow or broken, a note says so and another worker evaluates its
job again. Only what a variant itself does becomes a status.
"""

from evo.search.cluster.protocol import RemoteWorker, Worker
from evo.search.cluster.sites import open_site
from evo.search.cluster.slots import KnownCode, Limits
from evo.search.cluster.spec import Cluster, parse_cluster
from evo.search.cluster.worker_pool import WorkerPool

__all__ = [
    "Cluster", "KnownCode", "Limits", "RemoteWorker", "Worker", "WorkerPool", "open_site",
    "parse_cluster",
]  # fmt: skip
