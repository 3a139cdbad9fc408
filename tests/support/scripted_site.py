"""Workers that follow a script, in threads of the test's own process: no compiler, no device, no Ray."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from evo.device.remote_calls import Answer, Raised, RemoteCall, Returned
from evo.errors import EvoError, WorkerUnreachable
from evo.evaluate.harness import harness_version
from evo.evaluate.pipeline import CheckedJob, Job
from evo.results import Environment, Evaluation, Status
from evo.search.cluster import RemoteWorker
from evo.search.cluster.protocol import Role, WorkerDescription
from evo.spec.variant import parse_variant

Script = Callable[[str, int, str, tuple[Any, ...]], Any]  # role, which worker of that slot, method, arguments


def environment(place: str) -> Environment:
    names = {"device": place, "chip": "sim-l4", "arch": "sm_89", "loaded": "sim", "toolkit": "13", "harness": "1"}
    return Environment(**names, task_hash="0")


def evaluation_of(job: Job, place: str) -> Evaluation:
    """What every worker says of a job: its variant is correct, and where it was."""
    return Evaluation(
        variant=parse_variant(job.text).id, status=Status.CORRECT, reason=None, environment=environment(place)
    )


class ScriptedTransport:
    def __init__(self, site: ScriptedSite, role: Role, index: int, number: int) -> None:
        self.site, self.role, self.index, self.number = site, role, index, number
        self.place = f"{role}:{index}.{number}"
        self.closed = threading.Event()

    def call(self, call: RemoteCall, limit_s: float) -> Answer:
        self.site.calls.append((self.place, call.method, call.arguments))
        if self.closed.is_set():
            raise WorkerUnreachable("closed")
        try:
            said = self.site.script(self.role, self.number, call.method, call.arguments)
        except WorkerUnreachable:
            raise
        except EvoError as error:
            return Raised(error)
        if said == "hang":
            self.closed.wait(limit_s)
            raise WorkerUnreachable(f"no answer in {limit_s:g} s")
        return Returned(said if said is not None else self.usual(call.method, call.arguments))

    def usual(self, method: str, arguments: tuple[Any, ...]) -> object:
        match method:
            case "join":
                return WorkerDescription(
                    host=self.place, pid=1, harness=harness_version(), chip="sim-l4", about={"chip": "l4"}
                )
            case "control":
                return {"sd": 0.001, "pairs": 8, "smallest_margin": 0.01}
            case "start":
                return CheckedJob(job=arguments[0], base=evaluation_of(arguments[0], self.place))
            case "finish":
                return evaluation_of(arguments[0].job, self.place)
        return None

    def close(self) -> None:
        self.closed.set()


class ScriptedSite:
    """script: an answer other than the usual, an exception raised, "hang", or None."""

    def __init__(self, script: Script = lambda *_: None, *, measuring: int = 2, compiling: int = 1) -> None:
        self.script, self.measuring, self.compiling = script, measuring, compiling
        self.opened: dict[tuple[str, int], int] = {}
        self.calls: list[tuple[str, str, tuple[Any, ...]]] = []
        self.closed = False

    def open(self, role: Role, index: int) -> RemoteWorker:
        number = self.opened[role, index] = self.opened.get((role, index), -1) + 1
        self.script(role, number, "open", ())
        return RemoteWorker(ScriptedTransport(self, role, index, number))

    def close(self) -> None:
        self.closed = True

    def served(self, method: str) -> list[str]:
        return [place for place, called, _ in self.calls if called == method]
