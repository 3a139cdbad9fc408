"""Makes the run-time functions a kernel calls, and what those call in turn, each once per module."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from evo.sim.llvm_ir import Code

Maker = Callable[[re.Match[str]], Code]
_MAKERS: list[tuple[re.Pattern[str], Maker]] = []


def runtime(pattern: str) -> Callable[[Maker], Maker]:
    """Register the maker of every function whose whole name matches the pattern."""

    def register(maker: Maker) -> Maker:
        _MAKERS.append((re.compile(pattern), maker))
        return maker

    return register


_INTRINSIC = re.compile(r"llvm\.(?P<base>[\w.]+?)\.(?P<type>(?:v\d+)?(?:i\d+|f16|f32|f64|bf16))(?P<rest>(?:\..*)?)$")
_LETTERS = {"f16": "half", "f32": "float", "f64": "double", "bf16": "bfloat"}
_FLAGGED = {"cttz", "ctlz", "abs"}
_TERNARY = {"fma", "fshl", "fshr"}
_BINARY = {
    "minnum", "maxnum", "minimum", "maximum", "copysign", "umin", "umax", "smin", "smax", "uadd.sat", "usub.sat",
    "sadd.sat", "ssub.sat",
}  # fmt: skip
_FIXED = {
    "llvm.x86.sse.ldmxcsr": "declare void @llvm.x86.sse.ldmxcsr(ptr)",
    "llvm.memcpy.p0.p0.i64": "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    "llvm.memset.p0.i64": "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
}


def _type(name: str) -> str:
    found = re.match(r"v(\d+)(.*)", name)
    if found:
        return f"<{found[1]} x {_LETTERS.get(found[2], found[2])}>"
    return _LETTERS.get(name, name)


def _declaration(name: str) -> str:
    if name in _FIXED:
        return _FIXED[name]
    found = _INTRINSIC.match(name)
    if found is None:
        raise KeyError(name)
    base, t = found["base"], _type(found["type"])
    if base.startswith("vector.reduce"):
        element = t.split(" x ")[1][:-1]
        return f"declare {element} @{name}({t})"
    if base.startswith(("fptosi.sat", "fptoui.sat")):
        return f"declare {t} @{name}({_type(found['rest'][1:])})"
    if base in _FLAGGED:
        return f"declare {t} @{name}({t}, i1)"
    count = 3 if base in _TERNARY else 2 if base in _BINARY else 1
    return f"declare {t} @{name}({', '.join([t] * count)})"


class Runtime:
    """Collects needed names and writes every function they lead to, each as a module of its own."""

    def __init__(self) -> None:
        self.made: dict[str, Code] = {}

    def require(self, names: set[str]) -> None:
        work = sorted(names)
        while work:
            name = work.pop()
            if name in self.made or name in _FOREIGN or name.startswith("llvm."):
                continue
            self.made[name] = _make(name)
            work += sorted(self.made[name].needs)

    def modules(self) -> list[str]:
        """One IR module per function, so that machine code of each is kept and shared by all kernels."""
        return [_module(name) for name in self.made]


_FOREIGN = {"kernel": "declare i32 @kernel(ptr, ptr)"}


@functools.cache
def _make(name: str) -> Code:
    for pattern, maker in _MAKERS:
        found = pattern.fullmatch(name)
        if found:
            return maker(found)
    raise KeyError(f"no run-time function {name}")


@functools.cache
def _module(name: str) -> str:
    code = _make(name)
    return "\n".join([*(declare(need) for need in sorted(code.needs) if need != name), code.text()])


def declare(name: str) -> str:
    """The declaration of an intrinsic or of a run-time function."""
    if name in _FOREIGN:
        return _FOREIGN[name]
    if name.startswith("llvm."):
        return _declaration(name)
    code = _make(name)
    types = ", ".join(t for t, _ in code.params)
    return f"declare {code.ret} @{name}({types})"
