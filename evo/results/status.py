"""The words of a result: how far a variant got, and what was decided."""

from __future__ import annotations

import enum


class Status(enum.StrEnum):
    """How far a variant got. Whether it is kept is a Decision, made later."""

    UNCOMPILED = "uncompiled"  # compiler error or warning
    REFUSED = "refused"  # static rule or limit
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    UNSAFE = "unsafe"  # memory fault, race, uninitialised read
    UNSTABLE = "unstable"  # differs between runs
    WRONG = "wrong"
    CORRECT = "correct"
    MEASURED = "measured"  # gpu only

    @property
    def passed(self) -> bool:
        return self in (Status.CORRECT, Status.MEASURED)


class Verdict(enum.StrEnum):
    """What is done with a variant that was compared with its parent."""

    KEEP = "keep"
    REVERT = "revert"
    INCONCLUSIVE = "inconclusive"
    KEEP_NEUTRAL = "keep_neutral"  # equal within the margin, with fewer registers, shared bytes or lines

    @property
    def kept(self) -> bool:
        return self in (Verdict.KEEP, Verdict.KEEP_NEUTRAL)


class FaultKind(enum.StrEnum):
    """What a kernel did wrong, and the status that a variant gets for it."""

    status: Status
    OUT_OF_BOUNDS = "out_of_bounds", Status.UNSAFE
    MISALIGNED = "misaligned", Status.UNSAFE
    UNINITIALISED = "uninitialised", Status.UNSAFE
    RACE = "race", Status.UNSAFE
    WARP_SYNC = "warp_sync", Status.UNSAFE
    BARRIER = "barrier", Status.UNSAFE
    READ_ONLY = "read_only", Status.UNSAFE
    DEADLOCK = "deadlock", Status.UNSAFE
    STACK_OVERFLOW = "stack_overflow", Status.UNSAFE
    TIMING_DIVERGENCE = "timing_divergence", Status.UNSAFE  # timed launches left other outputs than verified ones
    BUDGET = "budget", Status.TIMED_OUT  # of warp instructions
    TRAP = "trap", Status.CRASHED
    LAUNCH = "launch", Status.REFUSED  # the chip cannot start it
    UNSUPPORTED = "unsupported", Status.REFUSED  # by the simulator

    def __new__(cls, word: str, status: Status) -> FaultKind:
        member = str.__new__(cls, word)
        member._value_, member.status = word, status
        return member

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")
