"""The functions that CUDA gives: barriers, shuffles, atomics, cached loads and stores, and arithmetic by name."""

from __future__ import annotations

import re

from evo.analysis.access.c_types import FLOAT, HALF, INT, OTHER, UINT, CType, named_type, wider
from evo.analysis.access.data_values import is_number
from evo.analysis.access.expressions import Expressions
from evo.analysis.access.form import Access, Barrier, Data, Exchange
from evo.analysis.access.simplify import larger, smaller
from evo.analysis.access.terms import ZERO, Term
from evo.analysis.access.values import (
    ArrayPlace,
    Binding,
    Cell,
    Number,
    Pointer,
    Real,
    StructValue,
    Value,
    number,
)
from evo.cuda.source.parser import Node

_SHUFFLE = re.compile(r"__shfl(?:_(xor|up|down))?_sync$")
_VOTE = re.compile(r"__(ballot|any|all|activemask|match_any|match_all)(_sync)?$")
_WARP_REDUCE = re.compile(r"__reduce_(add|min|max|and|or|xor)_sync$")
_ATOMIC = re.compile(r"atomic(Add|Sub|Max|Min|Exch|CAS|Inc|Dec|And|Or|Xor)(_block|_system)?$")
_LOAD = re.compile(r"__ld(g|cg|ca|cs|lu|cv)$")
_STORE = re.compile(r"__st(cg|cs|wb|wt)$")
_MAKE = re.compile(r"make_(\w+)$")
_TO_INTEGER = re.compile(
    r"(__(float|double|half|bfloat16)2(u?int|u?ll|u?short|u?char)_|__(half|bfloat16|float|double)_as_|__float_as_u?int$"
    r"|l?l?r(int|ound)f?$|__double2(hi|lo)int|__(ffs|clz|popc|brev|ffsll|clzll|popcll)$|__dp[24]a|__umulhi$|__mulhi$"
    r"|__funnelshift|__byte_perm$|__vadd|__vcmp|clock)"
)
_ADDS = {"__fadd_rn", "__hadd", "__hadd2", "__dadd_rn", "__hadd_rn", "__hadd2_rn"}
_MULTIPLIES = {"__fmul_rn", "__hmul", "__hmul2", "__dmul_rn", "__hmul_rn", "__hmul2_rn"}
_SUBTRACTS = {"__fsub_rn", "__hsub", "__hsub2", "__dsub_rn"}
_DIVIDES = {"__fdividef", "__fdiv_rn", "__hdiv", "__h2div", "fdividef", "__ddiv_rn"}
_FUSED = {"fmaf", "fma", "__fmaf_rn", "__hfma", "__hfma2", "__fma_rn", "__hfma2_rn"}
_LARGER = {"max", "fmaxf", "fmax", "__hmax", "__hmax2", "umax", "llmax", "fmaxf_rn"}
_SMALLER = {"min", "fminf", "fmin", "__hmin", "__hmin2", "umin", "llmin"}
_NOTHING = {
    "__threadfence", "__threadfence_block", "__threadfence_system", "assert", "printf", "__trap", "__nanosleep",
    "__pipeline_commit", "__pipeline_wait_prior", "__builtin_assume", "__assume", "__prof_trigger", "static_assert",
    "__builtin_unreachable", "fill_fragment",
}  # fmt: skip
_CONVERT = re.compile(
    r"__(half|float|double|int|uint|ushort|short|bfloat16|ll|ull|char|uchar)2(float|half|double|bfloat16)(_r[nzdu])?$"
    r"|__(u?short|u?int|int)_as_(half|float|bfloat16)$|__nv_cvt_|__saturatef$"
)
_HALVES = re.compile(r"__(low|high)2(half|float|bfloat16)$|__(low|high)s?2")


