"""Static rules on the PTX: what no spelling in the source can hide, since the compiler has undone macros and splices.

Instructions that a variant may not use, functions of the runtime that it may not call, and stores to module globals,
which would carry state from one launch to the next. The latter follows addresses through registers, so that neither a
cast nor a pointer variable hides a store; tables that are only read are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from evo.evaluate.gate.source_rules import StaticProblem
from evo.results import StaticRule
from evo.sim import PtxError
from evo.sim.address_flow import address_misuses, variable_misuses
from evo.sim.lower.indirect_calls import VIRTUAL_TABLE
from evo.sim.timer_flow import decided_by_time

_BANNED = re.compile(
    r"(?P<clock>%clock(?:64|_hi)?\b|%globaltimer(?:_lo|_hi)?\b|%pm\d)"
    r"|(?P<cache>\bcreatepolicy\b|\bL[12]::evict_last\b|\bL2::cache_hint\b|\bapplypriority\b|\.level::eviction_priority)"
    r"|(?P<launch>%gridid\b|%current_graph_exec\b|%envreg\d)"
    r"|(?P<place>%warpid\b|%nwarpid\b|%n?smid\b|%(?:total|aggr)_smem_size\b|%reserved_smem_\w+)"
    r"|(?P<debugger>\bbrkpt\b|\bpmevent\b)"
)
# Parts of the words above, cheap to look for in a long text.
_HINTS = ("clock", "globaltimer", "%pm", "policy", "::evict", "cache_hint", "priority", "brkpt", "pmevent")
_LAUNCH_HINTS = ("%gridid", "%current_", "%envreg", "warpid", "smid", "_smem_")
_WHAT = {
    "clock": (StaticRule.CLOCK, "reads a clock or a performance counter"),
    "cache": (StaticRule.CACHE_POLICY, "steers the cache's eviction policy"),
    "launch": (StaticRule.LAUNCH_NUMBER, "tells one launch from another"),
    "place": (StaticRule.LAUNCH_NUMBER, "asks where in the machine it runs"),
    "debugger": (StaticRule.PROFILER, "signals a debugger or profiler"),
}
# Text of the variant's own stands in here as inline assembly: nothing is read twice, also where it is never closed.
_LEXEMES = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|//[^\n]*+|/\*.*?(?:\*/|\Z)', re.DOTALL)
_EXTERN = re.compile(r"\.extern\s+\.func\s+(?:\([^);]*+\)\s*+)?([\w$]+)")
# `free`: the deleting form of a virtual destructor names it. Without `malloc` there is nothing to free, and a call is
# refused where it is translated.
_ALLOWED_EXTERN = {"__assertfail", "free"}
_EXTERN_WHAT = {
    "vprintf": (StaticRule.PRINT, "prints from the device"),
    "malloc": (StaticRule.ALLOCATION, "allocates memory on the device"),
}
_VARIABLE = re.compile(
    r"\.(?:global|const)\b(?:\s++\.(?:align\s++\d++|attribute\([^);]*+\)|v[24]\b))*+\s++\.\w++\s++(?P<name>[\w$]++)"
    r"(?P<rest>[^;]*+);"
)
_DECLARES = re.compile(r"(?<!\w)\.(?:global|const)\b")  # not `ld.global`
_LOC = re.compile(r"\.loc\s+\d+\s+(\d+)")
_WORD = re.compile(r"%?[\w$]+")
_STATEMENT = re.compile(r"(?:@!?%?[\w$]+\s+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>.*)", re.DOTALL)
_BEFORE = re.compile(r"(?:[\s{}]++|[\w$]++:(?!:))*+")  # scopes and labels that an instruction may follow
_READS = ("ld.", "ldu.", "prefetch", "tex.", "isspacep", "setp.", "bra", "discard")


def ptx_problem(ptx: str) -> StaticProblem | None:
    """The first forbidden thing in a variant's PTX, with the source line that it came from (0 if none is known)."""
    if any(hint in ptx for hint in (*_HINTS, *_LAUNCH_HINTS)) and (match := _banned(ptx)):
        kind = match.lastgroup
        assert kind is not None
        rule, what = _WHAT[kind]
        return StaticProblem(rule, _line_before(ptx, match.start()), what)
    for match in _EXTERN.finditer(ptx) if ".extern" in ptx else ():
        if match[1] not in _ALLOWED_EXTERN:
            other = (StaticRule.RUNTIME_CALL, f"calls {match[1]}() of the device runtime")
            rule, what = _EXTERN_WHAT.get(match[1], other)
            return StaticProblem(rule, 0, what)
    if not _DECLARES.search(ptx):
        return None
    code = _LEXEMES.sub(lambda m: '""' if m[0].startswith('"') else " ", ptx)
    variables = {match["name"]: match["rest"] for match in _VARIABLE.finditer(code, 0, code.rfind(";") + 1)}
    for name, rest in variables.items():
        if any(word in variables for word in _WORD.findall(rest)):
            what = f"keeps the address of a module variable in another one, `{_plain(name)}`"
            return StaticProblem(StaticRule.STATE, 0, what)
    mentioned = {name for name in variables if _mentions(code, name) > 1}  # beside where it is declared
    return _stored(code, mentioned) if mentioned else None


def _mentions(code: str, name: str) -> int:
    """How often; the constants of a text are declared here, and few are read from memory."""
    found = code.count(name)
    return len(re.findall(rf"(?<![\w$]){re.escape(name)}(?![\w$])", code)) if found > 1 else found


