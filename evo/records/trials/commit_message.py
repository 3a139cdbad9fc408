"""The commit message of a kept trial: what changed, why, what it brought, where that was seen."""

from __future__ import annotations

import textwrap

from evo.records.trials.record import Record

_SUBJECT_WIDTH = 72


def kept_message(record: Record) -> str:
    """The message of the commit that keeps this trial, without the trailer that the ledger adds."""
    chip, arch, loaded = record.place
    # A change of the kernel's function begins with its name, which is often the task's.
    named = record.summary.startswith(f"{record.task}:")
    subject = " ".join((record.summary if named else f"{record.task}: {record.summary}").split())
    parts = [textwrap.shorten(subject, _SUBJECT_WIDTH, placeholder=" ..."), _paragraph(record.reason)]
    parts.append(_paragraph(f"Effect: {effect(record)}."))
    rival = record.arguments.get("rival")
    if isinstance(rival, str):
        beside = (
            f"The change was made to {record.parent}, an elite beside the champion; what led to that one comes along."
        )
        parts.append(_paragraph(beside))
    if record.decision is not None:
        parts.append(_paragraph(f"Decision: {record.decision.verdict}: {record.decision.reason}"))
    check = record.evaluation.check
    if check is not None and check.verified is not None:
        parts.append(_paragraph(f"Verified: {check.verified.words}."))
    facts = [
        f"Chip: {chip}, {arch}, {loaded}",
        f"Operator: {record.operator} ({record.kind})",
        f"Variant: {record.variant}",
    ]
    if record.parent is not None:
        facts.append(f"Parent: {record.parent}")
    if isinstance(rival, str):
        facts.append(f"Replaces: {rival}, which it was compared with")
    parts.append("\n".join(facts))
    return "\n\n".join(part for part in parts if part)


def effect(record: Record) -> str:
    """`1.27x measured on l4, 95 % interval 1.21x to 1.33x, confirmed`; a start claims no gain."""
    chip = record.place[0]
    gain = record.gain
    if gain is None:
        return f"none claimed ({record.timing} on {chip})"
    text = f"{gain.ratio:.3f}x {record.timing} on {chip}"
    if gain.low is not None and gain.high is not None:
        text += f", 95 % interval {gain.low:.3f}x to {gain.high:.3f}x"
    return text + (", confirmed in a fresh process" if gain.confirmed else "")


def _paragraph(text: str) -> str:
    return "\n".join(textwrap.wrap(" ".join(text.split()), _SUBJECT_WIDTH))