class Intrinsics(Expressions):
    """Calls of functions that the text does not define."""

    def intrinsic(self, name: str, arguments: list[Value], node: Node) -> Value:
        """The value of a call by name."""
        special = self._synchronises(name, arguments, node)
        if special is None:
            special = self._memory_call(name, arguments, node)
        if special is None:
            special = self._arithmetic(name, arguments, node)
        return special if special is not None else self._other(name, arguments, node)

    def _synchronises(self, name: str, arguments: list[Value], node: Node) -> Value | None:
        if name in _NOTHING:
            return number(0)
        if name.startswith("__syncthreads"):
            self.barrier("block", node)
            return self.of_data(Data("call", self._operands(arguments), name), INT, node)
        if name == "__syncwarp":
            self.barrier("warp", node)
            return number(0)
        if match := _SHUFFLE.match(name):
            distance = arguments[2].term if len(arguments) > 2 and isinstance(arguments[2], Number) else None
            return self.exchange(f"shfl_{match[1]}" if match[1] else "shfl", arguments[1], distance, node)
        if match := _WARP_REDUCE.match(name):
            return self.exchange(f"reduce_{match[1]}", arguments[-1], None, node)
        if match := _VOTE.match(name):
            data = Data("call", self._operands(arguments), name)
            self.emit_exchange(match[1], None, node)
            return self.of_data(data, INT if match[1] in ("any", "all") else UINT, node)
        return None

    def barrier(self, scope: str, node: Node) -> None:
        span = self.span(node)
        self.emit(Barrier(scope=scope, context=tuple(self.context), span=span, line=self.line(span)))

    def emit_exchange(self, name: str, distance: Term | None, node: Node) -> Exchange:
        span = self.span(node)
        found = Exchange(name=name, distance=distance, context=tuple(self.context), span=span, line=self.line(span))
        self.emit(found)
        return found

    def exchange(self, name: str, value: Value, distance: Term | None, node: Node) -> Value:
        """A value from another lane."""
        found = self.emit_exchange(name, distance, node)
        data = Data("shuffle", (self.data_of(value),), found)
        if isinstance(value, StructValue):
            return self.of_data(data, value.type, node)
        kind = value.type if isinstance(value, Number | Real) else OTHER
        return self.of_data(data, kind, node, "from another lane")

    def _memory_call(self, name: str, arguments: list[Value], node: Node) -> Value | None:
        if (match := _ATOMIC.match(name)) and arguments:
            return self.atomic(match[1].lower(), arguments, node)
        if (match := _LOAD.match(name)) and arguments:
            place = self.deref(arguments[0], node)
            return self.fetch(place, node, f"ld{match[1]}")
        if (match := _STORE.match(name)) and len(arguments) > 1:
            self.put(self.deref(arguments[0], node), arguments[1], node, f"st{match[1]}")
            return number(0)
        if name in ("__pipeline_memcpy_async", "memcpy_async", "memcpy", "__builtin_memcpy") and len(arguments) > 2:
            size = arguments[2].term.value if isinstance(arguments[2], Number) else None
            self.copy(arguments[0], arguments[1], size or 0, "cp.async" if "async" in name else "plain", node)
            return number(0)
        if name in ("__cvta_generic_to_shared", "__cvta_shared_to_generic", "__cvta_generic_to_global"):
            value = arguments[0]
            return Number(value.term, UINT) if isinstance(value, Pointer | Number) else value
        if name in ("__builtin_assume_aligned", "assume_aligned", "addressof", "forward", "move", "as_const"):
            return arguments[0]
        return None

    def copy(self, to: Value, source: Value, size: int, route: str, node: Node) -> Access | None:
        """size bytes from one address to another: a read and a write."""
        reads = self._touch_address(source, "read", size, route, None, node)
        data = Data("read", detail=reads[0].number) if reads else Data("unknown")
        self._touch_address(to, "write", size, route, data, node)
        return reads[0] if reads else None

    def _touch_address(
        self, address: Value, mode: str, size: int, route: str, value: Data | None, node: Node
    ) -> tuple[Access, ...]:
        place = self.deref(address, node)
        return self.touch(place, mode, node, value, route, count=size) if isinstance(place, ArrayPlace) else ()

    def atomic(self, operation: str, arguments: list[Value], node: Node) -> Value:
        """An atomic on what the first argument points to."""
        place = self.deref(arguments[0], node)
        if isinstance(place, ArrayPlace):
            value = self.data_of(arguments[1]) if len(arguments) > 1 else None
            accesses = self.touch(place, "atomic", node, value, "atomic", operation=operation)
            data = Data("read", detail=accesses[0].number) if accesses else Data("unknown")
            return self.of_data(data, place.type, node, "what an atomic returned")
        return Real(Data("unknown"), OTHER)

    def _arithmetic(self, name: str, arguments: list[Value], node: Node) -> Value | None:
        bare = name.removeprefix("std::")
        if bare in _LARGER | _SMALLER and len(arguments) == 2:
            return self._extremum("max" if bare in _LARGER else "min", arguments[0], arguments[1], node)
        for op, names in (("add", _ADDS), ("mul", _MULTIPLIES), ("sub", _SUBTRACTS), ("div", _DIVIDES)):
            if bare in names and len(arguments) == 2:
                return Real(Data(op, self._operands(arguments)), self._type_of(arguments))
        if bare in _FUSED and len(arguments) == 3:
            a, b, c = self._operands(arguments)
            return self._as_record(Data("add", (Data("mul", (a, b)), c)), self._type_of(arguments), node)
        if bare in ("pow", "powf") and len(arguments) == 2 and is_number(self.data_of(arguments[1]), 2):
            base = self.data_of(arguments[0])
            return Real(Data("mul", (base, base)), self._type_of(arguments))
        if bare in ("__mul24", "__umul24") and all(isinstance(a, Number) for a in arguments):
            return self.operate("*", arguments[0], arguments[1], node)
        if bare == "abs" and isinstance(arguments[0], Number):
            term = arguments[0].term
            return Number(larger(self.bounds, term, -term), arguments[0].type)
        if match := _MAKE.match(bare):
            kind = named_type("half2" if match[1] == "half2" else match[1])
            if kind.kind == "vector":
                return self.record_of(kind, arguments, node)
        return None

    def record_of(self, kind: CType, arguments: list[Value], node: Node) -> StructValue:
        """A struct or vector from the values of its fields."""
        fields: dict[str, Binding] = {}
        for at, (name, inner, _) in enumerate(kind.fields):
            given = arguments[at] if at < len(arguments) else None
            if isinstance(given, StructValue) and given.type.kind == "auto":
                given = self.shaped(given, inner, node)
            held = self.converted(given, inner, node) if given is not None else self._zero(inner)
            fields[name] = Cell(name, inner, held, self.frame)
        return StructValue(kind, fields)

    def _zero(self, kind: CType) -> Value:
        return Number(ZERO, kind) if kind.kind in ("int", "bool") else Real(Data("constant", detail=0.0), kind)

    def _as_record(self, data: Data, kind: CType, node: Node) -> Value:
        return self.of_data(data, kind, node) if kind.kind == "vector" else Real(data, kind)

    def _extremum(self, op: str, left: Value, right: Value, node: Node) -> Value:
        if isinstance(left, Number) and isinstance(right, Number):
            kind = wider(left.type, right.type)
            pick = larger if op == "max" else smaller
            return Number(pick(self.bounds, left.term, right.term), kind)
        return self._as_record(Data(op, self._operands([left, right])), self._type_of([left, right]), node)

    def _operands(self, arguments: list[Value]) -> tuple[Data, ...]:
        return tuple(self.data_of(argument) for argument in arguments)

    def _type_of(self, arguments: list[Value]) -> CType:
        kinds = [value.type for value in arguments if isinstance(value, Real | Number | StructValue)]
        known = [kind for kind in kinds if kind.kind in ("real", "vector")]
        if not known:
            return kinds[0] if kinds else FLOAT
        vectors = [kind for kind in known if kind.kind == "vector"]
        return vectors[0] if vectors else max(known, key=lambda kind: kind.size)

    def _other(self, name: str, arguments: list[Value], node: Node) -> Value:
        operands = self._operands(arguments)
        data = Data("call", operands, name)
        if _TO_INTEGER.match(name):
            return self.of_data(data, INT, node)
        if match := _HALVES.match(name):
            word = match[1] or match[3]
            part = Data("part", operands[:1], "x" if word == "low" else "y")
            return Real(part, FLOAT if name.endswith("float") else HALF)
        if _CONVERT.match(name):
            to = FLOAT if name.endswith("float") else HALF
            return Real(Data("convert", operands, name), to)
        if name in ("__half22float2", "__bfloat1622float2"):
            return self.of_data(Data("convert", operands, name), named_type("float2"), node)
        if name.endswith("half2_rn") or name in ("__halves2half2", "__float2half2_rn", "__half2half2"):
            return self.of_data(Data("pack", operands), named_type("half2"), node)
        if name.endswith(("bfloat162_rn", "bfloat162")):
            return self.of_data(Data("pack", operands), named_type("__nv_bfloat162"), node)
        if any(isinstance(argument, Pointer) for argument in arguments) and not name.startswith("__"):
            self.block(node, self.wording(node), f"`{name}` is not defined in the file, and takes a pointer")
        return self._as_record(data, self._type_of(arguments), node)
