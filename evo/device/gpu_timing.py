"""Timing on the GPU: interleaved blocks of parent and child, on the same buffers and stream of one process.

Warm: replays of a CUDA graph. A sample is the time between two events around a replay, divided by its m sequences.
m = 1 where a sequence takes 150 us or more, so that percentiles are of single launches. Below that the cost of events
and graph start (2.8 us on an H200) would count for 2 % and more: m fills 300 us, and percentiles are of means over m
launches (`launches_per_sample` says which).
Cold: a read of twice the L2, then one launch between two events; a block is queued whole before anything is waited for.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from dataclasses import replace

import numpy as np

from evo.decide.case_loss import CaseLoss
from evo.decide.sequential import P99_SAMPLES, Sequential
from evo.device.clock_pairs import OwnClock, clock_ratio, same_clock
from evo.device.gpu_case_timer import CaseTimer, OutputsDiverged, TimedVariant
from evo.device.gpu_context import GpuContext
from evo.device.gpu_l2 import PersistingL2
from evo.device.gpu_load import mostly_free
from evo.device.nvml import Reading
from evo.device.timing_types import (
    BLOCK_SAMPLES,
    SHORT_SAMPLES,
    BenchRequest,
    BenchResult,
    IdlePacing,
    Side,
    StageTimer,
    settled,
    timer_step_us,
    timing_of,
)
from evo.errors import HarnessFault
from evo.results import CaseBench, Clocks, Fault, FaultKind, Verdict

LOST = math.log(1.10)  # a child this much slower in every round is not warmed up any further: pairs show it at once
LOST_ROUNDS = 2
WON = math.log(1.25)  # and by so much faster it is warm enough once its blocks agree roughly: pairs tell the rest
WON_ROUNDS = 3
ROUGHLY = math.log(1.03)
TAIL_SAMPLES = 32  # of every side at least, however slow it is
LOST_PAIRS = 8  # a loss that this many short pairs do not settle is looked at with whole blocks


class TimingRun:
    """One measurement: warm-up, pairs until the rule stops, more samples for the tails, cold samples."""

    def __init__(self, device: GpuContext, request: BenchRequest) -> None:
        self.device, self.request, self.options = device, request, request.options
        self.random = random.Random()
        self.deadline = time.monotonic() + request.options.budget_s
        self.timers: list[CaseTimer] = []
        self.pairs: list[dict[str, float]] = []
        self.captures: list[int] = []  # in which capture each pair was taken
        self.most = BLOCK_SAMPLES  # samples of a block; few while the child looks like a clear loser
        self.cycles: list[dict[str, float]] = []
        self.dropped = 0
        self.own_clocks: dict[tuple[str, Side], OwnClock] = {}  # by case and side
        self.at_own_clocks = 0  # pairs whose halves ran at different clocks, each at its side's own
        self.verdict: Verdict | None = None
        self.lost_at: str | None = None
        self.readings: list[Reading] = []  # of the pairs' blocks, in the order taken
        self.more_readings: list[Reading] = []  # of the blocks that only fill up samples
        self.stages = StageTimer()
        self.aside: PersistingL2 | None = None

    def measure(self) -> BenchResult:
        aside = PersistingL2(int(self.device.name.which)) if self.options.l2_persist else None
        try:
            with aside or contextlib.nullcontext():
                self.aside = aside
                return self._measure()
        except OutputsDiverged as found:
            if found.side is Side.PARENT:
                raise HarnessFault(found.fault.message, hint="demote the parent: its results have changed") from None
            return BenchResult(child=(), divergence=found.fault)

    def _measure(self) -> BenchResult:
        stages = self.stages
        first = self._first_case() if self.options.stop_at_loss and self.request.parent else None
        if first is not None and (lost := self._lost_at(first)) is not None:
            return lost
        known = {first: self.timers[0]} if first is not None else {}
        each = range(len(self.request.child))
        self.timers = [known.get(i) or CaseTimer(self.device, self.request, i, stages, aside=self.aside) for i in each]
        self._one_way_of_loading()
        with stages.time("warm_up"):
            self._warm_up()
        if self.request.parent:
            with stages.time("pairs"):
                self._take_pairs()
        if self.verdict is not Verdict.REVERT:  # nobody asks for the tails of a loser
            with stages.time("top_up"):
                self._top_up()
            with stages.time("cold"):
                self._cold()
        self._look_at_guards()
        return self._result()

    def _first_case(self) -> int | None:
        """The case with the least memory, if there are others: it shows a plain loss soonest."""
        cases = self.request.child
        sizes = [sum(array.nbytes for array in case.inputs.values()) for case in cases]
        return sizes.index(min(sizes)) if len(cases) > 1 else None

    def _lost_at(self, index: int) -> BenchResult | None:
        """The result if the child plainly loses this case: two rounds of the warm-up say so, then pairs prove it.

        The evidence is the rule's own against a case that loses (`CaseLoss`), on this case alone: it is enough to
        reject, and nothing is ever kept on it. If it is not reached the pairs count for nothing.
        """
        self.timers = [CaseTimer(self.device, self.request, index, self.stages, aside=self.aside)]
        self._one_way_of_loading()
        with self.stages.time("warm_up"):
            if not self._warm_up(LOST_ROUNDS):
                return None
        watch = CaseLoss(self.options.rule)
        name = self.timers[0].name
        with self.stages.time("pairs"):
            for _ in range(LOST_PAIRS):
                if (pair := self._pair()) is not None:
                    self.pairs.append(pair)
                    self.captures.append(0)
                    if watch.add(pair[name]):
                        self.verdict, self.lost_at = Verdict.REVERT, name
                        self._look_at_guards()
                        return self._result()
        self.pairs, self.captures, self.cycles, self.readings = [], [], [], []
        self.dropped = self.at_own_clocks = 0
        return None

    def _look_at_guards(self) -> None:
        for timer in self.timers:
            if broken := timer.arena.broken():
                message = f"case {timer.name}: written past the ends of {', '.join(broken)} while timed"
                raise OutputsDiverged(
                    Fault(kind=FaultKind.TIMING_DIVERGENCE, kernel="", message=message), Side.CANDIDATE
                )

    def _capture_anew(self, number: int) -> None:
        """Other buffers, modules and graphs; the samples so far are kept."""
        self._look_at_guards()
        before = [dict(timer.sides) for timer in self.timers]
        old = self.timers if mostly_free() else []  # as long as they are there, nothing new comes to lie where they are
        self.timers = []
        self.timers = [
            CaseTimer(self.device, self.request, index, self.stages, capture=number, before=sides)
            for index, sides in enumerate(before)
        ]
        del old
        for timer in self.timers:
            for side in timer.sides.values():
                timer.block(side, SHORT_SAMPLES)  # its first launches fetch their code

    def _cold(self) -> None:
        for timer in self.timers:
            for side in timer.sides.values():
                side.cold = timer.cold_block(side, self.options.cold_samples) if self.options.cold_samples else []

    def _one_way_of_loading(self) -> None:
        ways = {self.device.load(s.case.program).how for t in self.timers for s in t.sides.values()}
        if len(ways) > 1:
            hint = "compile both for the same --arch"
            raise HarnessFault(
                "parent and child are not loaded the same way (cubin and PTX)", problem="loaded-differently", hint=hint
            )

    def _warm_up(self, most_rounds: int | None = None) -> bool:
        """Until all blocks settle within 1 %, the child is clearly lost (True) or won, or the time is up.

        A case that has settled waits for the others: that all settle in one round is a matter of luck, not of warmth.
        """
        end = min(time.monotonic() + self.options.warm_up_s, self.deadline)
        recent: dict[int, list[float]] = {}
        busy_us: dict[int, float] = {}
        rounds, moving = 0, list(self.timers)
        while time.monotonic() < end and (most_rounds is None or rounds < most_rounds):
            self.most = SHORT_SAMPLES if self.request.parent and rounds < LOST_ROUNDS else BLOCK_SAMPLES
            rounds += 1
            for timer in moving:
                sides = list(timer.sides.values())
                for side in sides if rounds % 2 else reversed(sides):  # a clock that rises favours neither
                    taken = self._block(timer, side)
                    recent.setdefault(id(side), []).append(_median(taken))
                    busy_us[id(side)] = busy_us.get(id(side), 0.0) + sum(taken) * side.per_graph
            if self._clearly_lost(recent):
                self.most = SHORT_SAMPLES
                return True
            if self._clearly_won(recent):
                break
            moving = [
                timer
                for timer in moving
                if not all(settled(recent[id(side)], busy_us[id(side)]) for side in timer.sides.values())
            ]
            if not moving:
                return False
        self.most = BLOCK_SAMPLES
        return False

    def _block(self, timer: CaseTimer, side: TimedVariant) -> list[float]:
        taken = timer.block(side, self.most)
        self._own_clock(timer, side.which).add(timer.clock_mhz)
        return taken

    def _own_clock(self, timer: CaseTimer, which: Side) -> OwnClock:
        return self.own_clocks.setdefault((timer.name, which), OwnClock())

    def _clearly_lost(self, recent: dict[int, list[float]]) -> bool:
        """Whether the child was much slower in some case, round after round of the warm-up."""
        if not self.request.parent:
            return False
        for timer in self.timers:
            ours, theirs = (recent[id(timer.sides[which])][-LOST_ROUNDS:] for which in (Side.CANDIDATE, Side.PARENT))
            if len(ours) == LOST_ROUNDS and all(math.log(a / b) > LOST for a, b in zip(ours, theirs, strict=True)):
                return True
        return False

    def _clearly_won(self, recent: dict[int, list[float]]) -> bool:
        """Whether the child was faster in every case by far more than what its blocks and its parent's still move."""
        if not self.request.parent:
            return False
        for timer in self.timers:
            ours, theirs = (recent[id(timer.sides[which])][-WON_ROUNDS:] for which in (Side.CANDIDATE, Side.PARENT))
            if len(ours) < WON_ROUNDS or math.log(min(theirs) / max(ours)) < WON:
                return False
            if any(math.log(max(blocks) / min(blocks)) > ROUGHLY for blocks in (ours, theirs)):
                return False
        return True

    def _take_pairs(self) -> None:
        rule = self.options.rule
        score = {t.name: self.request.score.get(t.name, 0.0) for t in self.timers} if self.request.score else {}
        sequential = Sequential(score if any(score.values()) else {t.name: 1.0 for t in self.timers}, rule)
        capture, each = 0, math.ceil(rule.max_pairs / max(1, self.options.captures))
        for _ in range(2 * rule.max_pairs):
            if len(self.pairs) >= (capture + 1) * each:
                capture += 1
                self._capture_anew(capture)
            if len(self.pairs) >= LOST_PAIRS:
                self.most = BLOCK_SAMPLES
            pair = self._pair()
            if pair is None:
                self.dropped += 1
                continue
            self.pairs.append(pair)
            self.captures.append(capture)
            self.verdict = sequential.add(pair)
            if self.verdict is not None or time.monotonic() > self.deadline:
                break

    def _pair(self) -> dict[str, float] | None:
        """One block of each side of every case, in random order. None when the clock moved in between."""
        ratios: dict[str, float] = {}
        cycles: dict[str, float] = {}
        alike = steady = True
        for timer in self.timers:
            order = [Side.CANDIDATE, Side.PARENT]
            self.random.shuffle(order)
            medians: dict[Side, float] = {}
            readings: dict[Side, Reading] = {}
            for which in order:
                side = timer.sides[which]
                taken = self._block(timer, side)
                side.warm.extend(taken)
                medians[which] = _median(taken)
                readings[which] = self._reading(timer)
                self.readings.append(readings[which])
            ours, theirs = readings[Side.CANDIDATE], readings[Side.PARENT]
            if not same_clock(ours, theirs):
                alike = False
                steady = steady and all(self._own_clock(timer, which).holds() for which in order)
            ratios[timer.name] = math.log(medians[Side.CANDIDATE] / medians[Side.PARENT])
            if (clocks := clock_ratio(ours, theirs)) is not None:
                cycles[timer.name] = ratios[timer.name] + math.log(clocks)
        if not steady:
            return None
        self.at_own_clocks += not alike
        if len(cycles) == len(ratios):
            self.cycles.append(cycles)
        return ratios

    def _reading(self, timer: CaseTimer) -> Reading:
        with self.stages.time("nvml"):
            return replace(self.device.monitor.read(), counted_mhz=timer.clock_mhz)

    def _top_up(self) -> None:
        """More blocks until every side has its samples; a parent needs no more than its own tail takes."""
        pace = IdlePacing()
        tail_end = time.monotonic() + self.options.tail_s
        for timer in self.timers:
            while short := [s for which, s in timer.sides.items() if len(s.warm) < self._wanted(timer, which)]:
                for side in short:
                    taken = timer.block(side)
                    side.warm.extend(taken)
                    if pace.worked(sum(taken) * side.per_graph):
                        timer.block(side)
                    self.more_readings.append(self._reading(timer))
                now, fewest = time.monotonic(), min(len(side.warm) for side in short)
                enough = TAIL_SAMPLES if short[0].block_samples > 1 else self.options.fewest
                if (now > self.deadline and fewest >= BLOCK_SAMPLES) or (now > tail_end and fewest >= enough):
                    break

    def _wanted(self, timer: CaseTimer, which: Side) -> int:
        """How many samples: of a parent no more than a tail takes, and none if every one of the child's is shorter."""
        if which is Side.CANDIDATE:
            return self.options.samples
        ours, theirs = timer.sides[Side.CANDIDATE].warm, timer.sides[Side.PARENT].warm
        outrun = ours and theirs and max(ours) < min(theirs)
        return 0 if outrun else min(self.options.samples, P99_SAMPLES)

    def _result(self) -> BenchResult:
        def rows(which: Side) -> tuple[CaseBench, ...]:
            return tuple(_case_bench(t.name, t.sides[which]) for t in self.timers if which in t.sides)

        return BenchResult(
            child=rows(Side.CANDIDATE),
            parent=rows(Side.PARENT),
            pairs=tuple(self.pairs),
            cycles=tuple(self.cycles) if len(self.cycles) == len(self.pairs) else (),
            captures=tuple(self.captures),
            dropped=self.dropped,
            at_own_clocks=self.at_own_clocks,
            clocks=self._clock_summary(),
            loaded=self.device.load(self.request.child[0].program).how,
            samples={t.name: np.asarray(t.sides[Side.CANDIDATE].warm, np.float32) for t in self.timers},
            launches_per_sample={t.name: t.sides[Side.CANDIDATE].per_graph for t in self.timers},
            stages_s=dict(self.stages.seconds),
            lost_at=self.lost_at,
            timer_step=max(_timer_step(side) for timer in self.timers for side in timer.sides.values()),
        )

    def _clock_summary(self) -> Clocks:
        """How the clock ran over all blocks, and what NVML and the SMs' counters said after each block of the pairs."""
        read = [*self.readings, *self.more_readings]
        seen = [reading.clock_mhz for reading in read if reading.clock_mhz is not None]

        def each(name: str, places: int = 0) -> tuple[int | float | None, ...] | None:
            column = [getattr(reading, name) for reading in self.readings]
            if all(value is None for value in column):
                return None
            return tuple(round(value, places) if value is not None else None for value in column)

        reasons = sorted({reading.throttle for reading in read if reading.throttle})
        return Clocks(
            blocks=len(read),
            sm_mhz_min=int(min(seen)) if seen else None,
            sm_mhz_max=int(max(seen)) if seen else None,
            sm_mhz_median=int(np.median(seen)) if seen else None,
            throttle_reasons=tuple(f"0x{reason:x}" for reason in reasons) if seen else None,
            sm_mhz=None if seen else "unavailable",  # then no pair can be dropped for its clock
            other_processes=self.device.monitor.others(),
            each_sm_mhz=each("sm_mhz"),
            each_counted_mhz=each("counted_mhz"),
            each_power_w=each("power_w", 1),
            each_temperature_c=each("temperature_c"),
            each_throttle=each("throttle"),
        )


def _case_bench(name: str, side: TimedVariant) -> CaseBench:
    warm = timing_of(side.warm)
    flop = side.case.program.flop
    return CaseBench(
        name=name,
        warm=warm,
        cold=timing_of(side.cold) if side.cold else None,
        tflop_per_s=flop / warm.p50_us * 1e-6 if flop else None,
    )


def _timer_step(side: TimedVariant) -> float:
    """The timer's resolution over the length of a sample."""
    raw = np.asarray(side.warm) * side.per_graph
    return timer_step_us(raw) / float(np.median(raw))


def _median(values: list[float]) -> float:
    return float(np.median(values))
