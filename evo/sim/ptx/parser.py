"""PTX text -> Program. Registers and labels of nested scopes get unique names; nothing is executed or checked here."""

from __future__ import annotations

from collections.abc import Container

from evo.sim.errors import PtxError
from evo.sim.ptx.ast import PtxFunction, PtxModule
from evo.sim.ptx.declarations import SPACES
from evo.sim.ptx.statements import StatementParser


class Parser(StatementParser):
    """Modules, variables and functions."""

    def module(self) -> PtxModule:
        while self.kind != "end":
            word = self.take()
            if word == ".version":
                self.program.version = self.take()
            elif word == ".target":
                is_first, self.program.target = not self.program.target, self.take()
                while self.accept(","):
                    self.debug |= self.take() == "debug" and is_first  # the compiler's, not one in inline assembly
            elif word == ".address_size":
                if self.integer() != 64:
                    raise self.fail("only 64-bit addresses are supported")
            elif word == ".file":
                self._file()
            elif word == ".section":
                self.skip_to("{")
                self.skip_to("}")
            elif word == ".pragma":
                self.skip_statement()
            elif word == ".alias":
                self._alias()
            elif word in (".visible", ".extern", ".weak", ".entry", ".func", ".common") or word[1:] in SPACES:
                self.at -= 1
                self._declaration()
            else:
                self.at -= 1
                raise self.fail(f"unexpected {word!r} at module level")
        return self.program

    def _file(self) -> None:
        number = self.integer()
        self.program.files[number] = self.take().strip('"')
        while self.accept(","):
            self.integer()

    def _alias(self) -> None:
        """Another name of a function that stands above."""
        name = self.take()
        self.expect(",")
        function = self.program.functions.get(self.take())
        if function is None or not function.body:
            raise self.fail(f"{name} is to be another name of a function that is not defined")
        self.program.functions[name] = function
        self.expect(";")

    def _declaration(self) -> None:
        extern = False
        while self.peek in (".visible", ".extern", ".weak", ".common"):
            extern |= self.take() == ".extern"
        if self.peek in (".entry", ".func"):
            self._function(self.take() == ".entry")
            return
        for variable in self.variables(self.take()[1:], extern):
            self.program.variables[variable.name] = variable

    # Functions ----------------------------------------------------------------------------------------------

    def _function(self, entry: bool) -> None:
        line = self.tokens[self.at][2]
        results = self.params() if self.peek == "(" else []
        name = self.take()
        function = PtxFunction(name, entry, line=line, results=results, debug=self.debug)
        if self.peek == "(":
            function.params = self.params()
        if entry and any(param.register for param in function.params):
            raise self.fail("a kernel takes its parameters in .param space")
        function.registers |= {p.name: p.type for p in (*results, *function.params) if p.register}
        while self.kind == "id" and self.peek.startswith("."):
            self.tuning(function)
        if self.accept(";"):
            if name not in self.program.functions:
                self.program.functions[name] = function
            return
        self.function, self.scopes, self.known, self.unique, self.loc = function, [{}], {}, 0, 0
        self.expect("{")
        depth = 1
        while depth:
            depth += self.statement(function)
        self.program.functions[name] = function
        self.function = None


def parse(text: str, mnemonics: Container[str]) -> PtxModule:
    """Parse PTX text. Raises PtxError with the line for anything that is not PTX.

    mnemonics: of the instructions whose operands are read; others are left for the caller to refuse.
    """
    try:
        return Parser(text.rstrip("\0"), mnemonics).module()
    except RecursionError as error:
        raise PtxError("braces or parentheses are nested too deeply") from error
