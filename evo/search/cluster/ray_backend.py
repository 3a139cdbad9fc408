"""Workers as Ray actors. One that measures has a GPU to itself, by Ray's resources; one that compiles asks for none,
and Ray puts those on nodes without GPUs first.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from evo.device import DeviceName
from evo.device.remote_calls import Answer, Raised, RemoteCall, Returned
from evo.errors import DeviceMissing, EvoError, HarnessFault, UsageError, WorkerUnreachable
from evo.search.cluster.local_worker import LocalWorker
from evo.search.cluster.protocol import RemoteWorker, Role
from evo.search.cluster.spec import Cluster, compiling_beside


class RaySite:
    """A Ray cluster that runs: `ray://HOST:PORT`, or `ray:auto` on one of its nodes."""

    def __init__(self, cluster: Cluster, device: DeviceName) -> None:
        if _has_token():
            os.environ.setdefault("RAY_AUTH_MODE", "token")  # a Ray client does not look for the token by itself
        self._ray = ray = _ray()
        self._device = device
        if ray.is_initialized():
            raise UsageError("this process is connected to a Ray already", hint="disconnect it first: ray.shutdown()")
        quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # an actor without GPUs keeps the variables
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            ray.init(address="auto" if cluster.address == "ray:auto" else cluster.address, **quiet)
            self.measuring, self.compiling = _sizes(ray.cluster_resources(), device)
        except EvoError:
            ray.shutdown()
            raise
        except _failures(ray) as error:
            with suppress(Exception):
                ray.shutdown()
            problem = f"--cluster {cluster}: Ray does not start: {_line(error)}"
            raise HarnessFault(problem, hint="is it up (`ray status`)? `--cluster processes:N` needs no Ray") from None

        if threading.current_thread() is threading.main_thread():  # Ray has put its own in their place
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def open(self, role: Role, index: int) -> RemoteWorker:
        del index  # Ray chooses the place
        pinned = role == "measure" and self._device.kind == "gpu"
        # Ray shows an actor its own GPU alone, which is then number 0.
        device = DeviceName("gpu", "0") if pinned else self._device
        actor = self._ray.remote(RayActor).options(num_cpus=1, num_gpus=int(pinned), max_restarts=0, max_task_retries=0)
        try:
            return RemoteWorker(RayTransport(self._ray, actor.remote(device)))
        except _failures(self._ray) as error:
            raise WorkerUnreachable(_line(error)) from None

    def close(self) -> None:
        with suppress(Exception):
            self._ray.shutdown()


class RayActor:
    """The actor: a worker whose errors travel as values, since Ray would wrap them."""

    def __init__(self, device: DeviceName) -> None:
        self._worker = LocalWorker(device)

    def serve(self, call: RemoteCall) -> Answer:
        try:
            return Returned(getattr(self._worker, call.method)(*call.arguments, **(call.named or {})))
        except EvoError as error:
            return Raised(error)


class RayTransport:
    """One actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor

    def call(self, call: RemoteCall, limit_s: float) -> Answer:
        try:
            answer: Answer = self._ray.get(self._actor.serve.remote(call), timeout=limit_s)
        except self._ray.exceptions.GetTimeoutError:
            raise WorkerUnreachable(f"no answer in {limit_s:.0f} s") from None
        except _failures(self._ray) as error:  # a dead actor, a lost node, a broken connection
            raise WorkerUnreachable(_line(error)) from None
        return answer

    def close(self) -> None:
        with suppress(Exception):
            self._ray.kill(self._actor)


def _has_token() -> bool:
    """Whether Ray's token is in one of its places."""
    names = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    return any(os.environ.get(name) for name in names) or (Path.home() / ".ray" / "auth_token").is_file()


def _ray() -> Any:
    # Ray reports dead workers on stdout, which is for evo's data; the pool has its own message.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")
    try:
        import ray
    except ImportError:
        hint = "pip install 'evo-kernels[cluster]', or --cluster processes:N, which needs no Ray"
        raise UsageError("--cluster: Ray is not installed", problem="not-installed", hint=hint) from None
    return ray


def _failures(ray: Any) -> tuple[type[Exception], ...]:
    """The exceptions of Ray when an actor, a node or a connection is gone: its own, and those of the call under way."""
    return ray.exceptions.RayError, OSError, RuntimeError, ValueError, AssertionError


def _sizes(resources: dict[str, float], device: DeviceName) -> tuple[int, int]:
    """How many workers of each kind a running cluster has room for."""
    cores = int(resources.get("CPU", 0))
    measuring = int(resources.get("GPU", 0)) if device.kind == "gpu" else max(1, cores - 1)
    if not measuring:
        hint = "start its workers with --num-gpus, or use --device sim:l4"
        raise DeviceMissing("this Ray cluster has no GPU", hint=hint)
    if cores < measuring + 1:
        hint = "start its nodes with more --num-cpus: one for each GPU, and more to compile"
        raise UsageError(f"this Ray cluster has {cores} CPUs for {measuring} GPUs", hint=hint)
    return measuring, max(1, min(cores - measuring, compiling_beside(measuring, device, cores)))


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
