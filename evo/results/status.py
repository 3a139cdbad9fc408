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


class Stage(enum.StrEnum):
    """Where an evaluation ended that did not pass, in the order of the stages."""

    CHANGE = "change"  # what a proposal may change: one thing, no code that no launch reaches
    RULES = "rules"  # the static rules, on the text and on its PTX
    LIMITS = "limits"  # what the chip can launch
    COMPILE = "compile"  # the compiler's errors and warnings
    COMPILE_LIMIT = "compile_limit"  # the compiler's time and memory
    GATE = "gate"  # the check cases
    THRESHOLD = "threshold"  # sizes on both sides of the constants in the text
    METRICS = "metrics"  # the task's bounds on metrics
    ESTIMATE = "estimate"  # running a part of each timed case on the simulator
    BENCH = "bench"  # the timed launches
    VERIFY = "verify"  # the look at the timed sizes
    SANITIZE = "sanitize"  # compute-sanitizer


class StaticRule(enum.StrEnum):
    """The static rule that refused a text, its headers, its flags, or its PTX."""

    CLOCK = "clock"  # reads a clock or a performance counter
    CACHE_POLICY = "cache_policy"  # steers which lines the cache evicts
    SLEEP = "sleep"  # of earlier records: sleeping is allowed
    ALLOCATION = "allocation"  # allocates memory on the device
    PRINT = "print"
    LAUNCH = "launch"  # launches work from the device
    LAUNCH_NUMBER = "launch_number"  # tells one launch from another
    PROFILER = "profiler"  # signals a debugger or profiler
    STATE = "state"  # keeps values in a module variable from one launch to the next
    RUNTIME_CALL = "runtime_call"  # calls another function of the device runtime
    INCLUDE = "include"  # includes what is not a CUDA header or a file of the task
    FILE = "file"  # looks at files in another way
    ADDRESS = "address"  # decides by where buffers lie
    COMPILER = "compiler"  # tells one compiler, compilation or place in the text from another
    SPELLING = "spelling"  # characters or tokens that read otherwise than they compile
    DIRECTIVE = "directive"  # a directive or pragma that is not allowed
    FLAG = "flag"  # a compiler flag that is not allowed


class Verdict(enum.StrEnum):
    """What is done with a variant that was compared with its parent."""

    KEEP = "keep"
    REVERT = "revert"
    INCONCLUSIVE = "inconclusive"
    KEEP_NEUTRAL = "keep_neutral"  # equal within the margin, with fewer registers, shared bytes or lines

    @property
    def kept(self) -> bool:
        return self in (Verdict.KEEP, Verdict.KEEP_NEUTRAL)


class Ground(enum.StrEnum):
    """What a verdict rests on."""

    GAIN = "gain"  # a gain past the margin
    NEUTRAL = "neutral"  # equal within the margin, and it needs less
    NO_GAIN = "no_gain"  # no gain past the margin
    UNDECIDED = "undecided"  # neither is shown
    CASE_LOSS = "case_loss"  # a case gets slower
    TAIL = "tail"  # the 90th or 99th percentile gets longer
    CLOCK = "clock"  # the clock moved, or made the gain
    LIMITER = "limiter"  # the term that bounded the parent's modelled time does not show the gain
    NOT_MODELLED = "not_modelled"  # a cost that the model does not know
    TOO_FAST = "too_fast"  # below the floor of the chip: a measurement fault
    UNVERIFIED = "unverified"  # a timed size could not be verified


class MismatchKind(enum.StrEnum):
    """How an output is not what it has to be."""

    UNWRITTEN = "unwritten"  # an element holds what was there before the launch
    NOT_FINITE = "not_finite"  # NaN or an infinity instead of a number, or another of these than expected
    OVERFLOW = "overflow"  # the truth is too large for the type, and the element does not say so
    TOLERANCE = "tolerance"  # an element beyond rtol and atol
    DIFFERENT = "different"  # an element of a type that has no rounding
    MAX_ERROR = "max_error"  # the largest error of the tensor is beyond its budget
    RMS_ERROR = "rms_error"  # the relative root mean square error of the tensor is beyond its budget
    BIAS = "bias"  # the errors of the tensor lean to one side
    UNREPEATABLE = "unrepeatable"  # another run on the same inputs gave other bits


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
