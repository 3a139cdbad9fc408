"""Bisection over versions, and what its outcome means."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ledger_samples import environment
from tiny import FAST

from evo.audit.nightly import Version, bisect, candidates, cause_of
from evo.records.trials import Kind, Record
from evo.results import CaseBench, Environment, Evaluation, Status, Timing
from evo.spec.variant import parse_variant

HERE = environment("cubin")


def version(number: int, us: float | None = None, where: Environment = HERE, *, kind: Kind = "mutation") -> Version:
    text = FAST.replace("THREADS in 32", f"THREADS in {number}, 32")
    variant = parse_variant(text)
    record = None
    if us is not None:
        warm = Timing(p50_us=us, p90_us=us, p99_us=us, mean_us=us, std_us=0.1, samples=64)
        run = f"20260101T0000{number:02}-abcd"
        record = Record(
            trial=f"{run}-0001",
            run=run,
            number=1,
            task="scale",
            variant=variant.id,
            parent=None if kind == "start" else "0" * 12,
            operator="rules",
            kind=kind,
            summary="a change",
            evaluation=Evaluation(
                variant=variant.id,
                status=Status.MEASURED,
                environment=where,
                bench=(CaseBench(name="small", warm=warm),),
            ),
            diff="",
            date="2026-01-01T00:00:00Z",
        )
    return Version(
        variant=variant, commit=f"{number:040x}", date="2026-01-01", subject=f"change {number}", record=record
    )


LINE = [version(number) for number in range(1, 14)]


@pytest.mark.parametrize("first_bad", range(1, 13))
def test_the_first_bad_version_is_found_in_few_looks(first_bad: int) -> None:
    bad = {one.variant.id for one in LINE[first_bad:]}
    found = bisect(LINE, lambda one: (one.variant.id in bad, "looked"))
    assert (found.good, found.bad) == (first_bad - 1, first_bad)
    assert len(found.looks) <= 4


def test_a_version_that_cannot_be_judged_is_passed_over_and_never_blamed() -> None:
    def judge(one: Version) -> tuple[bool | None, str]:
        number = LINE.index(one)
        return (None if number in (5, 6, 7) else number >= 4), ""

    found = bisect(LINE, judge)
    assert (found.good, found.bad) == (3, 4)
    none = bisect(LINE, lambda _: (None, "no time"))
    assert (none.good, none.bad) == (0, len(LINE) - 1)
    assert cause_of(LINE, none, HERE, lost="is slower").kind == "range"


def test_versions_that_differ_in_comments_are_judged_once() -> None:
    retold = replace(LINE[1], variant=parse_variant(LINE[1].text + "// once more\n"))
    looked: list[str] = []

    def judge(one: Version) -> tuple[bool, str]:
        looked.append(one.variant.id)
        return True, ""

    found = bisect([LINE[0], LINE[1], retold, LINE[1], LINE[2]], judge)
    assert found.bad == 1
    assert looked == [LINE[1].variant.id]


@pytest.mark.parametrize(
    ("bad", "kind", "words"),
    [
        (version(2), "commit", "which evo did not keep"),
        (version(2, 9.0), "commit", "in today's environment"),
        (version(2, 9.0, replace(HERE, detail={"driver": "570"})), "environment", "driver 580 against 570"),
        (version(2, 9.0, replace(HERE, toolkit="nvrtc 12.8"), kind="start"), "commit", "claims no gain"),
    ],
)
def test_what_changed_is_the_commit_or_the_environment(bad: Version, kind: str, words: str) -> None:
    line = [version(1, 5.0), bad]
    cause = cause_of(line, bisect(line, lambda _: (True, "")), HERE, lost="is slower")
    assert cause.kind == kind
    assert words in cause.text
    assert cause.text.startswith("is slower since")


def test_a_text_put_back_by_hand_is_the_commits_doing() -> None:
    old = replace(HERE, detail={"driver": "570"})
    back = replace(version(1, 9.0, old), by_evo=False)
    line = [version(2, 5.0), back]
    cause = cause_of(line, bisect(line, lambda _: (True, "")), HERE, lost="is slower")
    assert (cause.kind, "had replaced" in cause.text) == ("commit", True)
    squashed = [version(1, 9.0, old), replace(version(2, 5.0, old), by_evo=False)]  # kept by evo, merged by a person
    assert cause_of(squashed, bisect(squashed, lambda _: (True, "")), HERE, lost="is slower").kind == "environment"


def test_few_earlier_champions_are_held_against_the_last() -> None:
    old = replace(HERE, detail={"driver": "550"})
    line = [version(1, 4.0, old), version(2, 6.0, old), version(3, 5.0), version(4, 9.0), version(5), version(6, 8.0)]
    chosen = candidates(line, {"small": 1.0})
    assert [one.subject for one in chosen] == ["change 4", "change 3", "change 1"]  # the latest, the fastest of each
    assert candidates([version(1, 4.0)], {"small": 1.0}) == []
