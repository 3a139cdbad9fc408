"""The texts of a champion's file, oldest first: from git, or from the records if the clone is shallow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evo.errors import RecordCorrupt, SyntaxInvalid
from evo.records.ledger import History
from evo.records.trials import Record, rebuild_text
from evo.results.codec import copied
from evo.spec.variant import Variant, parse_variant

_ENVIRONMENTS = 3  # the latest ones, each of which gives its fastest earlier champion


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One text of a champion's file. commit, date and subject: of its commit; absent if only a record has it.

    by_evo: whether that commit is a keep by evo. record: the latest kept record of exactly this text; None if
    evo did not keep it, for example an edit by hand.
    """

    variant: Variant
    commit: str | None = None
    date: str | None = None
    subject: str | None = None
    by_evo: bool = True
    record: Record | None = None

    @property
    def text(self) -> str:
        return self.variant.text

    def words(self) -> str:
        """`commit 1a2b3c4d5e6f (softmax: rung 10_vector)`, or the trial if no commit is known."""
        if self.commit is not None:
            return f"commit {self.commit[:12]} ({self.subject})"
        return f"trial {self.record.trial}" if self.record is not None else f"variant {self.variant.id}"


def lineage(history: History, path: Path, records: Sequence[Record]) -> list[Version]:
    """All versions of a champion's file, oldest first; the last is what stands there now.

    records: those of its task. Texts that no evo can parse are left out, since nothing can be measured of them.
    """
    known = _kept_texts(records, path.stem)
    found: list[Version] = []
    for commit in history.versions(path):
        data = history.text_at(commit.commit, path)
        text = data.decode("utf-8", "replace") if data is not None else None
        if text is None or (variant := _parsed(text)) is None:
            continue
        record = known.get(text)
        found.append(copied(Version, commit, variant=variant, by_evo=commit.trial is not None, record=record))
    in_git = {version.text for version in found}
    only_recorded = [
        Version(variant=variant, record=record)
        for text, record in known.items()
        if text not in in_git and (variant := _parsed(text)) is not None
    ]
    return [*only_recorded, *found]


def _kept_texts(records: Sequence[Record], place: str) -> dict[str, Record]:
    """Text -> the latest kept record of it at a place such as `l4-sm_89`, in the order first kept."""
    kept = [record for record in records if record.kept and f"{record.place[0]}-{record.place[1]}" == place]
    found: dict[str, Record] = {}
    for record in sorted(kept, key=lambda record: record.moment):
        try:
            found[rebuild_text(records, record.trial)] = record
        except RecordCorrupt:
            continue  # a broken chain of diffs only loses this version; `evo show` reports the defect
    return found


def _parsed(text: str) -> Variant | None:
    try:
        return parse_variant(text)
    except SyntaxInvalid:
        return None


def candidates(versions: Sequence[Version], score: Mapping[str, float]) -> list[Version]:
    """The earlier versions to compare with the last one: few, and those most likely to be faster.

    The latest one that evo kept, and the fastest of each of the latest environments in which champions were timed,
    because times of different environments are not comparable. Of equal machine code the latest counts.
    """
    head = versions[-1]
    earlier = [version for version in versions[:-1] if version.variant.id != head.variant.id and version.record]
    if not earlier:
        return []
    chosen = [earlier[-1]]
    groups: dict[tuple[str, ...], list[tuple[float, int]]] = {}
    for index, version in enumerate(earlier):
        assert version.record is not None
        if (us := version.record.evaluation.score_us(score)) is not None:
            groups.setdefault(version.record.environment.key(), []).append((us, index))
    for members in sorted(groups.values(), key=lambda members: -max(index for _, index in members))[:_ENVIRONMENTS]:
        chosen.append(earlier[min(members)[1]])
    return list({version.variant.id: version for version in chosen}.values())
