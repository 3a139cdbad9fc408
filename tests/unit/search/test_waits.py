"""What a run waited for adds up to its time, whatever comes in between."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace

import pytest
from refusals import refused

from evo.errors import UsageError
from evo.evaluate.counted_stage import CountedStage
from evo.results import Status
from evo.search.events import Event, TrialBegun, TrialResult
from evo.search.observers import InTime, Waits

BEGUN = TrialBegun(trial=1, id="a", operator="rules", kind="mutation", summary="")


def test_each_stage_has_the_time_until_the_next_and_they_add_up() -> None:
    now, told = [10.0], []
    waits = Waits(told.append, lambda: now[0])
    events = [
        (1.0, Event(stage="gate")),
        (2.0, Event(stage=CountedStage("verify", "case", 0, 2, "b2"))),
        (3.0, Event(note="a word that ends nothing")),
        (4.0, Event(stage=CountedStage("verify", "case", 1, 2, "b4"))),
        (5.0, Event(about=BEGUN)),
        (6.0, Event(stage="4 under way")),
        (7.0, Event(stage="3 under way")),
    ]
    for seconds, event in events:
        now[0] += seconds
        waits(event)
    now[0] += 8.0
    found = waits.seconds()
    assert found == {"under way": 15.0, "verify": 12.0, "record": 6.0, "gate": 2.0, "open": 1.0}
    assert sum(found.values()) == pytest.approx(now[0] - 10.0)
    assert [event for _, event in events] == told
    assert list(found) == sorted(found, key=lambda name: -found[name])


@pytest.mark.parametrize(
    ("budget_s", "kind", "ends"), [(5.0, "start", True), (5.0, "rung", False), (None, "start", False)]
)
def test_a_start_that_takes_the_whole_budget_ends_the_run(budget_s: float | None, kind: str, ends: bool) -> None:
    """Between trials the loop looks at the time itself."""
    now, told = [0.0], []
    in_time = InTime(told.append, budget_s, lambda: now[0])
    in_time(Event(about=replace(BEGUN, kind=kind)))
    now[0] = 4.0
    in_time(Event(stage="gate"))
    now[0] = 6.0
    for step in (lambda: in_time(Event(stage="verify")), in_time.look):
        with refused(UsageError, "budget-spent") if ends else nullcontext():
            step()
    in_time(
        Event(
            about=TrialResult(
                trial=1,
                id="a",
                operator="rules",
                kind=kind,
                summary="",
                variant="",
                status=Status.CORRECT,
                timing="modelled",
            )
        )
    )
    in_time.look()  # from here on the loop itself looks at the time
    assert [event.stage for event in told[1:3]] == ["gate", "verify"]


@pytest.mark.parametrize(("budget", "end"), [(8.0, 16.0), (60.0, 90.0), (200.0, 250.0), (900.0, 960.0)])
def test_a_trial_has_so_much_more_than_the_budget_and_is_then_given_up(budget: float, end: float) -> None:
    now, told = [0.0], []
    in_time, passed = InTime(told.append, budget, lambda: now[0]), []
    with in_time.bounded():
        in_time(Event(about=BEGUN))
        for now[0] in (budget - 1, end - 1, end + 1):
            in_time(Event(stage=CountedStage("verify", "case", 1, 2, "b4")))
            passed.append(now[0])
    assert passed == [budget - 1, end - 1]
    assert "trial 1" in told[-1].note
    assert "verify" in told[-1].note
    in_time.look()  # what a run ends with has no limit
    assert in_time.spent(1) is not None


def test_what_is_judged_elsewhere_is_waited_for_as_long_as_a_trial_has() -> None:
    told: list[Event] = []
    in_time = InTime(told.append, 0.2, time.monotonic)
    done: Future[int] = Future()
    done.set_result(1)
    with in_time.bounded():
        in_time.wait_for(done)
        in_time.wait_for(Future())
    assert "0.2 s more" in told[-1].note


def test_the_end_of_the_time_interrupts_a_wait_and_nothing_that_is_done_whole() -> None:
    told, done, before = list[Event](), list[str](), signal.getsignal(signal.SIGALRM)
    in_time = InTime(told.append, 0.1, time.monotonic, began_s=time.monotonic() - 0.05)
    in_time(Event(stage="self-test"))
    with refused(UsageError, "budget-spent") as refusal, in_time.interrupting():
        with in_time.held():
            time.sleep(0.2)
            done.append("a keep")
        threading.Event().wait(20)
        done.append("the wait")
    assert done == ["a keep"]
    assert "self-test" in f"{refusal.value}"
    assert signal.getsignal(signal.SIGALRM) is before
