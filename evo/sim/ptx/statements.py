"""Reading one statement of a function body: directives, scopes, labels, calls and instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evo.sim.errors import UnsupportedInstruction
from evo.sim.lower.isa import TABLE
from evo.sim.ptx.ast import WIDTH, Function, Instr, Label, Operand, Reg, Sym, Variable, Vec

if TYPE_CHECKING:
    from evo.sim.ptx.parser import Parser

_FAMILIES = ("wmma", "mbarrier")
_BODY_SPACES = (".shared", ".local", ".param", ".global", ".const")


def read_statement(parser: Parser) -> int:
    """Consume one statement; returns +1 for `{`, -1 for `}`, otherwise 0."""
    function = parser.function
    assert function is not None
    kind, text, line = parser.tokens[parser.at]
    if text == "{":
        parser.at += 1
        parser.scopes.append({})
        return 1
    if text == "}":
        parser.at += 1
        parser.scopes.pop()
        return -1
    if text == ";":
        parser.at += 1
        return 0
    if kind == "id" and text.startswith("."):
        _directive(parser, function, parser.take(), line)
        return 0
    if kind == "id" and parser.tokens[parser.at + 1][1] == ":":
        parser.at += 2
        if parser.peek == ".branchtargets":
            parser.take()
            names = [parser.take()]
            while parser.accept(","):
                names.append(parser.take())
            parser.expect(";")
            function.tables[text] = names
        elif parser.peek == ".callprototype":
            parser.skip_statement()
        else:
            function.body.append(Label(_declare_label(parser, text), line))
        return 0
    function.body.append(_instruction(parser, line))
    return 0


def _declare_label(parser: Parser, name: str) -> str:
    # Labels of inline assembly scopes (`{ L: ... }`) may repeat; those of the function body are unique already.
    if len(parser.scopes) <= 1:
        return name
    if name not in parser.scopes[-1]:
        parser.scopes[-1][name] = _unique(parser, name)
    return parser.scopes[-1][name]


def _unique(parser: Parser, name: str) -> str:
    parser.unique += 1
    return f"{name}@{parser.unique}"


def _directive(parser: Parser, function: Function, word: str, line: int) -> None:
    if word == ".reg":
        _registers(parser, function)
    elif word == ".loc":
        _location(parser)
    elif word in _BODY_SPACES:
        for variable in parser.variables(word[1:]):
            _add_variable(parser, function, variable)
    elif word == ".pragma":
        parser.skip_statement()
    elif word in (".maxntid", ".reqntid"):
        parser.at -= 1
        parser.tuning(function)
    else:
        raise UnsupportedInstruction(word, line=line, text=parser.line_text(line))


def _add_variable(parser: Parser, function: Function, variable: Variable) -> None:
    name = variable.name
    if len(parser.scopes) > 1:
        unique = _unique(parser, name)
        parser.scopes[-1][name] = unique
        variable.name = unique
    function.variables[variable.name] = variable


def _location(parser: Parser) -> None:
    parser.integer()
    line = parser.integer()
    parser.integer()
    if parser.accept(","):
        # `, function_name LABEL(+off), inlined_at FILE LINE COLUMN`: report the line of the call, in the user's text.
        while parser.peek not in ("inlined_at",):
            parser.take()
        parser.take()
        parser.integer()
        line = parser.integer()
        parser.integer()
    parser.loc = line


def _registers(parser: Parser, function: Function) -> None:
    kind = ""
    while parser.peek.startswith("."):
        word = parser.take()[1:]
        if word in WIDTH:
            kind = word
        elif word in ("v2", "v4"):
            line = parser.tokens[parser.at][2]
            raise UnsupportedInstruction(f".reg .{word}", line=line, text=parser.line_text(line))
        else:
            raise parser.fail(f"unknown register type .{word}")
    while True:
        name = parser.take()
        names = [name]
        if parser.accept("<"):
            count = parser.integer()
            if count > 1 << 17:
                raise parser.fail("too many registers")
            names = [f"{name}{index}" for index in range(count)]
            parser.expect(">")
        for each in names:
            full = each
            if len(parser.scopes) > 1:
                full = _unique(parser, each)
                parser.scopes[-1][each] = full
            function.registers[full] = kind
        if not parser.accept(","):
            break
    parser.expect(";")


def _instruction(parser: Parser, line: int) -> Instr:
    guard, negated = None, False
    if parser.accept("@"):
        negated = parser.accept("!")
        operand = parser.operand()
        if not isinstance(operand, Reg):
            raise parser.fail("a guard must be a predicate register")
        guard = operand
    if parser.kind != "id" or parser.peek.startswith(("%", ".")):
        raise parser.fail(f"expected an instruction, found {parser.peek!r}")
    spelling = parser.take()
    name, *mods = spelling.replace("::", ".").split(".") if "::" not in spelling else _split_colons(spelling)
    if name in _FAMILIES and mods:
        # The word after the dot decides what such an instruction does and which operands are results.
        name = f"{name}.{mods.pop(0)}"
    text = parser.line_text(line).strip()
    if name != "call" and name not in TABLE:
        # Its operands may have a form of their own. It is refused by name where it would run.
        parser.skip_statement()
        return Instr(name, tuple(mods), (), line, parser.loc, text, guard, negated)
    if name == "call":
        args = _call_operands(parser)
    else:
        args = ()
        if parser.peek != ";":
            found = [parser.operand()]
            while parser.accept(","):
                found.append(parser.operand())
            args = tuple(found)
    parser.expect(";")
    if "L2::cache_hint" in mods and len(args) > 1:
        # Where data had better stay in the cache changes no result: the policy is not looked at.
        mods.remove("L2::cache_hint")
        args = args[:-1]
    if name == "bra" and len(args) == 1 and isinstance(args[0], Sym):
        args = (Sym(_forward_label(parser, args[0].name)),)
    return Instr(name, tuple(mods), args, line, parser.loc, text, guard, negated)


def _split_colons(spelling: str) -> list[str]:
    # `cp.async.ca.shared::cta.global.L2::128B`: keep `shared::cta` as one modifier.
    return spelling.split(".")


def _forward_label(parser: Parser, name: str) -> str:
    """The unique name of a label used inside a scope, which may be declared only later in that scope."""
    if len(parser.scopes) <= 1:
        return name
    depth, at = 0, parser.at
    tokens = parser.tokens
    known = parser.resolve(name)
    if known != name or name.startswith("$L__BB"):
        return known
    while at < len(tokens) - 1 and depth >= 0:
        text = tokens[at][1]
        if text == name and tokens[at + 1][1] == ":" and depth == 0:
            parser.scopes[-1][name] = _unique(parser, name)
            return parser.scopes[-1][name]
        depth += (text == "{") - (text == "}")
        at += 1
    return name


def _call_operands(parser: Parser) -> tuple[Operand, ...]:
    """(results), target, (arguments) as Vec, Sym, Vec; the lists may be empty."""
    results: list[Operand] = []
    arguments: list[Operand] = []
    if parser.accept("("):
        results = _list(parser)
        parser.expect(",")
    target = parser.operand()
    if parser.accept(",") and parser.accept("("):
        arguments = _list(parser)
        if parser.accept(","):
            parser.operand()
    return Vec(tuple(results)), target, Vec(tuple(arguments))


def _list(parser: Parser) -> list[Operand]:
    found: list[Operand] = []
    while not parser.accept(")"):
        found.append(parser.operand())
        parser.accept(",")
    return found
