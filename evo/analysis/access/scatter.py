"""Where a kernel moves more than it needs: requests that are scattered, and elements that many threads read."""

from __future__ import annotations

from collections.abc import Iterator

from evo.analysis.access.form import THREAD, Access, Array
from evo.analysis.access.launches import LaunchAnalysis
from evo.analysis.access.opportunity import FAR, REUSED, SAVED, WORTH, Opportunity, moved_bytes
from evo.analysis.access.terms import Symbol
from evo.analysis.access.traffic import SECTOR, AccessTraffic
from evo.results import Json


def coalesce(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    """Accesses that move more sectors than their bytes need; what one remapping would mend is one opportunity."""
    groups: dict[tuple[str, str], list[tuple[Access, AccessTraffic]]] = {}
    for access, traffic in scattered(analysis):
        driver = contiguous_index(access)
        groups.setdefault((_remapping(analysis, access, driver), driver.name if driver else ""), []).append(
            (access, traffic)
        )
    for (name, driver_name), members in groups.items():
        access, traffic = max(members, key=lambda pair: (pair[1].sectors or 0) * pair[1].requests)
        verdict = analysis.legality.threads_permute
        yield Opportunity(
            name=name,
            why=f"{_what(members)} take {traffic.sectors:.3g} sectors per request where"
            f" {max(traffic.ideal or 1, 1):.3g} would do: neighbouring lanes"
            f" {_apart(traffic)}{_because(name, driver_name)}",
            lines=tuple(sorted({a.line for a, _ in members})),
            refused="" if name == "tile_through_shared" or verdict.holds else verdict.why,
            facts={
                "arrays": list[Json](sorted({a.array.name for a, _ in members if a.array is not None})),
                "sectors": round(traffic.sectors or 0, 2), "ideal": round(traffic.ideal or 0, 2),
                "stride_bytes": traffic.stride, "contiguous_index": driver_name or None,
                "accesses": [a.number for a, _ in members],
            },
        )  # fmt: skip


def scattered(analysis: LaunchAnalysis) -> Iterator[tuple[Access, AccessTraffic]]:
    """The accesses to tensors that are far from coalesced, and whose sectors count in the launch."""
    moved = moved_bytes(analysis)
    for access in analysis.form.accesses:
        traffic = analysis.traffic.accesses.get(access.number)
        if traffic is None or traffic.sectors is None or traffic.ideal is None or access.mode == "atomic":
            continue
        ideal = max(traffic.ideal, 1)
        is_far = traffic.sectors >= FAR * ideal and traffic.sectors - ideal >= 2
        if is_far and traffic.sectors * traffic.requests * SECTOR >= WORTH * moved:
            yield access, traffic


def _remapping(analysis: LaunchAnalysis, access: Access, driver: Symbol | None) -> str:
    if driver is not None and driver.kind == "loop":
        return "lanes_along_loop"
    if _is_transposed(analysis, access):
        return "tile_through_shared"
    return "swap_thread_axes" if driver in THREAD[1:] else "coalesce"


def _because(name: str, driver: str) -> str:
    if name == "lanes_along_loop":
        return f", while the loop over `{driver}` runs along the contiguous dimension"
    if name == "swap_thread_axes":
        return f", while {driver} runs along the contiguous dimension"
    if name == "tile_through_shared":
        return "; reads and writes run along different dimensions"
    return ""


def _what(members: list[tuple[Access, AccessTraffic]]) -> str:
    """`reads of x and w, writes of y`."""
    said = []
    for mode, word in (("read", "reads of"), ("write", "writes of")):
        names = dict.fromkeys(a.array.name for a, _ in members if a.array is not None and a.mode == mode)
        if names:
            said.append(f"{word} {' and '.join(f'`{name}`' for name in names)}")
    return ", ".join(said)


def contiguous_index(access: Access) -> Symbol | None:
    """The index that moves an access by one element: of a thread before that of a loop."""
    if access.array is None:
        return None
    found = []
    for symbol in access.offset.symbols():
        weight = access.offset.coefficient(symbol)
        if weight is not None and weight.value == access.array.element_bytes:
            found.append(symbol)
    found.sort(key=lambda symbol: ({"thread": 0, "loop": 1}.get(symbol.kind, 2), symbol.name))
    return found[0] if found and found[0].kind in ("thread", "loop") else None


def _is_transposed(analysis: LaunchAnalysis, access: Access) -> bool:
    """Whether the other tensors of the launch are walked along by threadIdx.x where this one is not."""
    others = [a for a in analysis.form.accesses if a.is_global and a.array != access.array]
    return bool(others) and any(contiguous_index(other) == THREAD[0] for other in others)


def _apart(traffic: AccessTraffic) -> str:
    if traffic.stride is None:
        return "are far apart"
    return "read one address" if traffic.stride == 0 else f"are {abs(traffic.stride):,} bytes apart"


def stage(analysis: LaunchAnalysis) -> Iterator[Opportunity]:
    """Inputs that a block asks for again and again, and does not keep in shared memory."""
    staged = {known.tensor.address for known in analysis.staged}
    for array in analysis.form.tensors:
        traffic = analysis.traffic.arrays[array.name]
        if array.address in staged or traffic.block is None or not traffic.block.elements:
            continue
        if not analysis.legality.is_read_only(array):
            continue
        again = traffic.block_reads / traffic.block.elements
        across = _across_threads(analysis, array)
        if again < REUSED or across < REUSED:
            continue
        if traffic.sector_bytes * (1 - 1 / again) < SAVED * moved_bytes(analysis):
            continue  # lanes that share an address, and little that L1 holds
        size = traffic.block.elements * array.element_bytes
        room = analysis.chip.shared_per_block_optin
        box = traffic.block.box
        shape = f"{' x '.join(map(str, box))} box, " if box else ""
        fits = "" if size <= room else f"; more than the {room // 1024} KB of a block, so in tiles along the loops"
        yield Opportunity(
            name="stage_in_shared",
            why=f"a block reads each element of `{array.name}` {again:.3g} times ({shape}{size:,} bytes){fits}",
            lines=tuple(sorted({a.line for a in analysis.form.of(array) if a.is_read})),
            facts={
                "array": array.name, "reads_per_element": round(again, 2), "threads_per_element": round(across, 2),
                "bytes": size, "box": list[Json](box) if box else None, "fits": size <= room,
                "is_exact": traffic.block.is_exact,
                "halo": halo(analysis, array),
            },
        )  # fmt: skip


def halo(analysis: LaunchAnalysis, array: Array) -> list[Json] | None:
    """By how many elements a block's box on an input is wider than its box on an output of the same dimensions."""
    box = analysis.traffic.arrays[array.name].block
    for other in analysis.form.tensors:
        written = analysis.traffic.arrays[other.name].block
        if other.role != "out" or other.shape != array.shape or box is None or written is None:
            continue
        if box.box and written.box and len(box.box) == len(written.box):
            return [wide - narrow for wide, narrow in zip(box.box, written.box, strict=True)]
    return None


def _across_threads(analysis: LaunchAnalysis, array: Array) -> float:
    """How many threads of a block read an element: the reuse that shared memory can serve."""
    from evo.analysis.access.traffic import footprint

    reads = tuple(access for access in analysis.form.of(array) if access.is_read)
    block = analysis.traffic.arrays[array.name].block
    middle = analysis.sizes.threads // 2
    alone = footprint(analysis.form, reads, analysis.sizes, [middle])
    if block is None or alone is None or not block.elements:
        return 0.0
    return alone.elements * analysis.sizes.threads / block.elements
