"""From a task's declaration and a chip to a configuration: every combination judged, the best one first.

What is counted (bytes, instructions, blocks, shared memory, bank conflicts) is exact for full tiles. Registers are an
estimate until a compiler has spoken, and the bound that candidates are ordered by is a model: both are hypotheses.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from evo.analysis.roofline import Rates, best_rates, compute_pipe, limits, one_tile, work_of
from evo.analysis.tiles.derivation import Derivation, PlacedTile, Rejected, RejectedLayout, Rung, TileCandidate
from evo.analysis.tiles.shared_layout import Layout, Proof, prove, strided, swizzled
from evo.errors import SyntaxInvalid, TaskInvalid
from evo.spec.chips import Chip
from evo.spec.element_types import DTYPES
from evo.spec.expr import Number, ceil_div
from evo.spec.launch import Launch, Refusal, over_limit, over_resources, plan
from evo.spec.task import Case, Task
from evo.spec.tile_model import Choices, SharedTile
from evo.spec.variant import KnobValue, Variant, read_variant

MMA_FLOP = 4096  # of one m16n8k16
_MOST = 50_000  # combinations
_SCHEDULERS = 4
_STEP_CLOCKS = 400  # assumed: barrier, shared loads and the dependent chain of one pipeline step
_PADS = (0, 8, 16, 24)  # elements; those that keep 16-byte alignment

Accept = Callable[[Variant], str | None]


def derive(
    task: Task, chip: Chip, case: Case, *, accept: Accept | None = None, measured: Mapping[str, float] | None = None
) -> Derivation:
    """Judge every combination of the task's `derive` section.

    accept: why a rung with knobs set is refused, or None. measured: rates of a calibration, which go before the table.

    Raises TaskInvalid if the task declares no choices, or none is legal on the chip.
    """
    choices = task.choices
    if choices is None:
        hint = "add a `derive` section: tiles, threads, blocks, the contents of shared memory and registers"
        raise TaskInvalid(f"{task.folder / 'task.yaml'}: no `derive` section", hint=hint)
    combinations = math.prod(len(values) for values in choices.tiles.values())
    if combinations > _MOST:
        raise TaskInvalid(
            f"{task.folder / 'task.yaml'}: field `derive.tiles`: {combinations:,} combinations",
            hint=f"{_MOST:,} at most: fewer values, or constants in `let`",
        )
    judge = _Judge(task, chip, case, choices, best_rates(chip, task, measured))
    found: list[TileCandidate] = []
    rejected: list[Rejected] = []
    for values in itertools.product(*choices.tiles.values()):
        verdict = judge(dict(zip(choices.tiles, values, strict=True)))
        if isinstance(verdict, TileCandidate):
            found.append(verdict)
        else:
            rejected.append(verdict)
    candidates = sorted(found, key=_rank)
    if not candidates:
        kinds = Counter(one.reason.partition(":")[0] for one in rejected)
        example = {one.reason.partition(":")[0]: one.reason for one in reversed(rejected)}
        raise TaskInvalid(
            f"{task.name} at {case.name}: no configuration is legal on {chip.slug}",
            problem="no-legal-configuration",
            hint="; ".join(f"{count}x {example[kind]}" for kind, count in kinds.most_common(3)),
        )
    rungs, unmatched = _rungs(task, chip, case, candidates, accept)
    return Derivation(
        task=task.name,
        chip=chip.slug,
        case=case.name,
        limits=limits(task, case, chip, measured=measured),
        candidates=tuple(candidates),
        rejected=tuple(rejected),
        rungs=rungs,
        unmatched=unmatched,
        estimated=tuple(sorted(judge.rates.estimated & {"l2", "mma_sync"})),
    )


def over_cases(task: Task, chip: Chip) -> tuple[dict[str, int], ...]:
    """Tiles that are legal at every scored case, the best first by the weighted geometric mean of modelled times.

    Empty if the task declares no choices, or nothing is legal everywhere.
    """
    if task.choices is None:
        return ()
    total: dict[tuple[int, ...], float] = {}
    seen: dict[tuple[int, ...], int] = {}
    tiles: dict[tuple[int, ...], dict[str, int]] = {}
    weights = {name: weight for name, weight in task.score.items() if weight > 0}
    for name, weight in weights.items():
        try:
            found = derive(task, chip, task.case(name))
        except TaskInvalid:
            return ()
        for one in found.candidates:
            key = tuple(one.tile.values())
            tiles[key] = one.tile
            seen[key] = seen.get(key, 0) + 1
            total[key] = total.get(key, 0.0) + weight * math.log(max(one.modelled_us, 1e-6))
    everywhere = [key for key, count in seen.items() if count == len(weights)]
    return tuple(tiles[key] for key in sorted(everywhere, key=lambda key: (total[key], key)))


class _Judge:
    """Judges one combination after the other, at one case on one chip."""

    def __init__(self, task: Task, chip: Chip, case: Case, choices: Choices, rates: Rates) -> None:
        self.task, self.chip, self.case, self.choices = task, chip, case, choices
        self.rates = rates
        self.work = work_of(task, case)
        self.vector_bytes = vector_width(task, case)

    def __call__(self, tile: dict[str, int]) -> TileCandidate | Rejected:
        names = self.choices.names(self.case.axes, tile, self.chip)
        for condition in self.choices.require:
            if not condition.value(names):
                return Rejected(tile=tile, reason=f"require: `{condition.text}` does not hold")
        threads, blocks = int(self.choices.threads.value(names)), int(self.choices.blocks.value(names))
        if threads < 32 or threads % 32 or blocks < 1:
            return Rejected(tile=tile, reason=f"threads: {threads} threads and {blocks} blocks")
        if self.choices.vector is not None and (wanted := int(self.choices.vector.value(names))) > self.vector_bytes:
            reason = f"alignment: rows allow {self.vector_bytes}-byte loads, the design needs {wanted}"
            return Rejected(tile=tile, reason=reason)
        placed: list[PlacedTile] = []
        for part in self.choices.shared:
            one = self._place(part, names)
            if isinstance(one, str):
                return Rejected(tile=tile, reason=one)
            placed.append(one)
        by = {name: math.ceil(formula.value(names)) for name, formula in self.choices.registers.items()}
        registers = sum(by.values())
        shared = sum(one.bytes * one.copies for one in placed)
        # Grid limits are per dimension, which a declaration does not give, so blocks stay out of this.
        launch = Launch(kernel=self.task.name, grid=(1, 1, 1), block=(threads, 1, 1), shared_bytes=shared)
        if (problem := self._over(launch, registers)) is not None:
            return Rejected(tile=tile, reason=problem)
        return self._candidate(tile, names, launch, blocks, by, tuple(placed))

    def _over(self, launch: Launch, registers: int) -> str | None:
        chip = self.chip
        if launch.shared_bytes > chip.shared_per_block_optin:
            return f"shared memory: {launch.shared_bytes:,} B of {chip.shared_per_block_optin:,} B to a block"
        if registers > chip.registers_per_thread:
            return f"registers: {registers} of {chip.registers_per_thread} to a thread would spill"
        if launch.threads > chip.threads_per_block:
            return f"threads: {launch.threads} of {chip.threads_per_block} to a block"
        problem = over_limit(launch, chip) or over_resources(launch, chip, registers=registers, static_shared=0)
        return f"registers: {problem}" if problem else None

    def _place(self, part: SharedTile, names: Mapping[str, Number]) -> PlacedTile | str:
        rows, cols, copies = (int(e.value(names)) for e in (part.rows, part.cols, part.copies))
        if min(rows, cols, copies) < 1:
            return f"shared memory: tile {part.name} of {rows} x {cols}, {copies} copies"
        chosen = choose_layout(part.name, rows, cols, part.dtype, part.reads)
        if isinstance(chosen, str):
            return f"layout: tile {part.name}: {chosen}"
        layout, proof, instead = chosen
        return PlacedTile(
            name=part.name,
            copies=copies,
            rows=layout.rows,
            cols=layout.cols,
            layout=layout.how,
            bytes=layout.size_bytes,
            distinct_addresses=proof.distinct,
            misaligned_chunks=proof.misaligned,
            conflict_ways=proof.ways,
            instead_of=tuple(RejectedLayout(layout=how, reason=why) for how, why in instead),
            proof=proof,
        )

    def _candidate(
        self, tile: dict[str, int], names: dict[str, Number], launch: Launch, blocks: int, by: dict[str, int],
        placed: tuple[PlacedTile, ...],
    ) -> TileCandidate:  # fmt: skip
        chip = self.chip
        registers = sum(by.values())
        resident = min(chip.resident_limits(launch.threads, registers, launch.shared_bytes).values())
        warps = launch.threads // 32
        traffic = self._traffic(
            {name: int(value) for name, value in names.items() if name not in self.case.axes and "." not in name}
        )
        mma = int(self.choices.mma.value(names)) if self.choices.mma is not None else None
        steps = int(self.choices.steps.value(names)) if self.choices.steps is not None else None
        on_sm = ceil_div(blocks, chip.sms)  # blocks of the busiest SM
        active = min(resident, on_sm)
        terms = self._compute_terms(mma, blocks, active * warps) | self._memory_terms(traffic, placed, active, warps)
        if steps is not None:
            rounds = ceil_div(on_sm, resident)
            terms["steps"] = rounds * steps * _STEP_CLOCKS / chip.clock_hz * 1e6
            terms |= self._fill_term(placed, rounds if resident == 1 else 1)
        return TileCandidate(
            tile=tile,
            threads=launch.threads,
            blocks=blocks,
            registers=registers,
            registers_by=by,
            shared_bytes=launch.shared_bytes,
            resident=resident,
            occupancy=resident * warps / chip.warps_per_sm,
            busy=blocks / (on_sm * chip.sms),
            placed=placed,
            steps=steps,
            mma=mma,
            bytes_l2=traffic.get("l2"),
            bytes_shared=traffic.get("shared"),
            vector_bytes=self.vector_bytes,
            terms_us=terms,
        )

    def _traffic(self, tile: Mapping[str, int]) -> dict[str, int]:
        """Bytes by the task's `traffic` section, if this combination has its tile names."""
        needed = set(self.task.traffic.tiles[0]) if self.task.traffic.tiles else set()
        if not needed <= set(tile):
            return {}
        own = {name: tile[name] for name in needed}
        found = one_tile(self.task, self.case, self.chip, self.rates, self.work, own)
        moved = {"l2": found.bytes_l2, "shared": found.bytes_shared}
        return {name: count for name, count in moved.items() if count is not None}

    def _compute_terms(self, mma: int | None, blocks: int, warps: int) -> dict[str, float]:
        """Microseconds of the pipes, in whole rounds of blocks. Few active warps keep no pipe full, nor overlap two."""
        rates = self.rates.per_second
        pipe = compute_pipe(self.task, rates)
        if pipe == "tensor" and "mma_sync" in rates:  # the design is of mma.sync instructions
            pipe = "mma_sync"
        busy = blocks / (ceil_div(blocks, self.chip.sms) * self.chip.sms) * min(1.0, warps / _SCHEDULERS)
        terms: dict[str, float] = {}
        if pipe in rates:
            flop = mma * MMA_FLOP if mma is not None else self.work["flop"]
            terms["compute"] = flop / rates[pipe] / busy * 1e6
        if "exp" in self.work and "sfu" in rates:
            exp = self.work["exp"] / rates["sfu"] / busy * 1e6
            if "compute" in terms and warps < 2 * _SCHEDULERS:  # one warp a scheduler: nothing runs beside the softmax
                terms["compute"] += exp
            else:
                terms["exp"] = exp
        return terms

    def _fill_term(self, placed: Sequence[PlacedTile], times: int) -> dict[str, float]:
        """Microseconds until the first tiles of a block arrive, if nothing else runs.

        At the start, and again with each round of a block that has its SM to itself.
        """
        rate, latency = self.rates.per_second.get("l2"), self.chip.rate("latency_l2")
        if rate is None or latency is None:
            return {}
        first = sum(one.bytes for one in placed)
        return {"fill": times * (latency / self.chip.clock_hz + first * self.chip.sms / rate) * 1e6}

    def _memory_terms(
        self, traffic: Mapping[str, int], placed: Sequence[PlacedTile], active: int, warps: int
    ) -> dict[str, float]:
        """Microseconds of L2, DRAM and shared memory; longer if too few bytes are in flight to cover the latency."""
        chip, rates = self.chip, self.rates.per_second
        ahead = sum(one.bytes * (one.copies - 1) for one in placed)
        in_flight = active * (ahead or warps * 32 * self.vector_bytes)
        moved = sum(tensor.size_bytes(self.case) for tensor in self.task.tensors)
        counts = dict(traffic)
        if moved > chip.l2_bytes:
            counts["dram_cold"] = moved
        terms: dict[str, float] = {}
        for name, count in counts.items():
            if name not in rates:
                continue
            latency = chip.rate({"l2": "latency_l2", "dram_cold": "latency_dram"}.get(name, ""))
            needed = latency * rates[name] / chip.clock_hz / chip.sms if latency is not None else 0.0
            terms[name.partition("_")[0]] = count / rates[name] * max(1.0, needed / in_flight) * 1e6
        return terms


