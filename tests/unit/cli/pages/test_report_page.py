"""The report from made-up records: structure, escaping, size, what stays apart, and the formats beside the page."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from ledger_samples import RUN, record, text_of

from evo.analysis.roofline import CaseLimits
from evo.cli.pages import (
    CaseStudy,
    LineUtilisation,
    ReportModel,
    case_study,
    climbs_svg,
    markdown,
    page,
    report_model,
    report_output,
    trials_csv,
)
from evo.cli.pages.climb_speedup import climb_speedup, segments
from evo.cli.pages.figures import Labels
from evo.cli.pages.genealogy import lanes_of
from evo.cli.pages.highlight import highlighted, side_by_side
from evo.cli.pages.html_page import page_sections
from evo.cli.pages.report_model import genealogies
from evo.cli.pages.roofline_plot import RooflineDot, floor_cells, roofline
from evo.cli.pages.sections import summary
from evo.records.trials import Record, make_diff
from evo.results import CaseEvidence, Evidence, Verdict
from evo.spec.chips import chip

HOSTILE = """</title><script>alert(1)</script><img src=x onerror="alert(2)">' "><b>`|# =1+1 \x1b[2J"""
INVERTED = "The inverted way: from the limits to the kernel"
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Outline(HTMLParser):
    """Ids, headings, elements with their attributes; fails on tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def told(records: list[Record], **fields: object) -> ReportModel:
    given: dict[str, object] = {
        "commits": {},
        "headlines": {"attention": "b2"},
        "title": "Kernel evolution",
        "made": "2026-01-01T09:30:00+00:00",
        "version": "0.1.0",
    }
    return report_model(records, **(given | fields))  # type: ignore[arg-type]


def climbing(count: int, *, loaded: str = "cubin", run: str = RUN, every: int = 5) -> list[Record]:
    """A start, then trials of which every fifth is kept, every seventh never timed."""
    parent, records = text_of(1), [record(1, parent=None, verdict=Verdict.KEEP, loaded=loaded, run=run, time_us=100)]
    us = 100.0
    for number in range(2, count + 1):
        text = text_of(number)
        keep = number % every == 0
        verdict = Verdict.KEEP if keep else None if number % 7 == 0 else Verdict.REVERT
        time_us = us * 0.97 if keep else us * 1.1
        records.append(
            record(number, parent=parent, text=text, verdict=verdict, loaded=loaded, run=run, time_us=time_us)
        )
        if keep:
            parent, us = text, time_us
    return records


def with_detail(trial: Record, detail: dict[str, str]) -> Record:
    environment = replace(trial.environment, detail=detail)
    return replace(trial, evaluation=replace(trial.evaluation, environment=environment))


@pytest.fixture(scope="module")
def both() -> ReportModel:
    other = "20260102T093000-cd34"
    return told(climbing(20) + climbing(12, loaded="sim", run=other))


def test_the_page_is_one_accessible_document(both: ReportModel) -> None:
    outline = Outline(page(both))
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert outline.all("html")[0]["lang"] == "en"
    assert [len(outline.all(tag)) for tag in ("main", "header", "footer", "nav", "h1")] == [1, 1, 1, 1, 1]
    assert len(outline.all("table")) == len(outline.all("caption"))
    for attributes in outline.all("svg"):
        labels = str(attributes["aria-labelledby"]).split()
        assert attributes["role"] == "img"
        assert set(labels) <= set(ids)
    for attributes in (*outline.all("section"), *outline.all("a")):
        target = attributes.get("aria-labelledby") or str(attributes.get("href")).removeprefix("#")
        assert target in ids
    levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    scrolling = [a for a in outline.all("div") if a.get("class") == "wide"]
    assert scrolling
    assert all(a["tabindex"] == "0" and a["role"] == "region" and a["aria-label"] for a in scrolling)


def test_a_page_without_trials_leaves_out_what_has_nothing_to_show() -> None:
    sections = page_sections(told([]))
    assert [name for name, html in sections.items() if html] == ["climb"]


def test_a_start_alone_says_its_time_once_and_has_no_empty_columns() -> None:
    (start,) = climbing(1)
    html = page(told([start]))
    captioned = next(part for part in html.split("<table") if "<caption>Times by case" in part)
    assert re.findall(r"<th[^>]*>([^<]*)</th>", captioned)[0] == "case"
    assert "library" not in captioned
    assert html.count("at trial 1") == html.count("at trial")
    climbs = [page_sections(told(trials))["climb"] for trials in ([start], climbing(2))]
    assert ["<svg" in html for html in climbs] == [False, True]
    assert ["The line is" in html for html in climbs] == [False, True]  # words about a drawing stand beside one


def test_a_second_start_is_where_the_climb_is_counted_from() -> None:
    """As the headline does."""
    html = page(told([*climbing(5), *climbing(10, run="20260102T000000-0002")]))
    places = set(re.findall(r"([\d.]+) µs at trial (\d+)", html))
    assert places == {("100.0", "6"), ("94.09", "15")}


def test_nothing_is_fetched(both: ReportModel) -> None:
    text = page(both)
    assert "://" not in text
    assert "@import" not in text
    assert not re.search(r"url\(", text)
    outline = Outline(text)
    assert all("src" not in attributes for _, attributes in outline.elements)
    policy = next(a["content"] for a in outline.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert str(policy).startswith("default-src 'none'")


def test_measured_and_modelled_never_share_a_drawing(both: ReportModel) -> None:
    assert [climb.timing for climb in both.climbs] == ["measured", "modelled"]
    drawings = re.findall(r"<svg.*?</svg>", page(both))
    assert not [drawing for drawing in drawings if "µs measured" in drawing and "µs modelled" in drawing]
    rows = list(csv.DictReader(io.StringIO(trials_csv(both))))
    assert {bool(row["modelled_us"]) for row in rows if row["loaded"] == "sim" and row["case"]} == {True}
    assert not [row for row in rows if row["modelled_us"] and row["measured_p50_us"]]


def test_times_of_unlike_environments_are_apart() -> None:
    first, second = climbing(3), climbing(3, run="20260102T093000-cd34")
    apart = told(first + [with_detail(trial, {"driver": "590"}) for trial in second])
    assert len(apart.climbs) == 2
    assert "measured times, environment 2 of 2</h3>" in page(apart)
    assert len(told(first + climbing(3, run="20260103T093000-cd34")).climbs) == 1


def test_intervals_are_drawn_where_they_were_measured(both: ReportModel) -> None:
    trial = climbing(5)[4]
    decision = trial.decision
    assert decision is not None
    evidence = Evidence(cases={"b2": CaseEvidence(ratio=1.25, low=1.0, high=1.5625)})
    trial = replace(trial, evaluation=replace(trial.evaluation, decision=replace(decision, evidence=evidence)))
    point = told([*climbing(4), trial]).climbs[0].points[-1]
    assert point.us is not None
    assert (point.low, point.high) == (pytest.approx(point.us * 0.8), pytest.approx(point.us * 1.25))
    assert all(point.low is None for climb in both.climbs for point in climb.points)


def test_an_untimed_trial_has_no_time_anywhere() -> None:
    records = [record(1, parent=None), record(2, parent=text_of(1), verdict=None)]
    whole = report_output(told(records)).to_json()
    point = whole["climbs"][0]["points"][1]  # type: ignore[index,call-overload]
    assert "us" not in point
    assert "not timed" in page(told(records))
    assert "NaN" not in json.dumps(whole)


def test_words_of_records_are_never_markup() -> None:
    records = [
        record(1, parent=None, text=f"// {HOSTILE}\n{text_of(1)}", summary=HOSTILE, operator="<i>op</i>"),
        record(2, parent=None, verdict=None, summary=HOSTILE, reason=HOSTILE, expected=HOSTILE, risk=HOSTILE),
    ]
    records[1] = with_detail(records[1], {HOSTILE: HOSTILE})
    records[1] = replace(records[1], evaluation=replace(records[1].evaluation, reason=HOSTILE))
    whole = told(records, title=HOSTILE, no_heat=HOSTILE)
    study = case_study(RUN, records, "b2")
    for text in (page(whole), page(whole, study)):
        outline = Outline(text)
        assert len(outline.all("script")) == 1
        assert not outline.all("img")
        assert not [a for _, a in outline.elements if any(name.startswith("on") for name in a)]
        assert "alert(1)" in "".join(outline.words)
        assert "\x1b" not in text
    for text in (markdown(whole, study), climbs_svg(whole)):
        assert "<script" not in text
        assert "<img" not in text
        assert "\x1b" not in text
    rows = list(csv.DictReader(io.StringIO(trials_csv(told([record(1, parent=None, summary='=HYPERLINK("x")')])))))
    assert rows[0]["summary"].startswith("'=")


def test_a_long_run_stays_small() -> None:
    body = "".join(f"    acc[{i}] = fmaf(q[{i}], k[{i}], acc[{i}]); // line {i}\n" for i in range(160))
    records, parent = [], ""
    for number in range(1, 501):
        text = text_of(number) + body.replace("acc", f"acc{number}")
        kept = number == 1 or number % 8 == 0
        trial = record(
            number,
            parent=parent or None,
            text=text,
            verdict=Verdict.KEEP if kept else Verdict.REVERT,
            loaded="cubin",
            time_us=1000 / number,
            summary="a change " * 12,
            reason="because of this " * 30,
        )
        records.append(trial)
        parent = text if kept else parent
    text = page(told(records))
    assert len(text.encode()) < 3_000_000
    outline = Outline(text)
    assert "evo show" in text  # the diffs that found no room say how to see them
    assert len([a for a in outline.all("table") if a.get("class") == "diff"]) > 5


def test_the_line_of_descent_is_the_champions(both: ReportModel) -> None:
    (climb,) = (climb for climb in both.climbs if climb.timing == "measured")
    (line,) = (line for line in report_output(both).lines if line.loaded != "sim")
    kept = [point.trial for point in climb.points if point.kept]
    assert [step.trial for step in line.steps] == kept
    assert [step.parent for step in line.steps[1:]] == [step.variant for step in line.steps[:-1]]
    assert sum(len(step.tried) for step in line.steps) == sum(not point.kept for point in climb.points)


def test_every_trial_shows_its_change_beside_its_parent(both: ReportModel) -> None:
    text = page(both)
    outline = Outline(text)
    trials = [a for a in outline.all("details") if a.get("class") == "trial"]
    assert {str(a["id"]) for a in trials} == {f"t-{record.trial}" for record in both.records}
    assert sum("data-kept" in a for a in trials) == sum(record.kept for record in both.records)
    start = record(1, parent=None)
    begun = replace(start, evaluation=replace(start.evaluation, decision=None))
    assert page(told([begun, record(2, parent=text_of(1))])).count('data-start="1"') == 1
    assert text.count('class="diff"') == sum(record.parent is not None for record in both.records)


def test_the_genealogy_has_every_start_and_every_keep(both: ReportModel) -> None:
    shown = both.genealogies
    assert [one.timing for one in shown] == ["modelled", "measured"]  # the latest first
    for one in shown:
        kept = [record for record in both.records if record.kept and record.timing == one.timing]
        assert [kin.record.trial for kin in one.kin] == [record.trial for record in kept]
        tried = sum(len(kin.tried) for kin in one.kin)
        assert tried + len(kept) == sum(record.timing == one.timing for record in both.records)


def test_lines_of_champions_that_overlap_have_lanes_of_their_own() -> None:
    other = record(4, parent=text_of(1), text=text_of(40))  # a second child of the start, when a line went on
    again = record(6, parent=None, text=text_of(60))
    records = [
        record(1, parent=None),
        record(2, parent=text_of(1)),
        record(3, parent=text_of(2)),
        other,
        record(5, parent=text_of(3)),
        again,
    ]
    (one,) = genealogies(records)
    lanes = lanes_of(one.kin).lanes
    assert lanes[1] == lanes[2] == lanes[4]
    assert lanes[0] == lanes[3] != lanes[1]
    assert one.kin[5].parent is None
    assert lanes[5] == 0  # the lines before have ended
    text = page(told(records))
    assert text.count('class="h"') == 1


def test_a_keep_over_what_was_not_kept_goes_on_from_its_line() -> None:
    """A restart: its parent was tried from the champion and is no champion; the gain since the start is told."""
    records = [
        record(1, parent=None),
        record(2, parent=text_of(1)),
        record(3, parent=text_of(2), verdict=Verdict.REVERT),
        record(4, parent=text_of(3)),
    ]
    (one,) = genealogies(records)
    assert [kin.parent for kin in one.kin] == [None, 0, 1]
    text = page(told(records))
    assert f"{records[2].variant}</code>, tried" in text
    assert "not among those" not in text
    assert text.count("since the start</span>") == 1 + 2  # at the head of the page, and beside both keeps


def test_a_part_of_a_run_says_what_it_leaves_out() -> None:
    text = page(told(climbing(10)[5:]))
    Outline(text)
    assert "not among those" in text


def test_the_speed_up_since_the_start_leads(both: ReportModel) -> None:
    measured, modelled = both.climbs
    since = climb_speedup(modelled)
    assert since is not None
    assert since.start_us / since.now_us == pytest.approx(since.ratio)
    assert (since.trials, since.kept) == (11, 2)
    assert "modelled (sim:l4)" in since.facts
    assert "measured" not in since.facts
    assert climb_speedup(measured).how == "measured (l4, sm_89)"  # type: ignore[union-attr]
    header = page(both).partition("<nav")[0]
    assert f"<b>{since.ratio_words}</b>" in header
    untimed = told([record(1, parent=None, verdict=None)])
    assert climb_speedup(untimed.climbs[0]) is None


def test_the_headline_is_the_latest_climb_that_kept_anything() -> None:
    later = climbing(4, run="20260102T093000-cd34", loaded="sim", every=50)
    report = told(climbing(10) + later)
    wanted, none = (climb_speedup(climb) for climb in report.climbs)
    assert wanted is not None
    assert none is not None
    assert (wanted.kept, none.kept) == (2, 0)
    assert f"<b>{wanted.ratio_words}</b>" in summary(report)


def test_without_a_kept_change_the_headline_is_no_speed_up() -> None:
    text = page(told(climbing(4, every=50)))
    header = text.partition("<nav")[0]
    assert "<b>no gain yet</b>" in header
    assert "→" not in header
    assert "1 start, 0 kept" in text


def test_a_case_without_a_floor_says_so() -> None:
    cases = CaseLimits(
        name="c", bytes_compulsory=10, floors_us={}, estimated=(), limiter="", limiter_cold="dram_cold",
        floor_us=0.0, floor_cold_us=20.99,
    )  # fmt: skip
    assert floor_cells(cases)[0] == "none"
    assert "20.99" in floor_cells(cases)[1]
    assert floor_cells(replace(cases, floor_us=3.5, limiter="fp32")) == ("3.50", "fp32")


def test_a_second_start_begins_the_headline_anew() -> None:
    records = climbing(10) + climbing(3, run="20260102T093000-cd34")
    (climb,) = told(records).climbs
    assert [len(points) for points in segments(climb)] == [10, 3]
    since = climb_speedup(climb)
    assert since is not None
    assert since.trials == 2


def test_labels_cover_neither_marks_nor_one_another() -> None:
    labels = Labels((0, 0, 100, 100))
    labels.block(10, 10, 20, 20)
    assert labels.place(30, 10, [(5, 5), (30, 10)]) == (30, 10)
    assert labels.place(30, 10, [(40, 12)]) is None
    assert labels.place(30, 10, [(90, 50), (60, 50)]) == (60, 50)  # the first would leave the frame


def test_side_by_side_pairs_lines_and_escapes() -> None:
    html = side_by_side(make_diff("a\nb < 1;\nc\n", "a\nb < 2;\nx\nc\n"), "what")
    outline = Outline(html)
    assert len(outline.all("del")) == 1
    assert len(outline.all("ins")) == 2
    assert "b &lt; " in html
    assert highlighted("/* a\nb */ int x = 0x1F; // <b>")[1:] == [
        '<i class="c">b */</i> <i class="t">int</i> x = <i class="n">0x1F</i>; <i class="c">// &lt;b&gt;</i>'
    ]


def test_rooflines_say_why_they_are_missing() -> None:
    l4 = chip("l4")
    bare = roofline(
        "attention", l4, "modelled", (), (RooflineDot(case="b2", what="x", role="champion", modelled_us=3.0),)
    )
    missing = roofline("other", l4, "measured", (), (), problem="There are no limits: no work formula")
    text = page(told(climbing(3), rooflines=[bare, missing]))
    assert "no work formula" in text
    assert "beside modelled times" in text


def test_marks_of_a_roofline_stand_clear_of_its_labels() -> None:
    cases = [
        CaseLimits(
            name=f"c{number}",
            flop=1e9,
            mac=None,
            exp=None,
            bytes_compulsory=10**9,
            bytes_materialised=None,
            intensity_flop_per_byte=1.0,  # at the left edge of an axis that begins at 1
            ridge_flop_per_byte=None,
            floors_us={},
            estimated=(),
            limiter="dram",
            limiter_cold="dram",
            floor_us=3000.0,
            floor_cold_us=4000.0,
        )
        for number in range(5)
    ]
    taken = [RooflineDot(case=case.name, what="x", role="champion", modelled_us=5000.0) for case in cases]
    text = page(told(climbing(3), rooflines=[roofline("attention", chip("l4"), "modelled", cases, taken)]))
    drawings = re.findall(r'<svg class="(?:wide|narrow)".*?</svg>', text[text.index("Throughput over") :])
    assert len(drawings) == 2
    for drawn in drawings:
        # The marks of each case: champion, and the limits with inputs in L2 and in DRAM.
        marks = [
            float(at) for at in re.findall(r'<title>c\d:[^<]*</title><circle class="c\d[^>]* cx="([\d.]+)"', drawn)
        ]
        edge = float(re.findall(r'<path class="axis" d="M([\d.]+) ', drawn)[0])
        labels = [float(at) for at in re.findall(r'transform="translate\(([\d.]+) ', drawn)]
        assert len(marks) == 10
        assert min(marks) > edge + 5
        assert all(not label - 5 <= mark <= label + 60 for label in labels for mark in marks), (labels, marks)


def test_the_time_of_runs_holds_what_lies_between_trials() -> None:
    two = [
        replace(record(number, parent=None if number == 1 else text_of(1)), date=f"2026-01-01T09:{30 + number}:30Z")
        for number in (1, 2)
    ]
    spent = report_output(told(two)).to_json()["spent"]
    assert isinstance(spent, dict)
    assert (spent["seconds"], spent["lasted_s"]) == (4.0, 150.0)
    assert "2 min 30 s" in page(told(two))
    before = [replace(two[0], date="2025-12-31T09:30:00Z")]  # a clock that was set back
    assert "lasted_s" not in report_output(told(before)).to_json()["spent"]  # type: ignore[operator]


def test_counters_that_failed_say_why() -> None:
    heat = LineUtilisation(task="attention", chip="l4", arch="sm_89", variant="abc", text="", problem="it hangs")
    assert "it hangs" in page(told(climbing(3), heats=[heat]))
    assert "evo report --count" in page(told(climbing(3)))


def study_of(records: list[Record], run: str = RUN) -> CaseStudy:
    return case_study(run, records, "b2")


def test_a_case_study_tells_both_ways_and_the_hypotheses() -> None:
    records = climbing(6, every=2)
    inverted = record(
        7,
        parent=text_of(6),
        loaded="cubin",
        operator="derive",
        expected="a wave that is full",
        ratio=1.5,
        time_us=40,
        arguments={"llm": {"calls": 2, "prompt_tokens": 900, "completion_tokens": 100, "cost": 0.02}},
    )
    study = study_of([*records, inverted])
    chapters = {chapter.heading: chapter for chapter in study.chapters}
    assert "6 trials of" in chapters["The setting"].sentences[0]  # the start is none
    against = {row[1]: row for row in chapters["Traditional against inverted"].rows}
    assert against["traditional"][2:4] == ("5", "3")
    assert against["inverted"][2:4] == ("1", "1")
    assert against["inverted"][5] == "1.500x"
    last = chapters["Hypotheses against results"].rows[-1]
    assert inverted.expected in last[2]
    assert last[3].startswith("1.500x [1.450x, 1.550x]")
    assert "0.02 paid" in " ".join(chapters["What it took"].sentences)
    text = page(told([*records, inverted]), study)
    Outline(text)
    assert "Traditional against inverted" in text


def test_a_case_study_of_one_way_says_what_is_missing() -> None:
    chapters = {chapter.heading: chapter for chapter in study_of(climbing(6)).chapters}
    assert "--strategy inversion" in " ".join(chapters[INVERTED].sentences)
    assert "no comparison" in " ".join(chapters["Traditional against inverted"].sentences)


def test_cost_is_absent_where_nobody_paid() -> None:
    records = [record(1, parent=None, elapsed_s=None)]
    whole = report_output(told(records)).to_json()
    assert "seconds" not in whole["spent"]  # type: ignore[operator]
    assert "llm" not in whole["spent"]  # type: ignore[operator]
    assert "have no durations" in page(told(records))
