"""The last line of a run: what to do next, and when a search counts as stalled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evo.analysis.roofline import BestFloor
from evo.operators import WHEN_STALLED
from evo.results import Baseline, CaseBench, Timing
from evo.search.progress import advice, reached, satisfied, spent, stalls
from evo.spec.task import load_task

TASK = load_task(Path(__file__).parents[3], "softmax")


def bench(
    floor_us: float | None = 10.0,
    target_us: float | None = 20.0,
    *,
    launch_us: float | None = None,
    modelled: bool = False,
) -> Any:
    floor = BestFloor("l2", floor_us, launch_us, estimated=True) if floor_us is not None else None
    return SimpleNamespace(
        modelled=modelled, best_floor=lambda task, case: floor, target_us=lambda task, case: target_us
    )


def times(us: float, rival_us: float | None = None) -> dict[str, CaseBench]:
    warm = Timing(p50_us=us, p90_us=us, p99_us=us, mean_us=us, std_us=0.0, samples=8)
    baseline = Baseline(name="torch", p50_us=rival_us) if rival_us is not None else None
    return {TASK.headline: CaseBench(name=TASK.headline, warm=warm, baseline=baseline)}


@pytest.mark.parametrize(
    ("us", "rival_us", "since_kept", "said"),
    [
        (
            11.0,
            None,
            0,
            "by L2, estimate: 91% of the speed that it allows: near its limit; further gains are small",
        ),
        (
            40.0,
            30.0,
            12,
            "torch takes 30.00 µs: the search has stalled behind the library; use the library, or start from",
        ),
        (40.0, 30.0, 11, "torch takes 30.00 µs; there is room left; go on with --resume"),
        (40.0, 50.0, 12, "nothing kept in 12 trials; another rung or operator would bring more than more trials"),
        (40.0, None, 3, "25% of the speed that it allows; there is room left; go on with --resume"),
        (8.0, None, 0, "by L2, estimate: all of the speed that it allows: near its limit; further gains are small"),
    ],
)
def test_advice_follows_the_limit_the_library_and_the_trials(
    us: float, rival_us: float | None, since_kept: int, said: str
) -> None:
    words = advice(TASK, bench(), times(us, rival_us), since_kept=since_kept)
    assert words.startswith(f"{TASK.headline}: {us:.2f} µs measured")
    assert said in words


@pytest.mark.parametrize(
    ("us", "said"),
    [
        (40.0, "; moving its bytes would take 25% of that (L2, estimate), its arithmetic is not stated; there is room"),
        (4000.0, "; moving its bytes would take under 1% of that"),
        (16.0, ", limited by L2, estimate: 62% of the speed that it allows"),
    ],
)
def test_a_floor_of_bytes_alone_is_no_limit_of_a_kernel_that_computes(us: float, said: str) -> None:
    task = replace(TASK, work={"bytes": TASK.work["bytes"]})
    assert said in advice(task, bench(), times(us), since_kept=3)


def test_a_budget_that_the_start_took_is_said_to_be_too_short() -> None:
    assert "--budget" in spent(0)
    assert "--budget" not in spent(1)


def test_a_run_with_nothing_left_to_try_is_not_advised_to_go_on() -> None:
    words = advice(TASK, bench(), times(40.0), since_kept=3, is_exhausted=True)
    assert "--resume" not in words
    assert "evo explain" in words


@pytest.mark.parametrize(
    ("terms_us", "binds", "goes_on"),
    [
        ({"issue": 26.0, "dram": 9.0}, "issuing instructions (65%", True),
        ({"issue": 9.0, "dram": 26.0}, "bytes from DRAM (65%", True),  # other terms add to it
        ({"issue": 9.0, "dram": 39.0}, "bytes from DRAM (98%", False),  # a change of anything else hides behind it
    ],
)
def test_what_binds_the_champion_decides_whether_to_go_on(
    terms_us: dict[str, float], binds: str, goes_on: bool
) -> None:
    limiter = max(terms_us, key=lambda term: terms_us[term])
    row = CaseBench(name=TASK.headline, modelled_us=40.0, model_version="sim-11", limiter=limiter, terms_us=terms_us)
    words = advice(TASK, bench(modelled=True), {TASK.headline: row}, since_kept=3)
    assert binds in words
    assert ("--resume" in words) == goes_on
    assert ("L2" in words) == goes_on  # no floor of another resource beside it


def test_a_headline_that_is_mostly_launch_is_said_to_be() -> None:
    said = advice(TASK, bench(launch_us=6.0), times(11.0), since_kept=0)
    assert "launch-bound: the launch alone is 55% of it" in said
    modelled = {
        TASK.headline: CaseBench(
            name=TASK.headline, modelled_us=4.0, model_version="sim-2", limiter="launch", terms_us={"launch": 2.5}
        )
    }
    assert "launch-bound" in advice(TASK, bench(1.0, launch_us=2.5, modelled=True), modelled, since_kept=0)


def test_a_modelled_time_is_held_to_floor_and_launch_together() -> None:
    case = CaseBench(name=TASK.headline, modelled_us=25.0, model_version="sim-2", terms_us={"launch": 2.5})
    assert reached(TASK, bench(10.0, launch_us=2.5, modelled=True), {TASK.headline: case}) == 0.5


def test_without_a_floor_advice_says_where_to_look() -> None:
    assert "no floor to compare with (`evo limits softmax`" in advice(TASK, bench(None), times(40.0), since_kept=0)


@pytest.mark.parametrize(("us", "since_kept", "stalled"), [(40.0, 3, True), (40.0, 2, False), (30.0, 9, False)])
def test_a_search_is_stalled_below_60_percent_of_its_target(us: float, since_kept: int, stalled: bool) -> None:
    assert stalls(TASK, bench(), times(us), since_kept, ()) == (stalled,)
    waits = stalls(TASK, bench(), times(us), since_kept, (WHEN_STALLED,))
    assert waits == ((False, True) if us == 40.0 and not stalled else (stalled,))  # with nothing left it has too


def test_a_run_ends_at_its_share_of_the_floor_or_its_patience() -> None:
    assert (
        satisfied(TASK, bench(), times(12.5), 0, None, 0.8)
        == f"{TASK.headline} has reached 80% of the speed that its floor allows"
    )
    assert satisfied(TASK, bench(), times(12.6), 0, None, 0.8) is None
    assert satisfied(TASK, bench(), times(40.0), 5, 5, None) == "nothing was kept in 5 trials"
