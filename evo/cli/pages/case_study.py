"""One run as an article: hardware limits, trial-and-error changes against derived ones, hypotheses.

Traditional: a change is tried because it may help (ladder, rules, patches, a model asked freely). Inverted: it follows
from the chip's limits (`derive`, or a model asked with the strategy `inversion`). Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evo.cli.pages.report_model import Climb, RunCost, climbs, spent
from evo.cli.pages.roofline_plot import Roofline, floor_cells
from evo.cli.pages.tables import ReportSection, ReportTable, llm_words, time_words
from evo.records.insights import environment_words
from evo.records.trials import Record
from evo.results.wording import clipped, count, duration, gain_words, microseconds, percent, plural, ratio

_WAYS = ("traditional", "inverted")
_LONGEST = 240  # characters of a hypothesis in the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A heading, sentences, and optionally a table (head, rows; a head that starts with `>` has numbers)."""

    heading: str
    sentences: tuple[str, ...]
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    caption: str = ""

    @property
    def section(self) -> ReportSection:
        """As the other sections of a report are told."""
        table = ReportTable(caption=self.caption or self.heading, head=self.head, rows=self.rows)
        return ReportSection(sentences=self.sentences, tables=(table,) if self.rows else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseStudy:
    run: str
    task: str
    title: str
    chapters: tuple[Chapter, ...]


def way_of(record: Record) -> str:
    """`inverted` if the change follows from the chip's limits, else `traditional`."""
    strategy = record.arguments.get("strategy")
    return "inverted" if record.operator == "derive" or strategy == "inversion" else "traditional"


def case_study(
    run: str, population: Sequence[Record], headline: str | None, rooflines: Sequence[Roofline] = ()
) -> CaseStudy:
    """Describe one run. population: all records of its task; runs in the same environment are compared."""
    records = [record for record in population if record.run == run]
    first = records[0]
    climb = max(climbs(records, {first.task: headline or ""}), key=lambda one: len(one.points))
    slug = first.place[0].removeprefix("sim-")
    roof = next((one for one in rooflines if (one.chip, one.timing) == (slug, first.timing)), None)
    return CaseStudy(
        run=run,
        task=first.task,
        title=f"{first.task} on {first.place[0]}: a case study of run {run}",
        chapters=(
            _setting(records, climb),
            _allowed(roof, first.task),
            *(_way(way, records, climb) for way in _WAYS),
            _against(records, population, climb, roof),
            _hypotheses(records),
            _cost(spent(records)),
            _outcome(records, climb, roof),
        ),
    )


def _setting(records: Sequence[Record], climb: Climb) -> Chapter:
    first, last = records[0], records[-1]
    tried = [record for record in records if record.proposed]
    kept = sum(record.kept for record in tried)
    sentences = [
        f"The run made {plural(len(tried), 'trial')} of the task {first.task} and kept {kept}, "
        f"from {first.date[:16].replace('T', ' ')} to {last.date[:16].replace('T', ' ')} UTC.",
        f"Every time below is {climb.timing}, at the case {climb.case}. The environment: {environment_words(first)}.",
    ]
    if climb.timing == "modelled":
        sentences.append(
            f"No hardware was timed: model version {climb.model} of the simulator gives the times, and memory safety, "
            "races and results are as executed."
        )
    return Chapter(heading="The setting", sentences=tuple(sentences))


def _allowed(roof: Roofline | None, task: str) -> Chapter:
    heading = "Limits of the hardware"
    if roof is None or not roof.cases:
        why = roof.problem if roof is not None else "the chip has no row in the table"
        return Chapter(heading=heading, sentences=(f"No floors are known for {task} here: {why}.",))
    rows = [
        (
            case.name,
            count(case.flop) if case.flop is not None else "",
            count(case.bytes_compulsory),
            *floor_cells(case),
            microseconds(case.target_us),
        )
        for case in roof.cases
    ]
    sentence = f"No implementation on {roof.chip_name} can be faster than the floor of its case: work over peak rate."
    head = ("case", ">FLOP", ">compulsory bytes", ">floor µs", "bound by", ">target µs")
    return Chapter(heading=heading, sentences=(sentence,), head=head, rows=tuple(rows), caption=f"Floors of {task}")


def _way(way: str, records: Sequence[Record], climb: Climb) -> Chapter:
    heading = {
        "traditional": "The traditional way: change, measure, keep or revert",
        "inverted": "The inverted way: from the limits to the kernel",
    }[way]
    own = [record for record in records if record.proposed and way_of(record) == way]
    if not own:
        how = "--strategy inversion" if way == "inverted" else "--strategy insight"
        return Chapter(
            heading=heading, sentences=(f"This run has no such trial; evo iterate {records[0].task} {how} makes some.",)
        )
    kept = [record for record in own if record.kept]
    sentences = [f"{plural(len(own), 'trial')} of this kind, {len(kept)} kept."]
    for record in kept:
        us = record.evaluation.case_us(climb.case)
        reached = f", {microseconds(us)} µs {climb.timing}" if us is not None else ""
        effect = gain_words(record.gain) or "no gain claimed"
        because = f" Why: {clipped(record.reason, _LONGEST)}" if record.reason else ""
        sentences.append(f"Trial {record.number}, {clipped(record.summary, 120)}: {effect}{reached}.{because}")
    return Chapter(heading=heading, sentences=tuple(sentences))


def _against(records: Sequence[Record], population: Sequence[Record], climb: Climb, roof: Roofline | None) -> Chapter:
    run, where = records[0].run, environment_words(records[0])
    task_text = records[0].environment.task_hash
    others = [
        record
        for record in population
        if record.run != run and environment_words(record) == where and record.environment.task_hash == task_text
    ]
    floor = next((case.floor_us for case in roof.cases if case.name == climb.case), None) if roof else None
    rows = []
    for whose, group in (("this run", records), ("other runs here", others)):
        for way in _WAYS:
            own = [record for record in group if record.proposed and way_of(record) == way]
            if own:
                rows.append(_way_row(whose, way, own, climb.case, floor))
    ways = {row[1] for row in rows}
    sentences = ["The effect of a way is the product of its kept gains, each against its own parent."]
    if len(ways) < len(_WAYS):
        missing = next(way for way in _WAYS if way not in ways)
        sentences.append(f"No trial in this environment is {missing}, so there is no comparison.")
    head = ("run", "way", ">trials", ">kept", ">time spent", ">product of kept gains", f">best kept, {climb.timing} µs")
    return Chapter(
        heading="Traditional against inverted",
        sentences=tuple(sentences),
        head=(*head, ">floor / best"),
        rows=tuple(rows),
        caption=f"Both ways at case {climb.case}",
    )


def _way_row(whose: str, way: str, own: Sequence[Record], case: str, floor: float | None) -> tuple[str, ...]:
    gains = [r.gain.ratio for r in own if r.kept and r.gain is not None]
    product = math.prod(gains) if gains else None
    times = [us for r in own if r.kept and (us := r.evaluation.case_us(case)) is not None]
    best = min(times, default=None)
    seconds = [r.elapsed_s for r in own if r.elapsed_s is not None]
    return (
        whose,
        way,
        str(len(own)),
        str(sum(r.kept for r in own)),
        duration(sum(seconds)) if seconds else "",
        ratio(product),
        microseconds(best),
        percent(floor / best) if floor and best else "",
    )


def _hypotheses(records: Sequence[Record]) -> Chapter:
    proposed = [record for record in records if record.proposed]
    timed = [record for record in proposed if record.gain is not None]
    faster = [r for r in timed if r.gain is not None and r.gain.ratio > 1]
    kept = [record for record in proposed if record.kept]
    sentences = (
        f"{len(proposed)} of the trials tested a hypothesis; "
        f"{len(timed)} got as far as a comparison, {len(faster)} came out faster than the parent, {len(kept)} kept.",
    )
    rows = tuple(
        (
            str(record.number),
            clipped(record.summary, 100),
            _hypothesis(record),
            gain_words(record.gain) or f"none: {record.status.value}",
            record.outcome,
        )
        for record in proposed
    )
    timing = records[0].timing
    head = (">trial", "change", "hypothesis", f"{timing} gain", "verdict")
    caption = "Expectation and outcome of each hypothesis"
    return Chapter(heading="Hypotheses against results", sentences=sentences, head=head, rows=rows, caption=caption)


def _hypothesis(record: Record) -> str:
    said = [clipped(text, _LONGEST).rstrip(".") for text in (record.reason, record.expected)]
    return "; expected: ".join(text for text in said if text) or "none stated"


def _cost(total: RunCost) -> Chapter:
    sentences = [time_words(total), llm_words(total)]
    rows = tuple(
        (
            row.operator,
            str(row.trials),
            str(row.kept),
            duration(row.seconds),
            duration(row.seconds / row.kept) if row.kept else "",
        )
        for row in total.by_operator
    )
    head = ("operator", ">trials", ">kept", ">time", ">time per keep")
    return Chapter(heading="What it took", sentences=tuple(sentences), head=head, rows=rows, caption="Time by operator")


def _outcome(records: Sequence[Record], climb: Climb, roof: Roofline | None) -> Chapter:
    kept = [point for point in climb.points if point.kept and point.us is not None]
    if not kept:
        return Chapter(heading="The outcome", sentences=("No kept variant has a time.",))
    first, last = kept[0], kept[-1]
    assert first.us is not None
    assert last.us is not None
    sentences = [
        f"The run went from {microseconds(first.us)} µs ({first.variant}) to {microseconds(last.us)} µs "
        f"({last.variant}) at {climb.case}, {climb.timing}: {ratio(first.us / last.us)} between "
        "figures of trials of their own. The gains above come from direct comparisons."
    ]
    champion = next(record for record in records if record.trial == last.trial)
    for row in champion.bench:
        if (rival := row.baseline) is not None:
            sentences.append(
                f"At {row.name} the library's {rival.name} took {microseconds(rival.p50_us)} µs in the same run, "
                f"{ratio(rival.p50_us / row.time_us)} of the champion's time."
            )
    floor = next((case.floor_us for case in roof.cases if case.name == climb.case), None) if roof else None
    if floor:
        share = percent(floor / last.us)
        sentences.append(f"The floor of {climb.case} is {microseconds(floor)} µs: {share} of the time.")
    return Chapter(heading="The outcome", sentences=tuple(sentences))