def _banned(ptx: str) -> re.Match[str] | None:
    """The first word that is banned. A timer is not, where it only says how long a waiting loop sleeps (libcu++)."""
    found = (match for match in _BANNED.finditer(ptx) if match[0] != "%globaltimer" or not _only_naps(ptx))
    return next(found, None)


@lru_cache(maxsize=8)
def _only_naps(ptx: str) -> bool:
    try:
        return next(decided_by_time(ptx), None) is None
    except PtxError:  # said elsewhere
        return False


def _line_before(text: str, at: int) -> int:
    lines = _LOC.findall(text, 0, at)
    return int(lines[-1]) if lines else 0


def _stored(code: str, variables: set[str]) -> StaticProblem | None:
    """The first store to a module variable, through any register that may hold its address."""
    for body in _functions(code):
        statements = list(_statements(body))
        tainted = _addresses(statements, variables)
        for line, opcode, operands in statements:
            if (name := _written(opcode, operands, tainted)) is not None:
                return StaticProblem(StaticRule.STATE, line, f"keeps state in a module variable, `{_plain(name)}`")
    return None


def _functions(code: str) -> Iterator[str]:
    starts = [match.start() for match in re.finditer(r"\.(?:entry|func)\b", code)]
    for start, end in zip(starts, [*starts[1:], len(code)], strict=True):
        yield code[start:end].partition("{")[2]  # the head ends where the body begins; parameters have no braces


def _statements(body: str) -> Iterator[tuple[int, str, str]]:
    """(source line, opcode, operands) of each instruction."""
    line = 0
    for raw in body.split(";"):
        if found := _LOC.findall(raw):
            line = int(found[-1])
        text = re.sub(r"\.loc\s+[^\n]*", " ", raw)
        text = text[_BEFORE.match(text).end() :].rstrip()  # type: ignore[union-attr]  # it matches an empty text
        if match := _STATEMENT.fullmatch(text):
            yield line, match["opcode"], match["operands"]


def _addresses(statements: list[tuple[int, str, str]], variables: set[str]) -> dict[str, str]:
    """Registers that may hold an address inside a variable -> that variable."""
    results: dict[str, list[str]] = {}  # of a word: the words that are worked out from it
    for _, opcode, operands in statements:
        if opcode.startswith(_READS) or operands.startswith("["):  # loads give values; stores have no target
            continue
        target, _, sources = operands.partition(",")
        if target.startswith("{"):  # a vector: the whole list is the target
            target, _, sources = operands.partition("},")
        targets = _WORD.findall(target)
        for word in _WORD.findall(sources):
            results.setdefault(word, []).extend(targets)
    tainted = {name: name for name in variables}
    waiting = sorted(variables)
    while waiting:
        source = waiting.pop()
        for word in results.pop(source, ()):
            if word not in tainted:
                tainted[word] = tainted[source]
                waiting.append(word)
    return tainted


def _written(opcode: str, operands: str, tainted: dict[str, str]) -> str | None:
    """The variable whose address this instruction stores to, or hands on where it can no longer be followed."""
    if opcode.startswith(_READS):
        return None
    brackets = re.findall(r"\[([^\[\]]*+)\]", operands)
    addressed = brackets[:1] if opcode.startswith("cp.async") else brackets
    words = [word for text in addressed for word in _WORD.findall(text)]
    if opcode.startswith(("st", "atom", "red", "call")):
        # The value too: an address that is stored escapes. Objects hold that of their table of virtual functions, to
        # which a simulator lets nobody write.
        words += [word for word in _WORD.findall(operands) if not tainted.get(word, "").startswith(VIRTUAL_TABLE)]
    return next((tainted[word] for word in words if word in tainted), None)


def _plain(symbol: str) -> str:
    """`_ZZ1kE5calls` as `calls`: the last length-prefixed part of a mangled name."""
    name = symbol
    while match := re.match(r"_Z[^\W\d]*+(\d{1,6}+)(?!\d)", name):
        size, rest = int(match[1]), name[match.end() :]
        if len(rest) < size:
            break
        if len(rest) == size or not rest[size:].strip("E0123456789_"):
            return rest[:size]
        name = "_Z" + rest[size:].lstrip("E")
        if name == "_Z":
            break
    return symbol


def address_problem(ptx: str, buffers: Mapping[str, frozenset[int]]) -> StaticProblem | None:
    """The first thing that depends on the address of a buffer, with its source line; None if nothing does.

    A variant could tell devices or allocators apart by it. Addresses may be read and written at, and compared with
    others in the same buffer. A thread's own place counts as known: an address that a block computes for its row is
    one too. Alignment may be asked for: every address here is a multiple of 256, as every allocator's is.

    Where shared and local memory lie may not decide anything either. buffers: of each kernel, the numbers of the
    parameters that are given one.
    """
    try:
        of_buffer = next(address_misuses(ptx, buffers), None)
        misuse = of_buffer or next(variable_misuses(ptx), None)
    except PtxError:  # said elsewhere
        return None
    if misuse is None:
        return None
    what = "decides by" if misuse.instruction.startswith("setp") else "computes with"
    where = "a buffer" if of_buffer is not None else "shared or local memory"
    return StaticProblem(StaticRule.ADDRESS, misuse.source_line, f"{what} the address of {where}")
