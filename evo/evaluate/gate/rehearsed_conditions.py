"""Conditions of a variant that follow from sizes in a way that is not computed: a simulator runs them without data.

What goes through loops, shuffles, shared memory or rare instructions is told so at a few thousand sizes at a time.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from evo.device import Program, RehearsalRequest
from evo.device.remote_device import RemoteSimulator
from evo.errors import Crashed, TimedOut
from evo.sim import PtxError
from evo.sim.launch_conditions import LaunchCondition
from evo.sim.register_values import Launches
from evo.sim.rehearsal import RUN, rehearsal_of

_TOGETHER_S = 10.0  # of all that is asked of one launch
_EACH_S = 2.0
_SURE_S = 60.0  # for sizes that have been verified: each outcome of theirs counts
_KEPT = 8  # answers
_MIXED = 2.0  # by how much the logarithms of work are out of order
_ENOUGH = 12  # sizes that have an outcome, to choose the cheapest of


def rehearsed_conditions(program: Program, number: int, device: RemoteSimulator) -> tuple[LaunchCondition, ...]:
    """Two for each point of the launch of that number: that it is true somewhere, and that it is false somewhere."""
    bound = program.launches[number]
    pointers = frozenset(at for at, argument in enumerate(bound.arguments) if argument.is_buffer)
    try:
        rehearsal = rehearsal_of(program.binary.ptx, bound.launch.kernel, pointers)
    except PtxError:  # said elsewhere
        return ()
    if rehearsal is None:
        return ()
    asked = _Asked(program, number, device)
    scalars = frozenset(range(len(bound.arguments))) - pointers
    return tuple(
        LaunchCondition(
            kernel=bound.launch.kernel,
            instruction=point.instruction,
            source_line=point.source_line,
            parameters=scalars,
            of_grid=True,
            rehearsed=True,
            of_threads=point.of_threads,
            _compute=functools.partial(_always, outcome),
            _before=((asked.has(at, outcome), True),),
            _parts={False: (), True: ()},
        )
        for at, point in enumerate(rehearsal.points)
        for outcome in (True, False)
    )


def _always(outcome: bool, launches: Launches) -> NDArray[np.bool_]:
    return np.full(launches.count, outcome)


class _Asked:
    """What a simulator has told of one launch, at as many of the sizes that it was asked about as were needed.

    An outcome is looked for until enough sizes have it, for a while; of sizes that are to be sure each is run.
    """

    def __init__(self, program: Program, number: int, device: RemoteSimulator) -> None:
        self.program, self.number, self.device = program, number, device
        self.left_s = _TOGETHER_S
        self._known: dict[int, _Outcomes] = {}
        self._rows: dict[bytes, NDArray[np.uint8]] = {}  # what is known, by size

    def has(self, point: int, outcome: bool) -> Callable[[Launches], NDArray[np.bool_]]:
        def asked(launches: Launches) -> NDArray[np.bool_]:
            found = self._outcomes_at(launches)
            self._run(found, point, outcome)
            return found.has(point, outcome)

        return asked

    def _outcomes_at(self, launches: Launches) -> _Outcomes:
        if id(launches) not in self._known:
            while len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[id(launches)] = _Outcomes(launches, self._rows)
        return self._known[id(launches)]

    def _run(self, told: _Outcomes, point: int, outcome: bool) -> None:
        """Run sizes until enough have the outcome, or as long as there is time."""
        launches = told.launches
        missing = _ENOUGH - int(np.count_nonzero(told.has(point, outcome)))
        seconds = _SURE_S if launches.sure else min(told.left_s, self.left_s)
        if not len(told.left) or (not launches.sure and (missing <= 0 or seconds <= 0)):
            return
        request = RehearsalRequest(
            program=self.program,
            launch=self.number,
            parameters={
                at: values if np.ndim(values) == 0 or len(values) == 1 else values[told.left]
                for at, values in launches.parameters.items()
            },
            grid=launches.grid[:, told.left],
            block=launches.block[:, told.left],
            seconds=seconds,
            wanted=None if launches.sure else (point, outcome, missing),
        )
        begun = time.monotonic()
        try:
            told.put(self.device.rehearse(request), self._rows)
        except (TimedOut, Crashed, PtxError):
            self.left_s = 0.0
        spent = time.monotonic() - begun
        told.left_s -= spent
        self.left_s -= 0.0 if launches.sure else spent


class _Outcomes:
    """Outcomes at the sizes of some launches. left: those that were not run, in the order in which they will be."""

    def __init__(self, launches: Launches, rows: Mapping[bytes, NDArray[np.uint8]]) -> None:
        self.launches, self.left_s = launches, _EACH_S
        varying = (np.broadcast_to(values, launches.count) for values in _varying(launches))
        table = np.stack([*varying, *launches.grid, *launches.block], axis=1)
        self._keys = [row.tobytes() for row in table]
        points = len(next(iter(rows.values()))) if rows else 0
        self._bits = np.zeros((launches.count, points), np.uint8)
        for at, key in enumerate(self._keys):
            if key in rows:
                self._bits[at] = rows[key]
        known = np.asarray([key in rows for key in self._keys])
        left = np.flatnonzero(~known if launches.unknown is None else ~known & ~launches.unknown)
        self.left = left if launches.sure else left[_in_turn(table[left])]

    def has(self, point: int, outcome: bool) -> NDArray[np.bool_]:
        if not self._bits.size:
            return np.zeros(self.launches.count, np.bool_)
        return np.asarray(self._bits[:, point] & (1 if outcome else 2) != 0)

    def put(self, found: NDArray[np.uint8], rows: dict[bytes, NDArray[np.uint8]]) -> None:
        """What was found at those that were left, as far as they were run."""
        if not self._bits.size:
            self._bits = np.zeros((self.launches.count, found.shape[1]), np.uint8)
        self._bits[self.left] = found
        run = found[:, 0] & RUN != 0
        for at in self.left[run].tolist():
            rows[self._keys[at]] = self._bits[at]
        self.left = self.left[~run]


def _in_turn(table: NDArray[np.int64]) -> NDArray[np.intp]:
    """Small sizes first, which are run soonest, with others among them: time may be short."""
    work = np.log(np.maximum(1, np.abs(table))).sum(axis=1)
    return np.argsort(work + _MIXED * np.random.default_rng(len(table)).standard_normal(len(table)))


def _varying(launches: Launches) -> Iterator[NDArray[np.int64]]:
    """The parameters that differ from size to size, as integers that tell them apart."""
    for values in launches.parameters.values():
        if np.ndim(values) and len(values) > 1:
            exact = np.ascontiguousarray(values)
            yield exact.astype(np.int64) if exact.dtype.kind in "iub" else exact.astype(np.float64).view(np.int64)
