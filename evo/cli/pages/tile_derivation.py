"""The design document of one derivation, in Markdown: limits, decisions, hypotheses apart from results, cost so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evo.analysis.tiles.derivation import Derivation, Rejected, TileCandidate, knob_text
from evo.records.trials import Record
from evo.results.wording import markdown_table
from evo.spec.chips import Chip

_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerReport:
    """What the compiler said of a rung with the derived knobs, of the kernel that needs most."""

    registers: int
    spill_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivationEvidence:
    """What is known beyond the derivation: compiler reports by rung, measured times by name, records of trials.

    every: whether each rejected configuration is listed, not one for each kind of reason.
    """

    compiled: Mapping[str, CompilerReport] = field(default_factory=dict)
    measured: Sequence[tuple[str, float]] = ()
    records: Sequence[Record] = ()
    every: bool = False


def explain(found: Derivation, chip: Chip, evidence: DerivationEvidence) -> str:
    """The document. Everything under Hypotheses is a model or an estimate; everything under Results was observed."""
    sections = [
        f"# {found.task}, case {found.case}, on {chip.name}",
        "",
        *_limits(found, chip),
        *_decisions(found, chip, every=evidence.every),
        *_hypotheses(found),
        *_results(found, evidence),
        *_cost(evidence.records),
    ]
    return "\n".join(sections) + "\n"


def _limits(found: Derivation, chip: Chip) -> list[str]:
    one = found.limits
    clock = chip.rates.get("tensor_clock_hz", chip.clock_hz)
    lines = [
        "## Limits",
        "",
        f"{_n(one.flop or 0)} FLOP, {_n(one.bytes_compulsory)} compulsory bytes, "
        f"{one.intensity_flop_per_byte or 0:.4g} FLOP per byte"
        + (f"; the ridge of the chip is at {one.ridge_flop_per_byte:.0f}." if one.ridge_flop_per_byte else "."),
        f"Inputs in L2: bound by {one.limiter} at {one.floor_us:.2f} µs. Inputs in DRAM: bound by {one.limiter_cold} at"
        f" {one.floor_cold_us:.2f} µs.",
        "",
    ]
    rows = []
    for name, us in one.floors_us.items():
        behind = (
            "an estimate; it binds nothing" if name in one.estimated else f"datasheet rates at {clock / 1e9:.2f} GHz"
        )
        rows.append((name, f"{us:.2f}", behind))
    lines += markdown_table(("floor", ">µs", "rests on"), rows)
    if one.target_us is not None:
        lines += ["", f"Target: {one.target_us:.2f} µs ({one.target})."]
    return [*lines, ""]


def _decisions(found: Derivation, chip: Chip, *, every: bool) -> list[str]:
    best = found.chosen
    lines = ["## Decisions", "", f"Chosen: {knob_text(best.tile)}; {best.threads} threads, {best.blocks:,} blocks.", ""]
    rounds = -(-best.blocks // chip.sms)
    lines.append(
        f"- **Tile.** {best.blocks:,} blocks on {chip.sms} SMs: the busiest SM runs {rounds}, and {best.busy:.1%} of"
        " the SM time is work."
    )
    lines.append(
        f"- **Occupancy.** {best.resident} blocks fit an SM ({best.occupancy:.0%} of its warps): {best.registers}"
        f" registers a thread ({knob_text(best.registers_by)}) and {best.shared_bytes:,} B of shared memory a block."
    )
    for part in best.placed:
        proof = part.proof
        checked = (
            f"{proof.elements:,} elements at {proof.distinct:,} addresses, {proof.misaligned} of {proof.chunks} chunks"
        )
        ways = ", ".join(f"{read} {count}-way" for read, count in proof.ways.items())
        lines.append(
            f"- **Layout of {part.name}** ({part.copies}x). {part.layout}. Proved over all addresses: {checked}"
        )
        lines[-1] += f" misaligned, {ways or 'no shared read declared'}."
        lines += [f"  - not {other.layout}: {other.reason}" for other in part.instead_of]
    lines.append(f"- **Vector width.** Rows of all inputs are aligned for {best.vector_bytes}-byte loads.")
    others = [one for one in found.candidates[1:] if one.tile != best.tile][:_SHOWN]
    if others:
        rows = [(knob_text(one.tile), f"{one.modelled_us:.2f}", one.binds) for one in others]
        lines += ["", "Also legal, in the order of the model:", ""]
        lines += markdown_table(("configuration", ">modelled µs", "largest term"), rows)
    if found.rejected:
        lines += ["", f"Rejected ({len(found.rejected)} of {len(found.rejected) + len(found.candidates)}):", ""]
        if every:
            lines += [f"- {one.reason}, at {knob_text(one.tile)}" for one in found.rejected]
        else:
            kinds = _grouped(found.rejected)
            lines += [f"- {count}x {one.reason}, e.g. at {knob_text(one.tile)}" for count, one in kinds]
    return [*lines, ""]


def _hypotheses(found: Derivation) -> list[str]:
    best = found.chosen
    lines = ["## Hypotheses, to be confirmed", ""]
    for name, value in predictions(found).items():
        lines.append(f"- {name.replace('_', ' ')}: {_n(value)}")
    terms = ", ".join(f"{name} {us:.2f}" for name, us in best.terms_us.items())
    lines.append(f"- modelled time {best.modelled_us:.2f} µs; terms: {terms}")
    lines.append(f"- {best.registers} registers a thread, before the compiler has spoken")
    if found.estimated:
        lines.append(f"- the rates of {', '.join(found.estimated)} are estimates on this chip")
    return [*lines, ""]


def _results(found: Derivation, evidence: DerivationEvidence) -> list[str]:
    lines = ["## Results", ""]
    for rung in found.rungs:
        report = evidence.compiled.get(rung.name)
        if report is not None:
            spills = f"{report.spill_bytes} bytes of spills" if report.spill_bytes else "no spills"
            lines.append(f"- {rung.name} with {knob_text(rung.knobs)} compiles: {report.registers} registers, {spills}")
        lines += [f"  - not {knob_text(one.tile)}: {one.reason}" for one in rung.refused[:_SHOWN]]
    lines += [f"- {name}: {reason}" for name, reason in found.unmatched]
    for what, us in evidence.measured:
        share = f", {found.limits.floor_us / us:.0%} of the floor's speed" if found.limits.floor_us else ""
        lines.append(f"- measured: {what} {us:.2f} µs{share}")
    if not (evidence.compiled or evidence.measured):
        lines.append("Nothing of this has been compiled or measured yet.")
    elif not evidence.measured:
        lines.append("- nothing has been measured on this chip yet")
    return [*lines, ""]


def _cost(records: Sequence[Record]) -> list[str]:
    lines = ["## Cost so far", ""]
    if not records:
        return [*lines, "No trial of this task has been recorded."]
    spent = [record.elapsed_s for record in records if record.elapsed_s is not None]
    kept = sum(record.kept for record in records)
    chips = Counter(record.place[0] for record in records)
    lines.append(
        f"{len(records)} trials, {kept} kept, in {len({record.run for record in records})} runs on {knob_text(chips)}."
    )
    if spent:
        lines.append(f"{sum(spent) / 60:.1f} minutes of trials in all, {sum(spent) / len(spent):.1f} s each.")
    return lines


def predictions(found: Derivation) -> dict[str, float]:
    """Counts that a profiler or the simulator can confirm at full tiles, by name."""
    best: TileCandidate = found.chosen
    counts = {
        "hmma": best.mma,
        "l2_bytes": best.bytes_l2,
        "l2_sectors": best.bytes_l2 // 32 if best.bytes_l2 is not None else None,
        "shared_bytes_read": best.bytes_shared,
        "dram_bytes_cold": found.limits.bytes_compulsory,
        "blocks": best.blocks,
        "bank_conflicts": 0 if best.placed else None,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _grouped(rejected: Sequence[Rejected]) -> list[tuple[int, Rejected]]:
    """How many were rejected for each kind of reason, most first, each with its first example."""
    kinds: dict[str, list[Rejected]] = {}
    for one in rejected:
        kind, _, rest = one.reason.partition(":")
        kinds.setdefault(one.reason if kind == "require" else f"{kind}: {rest.split(' of ')[-1]}", []).append(one)
    return sorted(((len(some), some[0]) for some in kinds.values()), key=lambda pair: -pair[0])


def _n(value: float) -> str:
    return f"{value:,.0f}"
