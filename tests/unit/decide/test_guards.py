"""What rules a faster median out: longer tails, and times beyond what the chip can do. At the limits themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evo.decide.guards import compute_bound, tail_problem, too_fast
from evo.results import CaseBench, Estimate, Timing
from evo.spec.chips import L4

# 0.95e12 FLOP/s and B/s of DRAM, 0.6e12 B/s of L2, which holds 1e9 bytes: with the slack of each, limits of 1e12.
ROUND = {"mma_f16_fma": 0.475e12, "dram_bytes_per_s": 0.95e12, "l2_bytes_per_clock": 0.6e12}
CHIP = replace(L4, sms=1, clock_hz=1.0, l2_bytes=10**9, rates=ROUND)
NO_L2 = replace(CHIP, rates={name: rate for name, rate in ROUND.items() if name != "l2_bytes_per_clock"})


def timed(
    p50: float, p90: float | None = None, p99: float | None = None, samples: int = 1000, name: str = "a"
) -> CaseBench:
    warm = Timing(p50_us=p50, p90_us=p90 or p50, p99_us=p99 or p50, mean_us=p50, std_us=0.0, samples=samples)
    return CaseBench(name=name, warm=warm)


SECOND = timed(1e6)
MODELLED = CaseBench.modelled(
    "a",
    Estimate(
        modelled_us=1.0,
        model_version="1",
        chip="l4",
        calibration="none",
        limiter="dram",
        terms_us={"dram": 1.0},
        blocks_run=1,
        blocks_total=1,
    ),
)


def refused(case: CaseBench = SECOND, *, flop: float | None = None, moved: float | None = None, **more: bool) -> bool:
    return too_fast(case, flop=flop, bytes_moved=moved, chip=CHIP, **more) is not None


def test_arithmetic_is_held_to_the_peak_and_its_slack() -> None:
    assert not refused(flop=1e12)
    assert refused(flop=1.001e12)
    assert not refused(flop=2e12, narrow=True)
    assert refused(flop=2.001e12, narrow=True)
    assert refused(timed(0.5e6), flop=0.6e12)


def test_bytes_are_held_to_the_l2_and_what_it_does_not_hold_to_dram() -> None:
    assert too_fast(SECOND, flop=None, bytes_moved=1e12 + 1e9, chip=NO_L2) is None
    assert too_fast(SECOND, flop=None, bytes_moved=1.001e12 + 1e9, chip=NO_L2) is not None
    assert not refused(moved=1e12)
    assert refused(moved=1.0005e12)
    assert refused(flop=1.0, moved=2e12)


def test_without_a_time_or_a_rate_nothing_is_held_against_it() -> None:
    assert not refused(MODELLED, flop=1e30, moved=1e30)
    unknown = replace(CHIP, rates={})
    assert too_fast(SECOND, flop=1e30, bytes_moved=1e30, chip=unknown) is None
    assert not refused()


def test_a_time_is_cycles_if_its_arithmetic_takes_longer_than_its_bytes() -> None:
    assert not compute_bound(flop=0.95e12, bytes_moved=0.95e12, chip=CHIP)
    assert compute_bound(flop=0.96e12, bytes_moved=0.95e12, chip=CHIP)
    assert compute_bound(flop=0.5, bytes_moved=None, chip=CHIP)
    for rate in ("mma_f16_fma", "dram_bytes_per_s"):
        unknown = replace(CHIP, rates={name: value for name, value in ROUND.items() if name != rate})
        assert not compute_bound(flop=1e12, bytes_moved=1.0, chip=unknown)


@pytest.mark.parametrize(
    ("parent", "child", "allowed"),
    [
        (timed(10.0), timed(10.0, p90=12.0), True),
        (timed(10.0), timed(10.0, p90=12.1), False),
        (timed(10.0, p90=20.0), timed(10.0, p90=21.0), True),  # the machine's own tail, and its slack
        (timed(10.0, p90=20.0), timed(10.0, p90=21.1), False),
        (timed(10.0, p99=100.0), timed(10.0, p99=110.0), True),
        (timed(10.0, p99=100.0), timed(10.0, p99=110.1), False),
        (timed(10.0, p99=100.0, samples=299), timed(10.0, p99=200.0), True),  # one sample or two decide nothing
        (timed(10.0, p99=100.0, samples=300), timed(10.0, p99=200.0, samples=300), False),
        (timed(10.0, name="b"), timed(10.0, p90=12.1, p99=99.0), False),
        (timed(10.0, name="b"), timed(10.0, p99=99.0), True),
    ],
)
def test_a_tail_is_held_to_the_parents_and_to_its_own_median(
    parent: CaseBench, child: CaseBench, allowed: bool
) -> None:
    assert (tail_problem((parent,), (child,)) is None) is allowed


def test_every_case_is_looked_at() -> None:
    parent = (timed(10.0), timed(10.0, name="b"))
    assert tail_problem(parent, (MODELLED, timed(10.0, p90=13.0, name="b"))) is not None
    assert tail_problem(parent, (timed(10.0), timed(10.0, p90=13.0, name="b"))) is not None
    assert tail_problem(parent, (MODELLED, timed(10.0, name="b"))) is None
