"""Cooperative groups: which thread of a block, tile or grid this is, and what its members exchange."""

from __future__ import annotations

from evo.analysis.access.c_types import UINT
from evo.analysis.access.form import BLOCK, THREAD, Data
from evo.analysis.access.intrinsics import Intrinsics
from evo.analysis.access.simplify import divide, remainder
from evo.analysis.access.terms import ONE, ZERO, Term
from evo.analysis.access.values import Builtin, Closure, Group, Number, Value, number
from evo.cuda.source.parser import Node

_RANKS = ("thread_rank", "thread_index_linear")
_SIZES = ("size", "num_threads")


class Groups(Intrinsics):
    """Functions and methods of groups."""

    def thread_rank(self) -> Term:
        """threadIdx as one number."""
        x, y, _ = self.extents["blockDim"]
        tx, ty, tz = (
            ZERO if n.value == 1 else Term.of(symbol)
            for symbol, n in zip(THREAD, self.extents["blockDim"], strict=True)
        )
        return tx + ty * x + tz * x * y

    @property
    def threads(self) -> Term:
        x, y, z = self.extents["blockDim"]
        return x * y * z

    def group_call(self, name: str, arguments: list[Value], template: list[Value], node: Node) -> Value | None:
        """A free function of cooperative groups; None if it is none."""
        match name:
            case "this_thread_block":
                return Group("block", self.threads)
            case "this_grid":
                x, y, z = self.extents["gridDim"]
                return Group("grid", self.threads * x * y * z)
            case "coalesced_threads":
                return Group("coalesced", Term.number(32))
            case "this_thread":
                return Group("tile", ONE)
            case "tiled_partition":
                given = [value for value in (*template, *arguments[1:]) if isinstance(value, Number)]
                return Group("tile", given[0].term if given else Term.number(32))
        group = next((value for value in arguments if isinstance(value, Group)), None)
        if group is None:
            return None
        if name == "sync":
            return self._sync(group, node)
        if name in ("reduce", "inclusive_scan", "exclusive_scan") and len(arguments) > 1:
            word = _operation(arguments[2]) if len(arguments) > 2 else "add"
            return self.exchange(f"{name}_{word}", arguments[1], None, node)
        if name == "memcpy_async" and len(arguments) > 3:
            size = arguments[3].term.value if isinstance(arguments[3], Number) else None
            self.copy(arguments[1], arguments[2], size or 0, "cp.async", node)
            self.block(node, self.wording(node), "the threads of a group share one copy")
            return number(0)
        return number(0) if name in ("wait", "wait_prior") else None

    def group_method(self, group: Group, name: str, arguments: list[Value], node: Node) -> Value:
        """A method of a group."""
        if name in _RANKS:
            return Number(self._rank(group), UINT)
        if name in _SIZES:
            return Number(group.size, UINT)
        if name == "meta_group_rank":
            return Number(divide(self.bounds, self.thread_rank(), group.size), UINT)
        if name == "meta_group_size":
            return Number(divide(self.bounds, self.threads, group.size), UINT)
        if name == "block_rank":
            x, y, _ = self.extents["gridDim"]
            bx, by, bz = (Term.of(symbol) for symbol in BLOCK)
            return Number(bx + by * x + bz * x * y, UINT)
        if name in ("group_index", "block_index"):
            return self._builtin_record("blockIdx")
        if name in ("thread_index",):
            return self._builtin_record("threadIdx")
        if name in ("group_dim", "dim_threads"):
            return self._builtin_record("blockDim")
        if name == "sync":
            return self._sync(group, node)
        if name.startswith("shfl"):
            distance = arguments[1].term if len(arguments) > 1 and isinstance(arguments[1], Number) else None
            return self.exchange(name, arguments[0], distance, node)
        if name in ("any", "all", "ballot", "match_any"):
            self.emit_exchange(name, None, node)
        data = tuple(self.data_of(argument) for argument in arguments)
        return self.of_data(Data("call", data, name), UINT, node)

    def _rank(self, group: Group) -> Term:
        if group.kind == "grid":
            x, y, z = self.extents["gridDim"]
            counts = zip(BLOCK, (x, y, z), strict=True)
            bx, by, bz = (ZERO if n.value == 1 else Term.of(symbol) for symbol, n in counts)
            return (bx + by * x + bz * x * y) * self.threads + self.thread_rank()
        if group.kind == "block":
            return self.thread_rank()
        return remainder(self.bounds, self.thread_rank(), group.size)

    def _sync(self, group: Group, node: Node) -> Value:
        is_small = group.size.value is not None and group.size.value <= 32
        self.barrier("grid" if group.kind == "grid" else "warp" if is_small else "block", node)
        return number(0)


def _operation(value: Value) -> str:
    """`cg::plus<float>()` -> add."""
    name = value.name if isinstance(value, Builtin | Closure) else ""
    return {"plus": "add", "greater": "max", "less": "min", "bit_and": "and", "bit_or": "or"}.get(name, name)