def vector_width(task: Task, case: Case) -> int:
    """The widest load, in bytes, that is aligned at the start of every row of every input; 16 at most."""
    width = 16
    for tensor in task.inputs:
        row = tensor.dims(case)[-1] * DTYPES[tensor.dtype]
        # A tensor of one row has no second row to be misaligned.
        if tensor.size_bytes(case) != row:
            width = math.gcd(width, row)
    return width


@lru_cache(maxsize=4096)
def choose_layout(
    name: str, rows: int, cols: int, dtype: str, reads: tuple[str, ...]
) -> tuple[Layout, Proof, tuple[tuple[str, str], ...]] | str:
    """The smallest layout that is sound and free of conflicts for all reads: plain, swizzled, then padded.

    Returns the reasons of the others too, or in words why there is none.
    """
    size = DTYPES[dtype]
    offered: list[Layout] = [strided(name, rows, cols, size)]
    if (swizzle := swizzled(name, rows, cols, size)) is not None:
        offered.append(swizzle)
    offered += [strided(name, rows, cols, size, pad=pad) for pad in _PADS[1:]]
    instead: list[tuple[str, str]] = []
    for layout in offered:
        proof = prove(layout, reads, vector=cols * size % 16 == 0)
        if proof.sound:
            return layout, proof, tuple(instead)
        instead.append((layout.how, "; ".join(proof.problems)))
    return "; ".join(f"{how}: {why}" for how, why in instead)


