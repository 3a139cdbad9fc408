"""Stations that follow a script, in threads of the test's own process: no compiler, no device, no Ray."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from evo.evaluate.pipeline import Job, Started
from evo.evaluate.session import harness_version
from evo.results import Environment, Evaluation, Status
from evo.search.cluster import StationLost
from evo.search.cluster.remote_worker import Introduction
from evo.spec.variant import parse_variant

Script = Callable[[str, int, str, tuple[Any, ...]], Any]  # role, which station of that seat, method, arguments


def environment(place: str) -> Environment:
    names = {"device": place, "chip": "sim-l4", "arch": "sm_89", "loaded": "sim", "toolkit": "13", "harness": "1"}
    return Environment(**names, task_hash="0")


def evaluation_of(job: Job, place: str) -> Evaluation:
    """What every station says of a job: its variant is correct, and where it was."""
    return Evaluation(
        variant=parse_variant(job.text).id, status=Status.CORRECT, reason=None, environment=environment(place)
    )


class ScriptedLink:
    def __init__(self, site: ScriptedSite, role: str, index: int, number: int) -> None:
        self.site, self.role, self.index, self.number = site, role, index, number
        self.place = f"{role}:{index}.{number}"
        self.closed = threading.Event()

    def call(self, method: str, *args: Any, limit_s: float) -> Any:
        self.site.calls.append((self.place, method, args))
        if self.closed.is_set():
            raise StationLost("closed")
        said = self.site.script(self.role, self.number, method, args)
        if said == "hang":
            self.closed.wait(limit_s)
            raise StationLost(f"no answer in {limit_s:g} s")
        if said is not None:
            return said
        match method:
            case "join":
                return Introduction(
                    host=self.place, pid=1, harness=harness_version(), chip="sim-l4", about={"chip": "l4"}
                )
            case "control":
                return {"sd": 0.001, "pairs": 8, "smallest_margin": 0.01}
            case "start":
                return Started(job=args[0], base=evaluation_of(args[0], self.place))
            case "finish":
                return evaluation_of(args[0].job, self.place)
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

    def open(self, role: str, index: int) -> ScriptedLink:
        number = self.opened[role, index] = self.opened.get((role, index), -1) + 1
        self.script(role, number, "open", ())
        return ScriptedLink(self, role, index, number)

    def close(self) -> None:
        self.closed = True

    def served(self, method: str) -> list[str]:
        return [place for place, called, _ in self.calls if called == method]
