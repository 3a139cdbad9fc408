"""The night's verdict, its exit code, the Markdown summary and the JUnit file."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from evo.audit.nightly import (
    Cause,
    ChampionReview,
    Figure,
    Night,
    NightCheck,
    NightRun,
    ReviewState,
    Version,
    junit,
    markdown,
)
from evo.spec.variant import parse_variant

TEXT = '// evo: launch k grid (1) block (32) shared 0\nextern "C" __global__ void k(float* y) { y[threadIdx.x] = 0; }\n'


def night(*checks: NightCheck, reviews: tuple[ChampionReview, ...] = (), runs: tuple[NightRun, ...] = ()) -> Night:
    return Night(
        device="gpu:0",
        chip="l4",
        arch="sm_89",
        timing="measured",
        began="2026-01-01T00:00:00Z",
        version="0.1.0+abc",
        checks=list(checks),
        champions=list(reviews),
        runs=list(runs),
        elapsed_s=61.0,
    )


def check(state: str, **more: object) -> NightCheck:
    return NightCheck(**{"step": "champions", "name": "attention l4-sm_89", "state": state, "text": state, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("states", "code"),
    [((), 0), (("passed", "skipped"), 0), (("passed", "fault"), 4), (("fault", "failed"), 1), (("failed",), 1)],
)
def test_the_exit_code_says_loss_before_fault(states: tuple[str, ...], code: int) -> None:
    assert night(*(check(state, code=4) for state in states)).exit_code == code


def demoted() -> ChampionReview:
    bad = Version(variant=parse_variant(TEXT), commit="b" * 40, date="2026", subject="faster | @everyone <b>")
    return ChampionReview(
        task="attention",
        place="l4-sm_89",
        path="kernels/attention/champions/l4-sm_89.cu",
        timing="measured",
        variant="a" * 12,
        state=ReviewState.DEMOTED,
        note="it takes longer",
        cases=(Figure(name="b2", now_us=12.0, recorded_us=10.0), Figure(name="b4", now_us=20.5)),
        cause=Cause.between(bad, bad, "commit", f"slower since {bad.words()}", looks=(("c1", "slower"),)),
        restored="c" * 12,
        commit="d" * 40,
    )


def test_the_summary_tells_what_was_lost_and_why() -> None:
    text = markdown(night(check("failed"), reviews=(demoted(),)))
    assert "1 demoted" in text
    assert "| attention l4-sm_89 | `aaaaaaaaaaaa` | b2 | 10.00 | 12.00 | +20.0% | demoted |" in text
    assert "|  |  | b4 |  | 20.50 |  |  |" in text  # what was not recorded is left out
    assert "Champion again: `cccccccccccc`, commit `dddddddddddd`." in text
    assert "modelled" not in text


def test_text_from_elsewhere_stays_text() -> None:
    text = markdown(night(check("fault", text="a | b\n<script> @team"), reviews=(demoted(),)))
    assert "<script>" not in text
    assert "@everyone" not in text
    assert "@team" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(row.replace("\\|", "").endswith("|") for row in rows)
    for head in ("| step | what", "| step | result"):
        at = next(n for n, line in enumerate(rows) if line.startswith(head))
        assert rows[at].count("|") == rows[at + 2].replace("\\|", "").count("|")


def test_junit_counts_and_holds_any_text() -> None:
    found = night(
        check("passed"),
        check("failed", text="lost", detail="more\x00\x1b[31m"),
        check("fault", step="redteam", name='<"attack">', text="\ud800 broken"),
        check("skipped", step="iterate"),
    )
    root = ElementTree.fromstring(junit(found))
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["red team", "champions", "the loop"]
    failure = suites["champions"].find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "lost"
    assert failure.text == "more??[31m"
    assert [case.get("name") for case in suites["red team"]] == ['<"attack">']


def test_modelled_nights_say_so_at_every_figure() -> None:
    run = NightRun(task="scale", trials=3, kept=1, champion="e" * 12, case="small", start_us=4.0, end_us=2.0)
    found = night(check("passed"), runs=(run,))
    found.timing = "modelled"
    text = markdown(found)
    assert "before µs modelled" in text
    assert "measured" not in text
    assert "1 kept in 3 trials" in text
