"""Conditions of a variant that follow from sizes in a way that is not computed: a simulator runs them without data.

What goes through loops, shuffles, shared memory or rare instructions is told so at a few thousand sizes at a time.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from evo.device import Program, RehearsalRequest
from evo.device.remote_device import RemoteSimulator
from evo.errors import Crashed, TimedOut
from evo.sim import PtxError
from evo.sim.launch_conditions import LaunchCondition, Launches
from evo.sim.rehearsal import rehearsal_of

_TOGETHER_S = 10.0  # of all that is asked of one launch
_EACH_S = 2.0
_SURE_S = 60.0  # for sizes that have been verified: each outcome of theirs counts
_KEPT = 8  # answers


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
    """What a simulator has told of one launch; the last answers are kept, since each point asks for the same sizes."""

    def __init__(self, program: Program, number: int, device: RemoteSimulator) -> None:
        self.program, self.number, self.device = program, number, device
        self.left_s = _TOGETHER_S
        self._known: dict[int, tuple[Launches, NDArray[np.uint8]]] = {}

    def has(self, point: int, outcome: bool) -> Callable[[Launches], NDArray[np.bool_]]:
        bit = 1 if outcome else 2

        def told(launches: Launches) -> NDArray[np.bool_]:
            bits = self._told(launches)
            return np.asarray(bits[:, point] & bit != 0) if bits.size else np.zeros(launches.count, np.bool_)

        return told

    def _told(self, launches: Launches) -> NDArray[np.uint8]:
        if id(launches) not in self._known:
            while len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[id(launches)] = (launches, self._run(launches))
        return self._known[id(launches)][1]

    def _run(self, launches: Launches) -> NDArray[np.uint8]:
        known = np.arange(launches.count)
        if launches.unknown is not None:
            known = np.flatnonzero(~launches.unknown)
        if not launches.sure:
            known = np.random.default_rng(launches.count).permutation(known)  # if time is short, some of all kinds
        parameters = {
            at: values if np.ndim(values) == 0 or len(values) == 1 else values[known]
            for at, values in launches.parameters.items()
        }
        seconds = _SURE_S if launches.sure else min(_EACH_S, self.left_s)
        if seconds <= 0 or not len(known):
            return np.zeros(0, np.uint8)
        request = RehearsalRequest(
            program=self.program,
            launch=self.number,
            parameters=parameters,
            grid=launches.grid[:, known],
            block=launches.block[:, known],
            seconds=seconds,
        )
        begun = time.monotonic()
        try:
            found = self.device.rehearse(request)
        except (TimedOut, Crashed, PtxError):
            self.left_s = 0.0
            return np.zeros(0, np.uint8)
        self.left_s -= 0.0 if launches.sure else time.monotonic() - begun
        bits = np.zeros((launches.count, found.shape[1]), np.uint8)
        bits[known] = found
        return bits