def _rank(one: TileCandidate) -> tuple[object, ...]:
    """By the modelled time to 1 %, then by the fewest resources."""
    time = round(math.log(max(one.modelled_us, 1e-6)) * 100)
    return (time, one.steps or 0, -min(one.occupancy, 0.5), one.shared_bytes, one.threads, tuple(one.tile.values()))


def _rungs(
    task: Task, chip: Chip, case: Case, candidates: Sequence[TileCandidate], accept: Accept | None
) -> tuple[tuple[Rung, ...], tuple[tuple[str, str], ...]]:
    """For each rung with knobs of these names, the best candidate that the rung can take."""
    found: list[Rung] = []
    unmatched: list[tuple[str, str]] = []
    names = set(candidates[0].tile)
    for path in task.ladder():
        try:
            variant = read_variant(path)
        except SyntaxInvalid as error:
            unmatched.append((path.name, error.message))
            continue
        shared = names & set(variant.integer_knobs)
        if len(shared) < 2 and shared != names:
            unmatched.append(
                (path.name, f"its knobs ({', '.join(variant.knob_values) or 'none'}) are not those of the derivation")
            )
            continue
        fitted = _fitted(task, chip, case, variant, candidates, shared, accept)
        if isinstance(fitted, str):
            unmatched.append((path.name, fitted))
        else:
            found.append(Rung(name=path.name, knobs=fitted[0], candidate=fitted[1], refused=fitted[2]))
    return tuple(found), tuple(unmatched)


