"""Addresses of device functions, and which of them an indirect call may reach.

An indirect call becomes a chain of comparisons with the functions whose address is taken somewhere and whose
parameters have the sizes of the call; any other address traps, as a wild jump should.
"""

from __future__ import annotations

from evo.sim.ptx.ast import Instr, PtxFunction, PtxModule, Sym, Variable, Vec

FUNCTION_BASE = 0x0000_0500_0000_0000
_STEP = 16
VIRTUAL_TABLE = "_ZTV"  # how the names of tables of virtual functions begin, which no program writes


def function_addresses(program: PtxModule) -> dict[str, int]:
    """Every function with a body, by name."""
    defined = [name for name, function in program.functions.items() if function.body]
    return {name: FUNCTION_BASE + _STEP * index for index, name in enumerate(defined)}


def taken(program: PtxModule) -> set[str]:
    """Device functions that an initialiser or an instruction other than a call names."""
    names = {symbol for variable in program.variables.values() for _, symbol, _ in variable.patches}
    for function in program.functions.values():
        for item in function.body:
            if isinstance(item, Instr) and item.name == "mov":
                names |= {arg.name for arg in item.args if isinstance(arg, Sym)}
    return {name for name in names if name in program.functions and not program.functions[name].entry}


def candidates(program: PtxModule, call: Instr, variables: dict[str, Variable]) -> list[PtxFunction]:
    """The functions that a call through a register may mean."""
    results, _, arguments = call.args

    def sizes(items: object) -> list[int]:
        assert isinstance(items, Vec)
        names = [item.name for item in items.items if isinstance(item, Sym)]
        return [variables[name].size for name in names if name in variables]

    wanted = (sizes(results), sizes(arguments))
    found = []
    for name in sorted(taken(program)):
        function = program.functions[name]
        if function.body and ([p.size for p in function.results], [p.size for p in function.params]) == wanted:
            found.append(function)
    return found
