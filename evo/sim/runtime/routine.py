"""Functions of the run-time support, each written as LLVM IR when a kernel first needs it.

A module of this package declares one with its signature and a function that writes the body:

    @routine("ptr", "ptr ctx, ptr w, i64 index")
    def queue_entry(c: Code) -> None: ...

Callers name it: `c.call(queue_entry(), context, w, index)`. Further arguments of the writer make one function each:
`ld_global(16)` is the function `ld_global_16`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Concatenate, ParamSpec, cast

from evo.sim.llvm_ir import Callee, Code
from evo.sim.llvm_values import V

P = ParamSpec("P")


class Routine:
    """One function: its signature, and its body once somebody asks for it."""

    def __init__(
        self, name: str, ret: str, params: tuple[tuple[str, str], ...], attributes: str, write: Callable[[Code], None]
    ) -> None:
        self.name, self.ret, self.params, self.attributes = name, ret, params, attributes
        self.types = tuple(t for t, _ in params)
        self._write = write

    @functools.cached_property
    def code(self) -> Code:
        code = Code(self.ret, self.name, self.params, self.attributes)
        self._write(code)
        return code

    @functools.cached_property
    def module(self) -> str:
        """An IR module of its own, so that its machine code is kept and shared by all kernels."""
        return "\n".join((*self.code.declarations(), self.code.text()))


def routine(
    ret: str, params: str, attributes: str = "noinline", *, name: str = ""
) -> Callable[[Callable[Concatenate[Code, P], None]], Callable[P, Routine]]:
    """Declare a function. name: how it is spelled, with a `{}` per argument; by default they follow the writer's name.

    An argument that is True is spelled by its keyword, one that is False is not.
    """
    first, *others = (param.rsplit(" ", 1) for param in params.split(", "))
    signature = tuple((t, n) for t, n in (first, *others))

    def register(write: Callable[Concatenate[Code, P], None]) -> Callable[P, Routine]:
        def need(*args: P.args, **flags: P.kwargs) -> Routine:
            words = [*map(str, args), *(word for word, on in flags.items() if on)]
            spelled = name.format(*args) if name else "_".join((write.__name__, *words))
            return Routine(spelled, ret, signature, attributes, lambda c: write(c, *args, **flags))

        return cast("Callable[P, Routine]", functools.cache(need))

    return register


def loads_and_stores(
    name: str, params: str, write: Callable[[Code, int, bool], V]
) -> tuple[Callable[[int], Routine], Callable[[int], Routine]]:
    """`ld_NAME` and `st_NAME` by bytes per lane. `write(code, width, store)` gives where loaded lanes lie packed."""

    @routine("ptr", params, name=f"ld_{name}_{{}}")
    def load(c: Code, width: int) -> None:
        c.ret_(write(c, width, False))

    @routine("void", params, name=f"st_{name}_{{}}")
    def store(c: Code, width: int) -> None:
        write(c, width, True)
        c.ret_()

    return load, store


def needed(roots: Iterable[Callee]) -> list[Routine]:
    """Every function that these lead to, each once."""
    found: dict[str, Routine] = {}
    work = [cast("Routine", root) for root in sorted(roots, key=lambda root: root.name)]
    while work:
        one = work.pop()
        if one.name not in found:
            found[one.name] = one
            work += (cast("Routine", callee) for _, callee in sorted(one.code.callees.items()))
    return list(found.values())
