"""Control flow of one kernel: basic blocks, execution order, liveness, and which blocks may run with lanes missing.

Order matters for correctness: a warp always runs its pending block of lowest number. `analyse` proves, for each
branch that may diverge, that its reconvergence point has a higher number than every block before it; where that
fails, everything reachable is treated as possibly partial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from evo.sim.errors import PtxError, refuse
from evo.sim.ptx.ast import Instr, Label, Mem, Not, Operand, Pair, PtxFunction, Reg, Sym, Vec

BARRIERS = ("bar", "barrier")
_COLLECTIVE = (
    "shfl", "vote", "match", "redux", "elect", "mma", "wmma.mma", "wmma.load", "wmma.store", "ldmatrix", "stmatrix",
    "movmatrix", "activemask",
)  # fmt: skip


@dataclass(slots=True)
class Block:
    """Straight-line code. `end` is the last control instruction, or None to fall through."""

    number: int
    code: list[Instr] = field(default_factory=list)
    end: Instr | None = None
    targets: list[int] = field(default_factory=list)  # taken targets; EXIT for a branch to a lone ret
    next: int = -1  # fall through; EXIT or -1 if none
    partial: bool = False
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    live_in: set[str] = field(default_factory=set)
    live_out: set[str] = field(default_factory=set)

    def instructions(self) -> tuple[Instr, ...]:
        return (*self.code, self.end) if self.end is not None else tuple(self.code)

    def successors(self) -> list[int]:
        return [b for b in (*self.targets, self.next) if b >= 0]


EXIT = -2
_Ends = Callable[[Block], bool]


def is_warp_sync(ins: Instr | None) -> bool:
    return ins is not None and ins.name in BARRIERS and "warp" in ins.mods


def meets(block: Block) -> bool:
    """Does the block begin where all lanes of a warp, or all warps of a block, come together?"""
    first = block.code[0] if block.code else block.end
    return first is not None and (first.name in _COLLECTIVE or (first.name in BARRIERS and not is_warp_sync(first)))


def reads_of(arg: Operand) -> Iterable[str]:
    """Registers an operand reads when it is a source (or an address)."""
    if isinstance(arg, Reg):
        yield arg.name
    elif isinstance(arg, Not):
        yield arg.reg.name
    elif isinstance(arg, Mem):
        if isinstance(arg.base, Reg):
            yield arg.base.name
    elif isinstance(arg, Vec):
        for item in arg.items:
            yield from reads_of(item)
    elif isinstance(arg, Pair):
        yield from reads_of(arg.first)
        yield from reads_of(arg.second)


def split_blocks(function: PtxFunction, *, apart: bool = False, ends: _Ends = lambda _: False) -> list[Block]:
    """Basic blocks in program order; the last instruction of a block is its only control instruction.

    apart: a block also begins where lanes or warps meet, and ends at bar.warp.sync. ends: or with such code.
    """
    blocks: list[Block] = [Block(0)]
    labels: dict[str, int] = {}
    for item in function.body:
        current = blocks[-1]
        if isinstance(item, Label):
            if current.code or current.end:
                current = Block(len(blocks))
                blocks.append(current)
            if item.name in labels:
                raise PtxError(f"label {item.name} is declared twice", line=item.line)
            labels[item.name] = current.number
            continue
        waits = item.name in BARRIERS and ("warp" in item.mods or "arrive" not in item.mods)
        meet = apart and current.code and (item.name in _COLLECTIVE or waits)
        if current.end or meet or ends(current):
            current = Block(len(blocks))
            blocks.append(current)
        if item.name in ("bra", "brx", "ret", "exit", "trap") or (waits and (apart or "warp" not in item.mods)):
            current.end = item
        else:
            current.code.append(item)
    if blocks[-1].end is None or blocks[-1].end.guard is not None or blocks[-1].end.name in BARRIERS:
        # Running off the end returns.
        if blocks[-1].end is not None:
            blocks.append(Block(len(blocks)))
        blocks[-1].end = Instr("ret", (), ())
    lone = {
        b.number
        for b in blocks
        if not b.code and b.end is not None and b.end.name in ("ret", "exit") and b.end.guard is None
    }
    for block in blocks:
        _link(block, labels, lone, len(blocks), function)
    _join(blocks, apart=apart, ends=ends)
    return blocks


def _join(blocks: list[Block], *, apart: bool, ends: _Ends) -> None:
    """Blocks that always follow one another become one; the rest of them stays empty, and nothing reaches it."""
    ways = Counter([0, *(number for block in blocks for number in block.successors())])
    for block in blocks:
        while (end := block.end) is None or (end.name == "bra" and end.guard is None):
            after = blocks[(block.targets or [block.next])[0]] if block.successors() else block
            if ways[after.number] != 1 or after is block or (apart and meets(after)) or ends(block):
                break
            if end is not None and any(map(_is_body, end.args)):
                break
            block.code, block.end = block.code + after.code, after.end
            block.targets, block.next = after.targets, after.next
            after.code, after.end, after.targets, after.next = [], None, [], -1


def _link(block: Block, labels: dict[str, int], lone: set[int], count: int, function: PtxFunction) -> None:
    end = block.end
    follow = block.number + 1
    follow = EXIT if follow in lone else follow if follow < count else -1

    def target(name: str, item: Instr) -> int:
        if name not in labels:
            raise PtxError(f"label {name} is not declared", line=item.line, text=item.text)
        return EXIT if labels[name] in lone else labels[name]

    if end is None:
        block.next = follow
    elif end.name == "bra":
        if len(end.args) != 1 or not isinstance(end.args[0], Sym):
            raise PtxError("a branch needs one label", line=end.line, text=end.text)
        block.targets = [target(end.args[0].name, end)]
        block.next = follow if end.guard is not None else -1
    elif end.name == "brx":
        if end.guard is not None or len(end.args) != 2 or not isinstance(end.args[1], Sym):
            raise refuse(end)
        if end.args[1].name not in function.tables:
            raise PtxError(f"branch table {end.args[1].name} is not declared", line=end.line, text=end.text)
        block.targets = [target(name, end) for name in function.tables[end.args[1].name]]
    elif end.name in BARRIERS or end.guard is not None:
        block.next = follow
    elif end.name == "trap":
        block.next = EXIT


def order_blocks(blocks: list[Block]) -> list[int]:
    """Block numbers in an order where loops are contiguous and exits follow (a weak topological order).

    Bodies that several calls share (recursion.py) come first, those that others call before these, so that lanes which
    have returned wait for those that have not; a call's own continuation follows the call as if it ran straight on.
    """
    calls, leaves = _calls_of_bodies(blocks), [block for block in blocks if _leaves_body(block)]
    kept = [(block, block.targets, block.next) for block in (*(blocks[number] for number in calls), *leaves)]
    for number in calls:
        blocks[number].targets, blocks[number].next = [], number + 1
    for block in leaves:
        block.targets, block.next = [], -1
    order: list[int] = []
    for entry in _bodies_in_order(blocks, calls):
        order += _order_of(blocks, entry)
    order = [0, *order, *_order_of(blocks, 0)[1:]]
    for block, targets, following in kept:
        block.targets, block.next = targets, following
    return order


def _is_body(target: Operand) -> bool:
    """Does a jump there call a shared body?"""
    return isinstance(target, Sym) and target.name.startswith("@@") and target.name.endswith(".entry")


def _calls_of_bodies(blocks: list[Block]) -> dict[int, int]:
    """Blocks that end by a call to a shared body, and where that begins."""
    found = {}
    for block in blocks:
        if block.end is not None and block.end.name == "bra" and _is_body(block.end.args[0]):
            found[block.number] = block.targets[0]
    return found


def _leaves_body(block: Block) -> bool:
    target = block.end.args[1] if block.end is not None and block.end.name == "brx" else None
    return isinstance(target, Sym) and target.name.startswith("@@") and target.name.endswith(".leave")


def _bodies_in_order(blocks: list[Block], calls: dict[int, int]) -> list[int]:
    """The entries of shared bodies that the kernel reaches, those first that others call."""
    order: list[int] = []
    seen: set[int] = set()
    work = [(0, False)]
    while work:
        entry, done = work.pop()
        if done:
            order.append(entry)
        elif entry not in seen:
            seen.add(entry)
            called = {calls[number] for number in reach(blocks, [entry]) if number in calls}
            work += [(entry, True), *((one, False) for one in sorted(called))]
    return order[:-1]


def _order_of(blocks: list[Block], start: int) -> list[int]:
    """The order of what can be reached from one block.

    A loop with several ways back gets one empty block through which all of them go: its lanes meet there, not at the
    head, which has the lowest number of the loop and would run with lanes missing.
    """
    order: list[int] = []
    work: list[tuple[set[int], int]] = [(reach(blocks, [start]), start)]
    while work:
        nodes, entry = work.pop()
        if entry < 0:
            order += nodes
            continue
        parts = _components(blocks, nodes, entry)
        pending: list[tuple[set[int], int]] = []
        for part in parts:
            if len(part) == 1:
                pending.append((part, -1))
                continue
            head = entry if entry in part else min(part, key=lambda n: (not _entered(blocks, nodes, part, n), n))
            pending.append(({head}, -1))
            rest = part - {head} | _merged_latch(blocks, part, head)
            starts = [s for s in blocks[head].successors() if s in rest] or [min(rest)]
            pending.append((rest, starts[0]))
        work += reversed(pending)
    return order


def _merged_latch(blocks: list[Block], part: set[int], head: int) -> set[int]:
    """The block that all ways back to the head of a loop now go through; none if there is only one way back."""
    back = [number for number in sorted(part) if head in blocks[number].successors()]
    if len(back) < 2:
        return set()
    latch = Block(len(blocks), next=head)
    blocks.append(latch)
    for number in back:
        block = blocks[number]
        block.targets = [latch.number if target == head else target for target in block.targets]
        block.next = latch.number if block.next == head else block.next
    return {latch.number}


def _entered(blocks: list[Block], nodes: set[int], part: set[int], node: int) -> bool:
    return any(node in blocks[p].successors() for p in nodes - part)


def reach(blocks: list[Block], start: Iterable[int], stop: int = -1) -> set[int]:
    seen: set[int] = set()
    work = [s for s in start if s >= 0 and s != stop]
    while work:
        node = work.pop()
        if node in seen:
            continue
        seen.add(node)
        work += [s for s in blocks[node].successors() if s != stop and s not in seen]
    return seen


def _components(blocks: list[Block], nodes: set[int], entry: int) -> list[set[int]]:
    """Strongly connected components of the subgraph in topological order (iterative Tarjan)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    out: list[set[int]] = []
    for root in (entry, *sorted(nodes)):
        if root in index:
            continue
        frames = [(root, iter(_inner(blocks, root, nodes)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while frames:
            node, following = frames[-1]
            advanced = False
            for succ in following:
                if succ not in index:
                    index[succ] = low[succ] = len(index)
                    stack.append(succ)
                    on_stack.add(succ)
                    frames.append((succ, iter(_inner(blocks, succ, nodes))))
                    advanced = True
                    break
                if succ in on_stack:
                    low[node] = min(low[node], index[succ])
            if advanced:
                continue
            frames.pop()
            if frames:
                low[frames[-1][0]] = min(low[frames[-1][0]], low[node])
            if low[node] == index[node]:
                part: set[int] = set()
                while True:
                    top = stack.pop()
                    on_stack.discard(top)
                    part.add(top)
                    if top == node:
                        break
                out.append(part)
    return out[::-1]


def _inner(blocks: list[Block], node: int, nodes: set[int]) -> list[int]:
    return [s for s in reversed(blocks[node].successors()) if s in nodes]


def renumber(blocks: list[Block]) -> list[Block]:
    """Unreachable blocks dropped, the rest numbered in execution order."""
    order = order_blocks(blocks)
    new = {old: position for position, old in enumerate(order)}
    for old in order:
        block = blocks[old]
        block.number = new[old]
        block.targets = [new[t] if t >= 0 else t for t in block.targets]
        block.next = new[block.next] if block.next >= 0 else block.next
    return [blocks[old] for old in order]


def on_all_ways(following: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """Of each node, as bits, itself and the nodes that every way from it comes to; a way ends where nothing follows.

    order: in which they are looked at; what follows is best looked at first.
    """
    every = (1 << len(following)) - 1
    found = [every] * len(following)
    changed = True
    while changed:
        changed = False
        for number in order:
            meet = every if following[number] else 0
            for other in following[number]:
                meet &= found[other]
            meet |= 1 << number
            if meet != found[number]:
                found[number], changed = meet, True
    return found


def predecessors(blocks: list[Block]) -> list[list[int]]:
    """Of each block, those that it may follow, once for each edge."""
    found: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for number in block.successors():
            found[number].append(block.number)
    return found


def dominators(blocks: list[Block]) -> list[int]:
    """Of each block, as bits, the blocks that every way to it goes through."""
    before = [sources or [number] for number, sources in enumerate(predecessors(blocks))]
    return on_all_ways([[], *before[1:]], range(len(blocks)))


def post_dominators(blocks: list[Block]) -> list[int]:
    """Immediate post-dominator of each block; len(blocks) is the virtual exit."""
    count = exit_node = len(blocks)
    # Lanes that leave the kernel never need to be waited for, so an exit edge does not count.
    sets = on_all_ways([*(block.successors() or [exit_node] for block in blocks), []], range(count, -1, -1))
    # The next one is that whose set is what remains.
    owner: dict[int, int] = {}
    for number in range(count + 1):
        owner.setdefault(sets[number], number)
    rest = (sets[number] & ~(1 << number) for number in range(count))
    return [owner.get(strict, exit_node) for strict in rest]


def liveness(
    blocks: list[Block], defs: Callable[[Instr], Iterable[str]], uses: Callable[[Instr], Iterable[str]]
) -> None:
    """Fill reads, writes, live_in and live_out. A guarded write also reads: lanes without the guard keep the value."""
    for block in blocks:
        for instr in block.instructions():
            guarded = instr.guard is not None
            for name in uses(instr):
                if name not in block.writes:
                    block.reads.add(name)
            for name in defs(instr):
                if guarded and name not in block.writes:
                    block.reads.add(name)
                block.writes.add(name)
    for block in blocks:
        if block.partial:
            # Lanes that are elsewhere keep their value across this block.
            block.live_in = set(block.reads)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            out: set[str] = set()
            for succ in block.successors():
                out |= blocks[succ].live_in
            if out != block.live_out:
                block.live_out = out
            inn = block.reads | (out if block.partial else out - block.writes)
            if inn != block.live_in:
                block.live_in = inn
                changed = True
