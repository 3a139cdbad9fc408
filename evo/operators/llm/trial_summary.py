"""What a run has learnt so far, in a few lines for the prompt: made anew every N trials, by arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from evo.operators.llm.endpoint import data
from evo.operators.llm.replies import one_line
from evo.records.trials import Record

_STEPS, _WORDS = 8, 90
_REASONS = 4


def trial_summary(records: Sequence[Record], run: str, every: int) -> list[str]:
    """The summary of the first N, 2 N, 3 N ... trials of a run, whichever was reached last; else nothing."""
    own = sorted((r for r in records if r.run == run and r.proposed), key=lambda record: record.number)
    count = len(own) // every * every if every else 0
    if not count:
        return []
    own = own[:count]
    kept = [record for record in own if record.kept]
    gain = math.prod(record.own_ratio or 1.0 for record in kept)
    lines = [f"{count} trials, {len(kept)} kept, together {gain:.2f}x"]
    lines += [f"kept: {one_line(r.summary, _WORDS)}: {r.own_ratio or 1.0:.2f}x" for r in kept[-_STEPS:]]
    lines += _lost(own)
    lines += _by(own, "aim", "aim")
    lines += _kinds(own)
    return [f"What the first {count} trials of this run have shown:", data("summary", "\n".join(lines))]


def _lost(own: Sequence[Record]) -> list[str]:
    """Why trials were not kept, the most frequent reason first."""
    reasons: Counter[str] = Counter()
    for record in own:
        if not record.kept:
            decision = record.evaluation.decision
            ground = decision.ground if decision is not None and decision.ground is not None else None
            reasons[str(ground.value).replace("_", " ") if ground is not None else record.status.value] += 1
    return [f"not kept: {reason}: {count}" for reason, count in reasons.most_common(_REASONS)]


def _by(own: Sequence[Record], name: str, word: str) -> list[str]:
    tried = Counter(str(record.arguments[name]) for record in own if record.arguments.get(name))
    kept = Counter(str(record.arguments[name]) for record in own if record.kept and record.arguments.get(name))
    return [f"{word} {value}: {kept[value]} of {count} kept" for value, count in sorted(tried.items())]


def _kinds(own: Sequence[Record]) -> list[str]:
    tried = Counter(record.kind for record in own)
    kept = Counter(record.kind for record in own if record.kept)
    if len(tried) < 2:
        return []
    return [f"{kind}: {kept[kind]} of {count} kept" for kind, count in sorted(tried.items())]
