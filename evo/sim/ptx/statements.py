"""Statements of a function body: directives, scopes, labels, calls and instructions."""

from __future__ import annotations

from evo.sim.errors import UnsupportedInstruction
from evo.sim.ptx.ast import WIDTH, Instr, Label, Operand, PtxFunction, Reg, Sym, Variable, Vec
from evo.sim.ptx.declarations import Declarations
from evo.sim.ptx.lexer import integer_of

_FAMILIES = ("wmma", "mbarrier")
_BODY_SPACES = (".shared", ".local", ".param", ".global", ".const")


class StatementParser(Declarations):
    """Reads them one by one."""

    def statement(self, function: PtxFunction) -> int:
        """Consume one statement; returns +1 for `{`, -1 for `}`, otherwise 0."""
        kind, text, line = self.tokens[self.at]
        if text == "{":
            self.at += 1
            self.scopes.append({})
            return 1
        if text == "}":
            self.at += 1
            self.scopes.pop()
            return -1
        if text == ";":
            self.at += 1
        elif kind == "loc":
            self.at += 1
            self.loc = integer_of(text)
        elif kind == "id" and text.startswith("."):
            self._directive(function, self.take(), line)
        elif kind == "id" and self.tokens[self.at + 1][1] == ":":
            self.at += 2
            self._labelled(function, text, line)
        else:
            function.body.append(self._instruction(line))
        return 0

    def _labelled(self, function: PtxFunction, name: str, line: int) -> None:
        """A label of code, of a branch table, or of a call's prototype or targets."""
        if self.accept(".branchtargets"):
            names = [self._forward_label(self.take())]
            while self.accept(","):
                names.append(self._forward_label(self.take()))
            self.expect(";")
            function.tables[self._declare_label(name)] = names
        elif self.peek in (".callprototype", ".calltargets"):
            self.skip_statement()
        else:
            function.body.append(Label(self._declare_label(name), line))

    def _declare_label(self, name: str) -> str:
        # Labels of inline assembly scopes (`{ L: ... }`) may repeat; those of the function body are unique already.
        if len(self.scopes) <= 1:
            return name
        if name not in self.scopes[-1]:
            self.scopes[-1][name] = self._unique(name)
        return self.scopes[-1][name]

    def _unique(self, name: str) -> str:
        self.unique += 1
        return f"{name}@{self.unique}"

    def _directive(self, function: PtxFunction, word: str, line: int) -> None:
        if word == ".reg":
            self._registers(function)
        elif word == ".loc":
            self._location()
        elif word in _BODY_SPACES:
            for variable in self.variables(word[1:]):
                self._add_variable(function, variable)
        elif word == ".pragma":
            self.skip_statement()
        elif word in (".maxntid", ".reqntid"):
            self.at -= 1
            self.tuning(function)
        else:
            raise UnsupportedInstruction(word, line=line, text=self.line_text(line))

    def _add_variable(self, function: PtxFunction, variable: Variable) -> None:
        if len(self.scopes) > 1:
            name = variable.name
            variable.name = self.scopes[-1][name] = self._unique(name)
        function.variables[variable.name] = variable

    def _location(self) -> None:
        self.integer()
        line = self.integer()
        self.integer()
        if self.accept(","):
            # `, function_name LABEL(+off), inlined_at FILE LINE COLUMN`: the line of the call is in the user's text.
            self.skip_to("inlined_at")
            self.integer()
            line = self.integer()
            self.integer()
        self.loc = line

    def _registers(self, function: PtxFunction) -> None:
        kind = ""
        while self.peek.startswith("."):
            word = self.take()[1:]
            if word in WIDTH:
                kind = word
            elif word in ("v2", "v4"):
                line = self.tokens[self.at][2]
                raise UnsupportedInstruction(f".reg .{word}", line=line, text=self.line_text(line))
            else:
                raise self.fail(f"unknown register type .{word}")
        if not kind:
            raise self.fail("a register needs a type")
        while True:
            name = self.take()
            names = [name]
            if self.accept("<"):
                count = self.integer()
                if count > 1 << 17:
                    raise self.fail("too many registers")
                names = [f"{name}{index}" for index in range(count)]
                self.expect(">")
            for each in names:
                full = each
                if len(self.scopes) > 1:
                    full = self.scopes[-1][each] = self._unique(each)
                function.registers[full] = kind
            if not self.accept(","):
                break
        self.expect(";")

    # Instructions -------------------------------------------------------------------------------------------

    def _instruction(self, line: int) -> Instr:
        guard, negated = None, False
        if self.accept("@"):
            negated = self.accept("!")
            operand = self.operand()
            if not isinstance(operand, Reg):
                raise self.fail("a guard must be a predicate register")
            guard = operand
        kind, word, _ = self.tokens[self.at]
        if kind != "id" or word[0] in "%.":
            raise self.fail(f"expected an instruction, found {word!r}")
        self.at += 1
        name, *mods = word.split(".")
        if name in _FAMILIES and mods:
            # The word after the dot decides what such an instruction does and which operands are results.
            name = f"{name}.{mods.pop(0)}"
        # A load of what nobody writes meanwhile, the same for all lanes: a hint. And where a debugger would stop.
        name = {"ldu": "ld", "brkpt": "trap"}.get(name, name)
        text = self.line_text(line).strip()
        if name != "call" and name not in self.mnemonics:
            # Its operands may have a form of their own. It is refused by name where it would run.
            self.skip_statement()
            return Instr(name, tuple(mods), (), line, self.loc, text, guard, negated)
        args = self._call_operands() if name == "call" else self._operands(mods)
        self.expect(";")
        if "L2::cache_hint" in mods and len(args) > 1:
            # Where data had better stay in the cache changes no result: the policy is not looked at.
            mods.remove("L2::cache_hint")
            args = args[:-1]
        if name == "bra" and len(args) == 1 and isinstance(args[0], Sym):
            args = (Sym(self._forward_label(args[0].name)),)
        elif name == "brx" and len(args) == 2 and isinstance(args[1], Sym):
            args = (args[0], Sym(self._forward_label(args[1].name)))
        return Instr(name, tuple(mods), args, line, self.loc, text, guard, negated)

    def _operands(self, mods: list[str]) -> tuple[Operand, ...]:
        """They; a part of a register that one selects becomes a modifier, `1.b0`."""
        found: list[Operand] = []
        while self.peek != ";" and (not found or self.accept(",")):
            found.append(self.operand())
            if self.selector:
                mods.append(f"{len(found) - 1}.{self.selector}")
                self.selector = ""
        return tuple(found)

    def _forward_label(self, name: str) -> str:
        """The unique name of a label used inside a scope, which may be declared only later in that scope."""
        if len(self.scopes) <= 1:
            return name
        depth, at = 0, self.at
        known = self.resolve(name)
        if known != name or name.startswith("$L__BB"):
            return known
        while at < len(self.tokens) - 1 and depth >= 0:
            text = self.tokens[at][1]
            if text == name and self.tokens[at + 1][1] == ":" and depth == 0:
                return self._declare_label(name)
            depth += (text == "{") - (text == "}")
            at += 1
        return name

    def _call_operands(self) -> tuple[Operand, ...]:
        """(results), target, (arguments) as Vec, Sym, Vec; the lists may be empty."""
        results: list[Operand] = []
        arguments: list[Operand] = []
        if self.accept("("):
            results = self._list()
            self.expect(",")
        target = self.operand()
        if self.accept(",") and self.accept("("):
            arguments = self._list()
            if self.accept(","):
                self.operand()
        return Vec(tuple(results)), target, Vec(tuple(arguments))

    def _list(self) -> list[Operand]:
        found: list[Operand] = []
        while not self.accept(")"):
            found.append(self.operand())
            self.accept(",")
        return found
