"""Makes the run-time functions a kernel calls, and what those call in turn, each once per module."""

from __future__ import annotations

import re
from collections.abc import Callable

from evo.device.sim.ir import Code

Maker = Callable[[re.Match[str]], Code | str]
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
    """Collects needed names and writes every function and declaration they lead to."""

    def __init__(self) -> None:
        self.done: dict[str, str] = {}

    def require(self, names: set[str], defined: set[str]) -> None:
        work = sorted(names)
        while work:
            name = work.pop()
            if name in self.done or name in defined:
                continue
            if name.startswith("llvm."):
                self.done[name] = _declaration(name)
                continue
            made = self._make(name)
            self.done[name] = made if isinstance(made, str) else made.text()
            if isinstance(made, Code):
                work += sorted(made.needs)

    def _make(self, name: str) -> Code | str:
        from evo.device.sim.run import atomics, copies, globals_, locals_, race, schedule, shared, tensor  # noqa: F401

        for pattern, maker in _MAKERS:
            found = pattern.fullmatch(name)
            if found:
                return maker(found)
        raise KeyError(f"no run-time function {name}")

    def text(self) -> str:
        return "\n".join(self.done.values())