def _fitted(
    task: Task,
    chip: Chip,
    case: Case,
    variant: Variant,
    candidates: Sequence[TileCandidate],
    shared: set[str],
    accept: Accept | None,
) -> tuple[dict[str, int], TileCandidate, tuple[Rejected, ...]] | str:
    refused: list[Rejected] = []
    seen: set[tuple[int, ...]] = set()
    domains = {knob.name: knob.domain for knob in variant.knobs}
    for candidate in candidates:
        knobs = {name: candidate.tile[name] for name in candidate.tile if name in shared}
        key = tuple(knobs.values())
        if key in seen:
            continue
        seen.add(key)
        outside = [f"{name} = {value}" for name, value in knobs.items() if value not in domains[name]]
        if outside:
            refused.append(Rejected(tile=knobs, reason=f"outside its domain: {', '.join(outside)}"))
            continue
        changed: dict[str, KnobValue] = {n: v for n, v in knobs.items() if variant.knob_values[n] != v}
        child = variant.with_knobs(changed) if changed else variant
        planned = plan(child, task, case, chip)
        reason = planned.reason if isinstance(planned, Refusal) else accept(child) if accept is not None else None
        if reason is None:
            return knobs, candidate, tuple(refused)
        refused.append(Rejected(tile=knobs, reason=reason))
    return refused[-1].reason if refused else "no candidate"
