"""PTX text -> Program. Registers and labels of nested scopes get unique names; nothing is executed or checked here."""

from __future__ import annotations

from evo.sim.errors import PtxError, UnsupportedInstruction
from evo.sim.ptx.ast import WIDTH, Function, Param, Program, Variable
from evo.sim.ptx.lexer import Cursor, float_of
from evo.sim.ptx.statements import read_statement

_SPACES = ("global", "const", "shared", "local", "param")


class Parser(Cursor):
    """Modules, variables and functions."""

    def module(self) -> Program:
        while self.kind != "end":
            word = self.take()
            if word == ".version":
                self.program.version = self.take()
            elif word == ".target":
                self.program.target = self.take()
                while self.accept(","):
                    self.take()
            elif word == ".address_size":
                if self.integer() != 64:
                    raise self.fail("only 64-bit addresses are supported")
            elif word == ".file":
                self._file()
            elif word == ".section":
                self._section()
            elif word == ".pragma":
                self.skip_statement()
            elif word in (".visible", ".extern", ".weak", ".entry", ".func", ".common") or word[1:] in _SPACES:
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

    def _section(self) -> None:
        self.skip_to("{")
        self.skip_to("}")

    def _declaration(self) -> None:
        extern = False
        while self.peek in (".visible", ".extern", ".weak", ".common"):
            extern |= self.take() == ".extern"
        if self.peek in (".entry", ".func"):
            self._function(self.take() == ".entry")
            return
        for variable in self.variables(self.take()[1:], extern):
            self.program.variables[variable.name] = variable

    def variables(self, space: str, extern: bool = False) -> list[Variable]:
        if space not in _SPACES:
            raise self.fail(f"unknown state space .{space}")
        align, element, count = 0, "", 1
        while self.kind == "id" and self.peek.startswith("."):
            word = self.take()[1:]
            if word == "align":
                align = self.integer()
            elif word in ("v2", "v4"):
                count = int(word[1])
            elif word in WIDTH:
                element = word
            elif word == "ptr":
                continue
            elif word == "attribute":
                self.skip_to(")")  # managed and unified memory is memory like any other here
            else:
                raise self.fail(f"unknown variable attribute .{word}")
        if not element:
            raise self.fail("a variable needs a type")
        if element in ("b128", "pred"):
            raise UnsupportedInstruction(f".{space}.{element} variable", line=self.tokens[self.at][2])
        found = []
        while True:
            found.append(self._variable(space, align, element, count, extern))
            if not self.accept(","):
                break
        self.expect(";")
        return found

    def _variable(self, space: str, align: int, element: str, count: int, extern: bool) -> Variable:
        name = self.take()
        bytes_each = WIDTH[element] // 8
        total, open_ended = count, False
        while self.accept("["):
            if self.accept("]"):
                open_ended = True
                continue
            total *= self.integer()
            self.expect("]")
        init: bytes | None = None
        patches: list[tuple[int, str, int]] = []
        if self.accept("="):
            values: list[int | tuple[str, int]] = []
            self._initialiser(values, element)
            init, patches = _pack(values, element)
            if open_ended:
                total, open_ended = len(values), False
        size = 0 if open_ended else total * bytes_each
        if size < 0 or size > 1 << 32:
            raise self.fail(f"variable {name} has an impossible size")
        if init is not None:
            init = init[:size].ljust(size, b"\0")
        return Variable(name, space, align or bytes_each * count, size, init, tuple(patches), extern or open_ended)

    def _initialiser(self, values: list[int | tuple[str, int]], element: str) -> None:
        if self.accept("{"):
            while not self.accept("}"):
                self._initialiser(values, element)
                if not self.accept(","):
                    self.expect("}")
                    break
            return
        if self.kind == "flt":
            values.append(float_of(self.take(), element).value)
        elif self.kind == "int" or self.peek == "-":
            values.append(self.integer())
            if self.accept("("):  # one byte of an address; the eight of them come in order
                first = values.pop() == 0xFF
                self._initialiser(values, "b64")
                self.expect(")")
                values[-1] = values[-1] if first else 0
        elif self.kind == "id":
            name = self.take()
            if name == "generic":
                self.expect("(")
                name = self.take()
                self.expect(")")
            offset = self.integer() if self.accept("+") else 0
            values.append((name, offset))
        else:
            raise self.fail(f"unexpected {self.peek!r} in an initialiser")

    # Functions ----------------------------------------------------------------------------------------------

    def _function(self, entry: bool) -> None:
        line = self.tokens[self.at][2]
        results = self._params() if self.peek == "(" else []
        name = self.take()
        function = Function(name, entry, line=line, results=results)
        if self.peek == "(":
            function.params = self._params()
        if entry and any(param.register for param in function.params):
            raise self.fail("a kernel takes its parameters in .param space")
        function.registers |= {p.name: p.type for p in (*results, *function.params) if p.register}
        while self.kind == "id" and self.peek.startswith("."):
            self.tuning(function)
        if self.accept(";"):
            if name not in self.program.functions:
                self.program.functions[name] = function
            return
        self.function, self.scopes, self.unique, self.loc = function, [{}], 0, 0
        self.expect("{")
        depth = 1
        while depth:
            depth += read_statement(self)
        self.program.functions[name] = function
        self.function = None

    def tuning(self, function: Function) -> None:
        word = self.take()
        if word in (".maxntid", ".reqntid"):
            sizes = [self.integer()]
            while self.accept(","):
                sizes.append(self.integer())
            x, y, z = [*sizes, 1, 1][:3]
            function.max_threads = (x, y, z)
            function.exact_threads = word == ".reqntid"
        elif word in (".minnctapersm", ".maxnreg", ".maxnctapersm"):
            self.integer()
        elif word == ".pragma":
            self.skip_statement()
        elif word == ".noreturn":
            return
        else:
            raise UnsupportedInstruction(
                word, line=self.tokens[self.at - 1][2], text=self.line_text(self.tokens[self.at - 1][2])
            )

    def _params(self) -> list[Param]:
        self.expect("(")
        found: list[Param] = []
        while not self.accept(")"):
            space = self.take()
            if space not in (".param", ".reg"):
                raise self.fail("expected .param")
            align, kind = 0, ""
            while self.kind == "id" and self.peek.startswith("."):
                word = self.take()[1:]
                if word == "align":
                    align = self.integer()
                elif word in WIDTH:
                    kind = word
                elif word not in ("ptr", *_SPACES):
                    raise self.fail(f"unknown parameter attribute .{word}")
            if not kind:
                raise self.fail("a parameter needs a type")
            name = self.take()
            size = max(1, WIDTH[kind] // 8)
            if self.accept("["):
                size *= 0 if self.peek == "]" else self.integer()
                self.expect("]")
                kind = "bytes"
            found.append(Param(name, kind, size, align or max(1, min(size, 8)), space == ".reg"))
            self.accept(",")
        return found


def _pack(values: list[int | tuple[str, int]], element: str) -> tuple[bytes, list[tuple[int, str, int]]]:
    width = WIDTH[element] // 8
    out = bytearray()
    patches = []
    for value in values:
        if isinstance(value, tuple):
            if width not in (1, 8):
                raise PtxError(f"the address of {value[0]} needs a 64-bit element")
            patches.append((len(out), value[0], value[1]))
            out += bytes(width)
        else:
            out += (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    return bytes(out), patches


def parse(text: str) -> Program:
    """Parse PTX text. Raises PtxError with the line for anything that is not PTX."""
    if "\0" in text:
        text = text.rstrip("\0")
    try:
        return Parser(text).module()
    except (IndexError, ValueError, RecursionError, OverflowError) as error:
        raise PtxError(f"malformed PTX ({error})") from error
